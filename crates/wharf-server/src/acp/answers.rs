//! Answers that Wharf makes from an agent's: members that it does not touch stay as they came.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use wharf_host::core::{Latest, Raw};

type Members = BTreeMap<String, Box<RawValue>>;

#[derive(Deserialize)]
struct Answer {
    result: Members,
}

fn members(frame: &Raw) -> Members {
    serde_json::from_slice::<Answer>(frame.bytes()).map(|answer| answer.result).unwrap_or_default()
}

fn raw(value: &serde_json::Value) -> Option<Box<RawValue>> {
    RawValue::from_string(value.to_string()).ok()
}

fn respond(id: &[u8], result: &Members) -> Bytes {
    let id = String::from_utf8_lossy(id);
    let result = serde_json::to_string(result).unwrap_or_else(|_| "{}".to_owned());
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into()
}

/// The agent's `initialize` result with what Wharf adds.
pub(super) fn initialize(agent: &Raw, id: &[u8]) -> Bytes {
    let mut result = members(agent);
    let mut capabilities: Members =
        result.get("agentCapabilities").and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    capabilities.extend(raw(&true.into()).map(|yes| ("loadSession".to_owned(), yes)));
    if let Ok(capabilities) = serde_json::value::to_raw_value(&capabilities) {
        result.insert("agentCapabilities".to_owned(), capabilities);
    }
    // Wharf speaks version 1, whatever was offered (rule 3.14).
    result.extend(raw(&1.into()).map(|one| ("protocolVersion".to_owned(), one)));
    respond(id, &result)
}

/// The agent's `session/new` result under Wharf's id of the session.
pub(super) fn new_session(agent: &Raw, session: &str, id: &[u8]) -> Bytes {
    let mut result = members(agent);
    result.extend(raw(&session.into()).map(|session| ("sessionId".to_owned(), session)));
    respond(id, &result)
}

/// What `session/load` answers: the modes, options and models as they are now.
pub(super) fn loaded(agent: Option<&Raw>, latest: &Latest, id: &[u8]) -> Bytes {
    let mut result = agent.map(members).unwrap_or_default();
    result.remove("sessionId");
    if let (Some(modes), Some(mode)) = (result.get("modes"), update_member(latest.mode.as_ref(), "currentModeId"))
        && let Ok(mut modes) = serde_json::from_str::<Members>(modes.get())
    {
        modes.insert("currentModeId".to_owned(), mode);
        if let Ok(modes) = serde_json::value::to_raw_value(&modes) {
            result.insert("modes".to_owned(), modes);
        }
    }
    if let Some(options) = update_member(latest.config.as_ref(), "configOptions") {
        result.insert("configOptions".to_owned(), options);
    }
    respond(id, &result)
}

#[derive(Deserialize)]
struct Update {
    params: UpdateParams,
}

#[derive(Deserialize)]
struct UpdateParams {
    update: Members,
}

fn update_member(frame: Option<&Raw>, name: &str) -> Option<Box<RawValue>> {
    let mut update: Update = serde_json::from_slice(frame?.bytes()).ok()?;
    update.params.update.remove(name)
}
