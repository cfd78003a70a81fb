//! The part of the past that a client wants, and the part that it gets (rule 4.3).

use wharf_host::SessionHandle;
use wharf_host::core::{EventId, Seq};

use super::typed::History;

const PENDING_ONLY: &str = "pending_only";
const NOTHING: &str = "none";
const AFTER_MESSAGE: &str = "after_message";
/// The policy of an exact reconnect.
const AFTER_EVENT: &str = "after_event";

/// The members of `session/attach` about the past.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::acp) struct PastWish<'a> {
    pub(in crate::acp) policy: Option<&'a str>,
    pub(in crate::acp) after_message: Option<&'a str>,
    pub(in crate::acp) after_event: Option<&'a str>,
    pub(in crate::acp) delivery: Option<&'a str>,
}

/// The part of the past that a newcomer gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::acp) enum PastPolicy {
    Full,
    PendingOnly,
    Nothing,
    /// The events after a message.
    AfterMessage(Seq),
    /// The very frames after an event: an exact reconnect.
    AfterEvent(Seq),
}

impl PastPolicy {
    pub(in crate::acp) const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::PendingOnly => PENDING_ONLY,
            Self::Nothing => NOTHING,
            Self::AfterMessage(_) => AFTER_MESSAGE,
            Self::AfterEvent(_) => AFTER_EVENT,
        }
    }
}

impl PastWish<'_> {
    /// Returns true if the log has to be looked through for the answer.
    pub(in crate::acp) fn needs_log(&self) -> bool {
        match self.policy {
            Some(PENDING_ONLY | NOTHING | AFTER_EVENT) => false,
            Some(AFTER_MESSAGE) => true,
            Some(_) | None => !self.is_streamed(),
        }
    }

    /// Returns true if the client wants no entries in the answer.
    pub(super) fn is_streamed(&self) -> bool {
        self.delivery == Some("stream")
    }

    /// Returns true if the client wants the entries in the answer, however many they are.
    pub(super) fn is_all_inline(&self) -> bool {
        self.delivery == Some("response")
    }

    /// Returns the policy as it can be followed: an unknown word, message or event means
    /// everything, and the answer says so.
    pub(in crate::acp) async fn choose_policy(
        &self,
        handle: &SessionHandle,
        head: Seq,
    ) -> PastPolicy {
        match self.policy {
            Some(PENDING_ONLY) => PastPolicy::PendingOnly,
            Some(NOTHING) => PastPolicy::Nothing,
            Some(AFTER_MESSAGE) => {
                let wanted = self.after_message.unwrap_or_default();
                let found = History::after_message(handle.cursor(Seq::ZERO), head, wanted).await;
                found.map_or(PastPolicy::Full, PastPolicy::AfterMessage)
            }
            Some(AFTER_EVENT) => {
                let wanted: Option<EventId> = self.after_event.and_then(|id| id.parse().ok());
                match wanted.filter(|id| id.seq <= head) {
                    Some(id) if handle.holds_event(id).await.unwrap_or(false) => {
                        PastPolicy::AfterEvent(id.seq)
                    }
                    Some(_) | None => PastPolicy::Full,
                }
            }
            Some(_) | None => PastPolicy::Full,
        }
    }
}
