//! Sends metrics and turns to an OTLP collector from time to time. Nobody waits for it: what it cannot send is dropped.

use std::time::Duration;

use axum::http::{Request, Uri, header};
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use wharf_host::metrics::TurnSpan;

use super::gather;
use super::otlp::Teller;
use crate::App;

/// One export with all that belongs to it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Turns in one request.
const TURNS: usize = 512;

/// Exports for as long as the host runs, and once more when it stops. Does nothing unless `otlp.endpoint` is set.
pub(crate) async fn export(app: App) {
    let settings = &app.host.config().otlp;
    let (Some(endpoint), Some(interval)) = (settings.endpoint.clone(), settings.interval.std()) else { return };
    let Some(mut turns) = app.host.metrics().turns() else { return };
    let (teller, mut stopping) = (Teller::new(), app.stopping.clone());
    let mut failing = false;
    loop {
        let last = tokio::select! {
            () = tokio::time::sleep(interval) => false,
            _ = stopping.wait_for(|stopping| *stopping) => true,
        };
        let sent = tokio::time::timeout(PATIENCE, once(&app, &endpoint, &teller, &mut turns)).await;
        let failure = sent.unwrap_or_else(|_| Err("it took too long".to_owned())).err();
        match &failure {
            None if failing => tracing::info!(endpoint, "metrics are exported again"),
            Some(why) if !failing => tracing::warn!(endpoint, why, "metrics cannot be exported; this is said once"),
            Some(_) | None => {}
        }
        failing = failure.is_some();
        if last {
            return;
        }
    }
}

async fn once(app: &App, endpoint: &str, teller: &Teller, turns: &mut mpsc::Receiver<TurnSpan>) -> Result<(), String> {
    post(endpoint, "/v1/metrics", &teller.metrics(&gather(app))).await?;
    loop {
        let mut ended = Vec::new();
        while ended.len() < TURNS
            && let Ok(turn) = turns.try_recv()
        {
            ended.push(turn);
        }
        if ended.is_empty() {
            return Ok(());
        }
        post(endpoint, "/v1/traces", &teller.traces(&ended)).await?;
    }
}

/// One request over a connection of its own: at this pace one that is kept open would save nothing.
async fn post(endpoint: &str, path: &str, body: &Value) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let uri: Uri = format!("{}{path}", endpoint.trim_end_matches('/')).parse().map_err(|error| told(&error))?;
    let authority = uri.authority().ok_or("otlp.endpoint names no machine")?;
    let place = (authority.host().trim_matches(['[', ']']), authority.port_u16().unwrap_or(80));
    let stream = TcpStream::connect(place).await.map_err(|error| told(&error))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| told(&error))?;
    let talking = tokio::spawn(connection);
    let request = Request::post(uri.path())
        .header(header::HOST, authority.as_str())
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body.to_string())))
        .map_err(|error| told(&error))?;
    let answer = sender.send_request(request).await.map(|answer| answer.status());
    // What it says besides its status is of no use.
    talking.abort();
    match answer {
        Ok(status) if status.is_success() => Ok(()),
        Ok(status) => Err(format!("it answers {status}")),
        Err(error) => Err(told(&error)),
    }
}
