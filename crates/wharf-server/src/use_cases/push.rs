//! Push messages to the device that calls (rule 19.7).

use wharf_api::{ErrorCode, PushDelivery, PushState, PushSubscriptionArgs};
use wharf_host::{Notification, Now, OWNER, format_timestamp};

use super::Caller;
use crate::App;
use crate::fault::Fault;
use crate::push::{SubscribeError, UNDELIVERED};

/// Tells the host's key and whether this device has subscribed.
pub(crate) async fn describe_push(app: &App, caller: &Caller) -> Result<PushState, Fault> {
    let login = find_own_login(app, caller)?;
    let state = describe_device(app, &login);
    tokio::task::spawn_blocking(state).await.ok().flatten().ok_or_else(|| {
        Fault::new(
            ErrorCode::UNAVAILABLE,
            "the host cannot create its key for push messages; its log says why",
        )
    })
}

fn describe_device(
    app: &App,
    login: &str,
) -> impl FnOnce() -> Option<PushState> + Send + 'static + use<> {
    let app = app.clone();
    let login = login.to_owned();
    move || {
        let public_key = app.push.public_key()?;
        let subscribed = app.push.is_subscribed(&login);
        let last_delivery = app.push.last_delivery(&login);
        Some(PushState { public_key, subscribed, last_delivery })
    }
}

/// Subscribes this device.
pub(crate) async fn subscribe_push(
    app: &App,
    caller: &Caller,
    args: PushSubscriptionArgs,
) -> Result<PushState, Fault> {
    let login = find_own_login(app, caller)?;
    let push = app.clone();
    let done = tokio::task::spawn_blocking(move || push.push.subscribe(&login, args)).await;
    match done {
        Ok(Ok(())) => {}
        Ok(Err(
            error @ (SubscribeError::Endpoint | SubscribeError::Keys | SubscribeError::TooMany),
        )) => {
            return Err(Fault::new(ErrorCode::INVALID_PARAMS, error.to_string()));
        }
        Ok(Err(SubscribeError::Unwritable)) | Err(_) => {
            return Err(Fault::new(ErrorCode::UNAVAILABLE, SubscribeError::Unwritable.to_string()));
        }
    }
    app.host.set_push_devices(app.push.has_subscriptions());
    describe_push(app, caller).await
}

/// Ends the subscription of this device.
pub(crate) async fn unsubscribe_push(app: &App, caller: &Caller) -> Result<PushState, Fault> {
    let login = find_own_login(app, caller)?;
    let push = app.clone();
    let _ = tokio::task::spawn_blocking(move || push.push.unsubscribe(&login)).await;
    app.host.set_push_devices(app.push.has_subscriptions());
    describe_push(app, caller).await
}

/// Sends a test to this device.
pub(crate) async fn test_push(app: &App, caller: &Caller) -> Result<PushDelivery, Fault> {
    let login = find_own_login(app, caller)?;
    let sent = app.push.send_to(app.host.config(), &login, &Notification::new_test()).await;
    let detail = sent.is_err().then(|| UNDELIVERED.to_owned());
    Ok(PushDelivery {
        ok: sent.is_ok(),
        at: format_timestamp(Now::millis()),
        detail,
    })
}

/// Returns the id of the caller's login. Only the owner is notified, so that only the owner's
/// devices can subscribe.
fn find_own_login(app: &App, caller: &Caller) -> Result<String, Fault> {
    let login = caller.identity.token.as_deref().filter(|id| app.tokens.is_login(id));
    let is_owner = app.tokens.person_of(&caller.identity).as_deref() == Some(OWNER);
    match login {
        Some(login) if is_owner => Ok(login.to_owned()),
        Some(_) | None => {
            let detail =
                "push messages are for web pages that the owner of this host has signed in";
            Err(Fault::new(ErrorCode::HOST_ONLY, detail))
        }
    }
}
