//! Scenarios of the fold: logs and the rows that people read.

mod overlaps;
pub(crate) mod properties;
mod random_secrets;
mod readable;
mod scenarios;
mod secrets;
mod sizes;
mod streams;
mod turn_ends;
mod usage;

use std::sync::Arc;

use serde_json::{Value, json};
use wharf_api::TranscriptRow;
use wharf_core::{
    AgentEvent, AgentTraits, Ask, AskEvent, AskId, AskKind, AskOutcome, ClientId, Epoch, Event,
    EventId, Millis, Origin, PromptEnd, PromptEvent, PromptId, Raw, Sender, Seq, SessionEvent,
    SessionId, StartNo, UpdateKind, UsageMeaning,
};

use crate::{Fold, MemoryRows, RowChange};

/// A log that is folded while it is written.
#[derive(Default)]
pub(crate) struct Transcript {
    pub(crate) log: Vec<(EventId, Millis, Event)>,
    pub(crate) fold: Fold,
    pub(crate) rows: MemoryRows,
    pub(crate) changes: Vec<RowChange>,
}

pub(crate) fn raw(value: &Value) -> Raw {
    Raw::new(value.to_string()).unwrap()
}

pub(crate) fn sender(name: &str) -> Sender {
    Sender {
        client: ClientId::new(name),
        chosen: None,
        name: Some(name.into()),
        version: None,
        token: None,
        parent: None,
        peer: None,
    }
}

pub(crate) fn prompt_id(name: &str) -> PromptId {
    PromptId::new(name)
}

impl Transcript {
    /// Begins with a session in `/w/blog` whose agent has started.
    pub(crate) fn started() -> Self {
        Self::started_in("/w/blog")
    }

    pub(crate) fn started_in(cwd: &str) -> Self {
        let mut transcript = Self::default();
        transcript.start(cwd);
        transcript
    }

    /// Begins like [`Self::started`], with a fold that shows secrets.
    pub(crate) fn started_with_secrets() -> Self {
        let mut transcript = Self { fold: Fold::new(crate::Secrets::Shown), ..Self::default() };
        transcript.start("/w/blog");
        transcript
    }

    fn start(&mut self, cwd: &str) {
        let origin = Origin {
            session: SessionId::new("sess_1"),
            adapter: "demo".into(),
            workspace: "default".into(),
            cwd: cwd.into(),
            label: None,
            name: None,
            by: None,
            key: None,
            lineage: Vec::new(),
            forked_from: None,
            is_scope_lost: false,
        };
        self.add(SessionEvent::Created(origin));
        self.start_agent(1);
    }

    pub(crate) fn start_agent(&mut self, start: u64) {
        let traits = AgentTraits {
            load: true,
            usage: Some(UsageMeaning::default()),
            ..AgentTraits::default()
        };
        let answer = raw(&json!({}));
        let agent_session: Arc<str> = "a".into();
        self.add(AgentEvent::Started { start: StartNo(start), agent_session, traits, answer });
    }

    /// Adds an event, one second after the last.
    pub(crate) fn add(&mut self, event: impl Into<Event>) {
        let seq = self.log.len() as u64 + 1;
        let (id, at, event) =
            (EventId { epoch: Epoch(1), seq: Seq(seq) }, Millis(seq * 1_000), event.into());
        self.fold.apply(id, at, &event, &mut self.rows, &mut self.changes);
        self.log.push((id, at, event));
    }

    pub(crate) fn prompt(&mut self, id: &str, text: &str) {
        self.accept(id, text);
        self.add(PromptEvent::TurnStarted {
            prompt: prompt_id(id),
            content: Seq(self.log.len() as u64),
        });
    }

    pub(crate) fn accept(&mut self, id: &str, text: &str) {
        let frame = raw(&json!({ "params": { "prompt": [{ "type": "text", "text": text }] } }));
        let (prompt, sender) = (prompt_id(id), sender("zed"));
        self.add(PromptEvent::Accepted { prompt, sender, frame, key: None, first: false });
    }

    pub(crate) fn update(&mut self, update: Value) {
        let kind = UpdateKind::from_tag(update["sessionUpdate"].as_str().unwrap());
        let frame = raw(&json!({ "params": { "sessionId": "sess_1", "update": update } }));
        self.add(AgentEvent::Updated { update: kind, frame, title: None, tool: None });
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.update(json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } }));
    }

    pub(crate) fn think(&mut self, text: &str) {
        self.update(json!({ "sessionUpdate": "agent_thought_chunk", "content": { "type": "text", "text": text } }));
    }

    pub(crate) fn ask(&mut self, tool_call: &Value) -> AskId {
        let options = json!([{ "optionId": "yes", "name": "Allow", "kind": "allow_once" }]);
        self.open_ask(&json!({ "toolCall": tool_call, "options": options }))
    }

    pub(crate) fn ask_with_options(&mut self, options: &Value) -> AskId {
        self.open_ask(
            &json!({ "toolCall": { "toolCallId": "c1", "title": "Run" }, "options": options }),
        )
    }

    fn open_ask(&mut self, params: &Value) -> AskId {
        let id = AskId(self.log.len() as u64 + 1);
        let frame = raw(&json!({ "params": params }));
        self.add(AskEvent::Opened(Ask {
            id,
            kind: AskKind::Permission,
            agent_request: raw(&json!(0)),
            frame,
            options: vec!["yes".into()],
            tool_call: None,
            prompt: None,
        }));
        id
    }

    pub(crate) fn answer(&mut self, ask: AskId) {
        let outcome = AskOutcome::Answered { option: Some("yes".into()), answer: raw(&json!({})) };
        self.add(AskEvent::Resolved { ask, outcome, by: Some(sender("phone")) });
    }

    pub(crate) fn end(&mut self, id: &str, result: Value) {
        let stop_reason = result["stopReason"].as_str().unwrap().into();
        let frame = raw(&json!({ "result": result }));
        self.add(PromptEvent::Ended {
            prompt: prompt_id(id),
            end: PromptEnd::Answered { stop_reason, frame },
            failure: None,
        });
    }

    pub(crate) fn rows(&self) -> &[TranscriptRow] {
        self.rows.rows()
    }

    /// Returns the kinds and summaries of all rows.
    pub(crate) fn outline(&self) -> Vec<(&str, &str)> {
        self.rows().iter().map(|row| (row.body.kind(), row.summary.as_str())).collect()
    }

    /// Returns a row as a client gets it.
    pub(crate) fn json(&self, index: usize) -> Value {
        serde_json::to_value(&self.rows()[index]).unwrap()
    }
}
