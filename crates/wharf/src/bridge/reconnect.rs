//! Connecting and reconnecting: initializes again, attaches the client's sessions, then resends
//! unanswered requests.

use bytes::Bytes;
use serde_json::json;
use wharf_acp::IdHolder;
use wharf_api::ErrorCode;
use wharf_json::{Json, rpc};

use super::followed_session::{AttachedAs, ReattachPoint};
use super::unanswered_requests::UnansweredRequest;
use super::{Bridge, Phase, meta_options};
use crate::stdio_pump::{DisconnectCause, refusal};

impl Bridge {
    /// Handles a new connection to the host with this process id.
    pub(super) fn begin_connection(&mut self, host: Option<u32>) {
        let same = host.is_some() && self.host == host;
        self.host = host;
        if std::mem::replace(&mut self.connected_before, true) && !same {
            let lost = self.asks.remove_unrepeated_of_no_session();
            self.cancel_asks(lost);
        }
        self.must_resend = true;
        match self.initialize.clone() {
            Some(initialize) => self.send_initialize(&initialize),
            None => self.reattach_all(),
        }
    }

    /// Handles the end of the connection.
    pub(super) fn end_connection(&mut self, cause: DisconnectCause) {
        self.phase = Phase::Disconnected;
        self.ask_markers.clear();
        let gone = self.asks.disconnect();
        self.cancel_asks(gone);
        for followed in self.sessions.values_mut() {
            followed.disconnect();
        }
        if cause == DisconnectCause::MessageTooLarge
            && let Some(request) = self.unanswered.take_largest()
        {
            let message = "the message is over the host's limit (limits.frame)";
            self.send_to_client(refusal(&request.id, ErrorCode::BODY_TOO_LARGE, message));
        }
    }

    /// Sends `initialize` again. The client sees the answer only if it still waits for one.
    fn send_initialize(&mut self, initialize: &Bytes) {
        let pending = self.unanswered.iter().find(|request| &*request.method == "initialize");
        if let Some(id) = pending.map(|request| request.id.clone()) {
            self.send_to_host(initialize.clone());
            self.phase = Phase::Initializing(id);
            return;
        }
        let id = self.next_own_id();
        // The client has its answer, so the host need not start an agent for another.
        let initialize = meta_options::with_option(initialize, "returns", "true")
            .unwrap_or_else(|| initialize.clone());
        if let Ok(envelope) = wharf_acp::scan(&initialize) {
            self.send_to_host(wharf_acp::with_id(&initialize, &envelope, &id));
        }
        self.phase = Phase::Initializing(id);
    }

    /// Returns true if this is the id of a request of the bridge itself.
    pub(super) fn is_own_request(&self, id: &[u8]) -> bool {
        match &self.phase {
            Phase::Initializing(own) => own == id,
            Phase::Attaching(pending) => pending.iter().any(|(own, _)| own == id),
            Phase::Disconnected | Phase::Open => false,
        }
    }

    /// Asks the host something whose answer comes after the session's open asks (rule 4.4): asks
    /// that it has not repeated by then are over.
    pub(super) fn mark_end_of_asks(&mut self, session: &str) {
        if !self.asks.has_unrepeated_of(session) {
            return;
        }
        let id = self.next_own_id();
        self.send_to_host(rpc::request(&id, "_wharf/queue/list", json!({ "sessionId": session })));
        self.ask_markers.insert(id, session.to_owned());
    }

    /// Withdraws the asks that are over, if this is the answer that tells so. Returns false if it
    /// is another answer.
    pub(super) fn take_ask_marker(&mut self, id: &[u8]) -> bool {
        let Some(session) = self.ask_markers.remove(id) else { return false };
        self.withdraw_unrepeated_asks(&session);
        true
    }

    pub(super) fn withdraw_unrepeated_asks(&mut self, session: &str) {
        let settled = self.asks.remove_unrepeated_of(session);
        self.cancel_asks(settled);
    }

    /// Takes an answer and, if it was awaited, goes on with the next step of the reconnect.
    pub(super) fn continue_reconnect(&mut self, id: &[u8], answer: &[u8]) {
        match &mut self.phase {
            Phase::Initializing(own) if own == id => self.reattach_all(),
            Phase::Attaching(pending) => {
                let Some(at) = pending.iter().position(|(own, _)| own == id) else { return };
                let (_, session) = pending.swap_remove(at);
                let all = pending.is_empty();
                self.take_attach_answer(&session, answer);
                if all {
                    self.resume_traffic();
                }
            }
            Phase::Initializing(_) | Phase::Disconnected | Phase::Open => {}
        }
    }

    /// Attaches to every session of the client, except those that an unanswered request of the
    /// client joins or leaves.
    fn reattach_all(&mut self) {
        let moving = |session: &str| {
            let mut moves = self.unanswered.iter().filter(|request| request.changes_membership());
            moves.any(|request| request.session.as_deref() == Some(session))
        };
        let sessions = self.sessions.keys().filter(|session| !moving(session)).cloned().collect();
        self.reattach(sessions);
    }

    pub(super) fn reattach(&mut self, sessions: Vec<String>) {
        let mut pending = Vec::with_capacity(sessions.len());
        for session in sessions {
            let Some(followed) = self.sessions.get(&session) else { continue };
            let mut params = match followed.reattach_point() {
                // If the host cannot go on at that event, the full history comes in the answer,
                // which the client does not see.
                ReattachPoint::After(event) => json!({
                    "historyPolicy": "after_event", "afterEventId": event.to_string(), "historyDelivery": "response",
                }),
                ReattachPoint::Beginning => {
                    json!({ "historyPolicy": "full", "historyDelivery": "stream" })
                }
                ReattachPoint::Now => json!({ "historyPolicy": "none" }),
            };
            if followed.observes {
                params["role"] = "observer".into();
            }
            let AttachedAs { client_id, client_info } = followed.attached_as.clone();
            if let Some(id) = client_id {
                params["clientId"] = id;
            }
            if let Some(info) = client_info {
                params["clientInfo"] = info;
            }
            // As before the reconnect: by default, `session/attach` brings more updates than the
            // client had.
            let multi = followed.attached || self.client_options.multi_client_updates;
            params["_meta"] =
                json!({ "wharf": { "multiClientUpdates": multi, "serves": followed.serves } });
            params["sessionId"] = session.as_str().into();
            let id = self.next_own_id();
            self.send_to_host(rpc::request(&id, "session/attach", params));
            pending.push((id, session));
        }
        if pending.is_empty() {
            self.resume_traffic();
        } else {
            self.phase = Phase::Attaching(pending);
        }
    }

    /// Takes the answer to a `session/attach` of the bridge.
    fn take_attach_answer(&mut self, session: &str, answer: &[u8]) {
        let refused = Json::parse(answer).and_then(|answer| answer.member("error")).ok().flatten();
        let Some(refused) = refused else {
            let event = wharf_acp::find_event_id(answer, IdHolder::Result);
            let answer = wharf_acp::to_value(answer);
            if let Some(followed) = self.sessions.get_mut(session) {
                followed.lost = None;
                if let Some(event) = event {
                    followed.advance_to(event.id);
                }
            }
            if answer["result"]["historyPolicy"] == "full"
                && answer["result"]["historyDelivery"] != "stream"
            {
                self.add_note(format!(
                    "{session}: the host does not know the last event that was shown; some may be missing"
                ));
            }
            self.mark_end_of_asks(session);
            return;
        };
        self.add_note(format!("{session} cannot be attached again: {refused}"));
        let code = refused.seek(&["code"]).ok().flatten().and_then(Json::integer);
        if code == Some(ErrorCode::ATTACH_UNKNOWN_JSON_RPC.into()) {
            self.sessions.remove(session);
            self.withdraw_unrepeated_asks(session);
        } else if let Some(followed) = self.sessions.get_mut(session) {
            followed.lost = Some(refused.raw().into());
        }
    }

    /// Sends unanswered requests again, then the lines that waited.
    fn resume_traffic(&mut self) {
        self.phase = Phase::Open;
        if std::mem::take(&mut self.must_resend) {
            for request in self.unanswered.take_all() {
                self.resend(request);
            }
        }
        while matches!(self.phase, Phase::Open)
            && let Some(line) = self.waiting.pop()
        {
            self.pass_line(line);
        }
    }

    fn resend(&mut self, request: UnansweredRequest) {
        let followed =
            request.session.as_deref().and_then(|session| self.sessions.get_mut(session));
        let lost = followed
            .as_ref()
            .and_then(|followed| followed.lost.clone())
            .filter(|_| !request.changes_membership());
        if let Some(lost) = lost {
            self.send_to_client(rpc::error_response(&request.id, lost));
        } else if request.can_repeat() {
            if let Some(followed) = followed.filter(|_| &*request.method == "session/load") {
                followed.repeat_load();
            }
            self.send_to_host(request.frame.clone());
            self.unanswered.add(request);
        } else {
            let message = format!("the host was restarted before it answered {}", request.method);
            self.send_to_client(refusal(&request.id, ErrorCode::HOST_RESTARTED, &message));
        }
    }
}
