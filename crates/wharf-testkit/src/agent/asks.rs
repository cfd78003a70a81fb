//! Requests of the scripted agent to its client, each followed by a chunk with the answer.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use wharf_demo::turn::TurnStop;
use wharf_demo::wire::{self, RpcResult};

use super::script::{ScriptRun, parse_number};

/// Runs the command if it is one of this module. Returns `None` otherwise.
pub(super) fn run_command(
    actor: &mut ScriptRun,
    name: &str,
    rest: &str,
) -> Option<Result<(), TurnStop>> {
    Some(match name {
        "ask" => (0..parse_number(rest, 0, 1)).try_for_each(|_| {
            let params = permission_params(actor);
            ask_and_report(actor, "session/request_permission", params)
        }),
        "ask2" => ask_twice_at_once(actor),
        "id0" => ask_with_id(actor, &json!(0)),
        "stringid" => ask_with_id(actor, &json!("question-é-1")),
        "withdraw" => withdraw_permission(actor),
        "elicit" => {
            let colour =
                json!({ "type": "object", "properties": { "colour": { "type": "string" } } });
            let schema = serde_json::from_str(rest).unwrap_or(colour);
            let params = json!({ "mode": "form", "sessionId": actor.turn.session, "message": "Which colour?",
                "requestedSchema": schema });
            ask_and_report(actor, "elicitation/create", params)
        }
        "elicit-url" => {
            let params = json!({ "mode": "url", "sessionId": actor.turn.session, "message": "Please look",
                "elicitationId": "elicitation-1", "url": "https://example.invalid/" });
            ask_and_report(actor, "elicitation/create", params)
        }
        "fs" => request_file(actor, rest),
        "terminal" => run_terminal(actor, rest),
        "show" => show_terminal(actor, rest),
        "ext" | "extnote" => send_extension(actor, name == "ext", rest),
        _ => return None,
    })
}

pub(super) fn permission_params(actor: &ScriptRun) -> Value {
    static NEXT_CALL: AtomicU64 = AtomicU64::new(1);
    let call = format!("call-{}", NEXT_CALL.fetch_add(1, Ordering::Relaxed));
    let options = ["allow_once", "allow_always", "reject_once"]
        .map(|kind| json!({ "optionId": kind, "name": kind, "kind": kind }));
    json!({
        "sessionId": actor.turn.session,
        "toolCall": { "toolCallId": call, "title": "May I?", "kind": "execute", "status": "pending" },
        "options": options,
    })
}

/// Sends a request, waits for the answer and sends it as a chunk.
fn ask_and_report(actor: &mut ScriptRun, method: &str, params: Value) -> Result<(), TurnStop> {
    let answer = actor.turn.send_request(method, params)?;
    actor.send_text(&describe_answer(&answer))
}

/// Returns the answer in a few words: the chosen option, or the whole answer.
fn describe_answer(answer: &RpcResult) -> String {
    match answer {
        Ok(result) => match (&result["outcome"]["optionId"], &result["outcome"]["outcome"]) {
            (Value::String(word), _) | (Value::Null, Value::String(word)) => {
                format!("chosen: {word}")
            }
            (Value::Number(number), _) => format!("chosen: {number}"),
            _ => format!("answered: {result}"),
        },
        Err(error) => format!("failed: {error}"),
    }
}

fn ask_with_id(actor: &mut ScriptRun, id: &Value) -> Result<(), TurnStop> {
    let params = permission_params(actor);
    actor.turn.start_request(id, "session/request_permission", params)?;
    let answer = actor.turn.wait_for_answer(id)?;
    actor.send_text(&describe_answer(&answer))
}

fn ask_twice_at_once(actor: &mut ScriptRun) -> Result<(), TurnStop> {
    let ids = [json!("left"), json!("right")];
    for id in &ids {
        let params = permission_params(actor);
        actor.turn.start_request(id, "session/request_permission", params)?;
    }
    let answers = actor.turn.wait_for_answers(&ids)?;
    for (id, answer) in ids.iter().zip(&answers) {
        actor.send_text(&format!(
            "{} {}",
            id.as_str().unwrap_or_default(),
            describe_answer(answer)
        ))?;
    }
    Ok(())
}

fn withdraw_permission(actor: &mut ScriptRun) -> Result<(), TurnStop> {
    let id = json!("to-be-withdrawn");
    let params = permission_params(actor);
    actor.turn.start_request(&id, "session/request_permission", params)?;
    actor
        .turn
        .send_message(&wire::notification_frame("$/cancel_request", json!({ "requestId": id })))?;
    let answer = actor.turn.wait_for_answer(&id)?;
    actor.send_text(&describe_answer(&answer))
}

fn request_file(actor: &mut ScriptRun, rest: &str) -> Result<(), TurnStop> {
    let (verb, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let (path, content) = rest.split_once(' ').unwrap_or((rest, ""));
    let session = actor.turn.session.clone();
    match verb {
        "write" => ask_and_report(
            actor,
            "fs/write_text_file",
            json!({ "sessionId": session, "path": path, "content": content }),
        ),
        _ => ask_and_report(
            actor,
            "fs/read_text_file",
            json!({ "sessionId": session, "path": path }),
        ),
    }
}

fn run_terminal(actor: &mut ScriptRun, command: &str) -> Result<(), TurnStop> {
    let session = actor.turn.session.clone();
    let params = json!({ "sessionId": session, "command": "sh", "args": ["-c", command], "outputByteLimit": 16384 });
    let created = actor.turn.send_request("terminal/create", params)?;
    let Ok(created) = created else {
        return actor.send_text(&describe_answer(&created));
    };
    let terminal = json!({ "sessionId": session, "terminalId": created["terminalId"] });
    for method in ["terminal/wait_for_exit", "terminal/output", "terminal/release"] {
        ask_and_report(actor, method, terminal.clone())?;
    }
    Ok(())
}

/// Sends a tool call that shows a terminal while its command runs and afterwards.
fn show_terminal(actor: &mut ScriptRun, command: &str) -> Result<(), TurnStop> {
    let session = actor.turn.session.clone();
    let params = json!({ "sessionId": session, "command": "sh", "args": ["-c", command] });
    let Ok(created) = actor.turn.send_request("terminal/create", params)? else {
        return actor.send_text("no terminal");
    };
    let content = json!([
        { "type": "content", "content": { "type": "text", "text": command } },
        { "type": "terminal", "terminalId": created["terminalId"] },
    ]);
    actor.turn.send_update(
        &json!({ "sessionUpdate": "tool_call", "toolCallId": "shown", "title": command,
        "kind": "execute", "status": "in_progress", "content": content }),
    )?;
    let terminal = json!({ "sessionId": session, "terminalId": created["terminalId"] });
    for method in ["terminal/wait_for_exit", "terminal/output", "terminal/release"] {
        let _ = actor.turn.send_request(method, terminal.clone())?;
    }
    actor
        .turn
        .send_update(&json!({ "sessionUpdate": "tool_call_update", "toolCallId": "shown",
        "status": "completed", "content": content }))
}

fn send_extension(actor: &mut ScriptRun, wants_answer: bool, rest: &str) -> Result<(), TurnStop> {
    let (method, params) = rest.split_once(' ').unwrap_or((rest, "{}"));
    let params = serde_json::from_str(params).unwrap_or_else(|_| json!({ "text": params }));
    if wants_answer {
        ask_and_report(actor, method, params)
    } else {
        actor.turn.send_message(&wire::notification_frame(method, params))
    }
}
