//! Requests of the host that the client has yet to answer. The client knows each by one id for as long as it is open,
//! whatever the host calls it after a reconnect.

use std::collections::VecDeque;

use bytes::Bytes;
use wharf_api::ErrorCode;
use wharf_host::frame::{Envelope, with_id};
use wharf_json::rpc::{Salvaged, is_same_id};

use super::{meta, refusal};

#[derive(Debug)]
struct Ask {
    /// The id that the client knows, as JSON text.
    shown: Bytes,
    /// The id on the connection that there is; `None` until the host has asked again.
    host: Option<Bytes>,
    session: Option<Box<str>>,
    method: Box<str>,
    /// As they came, without an event id: the same ask has the same.
    params: Bytes,
    /// What the client said. The host may not have heard it.
    answer: Option<Bytes>,
}

/// What a request of the host comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The client is asked, under this id.
    Show(Bytes),
    /// The client was asked already.
    Waiting,
    /// The client has answered already: this goes to the host.
    Answered(Bytes),
}

/// Answers that are remembered: those that were on their way when a connection ends.
const RECENT: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Asks {
    open: Vec<Ask>,
    /// Answered on this connection.
    recent: VecDeque<Ask>,
    /// The host counts from 1 on each connection; this is added, so that no id comes back.
    base: u64,
    /// The largest id that the client has been shown.
    highest: u64,
}

impl Asks {
    /// A request of the host; `frame` is without an event id. One that had none is not `fresh`: it may have been asked
    /// before.
    pub(super) fn ask(&mut self, frame: &Bytes, envelope: &Envelope<'_>, fresh: bool) -> Asked {
        let host = envelope.id_bytes(frame);
        let params = meta::params(frame).map_or_else(Bytes::new, |params| frame.slice_ref(params.as_bytes()));
        let again = |ask: &Ask| !fresh && ask.host.is_none() && *ask.method == *envelope.method && ask.params == params;
        if let Some(at) = self.open.iter().position(again) {
            return match self.open[at].answer.take() {
                Some(answer) => {
                    let mut ask = self.open.remove(at);
                    let answered = Asked::Answered(renamed(&answer, &host));
                    ask.answer = Some(answer);
                    self.remember(ask);
                    answered
                }
                None => {
                    self.open[at].host = Some(host);
                    Asked::Waiting
                }
            };
        }
        let shown = self.name(&host);
        let session = envelope.session.as_ref().map(|session| session.value.as_ref().into());
        let method = envelope.method.as_ref().into();
        self.open.push(Ask { shown: shown.clone(), host: Some(host), session, method, params, answer: None });
        Asked::Show(shown)
    }

    /// The client's answer as the host is to see it; `None` if it waits for the host to ask again, or is for nothing.
    pub(super) fn answer(&mut self, line: &Bytes, envelope: &Envelope<'_>) -> Option<Bytes> {
        let id = envelope.id_bytes(line);
        let at = self.open.iter().position(|ask| is_same_id(&ask.shown, &id))?;
        let Some(host) = self.open[at].host.clone() else {
            self.open[at].answer.get_or_insert_with(|| line.clone());
            return None;
        };
        let mut ask = self.open.remove(at);
        ask.answer = Some(line.clone());
        self.remember(ask);
        Some(if host == id { line.clone() } else { with_id(line, envelope, &host) })
    }

    /// An answer that cannot be read fails the requests that it names. Returns what the host is told.
    pub(super) fn fail_named(&mut self, found: &Salvaged, why: &str) -> Vec<Bytes> {
        if found.has_method {
            return Vec::new();
        }
        let mut failed = Vec::new();
        for id in &found.ids {
            let message = format!("the client's answer could not be read: {why}");
            let answer = refusal(id.as_bytes(), ErrorCode::INTERNAL, &message);
            if let Ok(envelope) = wharf_host::frame::scan(&answer) {
                failed.extend(self.answer(&answer, &envelope));
            }
        }
        failed
    }

    /// The host takes a request back: the id by which the client knows it.
    pub(super) fn withdraw(&mut self, host: &[u8]) -> Option<Bytes> {
        let at = self.open.iter().position(|ask| ask.host.as_deref() == Some(host))?;
        Some(self.open.remove(at).shown)
    }

    /// The connection is gone. Returns the requests that went with it: those that were put to this client alone.
    pub(super) fn part(&mut self) -> Vec<Bytes> {
        self.base = self.highest;
        self.open.extend(self.recent.drain(..));
        for ask in &mut self.open {
            ask.host = None;
        }
        self.drop_if(|ask| !is_repeated(&ask.method))
    }

    /// Another host has come up: nobody waits for these answers any more (rule 2.7).
    pub(super) fn forget_lost(&mut self) -> Vec<Bytes> {
        self.drop_if(|ask| ask.host.is_none())
    }

    /// A turn of the session is over: what the host has not asked again by now is settled.
    pub(super) fn forget_lost_of(&mut self, session: &str) -> Vec<Bytes> {
        self.drop_if(|ask| ask.host.is_none() && ask.session.as_deref() == Some(session))
    }

    fn remember(&mut self, ask: Ask) {
        if self.recent.len() >= RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(ask);
    }

    /// Returns the ids that the client is still to be told of.
    fn drop_if(&mut self, gone: impl Fn(&Ask) -> bool) -> Vec<Bytes> {
        let dropped = self.open.extract_if(.., |ask| gone(ask));
        dropped.filter(|ask| ask.answer.is_none()).map(|ask| ask.shown).collect()
    }

    fn name(&mut self, host: &Bytes) -> Bytes {
        let Some(number) = std::str::from_utf8(host).ok().and_then(|id| id.parse::<u64>().ok()) else {
            return host.clone();
        };
        let number = number.saturating_add(self.base);
        self.highest = self.highest.max(number);
        if self.base == 0 { host.clone() } else { number.to_string().into() }
    }
}

/// Which the host puts again to a client that comes back (rule 3.7); the rest it serves or refuses itself.
fn is_repeated(method: &str) -> bool {
    matches!(method, "session/request_permission" | "elicitation/create")
}

fn renamed(answer: &Bytes, id: &[u8]) -> Bytes {
    match wharf_host::frame::scan(answer) {
        Ok(envelope) => with_id(answer, &envelope, id),
        Err(_) => answer.clone(),
    }
}
