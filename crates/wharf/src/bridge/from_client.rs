//! Lines of the client on their way to the host.

use bytes::Bytes;
use serde_json::Value;
use wharf_acp::{Envelope, FrameKind};
use wharf_api::ErrorCode;
use wharf_json::Json;
use wharf_json::rpc::{self, Salvaged};

use super::unanswered_requests::{UnansweredRequest, changes_membership};
use super::{Bridge, Phase, meta_options};
use crate::stdio_pump::{describe_oversized_line, refusal};

/// Returns true if the client can run its agent's program in a terminal for a login.
fn has_terminal_auth(initialize: &[u8]) -> bool {
    // The host refuses unreadable frames.
    let path = ["params", "clientCapabilities", "auth", "terminal"];
    let terminal = Json::parse(initialize).and_then(|request| request.seek(&path));
    terminal.ok().flatten().and_then(Json::bool) == Some(true)
}

impl Bridge {
    /// Passes a line on to the host, or keeps it until the host can take it.
    pub(super) fn take_line(&mut self, line: Bytes) {
        let bom = line.len() - wharf_json::strip_bom(&line).len();
        let line = line.slice(bom..);
        if std::str::from_utf8(&line).is_err() {
            // A WebSocket text frame cannot hold it.
            self.refuse_unreadable(&rpc::salvage(&line), ErrorCode::MALFORMED_JSON, "not UTF-8");
        } else if matches!(self.phase, Phase::Open) && !self.reattaches_for(&line) {
            self.pass_line(line);
        } else {
            self.waiting.push(line);
        }
    }

    pub(super) fn refuse_oversized_line(&mut self, head: &[u8], limit: usize) {
        let found = rpc::salvage_head(wharf_json::strip_bom(head));
        self.refuse_unreadable(&found, ErrorCode::BODY_TOO_LARGE, &describe_oversized_line(limit));
    }

    /// Refuses a line that cannot be sent to the host: a request under its own id, an answer by
    /// failing the requests that it names.
    fn refuse_unreadable(&mut self, found: &[Salvaged], reason: ErrorCode, message: &str) {
        self.send_to_client(refusal(rpc::refused_id(found), reason, message));
        let failed = self.asks.fail_named(found, message);
        self.step.to_host.extend(failed);
    }

    /// Attaches the line's session first if that failed after a reconnect. Returns true if the line
    /// has to wait for it.
    fn reattaches_for(&mut self, line: &[u8]) -> bool {
        if !self.sessions.values().any(|followed| followed.lost.is_some()) {
            return false;
        }
        let Ok(envelope) = wharf_acp::scan(line) else { return false };
        let Some(session) = self.lost_session(&envelope) else { return false };
        self.reattach(vec![session]);
        true
    }

    fn lost_session(&self, envelope: &Envelope<'_>) -> Option<String> {
        let session = envelope.session.as_ref()?.value.as_ref();
        let is_lost = self.sessions.get(session).is_some_and(|followed| followed.lost.is_some());
        (is_lost && !changes_membership(&envelope.method)).then(|| session.to_owned())
    }

    /// Passes a line on to the host.
    pub(super) fn pass_line(&mut self, line: Bytes) {
        let envelope = match wharf_acp::scan(&line) {
            Ok(envelope) => envelope,
            Err(error) => {
                let failed = self.asks.fail_named(&rpc::salvage(&line), &error.to_string());
                if failed.is_empty() {
                    // The host answers with an error.
                    self.send_to_host(line);
                }
                self.step.to_host.extend(failed);
                return;
            }
        };
        match envelope.kind {
            FrameKind::Request => self.pass_request(&line, &envelope),
            FrameKind::Notification => self.send_to_host(line),
            FrameKind::Result | FrameKind::Error => {
                let answer = self.asks.take_answer(&line, &envelope);
                self.step.to_host.extend(answer);
            }
        }
    }

    fn pass_request(&mut self, line: &Bytes, envelope: &Envelope<'_>) {
        let id = envelope.id_bytes(line);
        if let Some(session) = self.lost_session(envelope)
            && let Some(error) =
                self.sessions.get(&session).and_then(|followed| followed.lost.clone())
        {
            self.send_to_client(rpc::error_response(&id, error));
            return;
        }
        let session = envelope.session.as_ref().map(|session| session.value.as_ref().to_owned());
        let method = envelope.method.as_ref();
        let mut request = UnansweredRequest {
            id,
            method: method.into(),
            session: session.clone().map(Into::into),
            frame: line.clone(),
            as_new: false,
        };
        match (method, session) {
            ("initialize", _) => request.frame = self.prepare_initialize(line),
            ("session/new", _) => self.resume_instead(&mut request),
            ("session/prompt", Some(session)) => {
                request.frame = self.prepare_prompt(line, &request.id, session)
            }
            ("session/load", Some(session)) => {
                self.sessions.entry(session).or_default().begin_load()
            }
            _ => {}
        }
        self.send_to_host(request.frame.clone());
        self.unanswered.add(request);
    }

    /// Returns the client's `initialize` with the options that the bridge needs. The bridge removes
    /// event ids again for a client that did not ask for them.
    fn prepare_initialize(&mut self, line: &Bytes) -> Bytes {
        self.client_options.event_ids =
            meta_options::read_option(line, "eventIds") == Some(true.into());
        self.client_options.multi_client_updates =
            meta_options::read_option(line, "multiClientUpdates") == Some(true.into());
        let mut frame = line.clone();
        let mut ask = |name: &str, value: &str| {
            if let Some(asked) = meta_options::with_option(&frame, name, value) {
                frame = asked;
            }
        };
        if !self.client_options.event_ids {
            ask("eventIds", "true");
        }
        if meta_options::read_option(line, "clientId").is_none() {
            // The host recognises the client's prompts by it after a reconnect.
            ask("clientId", &Value::from(self.options.name.as_str()).to_string());
        }
        if self.options.session.is_some() {
            // The session has its agent, so the host need not start one for the answer.
            ask("joins", "true");
        }
        if let Some(cwd) = &self.options.cwd {
            ask("cwd", &Value::from(cwd.as_str()).to_string());
        }
        if !self.environment.is_empty() && meta_options::read_option(line, "env").is_none() {
            ask("env", &Value::from_iter(self.environment.clone()).to_string());
        }
        if has_terminal_auth(line) {
            // For a login in a terminal, the client would run this program.
            ask("terminalAuth", "true");
        }
        self.initialize = Some(frame.clone());
        frame
    }

    /// Returns the prompt with a key, so that it stays the same prompt if it is sent again (rule
    /// 7.5).
    fn prepare_prompt(&mut self, line: &Bytes, id: &Bytes, session: String) -> Bytes {
        self.sessions.entry(session).or_default().add_own_prompt(id.clone(), line);
        if meta_options::read_option(line, "idempotencyKey").is_some() {
            return line.clone();
        }
        self.keys += 1;
        let key = Value::from(format!("{}-{}", self.options.name, self.keys)).to_string();
        meta_options::with_option(line, "idempotencyKey", &key).unwrap_or_else(|| line.clone())
    }

    /// Turns `session/new` into `session/resume` of the session that `--session` names.
    fn resume_instead(&mut self, request: &mut UnansweredRequest) {
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
