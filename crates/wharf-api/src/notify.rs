//! Trying the receivers of notifications.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The outcome for each receiver that is set; empty if none is.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NotifyTest {
    pub receivers: Vec<NotifyTestResult>,
}

/// The outcome for one receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotifyTestResult {
    /// `command` or `webhook`.
    pub receiver: String,
    pub ok: bool,
    /// Why it was not delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub detail: Option<String>,
    /// The beginning of what the command wrote, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub output: Option<String>,
}
