//! The past goes into the answer to an attach, or is streamed as frames (rule 4.3).

use std::sync::Arc;

use serde_json::Value;
use wharf_host::SessionHandle;
use wharf_host::core::{Joined, Role, Seq};

use super::policy::{PastPolicy, PastWish};
use super::typed::History;
use crate::acp::connection::Connection;
use crate::acp::view::{TurnSeen, View, Wishes};

/// A history over this is streamed instead of put into the answer.
const MAX_INLINE_BYTES: usize = 4 << 20;

/// Puts the history into the answer, or returns from where it is streamed.
pub(in crate::acp) async fn put_history(
    connection: &Connection,
    handle: &SessionHandle,
    joined: &Joined,
    policy: PastPolicy,
    wish: PastWish<'_>,
    answer: &mut Value,
) -> Option<Seq> {
    let extension = connection.extension_of(handle.id());
    let from = match policy {
        PastPolicy::Nothing => return None,
        PastPolicy::Full => Seq::ZERO,
        PastPolicy::PendingOnly => {
            answer["history"] = match extension {
                Some(extension) => extension.list_pending(&joined.open_asks).into(),
                None => {
                    History::pending_only(handle.cursor(Seq::ZERO), &joined.open_asks).await.into()
                }
            };
            return None;
        }
        // The exact reconnect: the very frames that were missed.
        PastPolicy::AfterEvent(seq) => {
            answer["historyDelivery"] = "stream".into();
            return Some(seq);
        }
        PastPolicy::AfterMessage(seq) => seq,
    };
    let most = connection.app.host.config().limits.history.0;
    let limit = if wish.is_all_inline() { most } else { MAX_INLINE_BYTES.min(most) };
    if !wish.is_streamed() {
        let cursor = handle.cursor(from);
        let history = match extension {
            Some(extension) => {
                let wishes = connection.client.wishes();
                let looks_on = Wishes {
                    role: Role::Observer,
                    multi: true,
                    event_ids: false,
                    ..wishes
                };
                let view = View::new(
                    handle.id().clone(),
                    looks_on,
                    Arc::default(),
                    joined.head,
                    TurnSeen::None,
                );
                extension.read_history(cursor, joined.head, limit, view).await
            }
            None => History::read(cursor, joined.head, limit).await,
        };
        if let Ok(history) = history {
            answer["history"] = history.into();
            return None;
        }
    }
    answer["historyDelivery"] = "stream".into();
    Some(from)
}
