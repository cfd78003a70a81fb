//! Requests of an agent that need exactly one answer, and the answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::AskSubject;

words! {
    /// The kind of an ask: leave to do something, or a form to be filled in.
    pub enum AskType as "AskKind" {
        Permission = "permission",
        Elicitation = "elicitation",
    }
}

/// The asks that the agent of a session waits for.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema, JsonSchema)]
pub struct AskList {
    /// The oldest first.
    pub asks: Vec<OpenAsk>,
}

/// One question.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenAsk {
    pub ask_id: u64,
    pub kind: AskType,
    /// ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub opened_at: Option<String>,
    /// The row of the transcript that shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub row: Option<String>,
    /// The command, the paths and the diffs that it is about, redacted and bounded as in its row.
    /// MCP leaves it out: its schemas have no nulls, and a tool call is in the answer as the agent
    /// sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    #[schemars(skip)]
    pub subject: Option<AskSubject>,
    /// The choices of a permission.
    pub options: Vec<AskOption>,
    /// The action that the permission is for, as the agent describes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, nullable = false)]
    pub tool_call: Option<Value>,
    /// The agent's request as it came.
    #[schema(value_type = Object)]
    pub params: Value,
}

/// One choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AskOption {
    pub option_id: String,
    pub name: String,
    /// `allow_once`, `allow_always`, `reject_once`, `reject_always`, or a word that the agent made
    /// up.
    pub kind: String,
}

/// An answer: exactly one of `optionId`, `cancel` and `action`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnswerArgs {
    /// For a permission: the choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub option_id: Option<String>,
    /// True: no answer. It counts once every attached client has said so, or if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<bool>,
    /// For an elicitation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<AnswerAction>,
    /// For an elicitation that is accepted: what was filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub content: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = ActionWord)]
#[schemars(rename = "ActionWord")]
pub enum AnswerAction {
    Accept,
    Decline,
    Cancel,
}

/// The answer is taken.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Answered {
    pub ok: bool,
    pub ask_id: u64,
}
