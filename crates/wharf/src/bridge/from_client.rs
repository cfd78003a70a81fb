//! Lines of the client: what the host is to see of each.

use bytes::Bytes;
use serde_json::Value;
use wharf_api::ErrorCode;
use wharf_host::frame::{self, Envelope, FrameKind};
use wharf_json::Json;
use wharf_json::rpc::{self, Salvaged};

use super::unanswered::{Request, moves};
use super::{Bridge, Phase, Step, meta, refusal};

/// Can the client run its agent's program in a terminal for a login?
fn has_terminal_auth(initialize: &[u8]) -> bool {
    // The host refuses frames that cannot be read.
    let path = ["params", "clientCapabilities", "auth", "terminal"];
    let terminal = Json::parse(initialize).and_then(|request| request.seek(&path));
    terminal.ok().flatten().and_then(Json::bool) == Some(true)
}

impl Bridge {
    /// One line, without its line break.
    pub(crate) fn handle_line(&mut self, line: Bytes) -> Step {
        let bom = line.len() - wharf_json::strip_bom(&line).len();
        let line = line.slice(bom..);
        if std::str::from_utf8(&line).is_err() {
            // A text frame could not carry it.
            self.refuse_unreadable(&rpc::salvage(&line), ErrorCode::MALFORMED_JSON, "not UTF-8");
        } else if matches!(self.phase, Phase::Open) && !self.needs_attaching(&line) {
            self.pass_line(line);
        } else {
            self.wait(line);
        }
        self.done()
    }

    /// A line over what is read at once, of which only the first bytes are known.
    pub(crate) fn handle_oversized_line(&mut self, head: &[u8], limit: usize) -> Step {
        let message = format!("a message over {limit} bytes was not read");
        let found = rpc::salvage_head(wharf_json::strip_bom(head));
        self.refuse_unreadable(&found, ErrorCode::BODY_TOO_LARGE, &message);
        self.done()
    }

    /// Refuses a line that the host cannot be sent: under its own id if it is a request. An answer fails the requests
    /// that it names.
    fn refuse_unreadable(&mut self, found: &Salvaged, reason: ErrorCode, message: &str) {
        let id = match found.ids.as_slice() {
            [id] if found.has_method => id.as_bytes(),
            _ => b"null",
        };
        self.tell_client(refusal(id, reason, message));
        let failed = self.asks.fail_named(found, message);
        self.step.to_host.extend(failed);
    }

    fn wait(&mut self, line: Bytes) {
        self.waiting_bytes += line.len();
        self.waiting.push_back(line);
    }

    /// The next line that waited for the host.
    pub(super) fn next_waiting(&mut self) -> Option<Bytes> {
        let line = self.waiting.pop_front()?;
        self.waiting_bytes -= line.len();
        Some(line)
    }

    /// Is it for a session that could not be attached again? Then that is tried once more first.
    fn needs_attaching(&mut self, line: &[u8]) -> bool {
        if !self.sessions.values().any(|followed| followed.lost.is_some()) {
            return false;
        }
        let Ok(envelope) = frame::scan(line) else { return false };
        let Some(session) = self.lost_session(&envelope) else { return false };
        self.attach(vec![session]);
        true
    }

    fn lost_session(&self, envelope: &Envelope<'_>) -> Option<String> {
        let session = envelope.session.as_ref()?.value.as_ref();
        let is_lost = self.sessions.get(session).is_some_and(|followed| followed.lost.is_some());
        (is_lost && !moves(&envelope.method)).then(|| session.to_owned())
    }

    /// A line on its way to the host.
    pub(super) fn pass_line(&mut self, line: Bytes) {
        let envelope = match frame::scan(&line) {
            Ok(envelope) => envelope,
            Err(error) => {
                let failed = self.asks.fail_named(&rpc::salvage(&line), &error.to_string());
                if failed.is_empty() {
                    // The host says what is wrong with it.
                    self.tell_host(line);
                }
                self.step.to_host.extend(failed);
                return;
            }
        };
        match envelope.kind {
            FrameKind::Request => self.request(&line, &envelope),
            FrameKind::Notification => self.tell_host(line),
            FrameKind::Result | FrameKind::Error => {
                let answer = self.asks.answer(&line, &envelope);
                self.step.to_host.extend(answer);
            }
        }
    }

    fn request(&mut self, line: &Bytes, envelope: &Envelope<'_>) {
        let id = envelope.id_bytes(line);
        if let Some(session) = self.lost_session(envelope)
            && let Some(error) = self.sessions.get(&session).and_then(|followed| followed.lost.clone())
        {
            self.tell_client(rpc::error_response(&id, error));
            return;
        }
        let session = envelope.session.as_ref().map(|session| session.value.as_ref().to_owned());
        let method = envelope.method.as_ref();
        let mut request = Request {
            id,
            method: method.into(),
            session: session.clone().map(Into::into),
            frame: line.clone(),
            as_new: false,
        };
        match (method, session) {
            ("initialize", _) => request.frame = self.introduce(line),
            ("session/new", _) => self.join_instead(&mut request),
            ("session/prompt", Some(session)) => request.frame = self.prompt(line, &request.id, session),
            ("session/load", Some(session)) => self.sessions.entry(session).or_default().load(),
            _ => {}
        }
        self.tell_host(request.frame.clone());
        self.unanswered.add(request);
    }

    /// Event ids and the like are asked for besides what the client asks for, and taken out again.
    fn introduce(&mut self, line: &Bytes) -> Bytes {
        self.wishes.event_ids = meta::wish(line, "eventIds") == Some(true.into());
        self.wishes.multi_client_updates = meta::wish(line, "multiClientUpdates") == Some(true.into());
        let mut frame = line.clone();
        let mut ask = |name: &str, value: &str| {
            if let Some(asked) = meta::with_wish(&frame, name, value) {
                frame = asked;
            }
        };
        if !self.wishes.event_ids {
            ask("eventIds", "true");
        }
        if meta::wish(line, "clientId").is_none() {
            // By this the host knows its prompts again after a reconnect.
            ask("clientId", &Value::from(self.options.name.as_str()).to_string());
        }
        if self.options.session.is_some() {
            // The session has its agent: none needs to be started for the answer.
            ask("joins", "true");
        }
        if let Some(cwd) = &self.options.cwd {
            ask("cwd", &Value::from(cwd.as_str()).to_string());
        }
        if !self.environment.is_empty() && meta::wish(line, "env").is_none() {
            ask("env", &Value::from_iter(self.environment.clone()).to_string());
        }
        if has_terminal_auth(line) {
            // What the client would run for a login in a terminal is this program.
            ask("terminalAuth", "true");
        }
        self.initialize = Some(frame.clone());
        frame
    }

    /// A prompt gets a key, so that it can be sent again and is still the same prompt (rule 7.5).
    fn prompt(&mut self, line: &Bytes, id: &Bytes, session: String) -> Bytes {
        self.sessions.entry(session).or_default().prompted(id.clone(), line);
        if meta::wish(line, "idempotencyKey").is_some() {
            return line.clone();
        }
        self.keys += 1;
        let key = Value::from(format!("{}-{}", self.options.name, self.keys)).to_string();
        meta::with_wish(line, "idempotencyKey", &key).unwrap_or_else(|| line.clone())
    }

    /// With `--session` a new session is the one that is there.
    fn join_instead(&mut self, request: &mut Request) {
        let Some(session) = &self.options.session else { return };
        let cwd = Json::parse(&request.frame).and_then(|new| new.seek(&["params", "cwd"]));
        let cwd = cwd.ok().flatten().map(|cwd| format!(r#","cwd":{cwd}"#)).unwrap_or_default();
        let quoted = Value::from(session.as_str());
        let params = format!(r#"{{"sessionId":{quoted}{cwd},"mcpServers":[]}}"#);
        request.frame = rpc::request(&request.id, "session/resume", params);
        request.method = "session/resume".into();
        request.session = Some(session.as_str().into());
        request.as_new = true;
    }
}
