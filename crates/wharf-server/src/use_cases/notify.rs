//! Trying the receivers of notifications (rule 18.6).

use wharf_api::{NotifyTest, NotifyTestResult};
use wharf_host::{Notification, NotifyReceiver};

use super::Caller;
use crate::App;
use crate::fault::Fault;
use crate::notify::{DeliveryFailure, deliver_once, is_set};

/// Sends a test to each receiver that is set, once, and waits for the outcome.
pub(crate) async fn test_notifications(app: &App, caller: &Caller) -> Result<NotifyTest, Fault> {
    caller.may_administrate()?;
    let test = Notification::new_test();
    let set = NotifyReceiver::ALL.into_iter().filter(|receiver| is_set(app, *receiver));
    let mut receivers = Vec::new();
    for receiver in set {
        receivers.push(to_result(receiver, deliver_once(app, receiver, &test).await));
    }
    Ok(NotifyTest { receivers })
}

fn to_result(receiver: NotifyReceiver, outcome: Result<(), DeliveryFailure>) -> NotifyTestResult {
    let receiver = receiver.as_str().to_owned();
    match outcome {
        Ok(()) => NotifyTestResult { receiver, ok: true, detail: None, output: None },
        Err(DeliveryFailure { why, output, .. }) => NotifyTestResult {
            receiver,
            ok: false,
            detail: Some(why),
            output: output.filter(|text| !text.is_empty()),
        },
    }
}
