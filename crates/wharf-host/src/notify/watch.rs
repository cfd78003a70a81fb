//! The task that looks at the sessions whenever one changes, and passes on what a person is to be told.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::Instant;
use wharf_core::SessionId;

use super::decide::NotifyDecider;
use super::{Notification, NotifyReceiver};
use crate::host::{Host, Inner};
use crate::people::OWNER;

/// The pause before each look. Many changes then cost one look, and an ask that is answered at once is not told.
const LOOK_DELAY: Duration = Duration::from_millis(250);
/// Notifications that wait to be taken by the surface: more than a person reads.
const MAX_WAITING_NOTIFICATIONS: usize = 256;

impl Host {
    /// Starts to watch the sessions. Returns the notifications; the task ends when the receiver is dropped.
    pub fn watch_attention(&self) -> Receiver<Notification> {
        let (sender, notifications) = mpsc::channel(MAX_WAITING_NOTIFICATIONS);
        let decider = NotifyDecider::new(self.inner().storage.epoch(), &self.config().notify);
        tokio::spawn(look_at_changes(Arc::downgrade(self.shared_inner()), decider, sender));
        notifications
    }
}

async fn look_at_changes(host: Weak<Inner>, mut decider: NotifyDecider, sender: Sender<Notification>) {
    let began = Instant::now();
    let Some(mut changes) = host.upgrade().map(|host| host.registry.watch_changes()) else { return };
    loop {
        changes.borrow_and_update();
        let Some(inner) = host.upgrade() else { return };
        let next_at = look_at_sessions(&inner, &mut decider, &sender, began.elapsed());
        drop(inner);
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = wait_until(next_at.map(|at| began + at)) => {}
            () = sender.closed() => return,
        }
        tokio::time::sleep(LOOK_DELAY).await;
    }
}

async fn wait_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Returns when to look again, if something waits for the time.
fn look_at_sessions(
    host: &Inner,
    decider: &mut NotifyDecider,
    sender: &Sender<Notification>,
    now: Duration,
) -> Option<Duration> {
    let known = host.registry.list_descriptors();
    let sessions = known.iter().map(|known| (&**known, host.people.marks(OWNER, &SessionId::new(known.id.as_str()))));
    let decision = decider.decide(&host.config.notify, sessions, now);
    for notification in decision.tell {
        if sender.try_send(notification).is_err() {
            let receivers = NotifyReceiver::ALL.into_iter().filter(|receiver| receiver.is_set(&host.config.notify));
            receivers.for_each(|receiver| host.metrics.notifications.count_dropped(receiver));
        }
    }
    decision.next_at
}
