//! Answers that Wharf makes from an agent's: members that it does not touch stay as they came, byte
//! for byte.

use bytes::Bytes;
use serde_json::{Value, json};
use wharf_host::core::{Joined, Latest, Raw};
use wharf_host::{Descriptor, current_settings};
use wharf_json::{Json, ReadError, rpc};

/// The session capabilities that Wharf adds to any agent's (rule 3.3).
const ADDED_CAPABILITIES: &[&str] = &[
    "attach",
    "detach",
    "status",
    "promptQueueing",
    "list",
    "resume",
    "close",
    "delete",
    "ready",
    "title",
    "archive",
];

/// An answer's result while it is changed.
struct Outcome(String);

impl Outcome {
    /// Reads the result of an agent's answer. A result that is not an object counts as empty.
    fn of(answer: &Raw) -> Result<Self, ReadError> {
        let result = Json::parse(answer.bytes())?
            .member("result")?
            .filter(|result| result.is_object());
        Ok(Self(result.map_or("{}", Json::raw).to_owned()))
    }

    fn json(&self) -> Result<Json<'_>, ReadError> {
        Json::parse(self.0.as_bytes())
    }

    /// Sets a member. Replaces a value on the way to it that is not an object with an empty object.
    fn set(&mut self, path: &[&str], value: &str) -> Result<(), ReadError> {
        for end in 1..path.len() {
            if self.json()?.at(&path[..end])?.is_some_and(|holder| !holder.is_object()) {
                self.0 = wharf_json::set(self.json()?, &path[..end], "{}")?;
            }
        }
        self.0 = wharf_json::set(self.json()?, path, value)?;
        Ok(())
    }

    fn set_value(&mut self, path: &[&str], value: &Value) -> Result<(), ReadError> {
        self.set(path, &value.to_string())
    }

    fn remove(&mut self, path: &[&str]) -> Result<(), ReadError> {
        self.0 = wharf_json::remove(self.json()?, path)?.into_owned();
        Ok(())
    }

    fn respond(&self, id: &[u8]) -> Bytes {
        rpc::response(id, &self.0)
    }
}

/// Returns the agent's `initialize` result with what Wharf adds.
pub(super) fn initialize(agent: &Raw, id: &[u8], terminal_auth: bool) -> Result<Bytes, ReadError> {
    let mut result = Outcome::of(agent)?;
    let session = |name| ["agentCapabilities", "sessionCapabilities", name];
    for added in ADDED_CAPABILITIES {
        result.set(&session(added), "{}")?;
    }
    // Child sessions that a client did not open cannot be relayed (rule 3.1).
    result.remove(&session("subagents"))?;
    result.set(&["agentCapabilities", "loadSession"], "true")?;
    // The second place that readers of `session/ready` look in.
    result.set(&["capabilities", "session", "ready"], "true")?;
    if let Some(methods) = auth_methods(result.json()?, terminal_auth)? {
        result.set(&["authMethods"], &methods)?;
    }
    // Wharf speaks version 1, whatever was offered (rule 3.14).
    result.set(&["protocolVersion"], "1")?;
    Ok(result.respond(id))
}

/// Returns the list of ways to log in, if the agent has one. A login in a terminal runs the program
/// that the client has configured, with more arguments. For the bridge that program is `wharf acp`,
/// and the arguments make it run the agent; other clients cannot do it.
fn auth_methods(result: Json<'_>, terminal_auth: bool) -> Result<Option<String>, ReadError> {
    let Some(methods) = result.member("authMethods")? else { return Ok(None) };
    let mut kept = Vec::new();
    for method in methods.items() {
        let kind =
            if method.is_object() { method.member("type")?.and_then(Json::text) } else { None };
        match kind.as_deref() {
            Some("terminal") if terminal_auth => kept.push(in_terminal(method)?),
            Some("terminal") => {}
            Some(_) | None => kept.push(method.raw().to_owned()),
        }
    }
    Ok(Some(format!("[{}]", kept.join(","))))
}

fn in_terminal(method: Json<'_>) -> Result<String, ReadError> {
    let mut args = vec![Value::from("--in-terminal")];
    for (name, _) in method.member("env")?.into_iter().flat_map(Json::members) {
        args.extend(["--keep-env".into(), Value::from(name)]);
    }
    args.push("--".into());
    args.extend(method.member("args")?.into_iter().flat_map(Json::items).map(Json::to_value));
    wharf_json::set(method, &["args"], &Value::from(args).to_string())
}

/// Returns the agent's `session/new` result under Wharf's id of the session.
pub(super) fn new_session(agent: &Raw, session: &str, id: &[u8]) -> Result<Bytes, ReadError> {
    let mut result = Outcome::of(agent)?;
    result.set_value(&["sessionId"], &session.into())?;
    Ok(result.respond(id))
}

/// Returns the answer to `session/load`: the modes, options and models that are in force.
pub(super) fn loaded(joined: &Joined, known: &Descriptor, id: &[u8]) -> Result<Bytes, ReadError> {
    Ok(present(joined, known)?.respond(id))
}

/// Returns the answer to `session/new` where there is a session already.
pub(super) fn joined(joined: &Joined, known: &Descriptor, id: &[u8]) -> Result<Bytes, ReadError> {
    let mut result = present(joined, known)?;
    result.set_value(&["sessionId"], &known.id.as_str().into())?;
    Ok(result.respond(id))
}

fn present(joined: &Joined, known: &Descriptor) -> Result<Outcome, ReadError> {
    let mut result = joined
        .answer
        .as_ref()
        .map_or_else(|| Ok(Outcome("{}".to_owned())), Outcome::of)?;
    result.remove(&["sessionId"])?;
    for (name, value) in current_settings(joined) {
        result.set(&[name], &value)?;
    }
    if !known.status.is_alive() {
        // Its history can be read, its agent is not there: said plainly (rule 2.6).
        let mut word = json!({ "status": known.status, "resumable": known.resumable });
        if known.is_killed() {
            let resume = format!("wharf resume {}", known.id);
            word["ended"] =
                json!({ "reason": known.end_reason, "at": known.ended_at, "resume": resume });
        }
        result.set_value(&["_meta", "wharf"], &word)?;
    }
    Ok(result)
}

/// Returns the latest updates that tell the session's state, for clients that join without a
/// replay.
pub(super) fn latest(latest: &Latest) -> Vec<Bytes> {
    let frames = [&latest.commands, &latest.info, &latest.usage];
    frames.into_iter().flatten().map(|frame| frame.bytes().clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agents_own_capabilities_stay_beside_those_that_are_added() {
        let agent = r#"{"id":0,"result":{"capabilities":{"session":{"fancy":{"n":1e400}},"x":"\ud83d"},"agentCapabilities":{"sessionCapabilities":{"fork":{},"subagents":{},"own":[1.0]},"n":-0}}}"#;
        let answer = initialize(&Raw::new(agent).unwrap(), b"7", false).unwrap();
        let expected = concat!(
            r#"{"jsonrpc":"2.0","id":7,"result":{"capabilities":{"session":{"fancy":{"n":1e400},"ready":true},"x":"\ud83d"},"#,
            r#""agentCapabilities":{"sessionCapabilities":{"fork":{},"own":[1.0],"attach":{},"detach":{},"status":{},"#,
            r#""promptQueueing":{},"list":{},"resume":{},"close":{},"delete":{},"ready":{},"title":{},"archive":{}},"n":-0,"loadSession":true},"#,
            r#""protocolVersion":1}}"#,
        );
        assert_eq!(answer, expected);
    }

    #[test]
    fn capabilities_that_are_no_objects_give_way() {
        for odd in ["null", "1e400", "[]", "\"\\ud83d\""] {
            let agent = format!(
                r#"{{"id":0,"result":{{"capabilities":{odd},"agentCapabilities":{odd}}}}}"#
            );
            let answer = initialize(&Raw::new(agent).unwrap(), b"7", false).unwrap();
            let answer = Json::parse(&answer).unwrap().to_value();
            assert_eq!(
                answer["result"]["agentCapabilities"]["sessionCapabilities"]["attach"],
                json!({})
            );
            assert_eq!(answer["result"]["capabilities"]["session"]["ready"], true);
        }
    }
}
