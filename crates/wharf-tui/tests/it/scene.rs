//! A client on a stage: tests press keys, play the host, and look at the frame.

use std::time::Duration;

use serde_json::{Value, json};
use wharf_api::{RowStreamEvent, SessionStreamEvent};
use wharf_tui::keymap::KeyPress;
use wharf_tui::{
    ApiCall, ApiFailure, CallId, HostReady, Moment, ScreenSize, StreamId, StreamInput, TuiEffect,
    TuiInput, TuiOptions, TuiState, update, view,
};

/// 2026-11-17T10:00:00Z.
const START_MILLIS: u64 = 1_794_909_600_000;

#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) state: TuiState,
    now: Moment,
    /// The effects since the last look.
    effects: Vec<TuiEffect>,
    /// All calls so far.
    issued: Vec<CallId>,
    /// The host has stopped answering probes.
    is_frozen: bool,
}

impl Scene {
    /// Starts a client in `/w/blog` that is connected to a host.
    pub(crate) fn connected(width: u16, height: u16) -> Self {
        let mut scene = Self::starting(TuiOptions {
            size: ScreenSize { width, height },
            home: Some("/w".to_owned()),
            directory: Some("/w/blog".to_owned()),
            key_seed: "seed".to_owned(),
            ..TuiOptions::default()
        });
        scene.feed(TuiInput::HostReady(HostReady::default()));
        scene.feed(TuiInput::List(StreamInput::Connected));
        scene
    }

    pub(crate) fn starting(options: TuiOptions) -> Self {
        let now = Moment { elapsed: Duration::ZERO, unix_millis: START_MILLIS };
        Self {
            state: TuiState::new(options, now),
            now,
            effects: Vec::new(),
            issued: Vec::new(),
            is_frozen: false,
        }
    }

    pub(crate) fn feed(&mut self, input: TuiInput) {
        let effects = update(&mut self.state, input, self.now);
        self.issued.extend(effects.iter().filter_map(|effect| match effect {
            TuiEffect::Call { id, .. } => Some(*id),
            _ => None,
        }));
        self.effects.extend(effects);
        let probes = self.effects.len();
        self.effects.retain(|effect| !matches!(effect, TuiEffect::ProbeHost));
        if self.effects.len() < probes && !self.is_frozen {
            self.feed(TuiInput::HostProbed { has_answered: true });
        }
    }

    /// Has the host answer nothing any more.
    pub(crate) const fn freeze_host(&mut self) {
        self.is_frozen = true;
    }

    /// Presses keys, written as in the table and separated by blanks: `ctrl-g a`.
    pub(crate) fn press(&mut self, keys: &str) {
        for key in keys.split(' ') {
            let press = KeyPress::parse(key).unwrap_or_else(|| panic!("{key:?} is no key"));
            self.feed(TuiInput::Key(press));
        }
    }

    /// Types a text, character by character.
    pub(crate) fn type_text(&mut self, text: &str) {
        for character in text.chars() {
            let code = wharf_tui::keymap::KeyCode::Char(character);
            self.feed(TuiInput::Key(KeyPress::plain(code)));
        }
    }

    /// Lets time pass, and wakes the client when it asked for it.
    pub(crate) fn wait(&mut self, time: Duration) {
        let end = self.now.elapsed + time;
        while let Some(wake) = self.state.next_wake().filter(|wake| *wake <= end) {
            self.set_time(wake.max(self.now.elapsed));
            self.feed(TuiInput::Tick);
            assert!(
                self.state.next_wake().is_none_or(|next| next > wake),
                "a deadline stays due: {:?}",
                self.state
            );
        }
        self.set_time(end);
        self.feed(TuiInput::Tick);
    }

    /// Lets time pass in which the client is not woken: another program has the terminal.
    pub(crate) fn pass_time_unnoticed(&mut self, time: Duration) {
        self.set_time(self.now.elapsed + time);
    }

    fn set_time(&mut self, elapsed: Duration) {
        let millis = u64::try_from(elapsed.as_millis()).unwrap();
        self.now = Moment { elapsed, unix_millis: START_MILLIS + millis };
    }

    /// Sends the list of sessions.
    pub(crate) fn list(&mut self, sessions: &[Value]) {
        let event = SessionStreamEvent::read("snapshot", json!({ "sessions": sessions })).unwrap();
        self.feed(TuiInput::List(StreamInput::Event(event)));
    }

    /// Sends an event of the stream that was opened last.
    pub(crate) fn rows(&mut self, stream: StreamId, name: &str, data: Value) {
        let event = RowStreamEvent::read(name, data).unwrap();
        self.feed(TuiInput::Rows { stream, input: StreamInput::Event(event) });
    }

    /// Answers a call.
    pub(crate) fn answer(&mut self, call: CallId, body: &Value) {
        self.feed(TuiInput::Answer { call, answer: Ok(body.to_string().into_bytes()) });
    }

    /// Answers a call with an error.
    pub(crate) fn refuse(&mut self, call: CallId, reason: &str) {
        let failure = ApiFailure { code: None, text: reason.to_owned() };
        self.feed(TuiInput::Answer { call, answer: Err(failure) });
    }

    /// Answers all calls that have no answer with an error, also those that follow a little later.
    pub(crate) fn refuse_all(&mut self) {
        for _ in 0..5 {
            for call in std::mem::take(&mut self.issued) {
                self.refuse(call, "no");
            }
            self.wait(Duration::from_secs(3));
        }
        assert_eq!(self.issued, [], "calls follow calls");
    }

    pub(crate) fn take_effects(&mut self) -> Vec<TuiEffect> {
        std::mem::take(&mut self.effects)
    }

    /// Returns the calls since the last look.
    pub(crate) fn take_calls(&mut self) -> Vec<(CallId, ApiCall)> {
        let calls = self.take_effects().into_iter().filter_map(|effect| match effect {
            TuiEffect::Call { id, call } => Some((id, call)),
            _ => None,
        });
        calls.collect()
    }

    /// Returns the stream of rows that was opened since the last look.
    pub(crate) fn opened_stream(&mut self) -> StreamId {
        let opened = self.take_effects().into_iter().find_map(|effect| match effect {
            TuiEffect::OpenRows { stream, .. } => Some(stream),
            _ => None,
        });
        opened.expect("no stream was opened")
    }

    pub(crate) fn text(&self) -> String {
        view(&self.state).to_text()
    }
}

/// Returns a session with these members besides.
pub(crate) fn session(id: &str, title: &str, members: Value) -> Value {
    let mut session = json!({ "id": id, "adapterSlug": "claude", "workspaceSlug": "blog", "cwd": "/w/blog",
        "status": "running", "startedAt": "2026-11-17T09:00:00.000Z", "title": title, "turn": "idle", "queued": 0,
        "clients": 0, "lastSeq": 20, "resumable": true });
    session.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    session
}

pub(crate) fn attention(state: &str, since: &str, text: Option<&str>) -> Value {
    json!({ "attention": { "state": state, "since": since, "row": "1-14", "why": null, "text": text, "count": 0,
        "via": null, "unread": true, "muted": false } })
}

/// Returns a row of this kind.
pub(crate) fn row(seq: u64, kind: &str, summary: &str, members: Value) -> Value {
    let at = "2026-11-17T09:58:00.000Z";
    let mut row = json!({ "id": format!("1-{seq}"), "rev": seq, "at": at, "changedAt": at, "turn": "prm_1",
        "parent": null, "open": false, "summary": summary, "kind": kind });
    row.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    row
}

pub(crate) fn text_row(seq: u64, kind: &str, text: &str) -> Value {
    row(seq, kind, text, json!({ "parts": [{ "type": "text", "text": text }] }))
}

/// Returns an open ask with three options.
pub(crate) fn ask_row(seq: u64, command: &str) -> Value {
    let option = |id: &str, name: &str| json!({ "optionId": id, "name": name, "kind": id });
    let mut ask = row(
        seq,
        "ask",
        command,
        json!({ "askId": seq, "ask": "permission", "state": "open", "tool": null,
        "answer": null, "options": [option("allow_once", "Yes"), option("allow_always", "Yes, and don't ask again"),
            option("reject_once", "No, and tell the agent what to do differently")],
        "subject": { "title": "Wants to run", "command": command, "cwd": "/w/blog", "paths": [], "diffs": [],
            "text": null, "outside": [], "detailed": true } }),
    );
    ask["open"] = json!(true);
    ask
}

/// Returns the newest page of a session.
pub(crate) fn page(session: Value, rows: &[Value], asks: &[&str]) -> Value {
    let state = json!({ "session": session, "asks": asks, "plan": null, "queue": [], "clients": [], "live": [] });
    json!({ "fold": 4, "session": session["id"], "asOf": "1-20", "rows": rows, "before": null, "after": null,
        "midTurn": false, "turnHead": null, "state": state })
}
