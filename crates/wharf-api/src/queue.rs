//! The prompts that wait.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Content;

/// The prompts that wait, the next one first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Queue)]
pub struct QueueList {
    pub queue: Vec<QueueEntry>,
}

/// A prompt that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Waiting)]
pub struct QueueEntry {
    pub prompt_id: String,
    /// 0 is next.
    pub position: usize,
    /// Its text, shortened if need be.
    pub text: String,
    /// Its content that is no text, each by its name or type. Left out if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<String>,
    /// The text is shortened: `GET /sessions/{id}/queue/{promptId}` has it whole. Left out if
    /// false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shortened: bool,
    /// The name of its sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub sender: Option<String>,
    /// ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub accepted_at: Option<String>,
}

impl QueueEntry {
    /// Returns the text with the names of the attachments, as a listing shows it.
    pub fn shown_text(&self) -> String {
        let names = self.attachments.iter().map(|name| format!("[{name}]"));
        let text = (!self.text.is_empty()).then(|| self.text.clone());
        text.into_iter().chain(names).collect::<Vec<_>>().join(" ")
    }
}

/// A change of a waiting prompt.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueChange {
    /// Its new content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Content>,
    /// True: the new content is followed by the attachments that the prompt has now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_attachments: bool,
    /// Its new place: 0 is next, more than there are is last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
}

/// How a waiting prompt is sent at once.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueSendArgs {
    /// True: the running turn goes on, and the agent gets the prompt in it. Only some agents can do
    /// that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steer: Option<bool>,
}

/// The prompt runs, or does when the running turn has ended.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueSent {
    pub ok: bool,
    pub prompt_id: String,
    /// True if a turn was interrupted for it.
    pub interrupted: bool,
}

/// Done.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueChanged {
    pub ok: bool,
    pub prompt_id: String,
}
