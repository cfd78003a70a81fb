//! Calls of the core, sent to the host.

use std::time::Duration;

use anyhow::Context;
use hyper::Method;
use serde_json::Value;
use tokio::sync::mpsc::Sender;
use wharf_tui::{ApiCall, ApiFailure, ApiMethod, CallId, TuiInput, percent_encode};

use crate::client::{HostCall, HostClient, url_path};
use crate::exit::Failure;

/// Sends a call in a task of its own; its outcome comes as an input.
pub(super) fn start_call(
    client: &HostClient,
    id: CallId,
    call: ApiCall,
    inputs: &Sender<TuiInput>,
) {
    let client = client.clone();
    let inputs = inputs.clone();
    tokio::spawn(async move {
        let answer = send(&client, call).await;
        // Without a receiver the client has left.
        let _ = inputs.send(TuiInput::Answer { call: id, answer }).await;
    });
}

/// Asks the host whether it is there; the outcome comes as an input.
pub(super) fn start_probe(client: &HostClient, inputs: &Sender<TuiInput>) {
    let client = client.clone();
    let inputs = inputs.clone();
    tokio::spawn(async move {
        let call = HostCall::get("/healthz");
        let answer = tokio::time::timeout(PROBE_TIMEOUT, client.send_call(&call)).await;
        let has_answered = answer.is_ok_and(|answer| answer.is_ok());
        let _ = inputs.send(TuiInput::HostProbed { has_answered }).await;
    });
}

/// How long the answer to a probe may take. A host that goes on answers the probe that it finds
/// then.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a call may take. The host answers calls that take longer before they are done.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a file may take: 20 MB over a slow link.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(600);
/// The largest file that is sent with a prompt.
const MAX_UPLOAD_BYTES: u64 = 20 << 20;

/// Reads a file of this machine and sends it to the host in a task of its own; its outcome comes as
/// an input.
pub(super) fn start_upload(
    client: &HostClient,
    id: CallId,
    session: &str,
    file: (String, String),
    inputs: &Sender<TuiInput>,
) {
    let client = client.clone();
    let inputs = inputs.clone();
    let (path, name) = file;
    let address =
        format!("{}?name={}", url_path(&["sessions", session, "uploads"]), percent_encode(&name));
    tokio::spawn(async move {
        let answer = match tokio::task::spawn_blocking(move || read_upload(&path)).await {
            Ok(Ok(bytes)) => {
                exchange(&client, &HostCall::post_file(address, bytes), UPLOAD_TIMEOUT).await
            }
            Ok(Err(error)) => Err(ApiFailure { code: None, text: format!("{error:#}") }),
            Err(error) => Err(ApiFailure { code: None, text: error.to_string() }),
        };
        let _ = inputs.send(TuiInput::Answer { call: id, answer }).await;
    });
}

fn read_upload(path: &str) -> anyhow::Result<Vec<u8>> {
    let home = std::env::var_os("HOME").map(std::path::PathBuf::from);
    let file = match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        (Some(_), None) | (None, _) => path.into(),
    };
    let about = std::fs::metadata(&file).with_context(|| format!("reading {path}"))?;
    anyhow::ensure!(about.is_file(), "{path} is not a file");
    anyhow::ensure!(
        about.len() <= MAX_UPLOAD_BYTES,
        "{path} has more than {} MB",
        MAX_UPLOAD_BYTES >> 20
    );
    std::fs::read(&file).with_context(|| format!("reading {path}"))
}

async fn send(client: &HostClient, call: ApiCall) -> Result<Vec<u8>, ApiFailure> {
    exchange(client, &to_host_call(client, call), CALL_TIMEOUT).await
}

/// Sends a call and waits for its answer, but not for ever: the network may have lost it.
async fn exchange(
    client: &HostClient,
    call: &HostCall,
    limit: Duration,
) -> Result<Vec<u8>, ApiFailure> {
    let Ok(answer) = tokio::time::timeout(limit, client.send_call(call)).await else {
        let text = format!("the host did not answer within {} seconds", limit.as_secs());
        return Err(ApiFailure { code: None, text });
    };
    answer
        .map(crate::client::HostAnswer::into_bytes)
        .map_err(|error| ApiFailure { code: Failure::code_of(&error), text: error.to_string() })
}

fn to_host_call(client: &HostClient, call: ApiCall) -> HostCall {
    let body = match call.forwarded_variables {
        Some(variables) => add_environment(call.body.as_deref(), client, &variables),
        None => call.body,
    };
    let method = match call.method {
        ApiMethod::Get => Method::GET,
        ApiMethod::Delete => Method::DELETE,
        ApiMethod::Post => Method::POST,
        ApiMethod::Put => Method::PUT,
        ApiMethod::Patch => Method::PATCH,
    };
    let host_call = HostCall::with_json(method, call.path, body);
    let host_call = match call.idempotency_key {
        Some(key) => host_call.with_header("idempotency-key", key),
        None => host_call,
    };
    if call.respond_async { host_call.with_header("prefer", "respond-async") } else { host_call }
}

/// Adds the variables that the agent may get to the body of a start (rule 8.7).
fn add_environment(
    body: Option<&str>,
    client: &HostClient,
    variables: &[String],
) -> Option<String> {
    let mut body: Value = wharf_json::read_own(body?.as_bytes()).ok()?;
    let environment = client.forwarded_environment(variables);
    body["env"] = environment
        .into_iter()
        .map(|(name, value)| (name, Value::from(value)))
        .collect();
    Some(body.to_string())
}
