//! The past of a session, as a client gets it that attaches: which part of it (`policy`), in the
//! answer or as a stream of frames (`delivery`), as typed entries (`typed`), a few at once
//! (`limit`).

mod delivery;
mod limit;
mod policy;
mod typed;

pub(super) use delivery::put_history;
pub(crate) use limit::HistoryLimit;
pub(super) use limit::{HistoryTurn, HistoryTurns};
pub(super) use policy::{PastPolicy, PastWish};
pub(super) use typed::{NotInline, entry_at};
