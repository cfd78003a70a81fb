//! Push messages to the devices of the owner, also while no page is open (rule 19.7). A
//! subscription belongs to a login and ends with it. Without a subscription the host makes no
//! connection.

mod encrypt;
mod vapid;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::header::{AUTHORIZATION, CONTENT_ENCODING, HOST};
use hyper::{Request, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;
use wharf_api::{PushDelivery, PushSubscriptionArgs};
use wharf_config::{Config, NotifyKind, NotifySettings, WebhookUrl, write_private};
use wharf_host::{Notification, Now, format_timestamp};

use crate::notify::{DeliveryFailure, Reach, post_request};
use encrypt::{AUTH_BYTES, POINT_BYTES, encrypt_message};
use vapid::SenderKey;

const FILE_NAME: &str = "push.json";
const FILE_VERSION: u32 = 1;
/// Devices that may subscribe; a person has few.
const MAX_SUBSCRIPTIONS: usize = 50;
const MAX_ENDPOINT_BYTES: usize = 2_000;
/// How long a service may keep a message for a device that is switched off.
const ASK_LIFETIME_SECONDS: u64 = 600;
const END_LIFETIME_SECONDS: u64 = 60;
/// The outcome of every message that was not delivered. A caller must not learn from it where the
/// host can connect to, and what answers there; the host's log says why.
pub(crate) const UNDELIVERED: &str = "undelivered";

/// One device's subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Subscription {
    endpoint: String,
    p256dh: String,
    auth: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct FileContent {
    version: u32,
    /// PKCS #8 in base64url.
    key: String,
    /// By the id of the login.
    subscriptions: BTreeMap<String, Subscription>,
}

/// The host's key and the subscriptions of devices.
#[derive(Debug)]
pub(crate) struct PushDevices {
    path: PathBuf,
    /// The addresses that endpoints may lead to.
    reach: Reach,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Created for the first device that asks for it.
    key: Option<Arc<SenderKey>>,
    subscriptions: BTreeMap<String, Subscription>,
    last_deliveries: HashMap<String, PushDelivery>,
}

/// Why a subscription is not taken.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SubscribeError {
    #[error(
        "endpoint: must be an https:// URL of at most {MAX_ENDPOINT_BYTES} bytes, at a public address"
    )]
    Endpoint,
    #[error("keys: p256dh must be a point of P-256 and auth 16 bytes, both in base64url")]
    Keys,
    #[error("{MAX_SUBSCRIPTIONS} devices have subscribed already; sign one out")]
    TooMany,
    #[error("the subscription cannot be written down; the host's log says why")]
    Unwritable,
}

impl PushDevices {
    /// Reads the file of the state directory. A file that cannot be read is set aside: devices
    /// subscribe again.
    pub(crate) fn load(state_dir: &Path, reach: Reach) -> Self {
        let path = state_dir.join(FILE_NAME);
        let state = match std::fs::read(&path) {
            Ok(bytes) => read_state(&bytes).unwrap_or_else(|| {
                tracing::warn!(path = %path.display(), "the push subscriptions cannot be read; devices have to subscribe again");
                State::default()
            }),
            Err(_) => State::default(),
        };
        Self { path, reach, state: Mutex::new(state) }
    }

    /// Returns the public key, which is created at the first call.
    pub(crate) fn public_key(&self) -> Option<String> {
        let mut state = self.lock();
        if state.key.is_none() {
            state.key = SenderKey::generate().map(Arc::new);
            self.write(&state).ok()?;
        }
        state.key.as_ref().map(|key| key.public_key())
    }

    pub(crate) fn is_subscribed(&self, login: &str) -> bool {
        self.lock().subscriptions.contains_key(login)
    }

    pub(crate) fn has_subscriptions(&self) -> bool {
        !self.lock().subscriptions.is_empty()
    }

    pub(crate) fn last_delivery(&self, login: &str) -> Option<PushDelivery> {
        self.lock().last_deliveries.get(login).cloned()
    }

    /// Keeps the subscription of a login instead of an earlier one.
    pub(crate) fn subscribe(
        &self,
        login: &str,
        args: PushSubscriptionArgs,
    ) -> Result<(), SubscribeError> {
        let url = args.endpoint.parse::<WebhookUrl>().map_err(|_| SubscribeError::Endpoint)?;
        if args.endpoint.len() > MAX_ENDPOINT_BYTES || !(url.is_https || url.names_this_machine()) {
            return Err(SubscribeError::Endpoint);
        }
        if self.reach.refuses_literal(&url) {
            return Err(SubscribeError::Endpoint);
        }
        let has_length = |text: &str, length| {
            URL_SAFE_NO_PAD.decode(text).is_ok_and(|bytes| bytes.len() == length)
        };
        if !has_length(&args.keys.p256dh, POINT_BYTES) || !has_length(&args.keys.auth, AUTH_BYTES) {
            return Err(SubscribeError::Keys);
        }
        let subscription = Subscription {
            endpoint: args.endpoint,
            p256dh: args.keys.p256dh,
            auth: args.keys.auth,
        };
        let mut state = self.lock();
        if !state.subscriptions.contains_key(login)
            && state.subscriptions.len() >= MAX_SUBSCRIPTIONS
        {
            return Err(SubscribeError::TooMany);
        }
        state.subscriptions.insert(login.to_owned(), subscription);
        self.write(&state).map_err(|()| SubscribeError::Unwritable)
    }

    /// Forgets the subscription of a login.
    pub(crate) fn unsubscribe(&self, login: &str) -> bool {
        let mut state = self.lock();
        let was_there = state.subscriptions.remove(login).is_some();
        state.last_deliveries.remove(login);
        was_there && self.write(&state).is_ok()
    }

    /// Forgets the subscriptions of logins that have ended.
    pub(crate) fn keep_logins(&self, is_live: impl Fn(&str) -> bool) {
        let mut state = self.lock();
        let before = state.subscriptions.len();
        state.subscriptions.retain(|login, _| is_live(login));
        if state.subscriptions.len() != before {
            let _ = self.write(&state);
        }
    }

    /// Sends a message to every device whose login may know of it. Fails if it could be delivered
    /// to none of them, and may be tried again if that may help.
    pub(crate) async fn send_to_all(
        &self,
        config: &Config,
        notification: &Notification,
        may_know: impl Fn(&str) -> bool,
    ) -> Result<(), DeliveryFailure> {
        let logins: Vec<String> = self
            .lock()
            .subscriptions
            .keys()
            .filter(|login| may_know(login))
            .cloned()
            .collect();
        let mut failures = Vec::new();
        for login in &logins {
            if let Err(failure) = self.send_to(config, login, notification).await {
                failures.push(failure);
            }
        }
        match failures.pop() {
            Some(failure) if failures.len() + 1 == logins.len() => Err(failure),
            Some(_) | None => Ok(()),
        }
    }

    /// Sends a message to one device. A device that its service no longer knows is forgotten.
    pub(crate) async fn send_to(
        &self,
        config: &Config,
        login: &str,
        notification: &Notification,
    ) -> Result<(), DeliveryFailure> {
        let (key, subscription) = {
            let state = self.lock();
            (state.key.clone(), state.subscriptions.get(login).cloned())
        };
        let (Some(key), Some(subscription)) = (key, subscription) else {
            return Err(DeliveryFailure::permanent(
                "this device has not subscribed to push messages",
            ));
        };
        let sent = self.deliver(config, &key, &subscription, notification).await;
        if let Err((_, Some(StatusCode::NOT_FOUND | StatusCode::GONE))) = &sent {
            self.unsubscribe(login);
        }
        let sent = sent.map_err(|(failure, _)| failure);
        if let Err(failure) = &sent {
            tracing::warn!(why = failure.why, "a push message was not delivered");
        }
        let delivery = PushDelivery {
            ok: sent.is_ok(),
            at: format_timestamp(Now::millis()),
            detail: sent.is_err().then(|| UNDELIVERED.to_owned()),
        };
        let mut state = self.lock();
        if state.subscriptions.contains_key(login) {
            state.last_deliveries.insert(login.to_owned(), delivery);
        }
        drop(state);
        sent
    }

    async fn deliver(
        &self,
        config: &Config,
        key: &SenderKey,
        subscription: &Subscription,
        notification: &Notification,
    ) -> Result<(), DeliveryError> {
        let permanent = |why: &str| (DeliveryFailure::permanent(why), None);
        let url: WebhookUrl = subscription
            .endpoint
            .parse()
            .map_err(|_| permanent("the endpoint cannot be read"))?;
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap_or_default();
        let message = build_message(notification);
        let body = encrypt_message(
            message.as_bytes(),
            &decode(&subscription.p256dh),
            &decode(&subscription.auth),
        )
        .map_err(|error| permanent(&error.to_string()))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let authorization = key
            .authorization(&url.origin(), &contact(config), now)
            .ok_or_else(|| permanent("the message cannot be signed"))?;
        let is_ask = notification.kind == Some(NotifyKind::NeedsAnswer);
        let lifetime = if is_ask { ASK_LIFETIME_SECONDS } else { END_LIFETIME_SECONDS };
        let request = Request::post(&url.path)
            .header(HOST, url.authority())
            .header(AUTHORIZATION, authorization)
            .header(CONTENT_ENCODING, "aes128gcm")
            .header("ttl", lifetime)
            .header("urgency", if is_ask { "high" } else { "normal" })
            .body(Body::from(body))
            .map_err(|_| permanent("the request cannot be made of the endpoint"))?;
        let settings =
            NotifySettings { timeout: config.notify.timeout, ..NotifySettings::default() };
        let status = post_request(&settings, &url, self.reach, request)
            .await
            .map_err(|failure| (failure, None))?;
        if status.is_success() {
            return Ok(());
        }
        let why = format!("{} answered {status}", url.origin());
        let is_temporary = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
        let failure = if is_temporary {
            DeliveryFailure::temporary(why)
        } else {
            DeliveryFailure::permanent(why)
        };
        Err((failure, Some(status)))
    }

    fn write(&self, state: &State) -> Result<(), ()> {
        let Some(key) = &state.key else { return Ok(()) };
        let content = FileContent {
            version: FILE_VERSION,
            key: URL_SAFE_NO_PAD.encode(key.document()),
            subscriptions: state.subscriptions.clone(),
        };
        let text = serde_json::to_vec_pretty(&content).map_err(|_| ())?;
        write_private(&self.path, &text).map_err(|error| {
            tracing::error!(%error, path = %self.path.display(), "the push subscriptions cannot be written down");
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_state(bytes: &[u8]) -> Option<State> {
    let content: FileContent = wharf_json::read_own(bytes).ok()?;
    let document = URL_SAFE_NO_PAD.decode(&content.key).ok()?;
    let key = SenderKey::from_document(&document).map(Arc::new)?;
    (content.version == FILE_VERSION).then(|| State {
        key: Some(key),
        subscriptions: content.subscriptions,
        last_deliveries: HashMap::new(),
    })
}

type DeliveryError = (DeliveryFailure, Option<StatusCode>);

/// Returns whom a push service may write to about these messages. It must look like an address.
fn contact(config: &Config) -> String {
    match &config.public_url {
        Some(url) if url.is_https => url.page_address(),
        Some(_) | None => "mailto:wharf@localhost.localdomain".to_owned(),
    }
}

/// Returns the JSON that the page's service worker shows.
fn build_message(notification: &Notification) -> String {
    let place = notification.workspace.as_deref().filter(|place| *place != "default");
    let title = match (place, notification.title.as_deref()) {
        (Some(place), Some(title)) => format!("{place} · {title}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => "Wharf".to_owned(),
    };
    let state = match notification.kind {
        Some(NotifyKind::NeedsAnswer) => "asks",
        Some(NotifyKind::Failed) => "failed",
        Some(NotifyKind::Finished) => "finished",
        None => "this is a test: notifications arrive here",
    };
    let body = notification
        .text
        .as_deref()
        .map_or_else(|| state.to_owned(), |text| format!("{state}: {text}"));
    let target = match (&notification.session_id, &notification.row) {
        (Some(session), Some(row)) => format!("#/s/{session}/r/{row}"),
        (Some(session), None) => format!("#/s/{session}"),
        (None, _) => "#/devices".to_owned(),
    };
    let tag = notification.session_id.as_deref().unwrap_or("test");
    json!({ "title": title, "body": body, "tag": tag, "target": target }).to_string()
}

#[cfg(test)]
mod tests {
    use wharf_api::PushKeys;

    use super::*;

    const NEAR: Reach = Reach::Public { with_loopback: true };

    fn args(endpoint: &str) -> PushSubscriptionArgs {
        let keys = PushKeys {
            p256dh: URL_SAFE_NO_PAD.encode([4; POINT_BYTES]),
            auth: URL_SAFE_NO_PAD.encode([1; AUTH_BYTES]),
        };
        PushSubscriptionArgs { endpoint: endpoint.to_owned(), keys }
    }

    #[test]
    fn subscriptions_and_the_key_survive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let devices = PushDevices::load(folder.path(), NEAR);
        let key = devices.public_key().unwrap();
        devices.subscribe("tok_a", args("https://push.example/1")).unwrap();
        devices.subscribe("tok_b", args("https://push.example/2")).unwrap();
        let again = PushDevices::load(folder.path(), NEAR);
        assert_eq!(again.public_key().unwrap(), key);
        assert!(again.is_subscribed("tok_a") && again.is_subscribed("tok_b"));
        again.keep_logins(|login| login == "tok_b");
        assert!(!PushDevices::load(folder.path(), NEAR).is_subscribed("tok_a"));
        assert!(again.unsubscribe("tok_b") && !again.has_subscriptions());
    }

    #[test]
    fn subscription_that_cannot_be_used_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let devices = PushDevices::load(folder.path(), NEAR);
        for endpoint in [
            "http://push.example/1",
            "ftp://push.example",
            "",
            &format!("https://x.example/{}", "y".repeat(2_000)),
        ] {
            assert_eq!(
                devices.subscribe("tok_a", args(endpoint)),
                Err(SubscribeError::Endpoint),
                "{endpoint}"
            );
        }
        let mut wrong = args("https://push.example/1");
        wrong.keys.auth = "short".to_owned();
        assert_eq!(devices.subscribe("tok_a", wrong), Err(SubscribeError::Keys));
    }

    #[test]
    fn endpoint_in_a_private_network_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let far = PushDevices::load(folder.path(), Reach::Public { with_loopback: false });
        let near = PushDevices::load(folder.path(), NEAR);
        for endpoint in [
            "https://10.0.0.1/x",
            "https://[fe80::1]/x",
            "https://169.254.169.254/",
            "https://[::ffff:192.168.0.1]/",
        ] {
            for devices in [&far, &near] {
                assert_eq!(
                    devices.subscribe("tok_a", args(endpoint)),
                    Err(SubscribeError::Endpoint),
                    "{endpoint}"
                );
            }
        }
        for endpoint in ["http://127.0.0.1:9/x", "https://[::1]/x"] {
            assert_eq!(
                far.subscribe("tok_a", args(endpoint)),
                Err(SubscribeError::Endpoint),
                "{endpoint}"
            );
            near.subscribe("tok_a", args(endpoint)).unwrap();
        }
    }

    #[test]
    fn message_says_which_session_and_where_to_look() {
        let test: serde_json::Value =
            serde_json::from_str(&build_message(&Notification::new_test())).unwrap();
        assert_eq!((&test["title"], &test["target"]), (&json!("Wharf"), &json!("#/devices")));
    }
}
