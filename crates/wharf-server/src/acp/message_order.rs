//! The order in which messages of one connection about one session are accepted: the order in which
//! they came.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;
use wharf_host::core::SessionId;

use super::errors::RpcError;

/// Messages of one connection about one session that may wait to be accepted.
const MAX_WAITING: usize = 256;

/// One line of messages for each session.
#[derive(Debug, Default)]
pub(super) struct MessageOrder {
    lines: Mutex<HashMap<SessionId, Line>>,
}

#[derive(Debug, Default)]
struct Line {
    /// Resolves when the last message in the line has been accepted.
    last: Option<oneshot::Receiver<()>>,
    /// The ids of the requests in the line; `None` for a notification.
    requests: Vec<Option<Bytes>>,
}

/// A message's turn to be accepted. It is over when this is dropped.
#[derive(Debug)]
pub(super) struct MessageTurn {
    order: Arc<MessageOrder>,
    session: SessionId,
    request: Option<Bytes>,
    before: Option<oneshot::Receiver<()>>,
    /// True if the message is handled beside those that follow it, which need not wait for its
    /// answer.
    pub(super) is_beside: bool,
    _accepted: oneshot::Sender<()>,
}

impl MessageOrder {
    /// Takes the next place in the session's line, for the request of this id or for a
    /// notification.
    pub(super) fn enter(
        self: &Arc<Self>,
        session: &SessionId,
        request: Option<Bytes>,
    ) -> MessageTurn {
        let (accepted, told) = oneshot::channel();
        let mut lines = self.lock();
        let line = lines.entry(session.clone()).or_default();
        line.requests.push(request.clone());
        let before = line.last.replace(told);
        MessageTurn {
            order: Arc::clone(self),
            session: session.clone(),
            request,
            before,
            is_beside: false,
            _accepted: accepted,
        }
    }

    /// Returns the session in whose line the request waits.
    pub(super) fn find(&self, request: &[u8]) -> Option<SessionId> {
        let lines = self.lock();
        let waits = |line: &Line| line.requests.iter().flatten().any(|id| id == request);
        lines.iter().find(|(_, line)| waits(line)).map(|(session, _)| session.clone())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MessageTurn {
    /// Refuses the message if too many are in the line.
    pub(super) fn check_room(&self) -> Result<(), RpcError> {
        let waiting = self.order.lock().get(&self.session).map_or(0, |line| line.requests.len());
        if waiting > MAX_WAITING { Err(RpcError::too_many_requests()) } else { Ok(()) }
    }

    /// Returns true if everything before it has been accepted.
    pub(super) fn has_come(&mut self) -> bool {
        let waits = self
            .before
            .as_mut()
            .is_some_and(|before| before.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        if !waits {
            self.before = None;
        }
        !waits
    }

    /// Waits until everything before it has been accepted.
    pub(super) async fn come(&mut self) {
        if let Some(before) = self.before.take() {
            // The sender is dropped when the turn is over.
            let _ = before.await;
        }
    }
}

impl Drop for MessageTurn {
    fn drop(&mut self) {
        let mut lines = self.order.lock();
        if let Some(line) = lines.get_mut(&self.session) {
            if let Some(at) = line.requests.iter().position(|request| *request == self.request) {
                line.requests.swap_remove(at);
            }
            if line.requests.is_empty() {
                lines.remove(&self.session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn turns_come_in_the_order_in_which_they_were_taken() {
        let order = Arc::<MessageOrder>::default();
        let session = SessionId::new("s");
        let mut first = order.enter(&session, None);
        let mut second = order.enter(&session, Some(Bytes::from_static(b"2")));
        let mut third = order.enter(&session, None);
        let mut other = order.enter(&SessionId::new("t"), None);
        assert!(first.has_come() && other.has_come(), "there is nothing before them");
        assert!(!second.has_come() && !third.has_come());
        assert_eq!(order.find(b"2"), Some(session.clone()));
        drop(first);
        second.come().await;
        assert!(!third.has_come());
        drop(second);
        third.come().await;
        assert_eq!(order.find(b"2"), None);
        drop((third, other));
        assert!(order.lock().is_empty(), "nothing is kept of a session when its line is empty");
    }

    #[test]
    fn lines_are_bounded() {
        let order = Arc::<MessageOrder>::default();
        let session = SessionId::new("s");
        let mut turns: Vec<MessageTurn> =
            (0..MAX_WAITING).map(|_| order.enter(&session, None)).collect();
        let next = order.enter(&session, None);
        assert!(next.check_room().is_err());
        turns.pop();
        assert!(next.check_room().is_ok());
    }
}
