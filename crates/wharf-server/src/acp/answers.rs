//! Answers that Wharf makes from an agent's: members that it does not touch stay as they came.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use wharf_host::Descriptor;
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

/// What Wharf adds to any agent's session capabilities (rule 3.3).
const ADDED: &[&str] = &["attach", "detach", "status", "promptQueueing", "list", "resume", "close", "delete", "ready"];

fn inner(members: &Members, name: &str) -> Members {
    members.get(name).and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// The agent's `initialize` result with what Wharf adds.
pub(super) fn initialize(agent: &Raw, id: &[u8], amux: bool, terminal_auth: bool) -> Bytes {
    let mut result = members(agent);
    let mut capabilities = inner(&result, "agentCapabilities");
    let mut sessions = inner(&capabilities, "sessionCapabilities");
    // Child sessions that a client did not open cannot be relayed (rule 3.1).
    sessions.remove("fork");
    sessions.remove("subagents");
    for added in ADDED {
        sessions.extend(raw(&serde_json::json!({})).map(|yes| ((*added).to_owned(), yes)));
    }
    if amux {
        // As amux writes it (rule 3.3).
        sessions.extend(raw(&true.into()).map(|yes| ("attach".to_owned(), yes)));
    }
    if let Ok(sessions) = serde_json::value::to_raw_value(&sessions) {
        capabilities.insert("sessionCapabilities".to_owned(), sessions);
    }
    capabilities.extend(raw(&true.into()).map(|yes| ("loadSession".to_owned(), yes)));
    // The second place that readers of `session/ready` look in.
    let mut drafted = inner(&result, "capabilities");
    drafted.extend(raw(&serde_json::json!({ "ready": true })).map(|ready| ("session".to_owned(), ready)));
    if let Ok(drafted) = serde_json::value::to_raw_value(&drafted) {
        result.insert("capabilities".to_owned(), drafted);
    }
    if let Some(methods) = result.get("authMethods").and_then(|raw| serde_json::from_str(raw.get()).ok())
        && let Ok(methods) = serde_json::value::to_raw_value(&auth_methods(methods, terminal_auth))
    {
        result.insert("authMethods".to_owned(), methods);
    }
    if let Ok(capabilities) = serde_json::value::to_raw_value(&capabilities) {
        result.insert("agentCapabilities".to_owned(), capabilities);
    }
    // Wharf speaks version 1, whatever was offered (rule 3.14).
    result.extend(raw(&1.into()).map(|one| ("protocolVersion".to_owned(), one)));
    respond(id, &result)
}

/// Logins in a terminal run the program that the client has configured, with more arguments. For the bridge that is
/// `wharf acp`, which is told to run the agent; nobody else can do it.
fn auth_methods(methods: Vec<Box<RawValue>>, terminal_auth: bool) -> Vec<Box<RawValue>> {
    let for_client = |method: Box<RawValue>| {
        let mut told: Value = serde_json::from_str(method.get()).unwrap_or_default();
        if told["type"] != "terminal" {
            return Some(method);
        }
        if !terminal_auth {
            return None;
        }
        let mut args = vec![Value::from("--in-terminal")];
        for name in told["env"].as_object().into_iter().flat_map(|env| env.keys()) {
            args.extend(["--keep-env".into(), name.as_str().into()]);
        }
        args.push("--".into());
        args.extend(told["args"].as_array().into_iter().flatten().cloned());
        told["args"] = args.into();
        raw(&told)
    };
    methods.into_iter().filter_map(for_client).collect()
}

/// The agent's `session/new` result under Wharf's id of the session.
pub(super) fn new_session(agent: &Raw, session: &str, id: &[u8]) -> Bytes {
    let mut result = members(agent);
    result.extend(raw(&session.into()).map(|session| ("sessionId".to_owned(), session)));
    respond(id, &result)
}

/// What `session/load` answers: the modes, options and models as they are now.
pub(super) fn loaded(agent: Option<&Raw>, latest: &Latest, known: &Descriptor, id: &[u8]) -> Bytes {
    respond(id, &present(agent, latest, known))
}

/// What `session/new` answers where there is a session already.
pub(super) fn joined(agent: Option<&Raw>, latest: &Latest, known: &Descriptor, id: &[u8]) -> Bytes {
    let mut result = present(agent, latest, known);
    result.extend(raw(&known.id.as_str().into()).map(|session| ("sessionId".to_owned(), session)));
    respond(id, &result)
}

fn present(agent: Option<&Raw>, latest: &Latest, known: &Descriptor) -> Members {
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
    if !known.status.is_alive() {
        // Its history can be read, its agent is not there: said plainly (rule 2.6).
        let word = serde_json::json!({ "wharf": { "status": known.status, "resumable": known.resumable } });
        result.extend(raw(&word).map(|word| ("_meta".to_owned(), word)));
    }
    result
}

/// The latest updates that state how things are, for those who join without a replay.
pub(super) fn latest(latest: &Latest) -> Vec<Bytes> {
    let frames = [&latest.commands, &latest.info, &latest.usage];
    frames.into_iter().flatten().map(|frame| frame.bytes().clone()).collect()
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
