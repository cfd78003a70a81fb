//! Writes ended sessions straight into a state directory: thousands of them, faster than a host
//! could create them.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use bytes::Bytes;
use serde_json::{Value, json};
use wharf_core::{
    AgentEvent, AgentTraits, ClientId, EndReason, Ending, Event, Millis, Origin, PromptEnd,
    PromptEvent, PromptId, Raw, Sender, SessionEvent, SessionId, StartKind, StartNo, Status,
    UpdateKind, encode,
};
use wharf_store::{Engine, FileEngine, FileLease, FileOptions, Lease, LogId};

/// The time of the first session in milliseconds; each one is a second younger than the one before.
const FIRST_SESSION_MILLIS: u64 = 1_763_000_000_000;

/// The number of events in one write to the log.
const APPEND_BATCH_EVENTS: usize = 1_000;

/// The properties of the sessions.
#[derive(Debug, Clone)]
pub struct ColdSessions<'a> {
    pub count: usize,
    /// The adapter's name.
    pub agent: &'a str,
    pub cwd: &'a Path,
    /// The least number of events in each of them; a session with fewer has a single short turn.
    pub events: usize,
    /// A prompt that is queued in each of them.
    pub waiting: Option<&'a str>,
}

impl ColdSessions<'_> {
    /// Creates the sessions, oldest first. No host may be running.
    pub fn write_to(&self, state_dir: &Path) -> Result<Vec<String>> {
        let lease = FileLease::acquire(state_dir)?;
        let engine = FileEngine::open(FileOptions::new(state_dir))?;
        let mut ids = Vec::with_capacity(self.count);
        for number in 0..self.count {
            let id = format!("sess_01k9t{number:021}");
            let log_id = LogId::new("default", &id).context("a bad id")?;
            let log = engine.create(&log_id)?;
            let at = Millis(FIRST_SESSION_MILLIS + 1_000 * number as u64);
            let bodies: Vec<Bytes> =
                self.session_events(&id).iter().map(|event| encode_event(event, at)).collect();
            for (at, batch) in bodies.chunks(APPEND_BATCH_EVENTS).enumerate() {
                log.append(lease.epoch(), (at * APPEND_BATCH_EVENTS) as u64, batch)?;
            }
            let start = state_dir.join("workspaces/default/sessions").join(&id).join("start.json");
            self.write_start_inputs(&start)?;
            ids.push(id);
        }
        Ok(ids)
    }

    fn session_events(&self, id: &str) -> Vec<Event> {
        let cwd = self.cwd.to_string_lossy();
        let origin = Origin {
            lineage: Vec::new(),
            forked_from: None,
            is_scope_lost: false,
            session: SessionId::new(id),
            adapter: self.agent.into(),
            workspace: "default".into(),
            cwd: cwd.as_ref().into(),
            label: None,
            name: None,
            by: None,
            key: None,
        };
        let start = StartNo(1);
        let traits = AgentTraits { load: true, ..AgentTraits::default() };
        let answer = raw_json(r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"cold"}}"#);
        let mut events = vec![
            Event::Session(SessionEvent::Created(origin)),
            Event::Agent(AgentEvent::Starting { start, how: StartKind::New }),
            Event::Agent(AgentEvent::Started {
                start,
                agent_session: "cold".into(),
                traits,
                answer,
            }),
        ];
        add_turn(&mut events, "first", &short_answer(id));
        let mut turns = 1;
        while events.len() < self.events {
            turns += 1;
            add_turn(&mut events, &format!("prompt-{turns}"), &long_answer(id, turns));
        }
        if let Some(text) = self.waiting {
            events.push(accepted_event("waiting", text));
        }
        let status = Status::Killed;
        let reason = EndReason::HostShutdown;
        events.push(Event::Session(SessionEvent::Ended(Ending {
            status,
            reason,
            exit_code: None,
            message: None,
            needs_login: false,
        })));
        events
    }

    /// Writes the parameters with which the agent is started again.
    fn write_start_inputs(&self, path: &Path) -> Result<()> {
        let params = json!({ "cwd": self.cwd, "mcpServers": [] });
        let frame = json!({ "jsonrpc": "2.0", "id": 0, "method": "session/new", "params": params });
        let inputs = json!({ "version": 1, "capabilities": "{}", "new_frame": frame });
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)?;
        Ok(std::io::Write::write_all(&mut file, inputs.to_string().as_bytes())?)
    }
}

/// Adds a turn in which the agent sends these updates.
fn add_turn(events: &mut Vec<Event>, name: &str, updates: &[Value]) {
    let prompt = PromptId::new(name);
    events.push(accepted_event(name, &format!("echo {name}")));
    let content = wharf_core::Seq(events.len() as u64);
    events.push(Event::Prompt(PromptEvent::TurnStarted { prompt: prompt.clone(), content }));
    events.extend(updates.iter().map(update_event));
    let usage = r#"{"inputTokens":100,"outputTokens":20}"#;
    let answer = format!(
        r#"{{"jsonrpc":"2.0","id":2,"result":{{"stopReason":"end_turn","usage":{usage}}}}}"#
    );
    let frame = raw_json(&answer);
    let end = PromptEnd::Answered { stop_reason: "end_turn".into(), frame };
    events.push(Event::Prompt(PromptEvent::Ended { prompt, end, failure: None }));
}

fn update_event(params: &Value) -> Event {
    let update =
        UpdateKind::from_tag(params["update"]["sessionUpdate"].as_str().unwrap_or_default());
    let frame = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params });
    Event::Agent(AgentEvent::Updated {
        update,
        frame: raw_json(&frame.to_string()),
        title: None,
        tool: None,
    })
}

fn short_answer(session: &str) -> Vec<Value> {
    vec![text_chunk(session, "agent_message_chunk", "first")]
}

/// Returns the updates of a usual turn: the agent thinks, plans, calls tools and answers, in a
/// hundred events.
fn long_answer(session: &str, turn: usize) -> Vec<Value> {
    let mut updates: Vec<Value> = (0..10)
        .map(|piece| {
            text_chunk(
                session,
                "agent_thought_chunk",
                &format!("Thought {piece} about turn {turn}. "),
            )
        })
        .collect();
    let entries =
        json!([{ "content": "Read the sources", "priority": "medium", "status": "in_progress" }]);
    updates.push(
        json!({ "sessionId": session, "update": { "sessionUpdate": "plan", "entries": entries } }),
    );
    for call in 0..8 {
        let id = format!("call-{turn}-{call}");
        let path = format!("/project/src/module_{call}.rs");
        updates.push(json!({ "sessionId": session, "update": {
            "sessionUpdate": "tool_call", "toolCallId": id, "title": format!("Read {path}"), "kind": "read", "status": "pending",
            "rawInput": { "path": path }, "locations": [{ "path": path }],
        } }));
        updates.push(json!({ "sessionId": session, "update": {
            "sessionUpdate": "tool_call_update", "toolCallId": id, "status": "in_progress",
        } }));
        let output = format!("line of {path}\n").repeat(20);
        updates.push(json!({ "sessionId": session, "update": {
            "sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed",
            "content": [{ "type": "content", "content": { "type": "text", "text": output } }],
        } }));
    }
    let chunks = (0..61).map(|piece| {
        text_chunk(
            session,
            "agent_message_chunk",
            &format!("Piece {piece} of the answer to turn {turn}. "),
        )
    });
    updates.extend(chunks);
    updates.push(text_chunk(session, "agent_message_chunk", &format!("This was {session}.")));
    updates
}

fn text_chunk(session: &str, kind: &str, text: &str) -> Value {
    json!({ "sessionId": session, "update": { "sessionUpdate": kind, "content": { "type": "text", "text": text } } })
}

fn accepted_event(prompt: &str, text: &str) -> Event {
    let params = json!({ "sessionId": "x", "prompt": [{ "type": "text", "text": text }] });
    let frame = json!({ "jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": params });
    let client = ClientId::new("cli_cold");
    let sender = Sender {
        client,
        chosen: None,
        name: None,
        version: None,
        token: None,
        parent: None,
        peer: None,
    };
    let prompt = PromptId::new(prompt);
    let frame = raw_json(&frame.to_string());
    Event::Prompt(PromptEvent::Accepted { prompt, sender, frame, key: None, first: false })
}

fn raw_json(text: &str) -> Raw {
    Raw::new_checked_before(Bytes::copy_from_slice(text.as_bytes()))
}

fn encode_event(event: &Event, at: Millis) -> Bytes {
    let mut out = Vec::new();
    encode(event, at, &mut out);
    out.into()
}
