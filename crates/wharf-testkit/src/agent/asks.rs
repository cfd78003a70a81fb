//! Requests of the scripted agent to its client, each followed by a chunk with the answer.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use wharf_demo::turn::Stop;
use wharf_demo::wire::{self, Answer};

use super::script::{Actor, number};

/// Runs the command if it is one of this module. Returns `None` otherwise.
pub(super) fn command(actor: &mut Actor, name: &str, rest: &str) -> Option<Result<(), Stop>> {
    Some(match name {
        "ask" => (0..number(rest, 0, 1)).try_for_each(|_| {
            let params = permission(actor);
            told(actor, "session/request_permission", params)
        }),
        "ask2" => two_at_once(actor),
        "id0" => under(actor, &json!(0)),
        "stringid" => under(actor, &json!("question-é-1")),
        "withdraw" => withdraw(actor),
        "elicit" => {
            let params = json!({ "mode": "form", "sessionId": actor.turn.session, "message": "Which colour?",
                "requestedSchema": { "type": "object", "properties": { "colour": { "type": "string" } } } });
            told(actor, "elicitation/create", params)
        }
        "elicit-url" => {
            let params = json!({ "mode": "url", "sessionId": actor.turn.session, "message": "Please look",
                "elicitationId": "elicitation-1", "url": "https://example.invalid/" });
            told(actor, "elicitation/create", params)
        }
        "fs" => file(actor, rest),
        "terminal" => terminal(actor, rest),
        "show" => show(actor, rest),
        "ext" | "extnote" => extension(actor, name == "ext", rest),
        _ => return None,
    })
}

fn permission(actor: &Actor) -> Value {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let call = format!("call-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let options = ["allow_once", "allow_always", "reject_once"]
        .map(|kind| json!({ "optionId": kind, "name": kind, "kind": kind }));
    json!({
        "sessionId": actor.turn.session,
        "toolCall": { "toolCallId": call, "title": "May I?", "kind": "execute", "status": "pending" },
        "options": options,
    })
}

/// Sends a request, waits for the answer and sends it as a chunk.
fn told(actor: &mut Actor, method: &str, params: Value) -> Result<(), Stop> {
    let answer = actor.turn.ask(method, params)?;
    actor.say(&spoken(&answer))
}

/// Returns the answer in a few words: the chosen option, or the whole answer.
fn spoken(answer: &Answer) -> String {
    match answer {
        Ok(result) => match result["outcome"]["optionId"].as_str().or(result["outcome"]["outcome"].as_str()) {
            Some(outcome) => format!("chosen: {outcome}"),
            None => format!("answered: {result}"),
        },
        Err(error) => format!("failed: {error}"),
    }
}

fn under(actor: &mut Actor, id: &Value) -> Result<(), Stop> {
    let params = permission(actor);
    actor.turn.open(id, "session/request_permission", params)?;
    let answer = actor.turn.answer(id)?;
    actor.say(&spoken(&answer))
}

fn two_at_once(actor: &mut Actor) -> Result<(), Stop> {
    let ids = [json!("left"), json!("right")];
    for id in &ids {
        let params = permission(actor);
        actor.turn.open(id, "session/request_permission", params)?;
    }
    let answers = actor.turn.answers(&ids)?;
    for (id, answer) in ids.iter().zip(&answers) {
        actor.say(&format!("{} {}", id.as_str().unwrap_or_default(), spoken(answer)))?;
    }
    Ok(())
}

fn withdraw(actor: &mut Actor) -> Result<(), Stop> {
    let id = json!("to-be-withdrawn");
    let params = permission(actor);
    actor.turn.open(&id, "session/request_permission", params)?;
    actor.turn.send(&wire::notification("$/cancel_request", json!({ "requestId": id })))?;
    let answer = actor.turn.answer(&id)?;
    actor.say(&spoken(&answer))
}

fn file(actor: &mut Actor, rest: &str) -> Result<(), Stop> {
    let (verb, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let (path, content) = rest.split_once(' ').unwrap_or((rest, ""));
    let session = actor.turn.session.clone();
    match verb {
        "write" => told(actor, "fs/write_text_file", json!({ "sessionId": session, "path": path, "content": content })),
        _ => told(actor, "fs/read_text_file", json!({ "sessionId": session, "path": path })),
    }
}

fn terminal(actor: &mut Actor, command: &str) -> Result<(), Stop> {
    let session = actor.turn.session.clone();
    let params = json!({ "sessionId": session, "command": "sh", "args": ["-c", command], "outputByteLimit": 16384 });
    let created = actor.turn.ask("terminal/create", params)?;
    let Ok(created) = created else {
        return actor.say(&spoken(&created));
    };
    let terminal = json!({ "sessionId": session, "terminalId": created["terminalId"] });
    for method in ["terminal/wait_for_exit", "terminal/output", "terminal/release"] {
        told(actor, method, terminal.clone())?;
    }
    Ok(())
}

/// Sends a tool call that shows a terminal while its command runs and afterwards.
fn show(actor: &mut Actor, command: &str) -> Result<(), Stop> {
    let session = actor.turn.session.clone();
    let params = json!({ "sessionId": session, "command": "sh", "args": ["-c", command] });
    let Ok(created) = actor.turn.ask("terminal/create", params)? else { return actor.say("no terminal") };
    let content = json!([
        { "type": "content", "content": { "type": "text", "text": command } },
        { "type": "terminal", "terminalId": created["terminalId"] },
    ]);
    actor.turn.update(&json!({ "sessionUpdate": "tool_call", "toolCallId": "shown", "title": command,
        "kind": "execute", "status": "in_progress", "content": content }))?;
    let terminal = json!({ "sessionId": session, "terminalId": created["terminalId"] });
    for method in ["terminal/wait_for_exit", "terminal/output", "terminal/release"] {
        let _ = actor.turn.ask(method, terminal.clone())?;
    }
    actor.turn.update(&json!({ "sessionUpdate": "tool_call_update", "toolCallId": "shown",
        "status": "completed", "content": content }))
}

fn extension(actor: &mut Actor, wants_answer: bool, rest: &str) -> Result<(), Stop> {
    let (method, params) = rest.split_once(' ').unwrap_or((rest, "{}"));
    let params = serde_json::from_str(params).unwrap_or_else(|_| json!({ "text": params }));
    if wants_answer { told(actor, method, params) } else { actor.turn.send(&wire::notification(method, params)) }
}
