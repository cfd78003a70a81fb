//! Random logs with secrets in every place that carries text: rows never show them, and with
//! [`Secrets::Shown`](crate::Secrets) nothing is redacted. No row passes its limit.

use serde_json::{Value, json};
use wharf_core::{
    Ask, AskEvent, AskId, AskKind, EndReason, Ending, Fault, PromptEnd, PromptEvent, SessionEvent,
    Status,
};

use super::properties::{Dice, read_seeds};
use super::{Transcript, prompt_id, raw};
use crate::row_size::check_estimate;
use crate::{RowNumber, Secrets};

/// Secrets, each with a part of it that must not be shown.
const SECRETS: [(&str, &str); 4] = [
    ("ghp_0123456789abcdefghijABCDEFGHIJ012345", "hijABC"),
    ("sk-ant-api03-QqWwEeRrTtYyUuIi1234567890", "TtYyUu"),
    ("Authorization: Bearer zxcv.asdf-qwer_1234567890", "asdf-qwer"),
    (
        "-----BEGIN PRIVATE KEY-----\nMIIkeyOne\nMIIkeyTwo\nMIIkeyThree\n-----END PRIVATE KEY-----\n",
        "MIIkey",
    ),
];

/// Returns a text with a secret somewhere in it, at times a long one.
fn secret_text(dice: &mut Dice) -> String {
    let fill = |dice: &mut Dice| {
        let word = ["a ", "line\n", "\" ", "\\ ", "\t", "é😀 ", "\u{1b}[31m ", "x="]
            [dice.roll(8) as usize];
        let most = [3, 40, 400, 6_000][dice.roll(4) as usize];
        word.repeat(dice.roll(most) as usize)
    };
    let before = ["", " ", "\n", "\t", "\r", "\"", "=", "\u{1b}[0m"][dice.roll(8) as usize];
    let secret = SECRETS[dice.roll(4) as usize].0;
    format!("{}{before}{secret}\n{}", fill(dice), fill(dice))
}

/// Cuts a text into pieces at random places.
fn cut(dice: &mut Dice, text: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let most = [4, 60, 5_000][dice.roll(3) as usize];
        let (piece, after) =
            rest.split_at(rest.ceil_char_boundary((dice.roll(most) as usize + 1).min(rest.len())));
        // So many pieces of a long text only take time.
        let (piece, after) = if pieces.len() < 60 { (piece, after) } else { (rest, "") };
        pieces.push(piece.to_owned());
        rest = after;
    }
    pieces
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Adds a random event, or several, that carry a secret.
fn add_secret(log: &mut Transcript, dice: &mut Dice, call: &str) {
    let text = secret_text(dice);
    let update = |members: Value| {
        let mut update =
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": call, "kind": "execute" });
        members
            .as_object()
            .unwrap()
            .iter()
            .for_each(|(name, value)| update[name] = value.clone());
        update
    };
    let status = ["in_progress", "completed", "failed"][dice.roll(3) as usize];
    match dice.roll(20) {
        0 => log.update(update(json!({ "title": text, "status": status }))),
        1 => log.update(update(
            json!({ "rawInput": { "command": text, "cwd": text, "list": [text, { text.clone(): text }] } }),
        )),
        2 => log.update(update(json!({ "rawOutput": text, "status": status }))),
        3 => log.update(update(json!({ "rawOutput": { "stdout": text, "stderr": text } }))),
        4 | 5 => {
            for piece in cut(dice, &text) {
                log.update(update(json!({ "_meta": { "terminal_output_delta": { "data": piece } } })));
            }
            log.update(update(json!({ "status": status })));
        }
        6 => log.update(update(
            json!({ "content": [{ "type": "content", "content": text_block(&text) }], "status": status }),
        )),
        7 => {
            for piece in cut(dice, &text) {
                let content = json!({ "type": "content", "content": text_block(&piece) });
                log.update(
                    json!({ "sessionUpdate": "tool_call_content_chunk", "toolCallId": call, "content": content }),
                );
            }
            log.update(update(json!({ "status": status })));
        }
        8 => {
            let (old, path) = (text.replacen("line", "other", 1), format!("/w/blog/{}", dice.roll(3)));
            let diff = |path: &str| json!({ "type": "diff", "path": path, "oldText": old, "newText": text });
            log.update(update(json!({ "content": [diff(&path), diff(&text)], "locations": [{ "path": text }] })));
        }
        9 => log.update(json!({ "sessionUpdate": "notice", "message": text })),
        10 => log.update(json!({ "sessionUpdate": "plan", "entries": [{ "content": text, "status": "pending" }] })),
        11 => cut(dice, &text).iter().for_each(|piece| log.say(piece)),
        12 => cut(dice, &text).iter().for_each(|piece| log.think(piece)),
        13 => {
            log.update(json!({ "sessionUpdate": "agent_message", "messageId": "m1", "content": [text_block(&text)] }))
        }
        14 => {
            let chunk = |text: &str| json!({ "sessionUpdate": "user_message_chunk", "content": text_block(text) });
            cut(dice, &text).iter().for_each(|piece| log.update(chunk(piece)));
        }
        15 => log.update(json!({ "sessionUpdate": "user_message", "content": [text_block(&text)] })),
        16 => add_ask(log, &text),
        17 => add_failed_turn(log, &text),
        18 => log.add(wharf_core::AgentEvent::Faulted { fault: Fault::Malformed, detail: text.into() }),
        _ => {
            let link = json!({ "type": "resource_link", "uri": format!("file:///{text}"), "name": text });
            log.update(json!({ "sessionUpdate": "agent_message_chunk", "content": link }));
        }
    }
}

/// Adds a form and a permission.
fn add_ask(log: &mut Transcript, text: &str) {
    let schema =
        json!({ "properties": { text: { "type": "string", "title": text, "default": [text] } } });
    let options = json!([{ "optionId": "a", "name": text, "kind": "allow_once" }]);
    let call = json!({ "toolCallId": "asked", "title": text, "rawInput": { "command": text } });
    for (kind, params) in [
        (AskKind::Elicitation, json!({ "message": text, "requestedSchema": schema, "url": text })),
        (AskKind::Permission, json!({ "toolCall": call, "options": options })),
    ] {
        let id = AskId(log.log.len() as u64 + 1);
        let (frame, agent_request) = (raw(&json!({ "params": params })), raw(&json!(0)));
        let options = Vec::new();
        log.add(AskEvent::Opened(Ask {
            id,
            kind,
            agent_request,
            frame,
            options,
            tool_call: None,
            prompt: None,
        }));
    }
}

/// Adds a turn whose prompt, error and stderr have the text.
fn add_failed_turn(log: &mut Transcript, text: &str) {
    let id = format!("prm_{}", log.log.len());
    log.prompt(&id, text);
    let frame =
        raw(&json!({ "error": { "code": -32000, "message": text, "data": { "stderr": text } } }));
    log.add(PromptEvent::Ended {
        prompt: prompt_id(&id),
        end: PromptEnd::Failed { frame },
        failure: None,
    });
    let message = Some(format!("it failed: {text}\nstderr: {text}").into());
    let (status, reason) = (Status::Error, EndReason::AgentExited);
    log.add(SessionEvent::Ended(Ending {
        status,
        reason,
        exit_code: Some(1),
        message,
        needs_login: false,
    }));
}

/// Returns the row and the whole texts that its addresses lead to.
fn all_text(log: &Transcript, index: usize) -> String {
    let mut text = serde_json::to_string(&log.rows()[index]).unwrap();
    let number = RowNumber(index as u64 + 1);
    let parts = (0..32).map(|n| n.to_string()).chain((0..20).map(|n| format!("diff.{n}")));
    for part in parts.chain(["input".to_owned(), "output".to_owned()]) {
        text.push_str(log.rows.whole_text(number, &part).unwrap_or_default());
    }
    text
}

fn check_rows(log: &Transcript, secrets: Secrets, about: &str) {
    for (index, row) in log.rows().iter().enumerate() {
        check_estimate(row);
        let text = all_text(log, index);
        match secrets {
            Secrets::Hidden => {
                for (_, shown) in SECRETS {
                    let at = text.find(shown);
                    let around =
                        at.map(|at| &text[text.floor_char_boundary(at.saturating_sub(200))..at]);
                    assert_eq!(around, None, "{about}: a {} shows {shown}", row.body.kind());
                }
            }
            Secrets::Shown => assert!(
                !text.contains("[redacted]"),
                "{about}: a {} hides a secret",
                row.body.kind()
            ),
        }
    }
}

#[test]
fn random_logs_show_no_secret_unless_all_are_shown() {
    for seed in read_seeds(1..12) {
        for secrets in [Secrets::Hidden, Secrets::Shown] {
            let mut dice = Dice::new(seed);
            let mut log = match secrets {
                Secrets::Hidden => Transcript::started(),
                Secrets::Shown => Transcript::started_with_secrets(),
            };
            for step in 0..25 {
                let call = format!("call-{}", dice.roll(3));
                add_secret(&mut log, &mut dice, &call);
                check_rows(&log, secrets, &format!("seed {seed}, step {step}"));
            }
        }
    }
}
