//! Frames of the host on their way to the client.

use bytes::Bytes;
use serde_json::Value;
use wharf_acp::{Envelope, FrameKind, IdHolder, first_member, splice};
use wharf_host::core::UpdateKind;
use wharf_json::Json;

use super::asks::AskHandling;
use super::followed_session::{AttachedAs, FollowedSession};
use super::unanswered_requests::UnansweredRequest;
use super::{Bridge, own_prompts};

/// A frame that is new to the client.
struct NewFrame {
    /// The frame without an event id.
    plain: Bytes,
    /// The frame for the client: with the event id if the client asked for event ids.
    shown: Bytes,
}

impl Bridge {
    pub(super) fn take_host_frame(&mut self, frame: Bytes) {
        match wharf_acp::scan(&frame) {
            Ok(envelope) => match envelope.kind {
                FrameKind::Result | FrameKind::Error => self.take_response(&frame, &envelope),
                FrameKind::Request => self.take_request(&frame, &envelope),
                FrameKind::Notification => self.take_notification(&frame, &envelope),
            },
            Err(_) => self.send_to_client(frame),
        }
    }

    fn take_response(&mut self, frame: &Bytes, envelope: &Envelope<'_>) {
        let id = envelope.id_bytes(frame);
        if self.take_ask_marker(&id) {
            return;
        }
        let request = self.unanswered.take_by_id(&id);
        let is_ours = request.is_none() && self.is_own_request(&id);
        if let Some(request) = &request {
            let answer = self.apply_response(request, frame, envelope.kind == FrameKind::Result);
            self.send_to_client(answer);
        } else if !is_ours {
            // For example an error without an id.
            self.send_to_client(frame.clone());
        }
        self.continue_reconnect(&id, frame);
    }

    /// Updates the client's sessions from an answer. Returns the answer for the client.
    fn apply_response(
        &mut self,
        request: &UnansweredRequest,
        frame: &Bytes,
        granted: bool,
    ) -> Bytes {
        let session = request.session.as_deref().unwrap_or_default();
        if &*request.method == "session/prompt" {
            if let Some(followed) = self.sessions.get_mut(session) {
                followed.mark_answered(&request.id);
            }
            self.withdraw_unrepeated_asks(session);
        }
        if !granted {
            return frame.clone();
        }
        let event = is_join(&request.method)
            .then(|| wharf_acp::find_event_id(frame, IdHolder::Result))
            .flatten();
        let plain = event.as_ref().map_or_else(|| frame.clone(), |event| event.remove_from(frame));
        let mut joined = session.to_owned();
        match &*request.method {
            "session/new" | "session/fork" => {
                let told =
                    Json::parse(frame).and_then(|answer| answer.text_at(&["result", "sessionId"]));
                if let Ok(Some(session)) = told {
                    let session = session.into_owned();
                    self.sessions
                        .entry(session.clone())
                        .or_insert_with(FollowedSession::new_session);
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
                followed.attached_as = read_attached_as(&request.frame);
            }
            "session/close" | "session/delete" | "session/detach" => {
                self.sessions.remove(session);
            }
            _ => {}
        }
        if let (Some(event), Some(followed)) = (event, self.sessions.get_mut(&joined)) {
            followed.advance_to(event.id);
        }
        if is_join(&request.method) {
            // A request that was sent again after a reconnect is all that joins its session.
            self.mark_end_of_asks(&joined);
        }
        let shown = if self.client_options.event_ids { frame.clone() } else { plain };
        if request.as_new { with_session_id(&shown, session) } else { shown }
    }

    /// Takes a request of the host.
    fn take_request(&mut self, frame: &Bytes, envelope: &Envelope<'_>) {
        let Some(NewFrame { plain, shown }) = self.accept_event(frame, envelope) else { return };
        // Positions have changed if an event id was removed.
        let Ok(envelope) = wharf_acp::scan(&plain) else { return };
        let fresh = plain.len() != frame.len();
        match self.asks.take_ask(&plain, &envelope, fresh) {
            AskHandling::Show(id) => {
                if let Ok(envelope) = wharf_acp::scan(&shown) {
                    self.send_to_client(wharf_acp::with_id(&shown, &envelope, &id));
                }
            }
            AskHandling::Waiting => {}
            AskHandling::Answered(answer) => self.send_to_host(answer),
        }
    }

    fn take_notification(&mut self, frame: &Bytes, envelope: &Envelope<'_>) {
        let Some(NewFrame { plain, shown }) = self.accept_event(frame, envelope) else { return };
        match envelope.method.as_ref() {
            "$/cancel_request" => self.take_cancellation(&shown),
            "session/update" => self.take_update(&plain, shown, envelope),
            _ => self.send_to_client(shown),
        }
    }

    /// Notes how far the client has seen a session. Returns `None` if it has seen this frame
    /// already.
    fn accept_event(&mut self, frame: &Bytes, envelope: &Envelope<'_>) -> Option<NewFrame> {
        let Some(event) = wharf_acp::find_event_id(frame, IdHolder::Params) else {
            return Some(NewFrame { plain: frame.clone(), shown: frame.clone() });
        };
        if let Some(session) = &envelope.session
            && !self
                .sessions
                .entry(session.value.as_ref().to_owned())
                .or_default()
                .admit_event(event.id)
        {
            return None;
        }
        let plain = event.remove_from(frame);
        let shown = if self.client_options.event_ids { frame.clone() } else { plain.clone() };
        Some(NewFrame { plain, shown })
    }

    fn take_update(&mut self, plain: &Bytes, shown: Bytes, envelope: &Envelope<'_>) {
        let session = envelope
            .session
            .as_ref()
            .map(|session| session.value.as_ref())
            .unwrap_or_default();
        let Some(followed) = self.sessions.get_mut(session) else {
            return self.send_to_client(shown);
        };
        let own = match envelope.update {
            Some(UpdateKind::UserMessageChunk) => {
                followed.has_old_prompts() && own_prompts::is_own_message(plain, session, followed)
            }
            Some(UpdateKind::Other) => {
                followed.has_old_prompts() && own_prompts::is_own_prompt(plain, followed)
            }
            _ => {
                followed.forget_answered_prompts();
                false
            }
        };
        if !own {
            self.send_to_client(shown);
        }
    }

    /// Takes the host's `$/cancel_request`, which names the host's id, and passes it on with the
    /// client's id.
    fn take_cancellation(&mut self, frame: &Bytes) {
        let request = Json::parse(frame)
            .and_then(|cancel| cancel.at(&["params", "requestId"]))
            .ok()
            .flatten();
        let Some((request, span)) =
            request.and_then(|request| Some((request, request.span_in(frame)?)))
        else {
            return self.send_to_client(frame.clone());
        };
        let Some(known) = self.asks.withdraw(request.raw().as_bytes()) else { return };
        self.send_to_client(splice(frame, &mut [(span, &known)]).into());
    }
}

/// Returns true if the answer to this method holds the event up to which it tells.
fn is_join(method: &str) -> bool {
    matches!(
        method,
        "session/new" | "session/fork" | "session/load" | "session/resume" | "session/attach"
    )
}

/// Returns the answer with the session's id in its result, as `session/new` has it.
fn with_session_id(frame: &Bytes, session: &str) -> Bytes {
    let result = Json::parse(frame).and_then(|answer| answer.member("result")).ok().flatten();
    let Some(result) = result.filter(|result| result.is_object()) else { return frame.clone() };
    let member = format!(r#""sessionId":{}"#, Value::from(session));
    let Some((at, member)) = first_member(frame, result, member) else { return frame.clone() };
    splice(frame, &mut [(at, member.as_bytes())]).into()
}

/// Reads the name with which the client attaches. The bridge repeats it after a reconnect.
fn read_attached_as(attach: &[u8]) -> AttachedAs {
    // The host refuses unreadable frames.
    let params = Json::parse(attach).and_then(|attach| attach.member("params")).ok().flatten();
    params.and_then(|params| wharf_json::read(params).ok()).unwrap_or_default()
}

fn is_observer(attach: &[u8]) -> bool {
    let role = Json::parse(attach).and_then(|request| request.seek(&["params", "role"]));
    role.ok().flatten().and_then(Json::text).as_deref() == Some("observer")
}
