//! Delivers notifications to the command and to the webhook (rule 18.4). The host decides which
//! notifications a person gets.

mod reach;
mod webhook;

use std::time::Duration;

use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinSet;
use tokio::time::Instant;
use wharf_config::NotifyKind;
use wharf_host::core::SessionId;
use wharf_host::{CommandFailure, Host, Notification, NotifyReceiver};

use crate::App;
use crate::auth::TokenEntry;

pub(crate) use reach::Reach;
pub(crate) use webhook::post_request;
use webhook::send_webhook;

/// Notifications that wait for one receiver, with those that are tried again.
const MAX_WAITING_NOTIFICATIONS: usize = 256;
/// Notifications that are on their way to one receiver at the same time. A receiver that hangs
/// delays no more than these.
const MAX_DELIVERIES: usize = 4;
/// The pauses before further tries: about ten minutes in all. An ask that waits so long is worth
/// it.
const RETRY_DELAYS_SECONDS: [u64; 7] = [2, 5, 15, 45, 120, 180, 240];

/// Why a notification was not delivered.
#[derive(Debug)]
pub(crate) struct DeliveryFailure {
    /// For the host's log: without texts of sessions.
    pub(crate) why: String,
    /// The output of the command, for a person who tries it.
    pub(crate) output: Option<String>,
    /// A further try may succeed.
    pub(crate) can_retry: bool,
}

impl DeliveryFailure {
    pub(crate) fn permanent(why: impl Into<String>) -> Self {
        Self { why: why.into(), output: None, can_retry: false }
    }

    pub(crate) fn temporary(why: impl Into<String>) -> Self {
        Self { can_retry: true, ..Self::permanent(why) }
    }
}

impl From<CommandFailure> for DeliveryFailure {
    fn from(failure: CommandFailure) -> Self {
        let can_retry = !matches!(failure, CommandFailure::NotSet);
        let why = failure.to_string();
        let output =
            if let CommandFailure::Failed { output, .. } = failure { Some(output) } else { None };
        Self { why, output, can_retry }
    }
}

/// A notification on its way to one receiver.
#[derive(Debug)]
struct Delivery {
    notification: Notification,
    due_at: Instant,
    /// The number of tries that have failed.
    failures: usize,
}

/// Delivers notifications for as long as the host lives.
pub(crate) async fn deliver_notifications(app: App) {
    app.host.set_push_devices(app.push.has_subscriptions());
    let mut notifications = app.host.watch_attention();
    let queues =
        NotifyReceiver::ALL.map(|receiver| (receiver, start_receiver(app.clone(), receiver)));
    while let Some(notification) = notifications.recv().await {
        for (receiver, queue) in queues.iter().filter(|(receiver, _)| is_set(&app, *receiver)) {
            if queue.try_send(notification.clone()).is_err() {
                app.host.metrics().notifications.count_dropped(*receiver);
                tracing::warn!(
                    receiver = receiver.as_str(),
                    "a notification is dropped: too many wait for this receiver"
                );
            }
        }
    }
}

/// Returns true if this receiver gets notifications: by the settings, or because a device has
/// subscribed.
pub(crate) fn is_set(app: &App, receiver: NotifyReceiver) -> bool {
    receiver.is_set(&app.host.config().notify)
        || (receiver == NotifyReceiver::Push && app.push.has_subscriptions())
}

fn start_receiver(app: App, receiver: NotifyReceiver) -> Sender<Notification> {
    let (sender, incoming) = mpsc::channel(MAX_WAITING_NOTIFICATIONS);
    tokio::spawn(serve_receiver(app, receiver, incoming));
    sender
}

async fn serve_receiver(app: App, receiver: NotifyReceiver, mut incoming: Receiver<Notification>) {
    let mut waiting: Vec<Delivery> = Vec::new();
    let mut under_way: JoinSet<Option<Delivery>> = JoinSet::new();
    loop {
        while under_way.len() < MAX_DELIVERIES
            && let Some(due) = waiting.iter().position(|delivery| delivery.due_at <= Instant::now())
        {
            under_way.spawn(try_delivery(app.clone(), receiver, waiting.remove(due)));
        }
        let next_at = waiting
            .iter()
            .map(|delivery| delivery.due_at)
            .min()
            .filter(|_| under_way.len() < MAX_DELIVERIES);
        tokio::select! {
            arrived = incoming.recv(), if waiting.len() < MAX_WAITING_NOTIFICATIONS => match arrived {
                Some(notification) => waiting.push(Delivery { notification, due_at: Instant::now(), failures: 0 }),
                None => return report_undelivered(&app.host, receiver, waiting.len() + under_way.len()),
            },
            Some(done) = under_way.join_next() => waiting.extend(done.ok().flatten()),
            () = wait_until(next_at) => {}
        }
    }
}

/// The host ends: tries that were to come are not made.
fn report_undelivered(host: &Host, receiver: NotifyReceiver, count: usize) {
    (0..count).for_each(|_| host.metrics().notifications.count_dropped(receiver));
    if count > 0 {
        tracing::warn!(
            receiver = receiver.as_str(),
            count,
            "notifications were not delivered before the end of the host"
        );
    }
}

async fn wait_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Tries once, unless the reason has gone. Returns the delivery if it is to be tried again.
async fn try_delivery(
    app: App,
    receiver: NotifyReceiver,
    mut delivery: Delivery,
) -> Option<Delivery> {
    let host = &app.host;
    delivery.notification = host.refresh_notification(delivery.notification)?;
    let Err(failure) = deliver_once(&app, receiver, &delivery.notification).await else {
        host.metrics().notifications.count_sent(receiver);
        return None;
    };
    // A notification about the end of a turn is delivered at once or not at all.
    let may_retry = failure.can_retry && delivery.notification.kind != Some(NotifyKind::Finished);
    match RETRY_DELAYS_SECONDS.get(delivery.failures).filter(|_| may_retry) {
        Some(delay) => {
            delivery.failures += 1;
            delivery.due_at = Instant::now() + Duration::from_secs(*delay);
            tracing::debug!(
                receiver = receiver.as_str(),
                why = failure.why,
                "a notification is tried again later"
            );
            Some(delivery)
        }
        None => {
            host.metrics().notifications.count_failed(receiver);
            let kind = delivery.notification.kind_word();
            let tries = delivery.failures + 1;
            tracing::warn!(
                receiver = receiver.as_str(),
                kind,
                tries,
                why = failure.why,
                "a notification could not be delivered; try it with: wharf notify test"
            );
            None
        }
    }
}

/// Returns true if a login may learn of the notification: if it sees the session. A test is not
/// about a session, so every login may.
fn may_know(app: &App, login: &TokenEntry, notification: &Notification) -> bool {
    let Some(session) = notification.session_id.as_deref() else { return true };
    app.visible_to(&login.identity()).descriptor(&SessionId::new(session)).is_some()
}

/// Tries to deliver a notification to one receiver.
pub(crate) async fn deliver_once(
    app: &App,
    receiver: NotifyReceiver,
    notification: &Notification,
) -> Result<(), DeliveryFailure> {
    let host = &app.host;
    match receiver {
        NotifyReceiver::Command => {
            host.run_notify_command(notification).await.map_err(DeliveryFailure::from)
        }
        NotifyReceiver::Webhook => send_webhook(&host.config().notify, notification).await,
        NotifyReceiver::Push => {
            let logins = app.tokens.logins();
            if app.tokens.are_all_known() {
                app.push.keep_logins(|id| logins.iter().any(|login| &*login.id == id));
            }
            let covers = |id: &str| {
                let login = logins.iter().find(|login| &*login.id == id);
                login.is_some_and(|login| may_know(app, login, notification))
            };
            app.push.send_to_all(host.config(), notification, covers).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_of_a_command_that_is_set_is_tried_again() {
        let limit = Duration::from_secs(1);
        let not_started = CommandFailure::NotStarted("too many open files".to_owned());
        let failed = CommandFailure::Failed { how: String::new(), output: String::new() };
        for failure in [not_started, CommandFailure::TimedOut { limit }, failed] {
            let failure = DeliveryFailure::from(failure);
            assert!(failure.can_retry, "{}", failure.why);
        }
        assert!(!DeliveryFailure::from(CommandFailure::NotSet).can_retry);
    }
}
