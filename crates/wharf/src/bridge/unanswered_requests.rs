//! Requests of the client that the host has yet to answer, and whether they can be sent again after
//! a reconnect.

use bytes::Bytes;
use wharf_host::is_setting_method;
use wharf_server::{AcpMethod, MethodTrait};

/// A request as it was sent to the host.
#[derive(Clone, Debug)]
pub(super) struct UnansweredRequest {
    /// JSON text.
    pub(super) id: Bytes,
    pub(super) method: Box<str>,
    pub(super) session: Option<Box<str>>,
    pub(super) frame: Bytes,
    /// The client sent `session/new`, so the answer must hold the session's id.
    pub(super) as_new: bool,
}

impl UnansweredRequest {
    /// Returns true if the request can be sent a second time. Prompts carry a key by which the host
    /// recognises them; the other methods here read or set a state. For any other method it is
    /// unknown whether the host has carried it out.
    pub(super) fn can_repeat(&self) -> bool {
        match AcpMethod::find(&self.method) {
            Some(method) => method.has(MethodTrait::Repeatable),
            None => is_setting_method(&self.method) || &*self.method == "_wharf/queue/list",
        }
    }

    /// Returns true if the request itself joins or leaves its session, so that the bridge must not
    /// attach beforehand.
    pub(super) fn changes_membership(&self) -> bool {
        changes_membership(&self.method)
    }
}

pub(super) fn changes_membership(method: &str) -> bool {
    AcpMethod::find(method).is_some_and(|method| method.has(MethodTrait::ChangesMembership))
}

/// Unanswered requests in the order in which they were sent.
#[derive(Debug, Default)]
pub(super) struct UnansweredRequests(Vec<UnansweredRequest>);

impl UnansweredRequests {
    pub(super) fn add(&mut self, request: UnansweredRequest) {
        self.0.push(request);
    }

    /// Removes and returns the request with this id.
    pub(super) fn take_by_id(&mut self, id: &[u8]) -> Option<UnansweredRequest> {
        let at = self.0.iter().position(|request| request.id == id)?;
        Some(self.0.remove(at))
    }

    pub(super) fn take_all(&mut self) -> Vec<UnansweredRequest> {
        std::mem::take(&mut self.0)
    }

    /// Removes and returns the largest request. If any request was over the limit, the largest was.
    pub(super) fn take_largest(&mut self) -> Option<UnansweredRequest> {
        let largest = self.0.iter().enumerate().max_by_key(|(_, request)| request.frame.len())?.0;
        Some(self.0.remove(largest))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &UnansweredRequest> {
        self.0.iter()
    }
}
