//! Push messages to browsers (rule 19.7).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The state of push messages for the device that asks.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PushState {
    /// The key that a browser needs to subscribe: an uncompressed point of P-256 in base64url.
    pub public_key: String,
    /// This device has subscribed.
    pub subscribed: bool,
    /// The last message to it, since the host was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_delivery: Option<PushDelivery>,
}

/// The outcome of one message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PushDelivery {
    /// The push service of the browser has taken it.
    pub ok: bool,
    /// ISO 8601.
    pub at: String,
    /// `undelivered` for every failure; the host's log says why.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub detail: Option<String>,
}

/// A subscription as the browser gives it (`PushSubscription.toJSON`).
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PushSubscriptionArgs {
    /// The address at the browser's push service.
    #[schema(max_length = 2000)]
    pub endpoint: String,
    pub keys: PushKeys,
}

/// The keys of a subscription, in base64url.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PushKeys {
    /// The browser's public key.
    pub p256dh: String,
    /// The browser's secret for this subscription.
    pub auth: String,
}
