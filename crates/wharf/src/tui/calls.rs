//! Calls of the core, sent to the host.

use hyper::Method;
use serde_json::Value;
use tokio::sync::mpsc::Sender;
use wharf_tui::{ApiCall, ApiFailure, ApiMethod, CallId, TuiInput};

use crate::client::{HostCall, HostClient};
use crate::exit::Failure;

/// Sends a call in a task of its own; its outcome comes as an input.
pub(super) fn start_call(client: &HostClient, id: CallId, call: ApiCall, inputs: &Sender<TuiInput>) {
    let (client, inputs) = (client.clone(), inputs.clone());
    tokio::spawn(async move {
        let answer = send(&client, call).await;
        // Without a receiver the client has left.
        let _ = inputs.send(TuiInput::Answer { call: id, answer }).await;
    });
}

async fn send(client: &HostClient, call: ApiCall) -> Result<Vec<u8>, ApiFailure> {
    let answer = client.send_call(&to_host_call(client, call)).await;
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
fn add_environment(body: Option<&str>, client: &HostClient, variables: &[String]) -> Option<String> {
    let mut body: Value = wharf_json::read_own(body?.as_bytes()).ok()?;
    let environment = client.forwarded_environment(variables);
    body["env"] = environment.into_iter().map(|(name, value)| (name, Value::from(value))).collect();
    Some(body.to_string())
}
