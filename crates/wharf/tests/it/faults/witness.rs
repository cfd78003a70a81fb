//! Somebody who works in a session of their own while others have their faults, and must not notice.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use wharf_testkit::client::Client;
use wharf_testkit::host::Host;

use crate::{open, stop_reason, told};

/// A turn is a matter of milliseconds. This is what a busy machine may make of it.
const A_TURN: Duration = Duration::from_secs(5);

pub(super) struct Witness {
    client: Client,
    session: String,
}

impl Witness {
    pub(super) async fn start(host: &Host) -> Result<Self> {
        let (client, session) = open(host).await?;
        Ok(Self { client, session })
    }

    /// Takes so many turns, each with an answer that must come whole. Gives the slowest.
    pub(super) async fn works(&self, turns: usize) -> Result<Duration> {
        let mut slowest = Duration::ZERO;
        for turn in 0..turns {
            let began = Instant::now();
            ensure!(told(&self.client, &self.session, &format!("echo turn {turn}")).await? == format!("turn {turn}"));
            slowest = slowest.max(began.elapsed());
        }
        ensure!(slowest < A_TURN, "a turn took {slowest:?}");
        Ok(slowest)
    }

    /// Works until `fault` is over, at least once.
    pub(super) async fn works_during<T>(&self, fault: impl Future<Output = Result<T>>) -> Result<T> {
        let work = async {
            loop {
                if let Err(error) = self.works(1).await {
                    return error;
                }
            }
        };
        let done = tokio::select! {
            done = fault => done?,
            error = work => return Err(error),
        };
        // The turn that was under way is not for the count.
        let _ = stop_reason(self.client.prompt(&self.session, "echo done").await)?;
        self.works(1).await?;
        Ok(done)
    }
}

impl Witness {
    /// What a client says to join it.
    pub(super) fn naming(&self, cwd: &str) -> serde_json::Value {
        serde_json::json!({ "sessionId": self.session, "cwd": cwd, "mcpServers": [], "historyPolicy": "none" })
    }
}
