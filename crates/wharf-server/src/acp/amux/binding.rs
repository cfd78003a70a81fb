//! A connection's tie to the session of a name.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;
use wharf_acp::Envelope;
use wharf_host::core::{Ask, Seq, SessionId};
use wharf_host::{Cursor, Descriptor, SessionHandle};

use super::frames::{Frames, session_context};
use super::history;
use super::rooms::{Room, Sitter};
use crate::acp::connection::{ExtendedView, SessionExtension};
use crate::acp::past::NotInline;
use crate::acp::view::View;
use crate::visible_sessions::VisibleSessions;

/// The session that a connection means when it names none.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) room: Arc<Room>,
    /// The client's seat in the room.
    pub(super) sitter: Sitter,
    /// Is the past wanted when the client joins?
    pub(super) replay: bool,
    pub(super) sight: VisibleSessions,
}

impl Binding {
    pub(super) fn name(&self) -> &Arc<str> {
        &self.room.name
    }

    /// Returns the session that has the name now.
    pub(super) fn find_session(&self) -> Option<Arc<Descriptor>> {
        self.sight.find_by_name(self.name())
    }

    /// Returns true if a message that need not name its session means the bound one.
    pub(super) fn is_meant(&self, envelope: &Envelope<'_>) -> bool {
        let Some(named) = &envelope.session else { return true };
        *named.value == **self.name() || self.extends(&SessionId::new(named.value.as_ref()))
    }

    /// Returns true if the message names no session, or names the bound one as amux does.
    pub(super) fn is_meant_by_name(&self, envelope: &Envelope<'_>) -> bool {
        envelope.session.as_ref().is_none_or(|named| *named.value == **self.name())
    }

    /// Tells the other peers of the room something about its session.
    pub(super) fn tell_others(&self, session: &SessionId, frame: &Bytes) {
        self.room.tell_others(&self.sitter, session, frame);
    }
}

impl SessionExtension for Binding {
    fn extends(&self, session: &SessionId) -> bool {
        let known = self.sight.descriptor(session);
        known.is_some_and(|known| known.name.as_deref() == Some(&**self.name()))
    }

    fn extend_view<'a>(&'a self, handle: &'a SessionHandle) -> BoxFuture<'a, ExtendedView> {
        async {
            let turns = handle.turns().await.unwrap_or_default();
            let extension = Box::new(Frames::new(Arc::clone(self.name()), &turns));
            ExtendedView {
                extension,
                first_frame: session_context(self.name(), &handle.descriptor().cwd),
            }
        }
        .boxed()
    }

    fn read_history(
        &self,
        cursor: Cursor,
        head: Seq,
        limit: usize,
        view: View,
    ) -> BoxFuture<'_, Result<Vec<Value>, NotInline>> {
        history::read_frames(cursor, head, limit, view, self.name()).boxed()
    }

    fn list_pending(&self, asks: &[Ask]) -> Vec<Value> {
        history::list_pending(asks)
    }
}
