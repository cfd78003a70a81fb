//! Requests of the client that the host has yet to answer, and what becomes of them when the connection is lost.

use bytes::Bytes;

/// A request as it was sent to the host.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// JSON text.
    pub(super) id: Bytes,
    pub(super) method: Box<str>,
    pub(super) session: Option<Box<str>>,
    pub(super) frame: Bytes,
    /// It was the client's `session/new`: the answer must name the session.
    pub(super) as_new: bool,
}

impl Request {
    /// May it be sent a second time? Prompts carry a key by which the host knows them again; most of the rest only
    /// asks, or says how things shall be. Whether anything else has happened, nobody can tell.
    pub(super) fn can_repeat(&self) -> bool {
        matches!(
            &*self.method,
            "initialize"
                | "authenticate"
                | "logout"
                | "session/prompt"
                | "session/load"
                | "session/resume"
                | "session/list"
                | "session/status"
                | "session/close"
                | "session/delete"
                | "session/attach"
                | "session/detach"
                | "session/set_mode"
                | "session/set_model"
                | "session/set_config_option"
                | "_wharf/queue/list"
        )
    }

    /// Does it join the session or leave it by itself, so that joining it beforehand would be wrong?
    pub(super) fn moves(&self) -> bool {
        moves(&self.method)
    }
}

pub(super) fn moves(method: &str) -> bool {
    matches!(
        method,
        "session/load" | "session/resume" | "session/attach" | "session/detach" | "session/close" | "session/delete"
    )
}

/// In the order in which they were sent.
#[derive(Debug, Default)]
pub(super) struct Unanswered(Vec<Request>);

impl Unanswered {
    pub(super) fn add(&mut self, request: Request) {
        self.0.push(request);
    }

    /// The request that this id was waiting for, once.
    pub(super) fn settle(&mut self, id: &[u8]) -> Option<Request> {
        let at = self.0.iter().position(|request| request.id == id)?;
        Some(self.0.remove(at))
    }

    pub(super) fn take(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.0)
    }

    /// The largest: the one that was over the limit, if one was.
    pub(super) fn take_largest(&mut self) -> Option<Request> {
        let largest = self.0.iter().enumerate().max_by_key(|(_, request)| request.frame.len())?.0;
        Some(self.0.remove(largest))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Request> {
        self.0.iter()
    }
}
