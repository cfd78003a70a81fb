//! Long answers, piece by piece, and calls that outlast a restart of the host.

use std::time::Instant;

use anyhow::Context;
use http_body_util::{BodyExt, Limited};
use serde::de::DeserializeOwned;

use super::follow::{AWAY_RETRY_DELAY, RECONNECT_TIMEOUT};
use super::{HostCall, HostClient, answer};
use crate::exit::{Exit, Failure};

/// The most bytes of a refusal.
const MAX_REFUSAL_BYTES: usize = 1 << 20;

impl HostClient {
    /// Sends a request and hands the answer on in pieces, so that a long one is never held whole.
    /// Fails if the answer has no proper end.
    pub(crate) async fn download(
        &self,
        call: &HostCall,
        mut take_piece: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let response = self.start_call(call).await.map_err(|no| self.host_gone_error(no))?;
        let (parts, mut body) = response.into_parts();
        if !parts.status.is_success() {
            let refusal = Limited::new(body, MAX_REFUSAL_BYTES).collect().await;
            let refusal = refusal.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            return Err(answer::read_refusal(parts.status, &refusal).into());
        }
        while let Some(frame) = body.frame().await {
            let frame = frame.with_context(|| {
                format!("reading the answer to {}: it was cut off", call.path())
            })?;
            if let Some(piece) = frame.data_ref() {
                take_piece(piece)?;
            }
        }
        Ok(())
    }

    /// Sends a request like [`Self::fetch_json`], again for a while if the host is gone: it may be
    /// restarting.
    pub(crate) async fn fetch_json_across_restart<T: DeserializeOwned>(
        &self,
        call: &HostCall,
    ) -> anyhow::Result<T> {
        let give_up_at = Instant::now() + RECONNECT_TIMEOUT;
        loop {
            match self.fetch_json(call).await {
                Err(error)
                    if Failure::exit_of(&error) == Exit::NoHost && Instant::now() < give_up_at =>
                {
                    tokio::time::sleep(AWAY_RETRY_DELAY).await;
                }
                answer => return answer,
            }
        }
    }
}
