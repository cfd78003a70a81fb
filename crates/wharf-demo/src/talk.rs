//! The parts of the demo agent's answers: text, thoughts, plans, tool calls, questions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::burst::Burst;
use crate::session::Session;
use crate::turn::{Stop, Turn, lock};
use crate::wire::{self, Answer};

/// The number of words per streamed piece: small enough to look live, large enough not to flicker.
const WORDS: usize = 3;

/// The result of a question to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Once,
    Always,
    Rejected,
    /// The user did not decide, or the client could not; holds the client's answer.
    Open(String),
}

#[derive(Debug)]
pub(crate) struct Talk {
    pub(crate) turn: Turn,
    session: Arc<Mutex<Session>>,
    number: u64,
    parts: u32,
    calls: u32,
}

impl Talk {
    pub(crate) fn new(turn: Turn, session: Arc<Mutex<Session>>) -> Self {
        let number = lock(&session).turns;
        Self { turn, session, number, parts: 0, calls: 0 }
    }

    pub(crate) fn with_session<T>(&self, read: impl FnOnce(&mut Session) -> T) -> T {
        read(&mut lock(&self.session))
    }

    /// Sends an update and records it.
    pub(crate) fn update(&self, update: &Value) -> Result<(), Stop> {
        self.turn.update(update)?;
        self.with_session(|session| session.note_update(update));
        Ok(())
    }

    fn next_message(&mut self) -> String {
        self.parts += 1;
        format!("msg-{}-{}", self.number, self.parts)
    }

    /// Streams one message, a few words at a time.
    pub(crate) fn say(&mut self, text: &str) -> Result<(), Stop> {
        self.stream("agent_message_chunk", text)
    }

    pub(crate) fn think(&mut self, text: &str) -> Result<(), Stop> {
        if self.with_session(|session| session.settings.shows_thoughts()) {
            self.stream("agent_thought_chunk", text)
        } else {
            Ok(())
        }
    }

    /// Streams one message line by line, so that a long one appears quickly.
    pub(crate) fn say_lines(&mut self, text: &str) -> Result<(), Stop> {
        self.stream_pieces("agent_message_chunk", text.split_inclusive('\n').map(str::to_owned))
    }

    fn stream(&mut self, kind: &str, text: &str) -> Result<(), Stop> {
        let words: Vec<&str> = text.split_inclusive(' ').collect();
        self.stream_pieces(kind, words.chunks(WORDS).map(|piece| piece.concat()))
    }

    fn stream_pieces(&mut self, kind: &str, pieces: impl Iterator<Item = String>) -> Result<(), Stop> {
        let message = self.next_message();
        for piece in pieces {
            self.update(&wire::chunk(kind, &message, &piece))?;
            self.breathe(1)?;
        }
        Ok(())
    }

    /// Pauses for this many pieces at the chosen pace.
    pub(crate) fn breathe(&mut self, pieces: u32) -> Result<(), Stop> {
        let pause_for = self.with_session(|session| session.settings.pause_for());
        self.turn.pause(pause_for * pieces)
    }

    /// Sends a plan of which the first `done` steps are completed and the next is in progress.
    pub(crate) fn plan(&mut self, steps: &[&str], done: usize) -> Result<(), Stop> {
        let status = |index: usize| match index.cmp(&done) {
            std::cmp::Ordering::Less => "completed",
            std::cmp::Ordering::Equal => "in_progress",
            std::cmp::Ordering::Greater => "pending",
        };
        let entry =
            |(index, step): (usize, &&str)| json!({ "content": step, "priority": "medium", "status": status(index) });
        let entries: Vec<Value> = steps.iter().enumerate().map(entry).collect();
        self.update(&json!({ "sessionUpdate": "plan", "entries": entries }))?;
        self.breathe(4)
    }

    /// Announces a tool call and returns its id.
    pub(crate) fn call(&mut self, title: &str, kind: &str, mut more: Value) -> Result<String, Stop> {
        self.calls += 1;
        let id = format!("call-{}-{}", self.number, self.calls);
        more["sessionUpdate"] = json!("tool_call");
        more["toolCallId"] = json!(id);
        more["title"] = json!(title);
        more["kind"] = json!(kind);
        more["status"] = json!("pending");
        self.update(&more)?;
        Ok(id)
    }

    pub(crate) fn progress(&mut self, call: &str, status: &str, content: Option<Value>) -> Result<(), Stop> {
        let mut update = json!({ "sessionUpdate": "tool_call_update", "toolCallId": call, "status": status });
        if let Some(content) = content {
            update["content"] = json!([content]);
        }
        self.update(&update)?;
        self.breathe(4)
    }

    /// Asks the user whether a tool call may go on.
    pub(crate) fn permission(&mut self, call: &str, title: &str, kind: &str) -> Result<Verdict, Stop> {
        let params = json!({
            "sessionId": self.turn.session,
            "toolCall": { "toolCallId": call, "title": title, "kind": kind, "status": "pending" },
            "options": [
                { "optionId": "allow_once", "name": "Allow once", "kind": "allow_once" },
                { "optionId": "allow_always", "name": "Always allow", "kind": "allow_always" },
                { "optionId": "reject_once", "name": "Reject", "kind": "reject_once" },
            ],
        });
        Ok(verdict(self.turn.ask("session/request_permission", params)?))
    }

    /// Sends numbered text as fast as possible and records only its numbers.
    pub(crate) fn burst(&mut self, count: u64, size: usize) -> Result<(), Stop> {
        let message = self.next_message();
        let (sent, outcome) = Burst::new(&self.turn.session, &message, size).send(&mut self.turn, count, false);
        self.with_session(|session| session.note_burst(&message, sent, size));
        outcome
    }

    /// Sends one piece of a message at fixed intervals.
    pub(crate) fn tick(&mut self, count: u64, every: Duration) -> Result<(), Stop> {
        let message = self.next_message();
        let start = std::time::Instant::now();
        for index in 1..=count {
            self.update(&wire::chunk("agent_message_chunk", &message, &format!("tick {index} of {count}\n")))?;
            self.turn.pause_until(start + every.saturating_mul(u32::try_from(index).unwrap_or(u32::MAX)))?;
        }
        Ok(())
    }

    /// Frees the session for the next prompt, then answers this one.
    pub(crate) fn finish(self, id: &Value, outcome: Result<(), Stop>) {
        self.with_session(|session| session.running = None);
        self.turn.finish(id, outcome);
    }
}

fn verdict(answer: Answer) -> Verdict {
    match answer {
        Ok(result) => match (result["outcome"]["outcome"].as_str(), result["outcome"]["optionId"].as_str()) {
            (Some("selected"), Some("allow_once")) => Verdict::Once,
            (Some("selected"), Some("allow_always")) => Verdict::Always,
            (Some("selected"), Some("reject_once")) => Verdict::Rejected,
            (Some("cancelled"), _) => Verdict::Open("the question was cancelled".to_owned()),
            _ => Verdict::Open(format!("I did not understand the answer {result}")),
        },
        Err(error) => Verdict::Open(format!("the client answered with an error: {}", error["message"])),
    }
}
