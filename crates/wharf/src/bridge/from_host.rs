//! Frames of the host: what the client is to see of each.

use bytes::Bytes;
use serde_json::Value;
use wharf_host::core::UpdateKind;
use wharf_host::frame::{self, Envelope, FrameKind, IdHolder, first_member, splice};
use wharf_json::Json;

use super::asks::Asked;
use super::followed::{AttachedAs, Followed};
use super::unanswered::Request;
use super::{Bridge, Step, own};

/// A frame that is new to the client.
struct News {
    /// Without an event id.
    plain: Bytes,
    /// As the client is to see it: one that asked for event ids keeps them.
    shown: Bytes,
}

impl Bridge {
    /// One frame of the host.
    pub(crate) fn handle_frame(&mut self, frame: Bytes) -> Step {
        match frame::scan(&frame) {
            Ok(envelope) => match envelope.kind {
                FrameKind::Result | FrameKind::Error => self.response(&frame, &envelope),
                FrameKind::Request => self.asked(&frame, &envelope),
                FrameKind::Notification => self.notified(&frame, &envelope),
            },
            Err(_) => self.tell_client(frame),
        }
        self.done()
    }

    fn response(&mut self, frame: &Bytes, envelope: &Envelope<'_>) {
        let id = envelope.id_bytes(frame);
        let request = self.unanswered.settle(&id);
        let is_ours = request.is_none() && self.is_own_request(&id);
        if let Some(request) = &request {
            let answer = self.learn(request, frame, envelope.kind == FrameKind::Result);
            self.tell_client(answer);
        } else if !is_ours {
            // An error without an id, for one.
            self.tell_client(frame.clone());
        }
        self.proceed(&id, frame);
    }

    /// Notes what an answer says about the client's sessions; returns it as the client is to see it.
    fn learn(&mut self, request: &Request, frame: &Bytes, granted: bool) -> Bytes {
        let session = request.session.as_deref().unwrap_or_default();
        if &*request.method == "session/prompt" {
            if let Some(followed) = self.sessions.get_mut(session) {
                followed.answered(&request.id);
            }
            let settled = self.asks.forget_lost_of(session);
            self.withdraw(settled);
        }
        if !granted {
            return frame.clone();
        }
        let event = joins(&request.method).then(|| frame::find_event_id(frame, IdHolder::Result)).flatten();
        let plain = event.as_ref().map_or_else(|| frame.clone(), |event| event.remove_from(frame));
        let mut joined = session.to_owned();
        match &*request.method {
            "session/new" => {
                let told = Json::parse(frame).and_then(|answer| answer.text_at(&["result", "sessionId"]));
                if let Ok(Some(session)) = told {
                    let session = session.into_owned();
                    self.sessions.entry(session.clone()).or_insert_with(Followed::new_session);
                    joined = session;
                }
            }
            "session/load" | "session/resume" => {
                let followed = self.sessions.entry(session.to_owned()).or_default();
                (followed.attached, followed.serves, followed.observes) = (false, true, false);
                followed.lost = None;
            }
            "session/attach" => {
                let followed = self.sessions.entry(session.to_owned()).or_default();
                followed.attached = true;
                followed.observes = is_observer(&request.frame);
                followed.attached_as = attached_as(&request.frame);
            }
            "session/close" | "session/delete" | "session/detach" => {
                self.sessions.remove(session);
            }
            _ => {}
        }
        if let (Some(event), Some(followed)) = (event, self.sessions.get_mut(&joined)) {
            followed.is_at(event.id);
        }
        let shown = if self.wishes.event_ids { frame.clone() } else { plain };
        if request.as_new { named(&shown, session) } else { shown }
    }

    /// A request of the host.
    fn asked(&mut self, frame: &Bytes, envelope: &Envelope<'_>) {
        let Some(News { plain, shown }) = self.follow(frame, envelope) else { return };
        // Places have moved if something was taken out.
        let Ok(envelope) = frame::scan(&plain) else { return };
        let fresh = plain.len() != frame.len();
        match self.asks.ask(&plain, &envelope, fresh) {
            Asked::Show(id) => {
                if let Ok(envelope) = frame::scan(&shown) {
                    self.tell_client(frame::with_id(&shown, &envelope, &id));
                }
            }
            Asked::Waiting => {}
            Asked::Answered(answer) => self.tell_host(answer),
        }
    }

    fn notified(&mut self, frame: &Bytes, envelope: &Envelope<'_>) {
        let Some(News { plain, shown }) = self.follow(frame, envelope) else { return };
        match envelope.method.as_ref() {
            "$/cancel_request" => self.withdrawn(&shown),
            "session/update" => self.updated(&plain, shown, envelope),
            _ => self.tell_client(shown),
        }
    }

    /// Notes how far a session has been shown. Nothing if the client has this already.
    fn follow(&mut self, frame: &Bytes, envelope: &Envelope<'_>) -> Option<News> {
        let Some(event) = frame::find_event_id(frame, IdHolder::Params) else {
            return Some(News { plain: frame.clone(), shown: frame.clone() });
        };
        if let Some(session) = &envelope.session
            && !self.sessions.entry(session.value.as_ref().to_owned()).or_default().admit(event.id)
        {
            return None;
        }
        let plain = event.remove_from(frame);
        let shown = if self.wishes.event_ids { frame.clone() } else { plain.clone() };
        Some(News { plain, shown })
    }

    fn updated(&mut self, plain: &Bytes, shown: Bytes, envelope: &Envelope<'_>) {
        let session = envelope.session.as_ref().map(|session| session.value.as_ref()).unwrap_or_default();
        let Some(followed) = self.sessions.get_mut(session) else { return self.tell_client(shown) };
        let own = match envelope.update {
            Some(UpdateKind::UserMessageChunk) => {
                followed.has_old_prompts() && own::is_own_message(plain, session, followed)
            }
            Some(UpdateKind::Other) => followed.has_old_prompts() && own::is_own_prompt(plain, followed),
            _ => {
                followed.moved_on();
                false
            }
        };
        if !own {
            self.tell_client(shown);
        }
    }

    /// The host takes a request back, by its own id of it.
    fn withdrawn(&mut self, frame: &Bytes) {
        let request = Json::parse(frame).and_then(|cancel| cancel.at(&["params", "requestId"])).ok().flatten();
        let Some((request, span)) = request.and_then(|request| Some((request, request.span_in(frame)?))) else {
            return self.tell_client(frame.clone());
        };
        let Some(known) = self.asks.withdraw(request.raw().as_bytes()) else { return };
        self.tell_client(splice(frame, &mut [(span, &known)]).into());
    }
}

/// Does its answer say where the session is?
fn joins(method: &str) -> bool {
    matches!(method, "session/new" | "session/load" | "session/resume" | "session/attach")
}

/// The answer with the session's id in its result, as `session/new` has it.
fn named(frame: &Bytes, session: &str) -> Bytes {
    let result = Json::parse(frame).and_then(|answer| answer.member("result")).ok().flatten();
    let Some(result) = result.filter(|result| result.is_object()) else { return frame.clone() };
    let member = format!(r#""sessionId":{}"#, Value::from(session));
    let Some((at, member)) = first_member(frame, result, member) else { return frame.clone() };
    splice(frame, &mut [(at, member.as_bytes())]).into()
}

/// The name that the client attaches with, to be repeated when it comes back.
fn attached_as(attach: &[u8]) -> AttachedAs {
    // The host refuses frames that cannot be read.
    let params = Json::parse(attach).and_then(|attach| attach.member("params")).ok().flatten();
    params.and_then(|params| wharf_json::read(params).ok()).unwrap_or_default()
}

fn is_observer(attach: &[u8]) -> bool {
    let role = Json::parse(attach).and_then(|request| request.seek(&["params", "role"]));
    role.ok().flatten().and_then(Json::text).as_deref() == Some("observer")
}
