//! The sessions that a connection is attached to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::watch;
use wharf_host::core::{Attachment, CancelScope, Joined, Role, Sender, SessionId};
use wharf_host::{Attendance, CallError, SessionHandle};

use super::errors::RpcError;
use super::message_order::{MessageOrder, MessageTurn};
use super::outbound::Out;
use super::outbox::ClientOutbox;
use super::shown::ShownUpTo;

/// A session that the connection is attached to.
#[derive(Clone, Debug)]
pub(super) struct AttachedSession {
    pub(super) handle: SessionHandle,
    pub(super) role: Role,
    /// The client as it attached: `session/attach` may say more about it than `initialize` did.
    pub(super) sender: Sender,
}

/// All of them, and how far each has been shown.
#[derive(Debug)]
pub(super) struct Attachments {
    attached: Mutex<HashMap<SessionId, AttachedSession>>,
    /// Held while the client comes to a session or leaves one, so that the list and the session
    /// agree.
    moving: tokio::sync::Mutex<()>,
    /// True once the client is gone: a session that is attached late is detached again.
    ended: watch::Sender<bool>,
    shown: Arc<ShownUpTo>,
    /// The sessions that are about to be shown, in the order in which the client came to them.
    showing: Arc<MessageOrder>,
}

impl Default for Attachments {
    fn default() -> Self {
        Self {
            attached: Mutex::default(),
            moving: tokio::sync::Mutex::default(),
            ended: watch::Sender::new(false),
            shown: Arc::default(),
            showing: Arc::default(),
        }
    }
}

impl Attachments {
    pub(super) fn get(&self, session: &SessionId) -> Option<AttachedSession> {
        self.lock().get(session).cloned()
    }

    pub(super) fn all(&self) -> Vec<AttachedSession> {
        self.lock().values().cloned().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Returns how far each session has been shown, which the writer notes.
    pub(super) fn shown(&self) -> Arc<ShownUpTo> {
        Arc::clone(&self.shown)
    }

    /// Returns which turns a cancel of this client means now (see [`ShownUpTo`]).
    pub(super) fn cancel_scope(&self, handle: &SessionHandle, clear_queue: bool) -> CancelScope {
        let head = handle.head();
        let seen = self.shown.seen(handle.id()).unwrap_or(head);
        let settled = self.shown.settled(handle.id(), Instant::now()).unwrap_or(head);
        CancelScope { seen, settled, clear_queue }
    }

    /// Attaches to a session. Attaching again replaces the attachment.
    pub(super) async fn attach(
        &self,
        handle: &SessionHandle,
        attachment: Attachment,
        attendance: Attendance,
    ) -> Result<Joined, CallError> {
        let _moving = self.moving.lock().await;
        let role = attachment.role;
        let sender = attachment.sender.clone();
        let joined = handle.attach(attachment, attendance).await?;
        self.shown.arrive(handle.id(), joined.head, Instant::now());
        self.insert(AttachedSession { handle: handle.clone(), role, sender });
        Ok(joined)
    }

    /// Takes the next place among the sessions that are about to be shown.
    pub(super) fn enter_showing(&self, session: &SessionId) -> MessageTurn {
        self.showing.enter(session, None)
    }

    fn insert(&self, attached: AttachedSession) {
        let AttachedSession { handle, sender, .. } = attached.clone();
        self.lock().insert(handle.id().clone(), attached);
        // `ended` is set before the list is emptied, so that a late session is found here or there.
        if *self.ended.borrow() && self.remove(handle.id()).is_some() {
            tokio::spawn(async move {
                let _ = handle.detach(sender).await;
            });
        }
    }

    /// Takes a session off the list; `None` if it was not on it.
    pub(super) fn remove(&self, session: &SessionId) -> Option<SessionHandle> {
        self.lock().remove(session).map(|attached| attached.handle)
    }

    /// Detaches from a session and shows it no longer.
    pub(super) async fn detach(
        &self,
        handle: &SessionHandle,
        sender: Sender,
        outbox: &ClientOutbox,
    ) {
        let _moving = self.moving.lock().await;
        self.remove(handle.id());
        let _ = handle.detach(sender).await;
        outbox.send(Out::Leave(handle.id().clone())).await;
    }

    /// Detaches from all sessions, now and later: the client is gone.
    pub(super) async fn detach_all(&self, sender: &Sender) {
        self.ended.send_replace(true);
        let handles: Vec<SessionHandle> =
            self.lock().drain().map(|(_, attached)| attached.handle).collect();
        for handle in handles {
            let _ = handle.detach(sender.clone()).await;
        }
    }

    /// Does something for as long as the client is there.
    pub(super) async fn while_connected<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, RpcError> {
        let mut ended = self.ended.subscribe();
        tokio::select! {
            biased;
            _ = ended.wait_for(|ended| *ended) => Err(RpcError::client_gone()),
            done = work => Ok(done),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, AttachedSession>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
