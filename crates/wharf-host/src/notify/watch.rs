//! The task that looks at the sessions whenever one changes, and passes notifications for a person
//! on to the surface.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::Instant;
use wharf_core::SessionId;

use super::decide::NotifyDecider;
use super::{Notification, NotifyReceiver};
use crate::host::{Host, Inner};
use crate::people::OWNER;

/// The pause before each look. Many changes then cost one look, and an ask that is answered at once
/// is not told.
const LOOK_DELAY: Duration = Duration::from_millis(250);
/// Notifications that wait to be taken by the surface: more than a person reads.
const MAX_WAITING_NOTIFICATIONS: usize = 256;

impl Host {
    /// Sets whether devices have subscribed to push messages. If they have, the host notifies even
    /// if the settings have no receiver.
    pub fn set_push_devices(&self, are_there: bool) {
        self.inner()
            .has_push_devices
            .send_if_modified(|before| std::mem::replace(before, are_there) != are_there);
    }

    /// Starts to watch the sessions. Returns the notifications; the task ends when the receiver is
    /// dropped.
    pub fn watch_attention(&self) -> Receiver<Notification> {
        let (sender, notifications) = mpsc::channel(MAX_WAITING_NOTIFICATIONS);
        let decider = NotifyDecider::new(self.inner().storage.epoch(), &self.config().notify);
        tokio::spawn(look_at_changes(Arc::downgrade(self.shared_inner()), decider, sender));
        notifications
    }
}

async fn look_at_changes(
    host: Weak<Inner>,
    mut decider: NotifyDecider,
    sender: Sender<Notification>,
) {
    let began = Instant::now();
    let watched = host.upgrade().map(|host| {
        (
            host.registry.watch_changes(),
            host.config.watch_changes(),
            host.has_push_devices.subscribe(),
        )
    });
    let Some((mut changes, mut settings, mut devices)) = watched else { return };
    loop {
        changes.borrow_and_update();
        settings.borrow_and_update();
        devices.borrow_and_update();
        let Some(inner) = host.upgrade() else { return };
        let next_at = look_at_sessions(&inner, &mut decider, &sender, began.elapsed());
        drop(inner);
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            // At once: an event before the look that first sees a receiver is not told.
            _ = settings.changed() => continue,
            changed = devices.changed() => if changed.is_ok() { continue } else { return },
            () = wait_until(next_at.map(|at| began + at)) => {}
            () = sender.closed() => return,
        }
        let _ = tokio::time::timeout(LOOK_DELAY, settings.changed()).await;
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
    let sessions = known
        .iter()
        .map(|known| (&**known, host.people.marks(OWNER, &SessionId::new(known.id.as_str()))));
    decider.has_devices = *host.has_push_devices.borrow();
    let decision = decider.decide(&host.config.notify, sessions, now);
    for notification in decision.tell {
        if sender.try_send(notification).is_err() {
            let receivers = NotifyReceiver::ALL
                .into_iter()
                .filter(|receiver| receiver.is_set(&host.config.notify));
            receivers.for_each(|receiver| host.metrics.notifications.count_dropped(receiver));
        }
    }
    decision.next_at
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wharf_config::ConfigSources;
    use wharf_store::LogId;

    use super::*;
    use crate::descriptor::Descriptor;
    use crate::registry::KnownSession;

    /// Far more than a look takes.
    const WAIT_LIMIT: Duration = Duration::from_secs(30);

    /// Makes a session known that asks something in the present run of the host.
    fn add_asking_session(host: &Host, id: &str) {
        let row = format!("{}-5", host.inner().storage.epoch().0);
        let ask = json!({ "row": row, "since": "", "kind": "permission", "text": "ls" });
        let summary = json!({
            "id": id, "adapterSlug": "claude", "workspaceSlug": "blog", "cwd": "/", "status": "running",
            "startedAt": "", "turn": "idle", "queued": 0, "clients": 1, "lastSeq": 9, "resumable": true,
            "attention": { "asks": 1, "ask": ask, "quietSince": "" },
        });
        let descriptor =
            Arc::new(Descriptor::from_summary(summary.to_string().as_bytes()).unwrap());
        let log_id = LogId::new("blog", id).unwrap();
        let known = KnownSession::Cold {
            log_id,
            descriptor,
            snapshot: None,
            bytes: 0,
            has_log_failed: false,
        };
        host.inner().registry.put(SessionId::new(id), known);
    }

    #[tokio::test]
    async fn first_ask_after_a_receiver_is_set_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.toml");
        std::fs::write(&file, "").unwrap();
        let mut config =
            ConfigSources::new(Some(file.clone()), false, &[]).unwrap().load().unwrap();
        config.state_dir = dir.path().join("state");
        let host = Host::start(config).unwrap();
        let mut notifications = host.watch_attention();
        add_asking_session(&host, "sess_before");
        tokio::task::yield_now().await;
        std::fs::write(&file, "[notify]\ncommand = [\"true\"]\n").unwrap();
        host.reload_config().unwrap();
        // The task that looks takes note of the settings.
        tokio::task::yield_now().await;
        add_asking_session(&host, "sess_after");
        let told = tokio::time::timeout(WAIT_LIMIT, notifications.recv()).await.unwrap().unwrap();
        assert_eq!(told.session_id.as_deref(), Some("sess_after"));
    }
}
