//! Coming back: what the host is told after a reconnect, before the client goes on.

use bytes::Bytes;
use serde_json::json;
use wharf_api::ErrorCode;
use wharf_host::frame::{self, IdHolder};
use wharf_json::{Json, rpc};

use super::followed::{AttachedAs, From};
use super::unanswered::Request;
use super::{Bridge, Lost, Phase, Step, meta, refusal};

impl Bridge {
    /// There is a connection, to this process.
    pub(crate) fn handle_connected(&mut self, host: Option<u32>) -> Step {
        let same = host.is_some() && self.host == host;
        self.host = host;
        if std::mem::replace(&mut self.connected_before, true) && !same {
            let lost = self.asks.forget_lost();
            self.withdraw(lost);
        }
        self.returning = true;
        match self.initialize.clone() {
            Some(initialize) => self.greet(&initialize),
            None => self.attach_all(),
        }
        self.done()
    }

    /// The connection is gone.
    pub(crate) fn handle_disconnected(&mut self, lost: Lost) -> Step {
        self.phase = Phase::Apart;
        let gone = self.asks.part();
        self.withdraw(gone);
        for followed in self.sessions.values_mut() {
            followed.part();
        }
        if lost == Lost::TooBig
            && let Some(request) = self.unanswered.take_largest()
        {
            let message = "the message is over the host's limit (limits.frame)";
            self.tell_client(refusal(&request.id, ErrorCode::BODY_TOO_LARGE, message));
        }
        self.done()
    }

    /// Says `initialize` again; the client sees an answer only if it is still waiting for one.
    fn greet(&mut self, initialize: &Bytes) {
        let pending = self.unanswered.iter().find(|request| &*request.method == "initialize");
        if let Some(id) = pending.map(|request| request.id.clone()) {
            self.tell_host(initialize.clone());
            self.phase = Phase::Greeting(id);
            return;
        }
        let id = self.own_id();
        // The client has its answer: no agent needs to be started for another.
        let initialize = meta::with_wish(initialize, "returns", "true").unwrap_or_else(|| initialize.clone());
        if let Ok(envelope) = frame::scan(&initialize) {
            self.tell_host(frame::with_id(&initialize, &envelope, &id));
        }
        self.phase = Phase::Greeting(id);
    }

    /// Is this the id of something that the bridge itself has asked?
    pub(super) fn is_own_request(&self, id: &[u8]) -> bool {
        match &self.phase {
            Phase::Greeting(own) => own == id,
            Phase::Attaching(pending) => pending.iter().any(|(own, _)| own == id),
            Phase::Apart | Phase::Open => false,
        }
    }

    /// An answer came: if it is what was waited for, goes on.
    pub(super) fn proceed(&mut self, id: &[u8], answer: &[u8]) {
        match &mut self.phase {
            Phase::Greeting(own) if own == id => self.attach_all(),
            Phase::Attaching(pending) => {
                let Some(at) = pending.iter().position(|(own, _)| own == id) else { return };
                let (_, session) = pending.swap_remove(at);
                let all = pending.is_empty();
                self.attached(&session, answer);
                if all {
                    self.open();
                }
            }
            Phase::Greeting(_) | Phase::Apart | Phase::Open => {}
        }
    }

    /// Attaches to every session that the client has, except where it is about to do so, or to leave, by itself.
    fn attach_all(&mut self) {
        let moving = |session: &str| {
            let mut moves = self.unanswered.iter().filter(|request| request.moves());
            moves.any(|request| request.session.as_deref() == Some(session))
        };
        let sessions = self.sessions.keys().filter(|session| !moving(session)).cloned().collect();
        self.attach(sessions);
    }

    pub(super) fn attach(&mut self, sessions: Vec<String>) {
        let mut pending = Vec::with_capacity(sessions.len());
        for session in sessions {
            let Some(followed) = self.sessions.get(&session) else { continue };
            let mut params = match followed.rejoin() {
                // What cannot be shown exactly comes in the answer, where it does no harm.
                From::After(event) => json!({
                    "historyPolicy": "after_event", "afterEventId": event.to_string(), "historyDelivery": "response",
                }),
                From::Beginning => json!({ "historyPolicy": "full", "historyDelivery": "stream" }),
                From::Now => json!({ "historyPolicy": "none" }),
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
            // As the client had it: a host that attaches someone has more to tell.
            let multi = followed.attached || self.wishes.multi_client_updates;
            params["_meta"] = json!({ "wharf": { "multiClientUpdates": multi, "serves": followed.serves } });
            params["sessionId"] = session.as_str().into();
            let id = self.own_id();
            self.tell_host(rpc::request(&id, "session/attach", params));
            pending.push((id, session));
        }
        if pending.is_empty() {
            self.open();
        } else {
            self.phase = Phase::Attaching(pending);
        }
    }

    /// The answer to a `session/attach` of the bridge.
    fn attached(&mut self, session: &str, answer: &[u8]) {
        let refused = Json::parse(answer).and_then(|answer| answer.member("error")).ok().flatten();
        let Some(refused) = refused else {
            let event = frame::find_event_id(answer, IdHolder::Result);
            let answer = frame::to_value(answer);
            if let Some(followed) = self.sessions.get_mut(session) {
                followed.lost = None;
                if let Some(event) = event {
                    followed.is_at(event.id);
                }
            }
            if answer["result"]["historyPolicy"] == "full" && answer["result"]["historyDelivery"] != "stream" {
                self.note(format!(
                    "{session}: the host does not know the last event that was shown; some may be missing"
                ));
            }
            return;
        };
        self.note(format!("{session} cannot be attached again: {refused}"));
        let code = refused.seek(&["code"]).ok().flatten().and_then(Json::integer);
        if code == Some(ErrorCode::ATTACH_UNKNOWN_JSON_RPC.into()) {
            self.sessions.remove(session);
        } else if let Some(followed) = self.sessions.get_mut(session) {
            followed.lost = Some(refused.raw().into());
        }
    }

    /// All is as it was: sends again what has no answer, then what has waited.
    fn open(&mut self) {
        self.phase = Phase::Open;
        if std::mem::take(&mut self.returning) {
            for request in self.unanswered.take() {
                self.send_again(request);
            }
        }
        while matches!(self.phase, Phase::Open)
            && let Some(line) = self.next_waiting()
        {
            self.pass_line(line);
        }
    }

    fn send_again(&mut self, request: Request) {
        let followed = request.session.as_deref().and_then(|session| self.sessions.get_mut(session));
        let lost = followed.as_ref().and_then(|followed| followed.lost.clone()).filter(|_| !request.moves());
        if let Some(lost) = lost {
            self.tell_client(rpc::error_response(&request.id, lost));
        } else if request.can_repeat() {
            if let Some(followed) = followed.filter(|_| &*request.method == "session/load") {
                followed.load_again();
            }
            self.tell_host(request.frame.clone());
            self.unanswered.add(request);
        } else {
            let message = format!("the host was restarted before it answered {}", request.method);
            self.tell_client(refusal(&request.id, ErrorCode::HOST_RESTARTED, &message));
        }
    }
}
