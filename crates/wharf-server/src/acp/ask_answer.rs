//! Decides whether a client's answer to an ask is valid (rule 12.3). The agent, the log and the
//! other clients all get the same value, so the host replaces an invalid answer before any of them
//! sees it.

use serde_json::{Value, json};
use wharf_host::core::Raw;
use wharf_json::rpc;
use wharf_json::{Json, ReadError};

use super::pending_requests::Wanted;

/// A response to an ask.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AskResponse {
    /// A permission: this option, if it was offered.
    Option(String),
    /// A form that was filled in or declined: both settle an elicitation.
    Form,
    /// An error, `cancelled` or `cancel`: counts once everyone has said so.
    Decline,
    /// Any other response, with the reason why it is invalid. The agent gets a decline in Wharf's
    /// words.
    Invalid(String),
}

impl AskResponse {
    pub(super) fn read(wanted: Wanted, frame: &[u8]) -> Self {
        let read = Json::parse(frame).and_then(|answer| {
            if answer.member("error")?.is_some() {
                return Ok(Self::Decline);
            }
            match wanted {
                Wanted::Elicitation => read_form(answer),
                Wanted::Permission | Wanted::Terminal | Wanted::Other => read_choice(answer),
            }
        });
        read.unwrap_or_else(|error| Self::Invalid(error.to_string()))
    }
}

fn read_choice(answer: Json<'_>) -> Result<AskResponse, ReadError> {
    let missing = |name: &str| ReadError::Missing(name.to_owned());
    let outcome = answer.seek(&["result", "outcome"])?.ok_or_else(|| missing("outcome"))?;
    match outcome
        .text_at(&["outcome"])?
        .ok_or_else(|| missing("outcome.outcome"))?
        .as_ref()
    {
        "cancelled" => Ok(AskResponse::Decline),
        "selected" => {
            let option =
                outcome.member("optionId")?.ok_or_else(|| missing("optionId"))?.text_or_number();
            let wrong =
                || ReadError::WrongKind { name: "optionId".to_owned(), expected: "a string" };
            Ok(AskResponse::Option(option.ok_or_else(wrong)?.into_owned()))
        }
        other => Ok(AskResponse::Invalid(format!(
            "`outcome` is neither selected nor cancelled but {other:?}"
        ))),
    }
}

fn read_form(answer: Json<'_>) -> Result<AskResponse, ReadError> {
    let action = answer.seek(&["result", "action"])?.and_then(Json::text);
    match action.as_deref() {
        Some("accept" | "decline") => Ok(AskResponse::Form),
        Some("cancel") => Ok(AskResponse::Decline),
        Some(other) => Ok(AskResponse::Invalid(format!(
            "`action` is none of accept, decline and cancel but {other:?}"
        ))),
        None => Err(ReadError::Missing("action".to_owned())),
    }
}

/// Returns the decline that replaces an invalid answer. It says why the answer is invalid.
pub(super) fn declined(wanted: Wanted, why: &str) -> Option<Raw> {
    let why: String = why.chars().take(MAX_REASON_CHARS).collect();
    let meta = json!({ "wharf": { "invalidAnswer": why } });
    let result: Value = match wanted {
        Wanted::Elicitation => json!({ "action": "cancel", "_meta": meta }),
        Wanted::Permission | Wanted::Terminal | Wanted::Other => {
            json!({ "outcome": { "outcome": "cancelled" }, "_meta": meta })
        }
    };
    Raw::new(rpc::response(rpc::PLACEHOLDER_ID, result))
}

/// A reason may quote what the client sent.
const MAX_REASON_CHARS: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(wanted: Wanted, result: &str) -> AskResponse {
        AskResponse::read(
            wanted,
            format!(r#"{{"id":1,"result":{result},"error":null}}"#).as_bytes(),
        )
    }

    #[test]
    fn a_choice_is_read_whatever_stands_beside_it() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for odd in ["1e400", r#""\ud83d""#, &deep] {
            let answer = format!(
                r#"{{"x":{odd},"outcome":{{"outcome":"selected","optionId":"yes","_meta":{odd}}},"_meta":{{"y":{odd}}}}}"#
            );
            assert_eq!(read(Wanted::Permission, &answer), AskResponse::Option("yes".to_owned()));
        }
        let numbered = r#"{"outcome":{"outcome":"selected","optionId":7.0}}"#;
        assert_eq!(read(Wanted::Permission, numbered), AskResponse::Option("7".to_owned()));
        assert_eq!(
            read(Wanted::Permission, r#"{"outcome":{"outcome":"cancelled","n":1e400}}"#),
            AskResponse::Decline
        );
        assert_eq!(
            AskResponse::read(Wanted::Permission, br#"{"id":1,"error":{"code":1e400}}"#),
            AskResponse::Decline
        );
    }

    #[test]
    fn an_answer_of_another_shape_is_not_valid() {
        for (wanted, answer) in [
            (Wanted::Permission, r#"{"action":"accept"}"#),
            (Wanted::Permission, r#"{"outcome":{"outcome":"granted"}}"#),
            (Wanted::Permission, r#"{"outcome":{"outcome":"selected","optionId":true}}"#),
            (
                Wanted::Permission,
                r#"{"outcome":{"outcome":"selected","optionId":"a","optionId":"b"}}"#,
            ),
            (Wanted::Permission, "null"),
            (Wanted::Elicitation, r#"{"outcome":{"outcome":"selected","optionId":"a"}}"#),
            (Wanted::Elicitation, r#"{"action":"perhaps"}"#),
        ] {
            assert!(matches!(read(wanted, answer), AskResponse::Invalid(_)), "{answer}");
        }
    }

    #[test]
    fn a_form_may_hold_anything() {
        let answer = r#"{"action":"accept","content":{"n":1e400,"s":"\ud83d"}}"#;
        assert_eq!(read(Wanted::Elicitation, answer), AskResponse::Form);
        assert_eq!(read(Wanted::Elicitation, r#"{"action":"cancel"}"#), AskResponse::Decline);
    }
}
