//! The settings of a session's agent: mode, model, options, commands, and the content that it
//! takes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

words! {
    /// A kind of content, besides text and links, that a prompt may have.
    pub enum AcceptedKind as "AcceptedKind" {
        Image = "image",
        Audio = "audio",
        /// A file whose content is part of the prompt (ACP's `resource`).
        Embedded = "embedded",
    }
}

/// The agent's settings that are in force, and the values that can be chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SessionSettings)]
pub struct SessionSettingsInfo {
    /// The session.
    pub id: String,
    /// Absent if the agent has no modes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub modes: Option<SettingChoice>,
    /// Absent if the agent does not tell its models.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub models: Option<SettingChoice>,
    /// All options that the agent tells; a mode or a model may be among them.
    pub options: Vec<SettingOption>,
    /// The commands that a prompt may begin with, as `/name`.
    pub commands: Vec<AgentCommandInfo>,
    /// Absent if it is not known: the agent has not been started by this version of Wharf.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub accepts: Option<Vec<AcceptedKind>>,
    /// Values, commands or ends of texts are left out beside rows: `GET /sessions/{id}/settings`
    /// has them all. Left out if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shortened: bool,
}

/// A setting with one of several values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
pub struct SettingChoice {
    pub current: String,
    pub all: Vec<ChoiceValue>,
}

/// A value that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
pub struct ChoiceValue {
    pub id: String,
    /// For people; the id if the agent gives no name.
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub description: Option<String>,
    /// The name of the group that it stands in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub group: Option<String>,
}

/// One option of the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
pub struct SettingOption {
    pub id: String,
    /// For people; the id if the agent gives no name.
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub description: Option<String>,
    /// `mode`, `model`, `thought_level` or another word of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub category: Option<String>,
    /// `select` or `boolean`.
    #[serde(rename = "type")]
    pub kind: String,
    /// A text for `select`, true or false for `boolean`.
    #[schema(value_type = Value)]
    pub current: Value,
    /// The values of a `select`.
    pub all: Vec<ChoiceValue>,
}

/// A command of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
pub struct AgentCommandInfo {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub description: Option<String>,
    /// Describes the text that may follow the name; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub hint: Option<String>,
}

/// New values of settings. They are set in this order: the mode, the model, then the options by
/// their ids.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SettingsChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub model: Option<String>,
    /// New values of options, by the id of the option; at most 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<BTreeMap<String, Value>>,
}
