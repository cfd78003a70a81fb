//! Requests of the host that the client has yet to answer. The client knows each by one id as long
//! as it is open, even if the host asks again under another id after a reconnect.

use std::collections::VecDeque;

use bytes::Bytes;
use wharf_acp::{Envelope, with_id};
use wharf_api::ErrorCode;
use wharf_json::rpc::{Salvaged, is_same_id};

use super::meta_options;
use crate::stdio_pump::refusal;

#[derive(Debug)]
struct Ask {
    /// The id that the client knows, as JSON text.
    shown: Bytes,
    /// The id on the present connection; `None` until the host has asked again.
    host: Option<Bytes>,
    session: Option<Box<str>>,
    method: Box<str>,
    /// The params as they came, without an event id. The host repeats an ask with the same params.
    params: Bytes,
    /// The client's answer, which the host may not have received.
    answer: Option<Bytes>,
}

/// How a request of the host is handled.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AskHandling {
    /// The client is asked under this id.
    Show(Bytes),
    /// The client was asked already.
    Waiting,
    /// The client has answered already; this answer goes to the host.
    Answered(Bytes),
}

/// The most answers that are kept in case the connection ends before the host has received them.
const MAX_RECENT_ANSWERS: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Asks {
    open: Vec<Ask>,
    /// Asks that were answered on this connection.
    recent: VecDeque<Ask>,
    /// Added to the host's ids, which begin at 1 on each connection, so that the client sees no id
    /// twice.
    base: u64,
    /// The largest id that the client has seen.
    highest: u64,
}

impl Asks {
    /// Takes a request of the host. `frame` has no event id any more. A request is `fresh` if it
    /// had one; others may repeat an earlier request.
    pub(super) fn take_ask(
        &mut self,
        frame: &Bytes,
        envelope: &Envelope<'_>,
        fresh: bool,
    ) -> AskHandling {
        let host = envelope.id_bytes(frame);
        let params = meta_options::params_text(frame)
            .map_or_else(Bytes::new, |params| frame.slice_ref(params.as_bytes()));
        let again = |ask: &Ask| {
            !fresh && ask.host.is_none() && *ask.method == *envelope.method && ask.params == params
        };
        if let Some(at) = self.open.iter().position(again) {
            return match self.open[at].answer.take() {
                Some(answer) => {
                    let mut ask = self.open.remove(at);
                    let answered = AskHandling::Answered(with_answer_id(&answer, &host));
                    ask.answer = Some(answer);
                    self.remember_answered(ask);
                    answered
                }
                None => {
                    self.open[at].host = Some(host);
                    AskHandling::Waiting
                }
            };
        }
        let shown = self.assign_shown_id(&host);
        let session = envelope.session.as_ref().map(|session| session.value.as_ref().into());
        let method = envelope.method.as_ref().into();
        self.open.push(Ask {
            shown: shown.clone(),
            host: Some(host),
            session,
            method,
            params,
            answer: None,
        });
        AskHandling::Show(shown)
    }

    /// Takes the client's answer and returns it under the host's id. Returns `None` if no such
    /// request is open, or if the answer waits for the host to ask again.
    pub(super) fn take_answer(&mut self, line: &Bytes, envelope: &Envelope<'_>) -> Option<Bytes> {
        let id = envelope.id_bytes(line);
        let at = self.open.iter().position(|ask| is_same_id(&ask.shown, &id))?;
        let Some(host) = self.open[at].host.clone() else {
            self.open[at].answer.get_or_insert_with(|| line.clone());
            return None;
        };
        let mut ask = self.open.remove(at);
        ask.answer = Some(line.clone());
        self.remember_answered(ask);
        Some(if host == id { line.clone() } else { with_id(line, envelope, &host) })
    }

    /// Fails the requests that an unreadable answer names. Returns the error responses for the
    /// host.
    pub(super) fn fail_named(&mut self, found: &[Salvaged], why: &str) -> Vec<Bytes> {
        let mut failed = Vec::new();
        for id in found
            .iter()
            .filter(|message| message.may_be_answer())
            .flat_map(|message| &message.ids)
        {
            let message = format!("the client's answer could not be read: {why}");
            let answer = refusal(id.as_bytes(), ErrorCode::INTERNAL, &message);
            if let Ok(envelope) = wharf_acp::scan(&answer) {
                failed.extend(self.take_answer(&answer, &envelope));
            }
        }
        failed
    }

    /// Removes a request that the host takes back. Returns the client's id of it.
    pub(super) fn withdraw(&mut self, host: &[u8]) -> Option<Bytes> {
        let at = self.open.iter().position(|ask| ask.host.as_deref() == Some(host))?;
        Some(self.open.remove(at).shown)
    }

    /// Notes that the connection is gone. Returns the requests that ended with it: those for this
    /// client alone.
    pub(super) fn disconnect(&mut self) -> Vec<Bytes> {
        self.base = self.highest;
        self.open.extend(self.recent.drain(..));
        for ask in &mut self.open {
            ask.host = None;
        }
        self.remove_where(|ask| !is_repeated(&ask.method))
    }

    /// Removes the requests of no session of a host that was replaced by another: their answers are
    /// not awaited any more. Those of sessions outlive the host (rule 2.7). Returns the ids.
    pub(super) fn remove_unrepeated_of_no_session(&mut self) -> Vec<Bytes> {
        self.remove_where(|ask| ask.host.is_none() && ask.session.is_none())
    }

    /// Returns true if the host has not repeated all of the session's requests.
    pub(super) fn has_unrepeated_of(&self, session: &str) -> bool {
        self.open
            .iter()
            .any(|ask| ask.host.is_none() && ask.session.as_deref() == Some(session))
    }

    /// Removes the session's requests that the host has not repeated, although it has had the time:
    /// they are settled. Returns their ids.
    pub(super) fn remove_unrepeated_of(&mut self, session: &str) -> Vec<Bytes> {
        self.remove_where(|ask| ask.host.is_none() && ask.session.as_deref() == Some(session))
    }

    fn remember_answered(&mut self, ask: Ask) {
        if self.recent.len() >= MAX_RECENT_ANSWERS {
            self.recent.pop_front();
        }
        self.recent.push_back(ask);
    }

    /// Removes requests and returns the ids of those that the client has not answered.
    fn remove_where(&mut self, gone: impl Fn(&Ask) -> bool) -> Vec<Bytes> {
        let dropped = self.open.extract_if(.., |ask| gone(ask));
        dropped.filter(|ask| ask.answer.is_none()).map(|ask| ask.shown).collect()
    }

    fn assign_shown_id(&mut self, host: &Bytes) -> Bytes {
        let Some(number) = std::str::from_utf8(host).ok().and_then(|id| id.parse::<u64>().ok())
        else {
            return host.clone();
        };
        let number = number.saturating_add(self.base);
        self.highest = self.highest.max(number);
        if self.base == 0 { host.clone() } else { number.to_string().into() }
    }
}

/// Returns true if the host repeats such a request to a client that reconnects (rule 3.7). It
/// serves or refuses the others itself.
fn is_repeated(method: &str) -> bool {
    matches!(method, "session/request_permission" | "elicitation/create")
}

fn with_answer_id(answer: &Bytes, id: &[u8]) -> Bytes {
    match wharf_acp::scan(answer) {
        Ok(envelope) => with_id(answer, &envelope, id),
        Err(_) => answer.clone(),
    }
}
