//! What agents ask, and the answers (rule 3.7).

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use wharf_host::core::{Ask, AskId, AskKind, Raw, Seq};
use wharf_host::{SessionHandle, frame, timestamp};

use super::faults::{from_call, invalid};
use super::{Caller, open};
use crate::App;
use crate::problem::Problem;

/// What the agent of a session waits for.
#[derive(Debug, Serialize, ToSchema, JsonSchema)]
pub(crate) struct AskList {
    /// The oldest first.
    pub(crate) asks: Vec<OpenAsk>,
}

/// One question.
#[derive(Debug, Serialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OpenAsk {
    pub(crate) ask_id: u64,
    pub(crate) kind: AskWord,
    /// ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) opened_at: Option<String>,
    /// The choices of a permission.
    pub(crate) options: Vec<AskOption>,
    /// What the permission is for, as the agent describes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, nullable = false)]
    pub(crate) tool_call: Option<Value>,
    /// The agent's request as it came.
    #[schema(value_type = Object)]
    pub(crate) params: Value,
}

/// What is asked for: leave to do something, or a form to be filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema, JsonSchema)]
#[schema(as = AskKind)]
#[schemars(rename = "AskKind")]
#[serde(rename_all = "snake_case")]
pub(crate) enum AskWord {
    Permission,
    Elicitation,
}

impl From<AskKind> for AskWord {
    fn from(kind: AskKind) -> Self {
        match kind {
            AskKind::Permission => Self::Permission,
            AskKind::Elicitation => Self::Elicitation,
        }
    }
}

/// One choice.
#[derive(Debug, Serialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AskOption {
    pub(crate) option_id: String,
    pub(crate) name: String,
    /// `allow_once`, `allow_always`, `reject_once`, `reject_always`, or a word that the agent made up.
    pub(crate) kind: String,
}

/// An answer: exactly one of `optionId`, `cancel` and `action`.
#[derive(Debug, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AnswerArgs {
    /// For a permission: the choice.
    pub(crate) option_id: Option<String>,
    /// True: no answer. It counts once every attached client has said so, or if there is none.
    pub(crate) cancel: Option<bool>,
    /// For an elicitation.
    pub(crate) action: Option<ActionWord>,
    /// For an elicitation that is accepted: what was filled in.
    #[schema(value_type = Option<Object>)]
    pub(crate) content: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ActionWord {
    Accept,
    Decline,
    Cancel,
}

/// The answer is taken.
#[derive(Debug, Serialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answered {
    pub(crate) ok: bool,
    pub(crate) ask_id: u64,
}

impl OpenAsk {
    pub(crate) fn of(ask: &Ask) -> Self {
        let params = frame::to_value(ask.frame.bytes())["params"].take();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let options = params["options"].as_array().map(Vec::as_slice).unwrap_or_default();
        let options = options
            .iter()
            .map(|option| AskOption {
                option_id: text(&option["optionId"]),
                name: text(&option["name"]),
                kind: text(&option["kind"]),
            })
            .collect();
        let tool_call = params.get("toolCall").cloned();
        Self { ask_id: ask.id.0, kind: ask.kind.into(), opened_at: None, options, tool_call, params }
    }
}

/// What is open now.
pub(crate) async fn asks(app: &App, who: &Caller, id: &str) -> Result<AskList, Problem> {
    let handle = open(app, who, id).await?;
    let open = handle.asks().await.map_err(|error| from_call(app, handle.id(), &error))?;
    let mut asks = Vec::with_capacity(open.len());
    for ask in &open {
        asks.push(OpenAsk { opened_at: opened_at(&handle, ask.id).await, ..OpenAsk::of(ask) });
    }
    Ok(AskList { asks })
}

/// An ask is named by its event, whose time is in the log.
async fn opened_at(handle: &SessionHandle, ask: AskId) -> Option<String> {
    let mut cursor = handle.cursor(Seq(ask.0.checked_sub(1)?));
    // One that is decided but not in the log yet has no time to wait for here.
    let batch = if cursor.is_behind() { cursor.next().await.ok()? } else { return None };
    batch.entries().first().filter(|entry| entry.seq.0 == ask.0).map(|entry| timestamp(entry.at))
}

/// Answers an open ask. The first valid answer wins.
pub(crate) async fn answer(
    app: &App,
    who: &Caller,
    id: &str,
    ask: &str,
    args: AnswerArgs,
) -> Result<Answered, Problem> {
    who.may_answer_in(app, id)?;
    let handle = open(app, who, id).await?;
    let unknown = || {
        let detail = format!("the agent did not ask anything under {:?}", ask.chars().take(40).collect::<String>());
        Problem::new(StatusCode::NOT_FOUND, "unknown_ask", detail)
    };
    let ask = ask.parse().map(AskId).map_err(|_| unknown())?;
    let open = handle.asks().await.map_err(|error| from_call(app, handle.id(), &error))?;
    let kind = open.iter().find(|open| open.id == ask).map(|open| open.kind);
    // One that is not open is the session's to tell apart: answered, or never asked.
    let answer = args.read(kind)?;
    let by = who.sender();
    let done = match answer {
        Answer::Option(option, frame) => handle.answer(ask, by, Some(option.into()), frame).await,
        Answer::Form(frame) => handle.answer(ask, by, None, frame).await,
        Answer::No(frame) => handle.decline(ask, by, frame).await,
    };
    done.map_err(|error| from_call(app, handle.id(), &error))?;
    Ok(Answered { ok: true, ask_id: ask.0 })
}

enum Answer {
    Option(String, Raw),
    Form(Raw),
    No(Raw),
}

impl AnswerArgs {
    /// The one thing that it says, as the agent's request expects it.
    fn read(self, kind: Option<AskKind>) -> Result<Answer, Problem> {
        let one = "send exactly one of optionId, cancel: true and action";
        match (self.option_id, self.cancel.unwrap_or(false), self.action) {
            (Some(_), false, None) if kind == Some(AskKind::Elicitation) => {
                Err(invalid("optionId: this is a form; send action: accept, decline or cancel"))
            }
            (Some(option), false, None) => {
                let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
                Ok(Answer::Option(option, response(&outcome)?))
            }
            (None, true, None) | (None, false, Some(ActionWord::Cancel)) => Ok(Answer::No(response(&match kind {
                Some(AskKind::Elicitation) => json!({ "action": "cancel" }),
                Some(AskKind::Permission) | None => json!({ "outcome": { "outcome": "cancelled" } }),
            })?)),
            (None, false, Some(ActionWord::Accept | ActionWord::Decline)) if kind == Some(AskKind::Permission) => {
                Err(invalid("action: this is a permission; send optionId or cancel: true"))
            }
            (None, false, Some(ActionWord::Accept)) => {
                let content = self.content.unwrap_or_else(|| json!({}));
                Ok(Answer::Form(response(&json!({ "action": "accept", "content": content }))?))
            }
            (None, false, Some(ActionWord::Decline)) => Ok(Answer::Form(response(&json!({ "action": "decline" }))?)),
            (None, false, None) | (_, true, _) | (Some(_), _, Some(_)) => Err(invalid(one)),
        }
    }
}

/// The response; its id is replaced on the way to the agent.
fn response(result: &Value) -> Result<Raw, Problem> {
    let frame = json!({ "jsonrpc": "2.0", "id": 0, "result": result }).to_string();
    Raw::new(frame).ok_or_else(|| invalid("the answer is not one line of UTF-8"))
}
