//! The parts of the demo agent's answers: text, thoughts, plans, tool calls, questions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::burst::ChunkBurst;
use crate::session::DemoSession;
use crate::turn::{RunningTurn, TurnStop, lock_mutex};
use crate::wire::{self, RpcResult};

/// The number of words per streamed piece: small enough to look live, large enough not to flicker.
const WORDS_PER_CHUNK: usize = 3;

/// The result of a question to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PermissionResult {
    Once,
    Always,
    Rejected,
    /// The user did not decide, or the client could not; holds the client's answer.
    Open(String),
}

#[derive(Debug)]
pub(crate) struct TurnWriter {
    pub(crate) turn: RunningTurn,
    session: Arc<Mutex<DemoSession>>,
    number: u64,
    parts: u32,
    calls: u32,
}

impl TurnWriter {
    pub(crate) fn new(turn: RunningTurn, session: Arc<Mutex<DemoSession>>) -> Self {
        let number = lock_mutex(&session).turns;
        Self { turn, session, number, parts: 0, calls: 0 }
    }

    pub(crate) fn with_session<T>(&self, read: impl FnOnce(&mut DemoSession) -> T) -> T {
        read(&mut lock_mutex(&self.session))
    }

    /// Sends an update and records it.
    pub(crate) fn send_update(&self, update: &Value) -> Result<(), TurnStop> {
        self.turn.send_update(update)?;
        self.with_session(|session| session.record_update(update));
        Ok(())
    }

    fn next_message(&mut self) -> String {
        self.parts += 1;
        format!("msg-{}-{}", self.number, self.parts)
    }

    /// Streams one message, a few words at a time.
    pub(crate) fn send_text(&mut self, text: &str) -> Result<(), TurnStop> {
        self.stream_text("agent_message_chunk", text)
    }

    pub(crate) fn send_thought(&mut self, text: &str) -> Result<(), TurnStop> {
        if self.with_session(|session| session.settings.shows_thoughts()) {
            self.stream_text("agent_thought_chunk", text)
        } else {
            Ok(())
        }
    }

    /// Streams one message line by line, so that a long one appears quickly.
    pub(crate) fn send_lines(&mut self, text: &str) -> Result<(), TurnStop> {
        self.stream_pieces("agent_message_chunk", text.split_inclusive('\n').map(str::to_owned))
    }

    fn stream_text(&mut self, kind: &str, text: &str) -> Result<(), TurnStop> {
        let words: Vec<&str> = text.split_inclusive(' ').collect();
        self.stream_pieces(kind, words.chunks(WORDS_PER_CHUNK).map(|piece| piece.concat()))
    }

    fn stream_pieces(
        &mut self,
        kind: &str,
        pieces: impl Iterator<Item = String>,
    ) -> Result<(), TurnStop> {
        let message = self.next_message();
        for piece in pieces {
            self.send_update(&wire::chunk_update(kind, &message, &piece))?;
            self.pause_for_chunks(1)?;
        }
        Ok(())
    }

    /// Pauses for this many pieces at the chosen pace.
    pub(crate) fn pause_for_chunks(&mut self, pieces: u32) -> Result<(), TurnStop> {
        let pause_for = self.with_session(|session| session.settings.pause_for());
        self.turn.pause_for(pause_for * pieces)
    }

    /// Sends a plan of which the first `done` steps are completed and the next is in progress.
    pub(crate) fn send_plan(&mut self, steps: &[&str], done: usize) -> Result<(), TurnStop> {
        let status = |index: usize| match index.cmp(&done) {
            std::cmp::Ordering::Less => "completed",
            std::cmp::Ordering::Equal => "in_progress",
            std::cmp::Ordering::Greater => "pending",
        };
        let entry = |(index, step): (usize, &&str)| json!({ "content": step, "priority": "medium", "status": status(index) });
        let entries: Vec<Value> = steps.iter().enumerate().map(entry).collect();
        self.send_update(&json!({ "sessionUpdate": "plan", "entries": entries }))?;
        self.pause_for_chunks(4)
    }

    /// Announces a tool call and returns its id.
    pub(crate) fn open_tool_call(
        &mut self,
        title: &str,
        kind: &str,
        mut more: Value,
    ) -> Result<String, TurnStop> {
        self.calls += 1;
        let id = format!("call-{}-{}", self.number, self.calls);
        more["sessionUpdate"] = json!("tool_call");
        more["toolCallId"] = json!(id);
        more["title"] = json!(title);
        more["kind"] = json!(kind);
        more["status"] = json!("pending");
        self.send_update(&more)?;
        Ok(id)
    }

    pub(crate) fn update_tool_call(
        &mut self,
        call: &str,
        status: &str,
        content: Option<Value>,
    ) -> Result<(), TurnStop> {
        let mut update =
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": call, "status": status });
        if let Some(content) = content {
            update["content"] = json!([content]);
        }
        self.send_update(&update)?;
        self.pause_for_chunks(4)
    }

    /// Asks the user whether a tool call may go on.
    pub(crate) fn ask_permission(
        &mut self,
        call: &str,
        title: &str,
        kind: &str,
    ) -> Result<PermissionResult, TurnStop> {
        let params = json!({
            "sessionId": self.turn.session,
            "toolCall": { "toolCallId": call, "title": title, "kind": kind, "status": "pending" },
            "options": [
                { "optionId": "allow_once", "name": "Allow once", "kind": "allow_once" },
                { "optionId": "allow_always", "name": "Always allow", "kind": "allow_always" },
                { "optionId": "reject_once", "name": "Reject", "kind": "reject_once" },
            ],
        });
        Ok(parse_permission_result(self.turn.send_request("session/request_permission", params)?))
    }

    /// Sends numbered text as fast as possible and records only its numbers.
    pub(crate) fn send_burst(&mut self, count: u64, size: usize) -> Result<(), TurnStop> {
        let message = self.next_message();
        let (sent, outcome) =
            ChunkBurst::new(&self.turn.session, &message, size).send(&mut self.turn, count, false);
        self.with_session(|session| session.record_burst(&message, sent, size));
        outcome
    }

    /// Sends one piece of a message at fixed intervals.
    pub(crate) fn send_ticks(&mut self, count: u64, every: Duration) -> Result<(), TurnStop> {
        let message = self.next_message();
        let start = std::time::Instant::now();
        for index in 1..=count {
            self.send_update(&wire::chunk_update(
                "agent_message_chunk",
                &message,
                &format!("tick {index} of {count}\n"),
            ))?;
            self.turn.pause_until(
                start + every.saturating_mul(u32::try_from(index).unwrap_or(u32::MAX)),
            )?;
        }
        Ok(())
    }

    /// Frees the session for the next prompt, then answers this one.
    pub(crate) fn answer_prompt(self, id: &Value, outcome: Result<(), TurnStop>) {
        self.with_session(|session| session.running = None);
        self.turn.answer_prompt(id, outcome);
    }
}

fn parse_permission_result(answer: RpcResult) -> PermissionResult {
    match answer {
        Ok(result) => {
            match (result["outcome"]["outcome"].as_str(), result["outcome"]["optionId"].as_str()) {
                (Some("selected"), Some("allow_once")) => PermissionResult::Once,
                (Some("selected"), Some("allow_always")) => PermissionResult::Always,
                (Some("selected"), Some("reject_once")) => PermissionResult::Rejected,
                (Some("cancelled"), _) => {
                    PermissionResult::Open("the question was cancelled".to_owned())
                }
                _ => PermissionResult::Open(format!("I did not understand the answer {result}")),
            }
        }
        Err(error) => PermissionResult::Open(format!(
            "the client answered with an error: {}",
            error["message"]
        )),
    }
}
