//! The session in listings: its descriptor, and its row in the index.

use std::sync::Arc;

use wharf_core::{PauseReason, Seq, Session};

use crate::descriptor::Descriptor;
use crate::ids::Now;
use crate::index::SessionRow;
use crate::session::context::TaskContext;

#[derive(Debug)]
pub(super) struct Listing {
    context: Arc<TaskContext>,
    last_snapshot: Option<Seq>,
}

impl Listing {
    pub(super) fn new(context: Arc<TaskContext>, session: &Session) -> Self {
        Self { context, last_snapshot: session.state().snapshot }
    }

    pub(super) fn note_snapshot(&mut self, seq: Seq) {
        self.last_snapshot = Some(seq);
    }

    /// Shows the session as it is now.
    pub(super) fn show(&self, session: &Session) {
        let descriptor = Arc::new(self.describe_session(session));
        self.context.shared.note_rest(session, Now::millis());
        self.context.shared.set_descriptor(Arc::clone(&descriptor));
        self.context.shared.note_presence();
        self.put_row(descriptor);
    }

    /// Describes the session as it is now.
    pub(super) fn describe_session(&self, session: &Session) -> Descriptor {
        let shared = &self.context.shared;
        let mut descriptor = Descriptor::of_session(session, &shared.attention);
        descriptor.message = descriptor.message.or_else(|| shared.describe_silence());
        descriptor
    }

    /// Writes the session's row of the index.
    pub(super) fn put_row(&self, descriptor: Arc<Descriptor>) {
        let TaskContext { host, shared, .. } = &*self.context;
        host.registry.note_change();
        let head = shared.log.head();
        host.index.put(SessionRow {
            id: shared.log_id.clone(),
            seq: head.seq,
            bytes: head.bytes,
            snapshot: self.last_snapshot.map(|seq| seq.0),
            descriptor,
        });
    }

    /// Shows a pause that could not even be written.
    pub(super) fn show_pause(&self, why: PauseReason) {
        let mut descriptor = Descriptor::clone(&self.context.shared.descriptor());
        descriptor.paused = Some(why);
        // An archived session is out of everybody's way (rule 14.4).
        if !descriptor.archived {
            descriptor.attention.raise_pause(why, Now::millis());
        }
        self.context.shared.set_descriptor(Arc::new(descriptor));
        self.context.host.registry.note_change();
    }

    /// Shows that the log is lost and releases the session's task, so that the session can be
    /// opened again.
    pub(super) fn show_failure(&self, why: &str, session: &Session) {
        let TaskContext { host, shared, .. } = &*self.context;
        let mut descriptor = Descriptor::clone(&shared.descriptor());
        descriptor.mark_failed(
            &format!("the log could not be written: {why}"),
            session.state().way_back().is_some(),
        );
        shared.set_descriptor(Arc::new(descriptor));
        host.registry.release_failed_task(shared);
    }
}
