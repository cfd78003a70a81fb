//! Refusals and failures as every surface reports them: a code of the one table, and a sentence
//! that says what to do.
//!
//! [`Fault::to_problem`] is the projection onto problem+json (rule 8.2), [`Fault::to_json_rpc`] the
//! one onto JSON-RPC.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use wharf_api::{ErrorCode, ProblemBody};
use wharf_host::core::FailureText;

use crate::body_limit::BodyError;
use crate::metrics::RefusalCode;

/// A refusal or failure. Boxed, since most calls have none.
#[derive(Debug)]
pub(crate) struct Fault(Box<ProblemBody>);

/// The members of a JSON-RPC error.
#[derive(Debug)]
pub(crate) struct JsonRpcParts {
    pub(crate) code: i32,
    pub(crate) message: String,
    pub(crate) data: Value,
}

impl Fault {
    pub(crate) fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        let status = code.status();
        let detail = detail.into();
        let kind = ProblemBody::KIND.to_owned();
        Self(Box::new(ProblemBody { kind, status, code, detail, ..ProblemBody::default() }))
    }

    pub(crate) fn code(&self) -> ErrorCode {
        self.0.code
    }

    pub(crate) fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Replaces the HTTP status that usually goes with the code.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.0.status = status.as_u16();
        self
    }

    /// Names the session that the fault is about.
    pub(crate) fn with_session(self, session: &str) -> Self {
        self.with_members(|body| body.session_id = Some(session.to_owned()))
    }

    /// Sets the header `Retry-After`, and a member with the same number for clients that see no
    /// headers.
    pub(crate) fn with_retry_after(self, seconds: u64) -> Self {
        self.with_members(|body| body.retry_after = Some(seconds))
    }

    /// Adds the code that the last release used for this fault.
    pub(crate) fn with_legacy_code(self, word: &str) -> Self {
        self.with_members(|body| body.legacy_code = Some(word.to_owned()))
    }

    /// Sets further members of the body.
    pub(crate) fn with_members(mut self, set: impl FnOnce(&mut ProblemBody)) -> Self {
        set(&mut self.0);
        self
    }

    /// Returns the body of a problem+json answer.
    pub(crate) fn to_problem(&self) -> Value {
        let title = StatusCode::from_u16(self.0.status)
            .ok()
            .and_then(|status| status.canonical_reason());
        let body = ProblemBody {
            title: title.unwrap_or_default().to_owned(),
            ..ProblemBody::clone(&self.0)
        };
        serde_json::to_value(body).unwrap_or_default()
    }

    /// Returns the fault as a JSON-RPC error. Its message includes the agent's stderr, since many
    /// clients show only the message.
    pub(crate) fn to_json_rpc(&self) -> JsonRpcParts {
        let ProblemBody {
            code,
            detail,
            session_id,
            stderr,
            agent_error,
            install,
            retry_after,
            ..
        } = &*self.0;
        let mut data = json!({ "reason": code });
        let members = [
            ("sessionId", session_id.clone().map(Value::from)),
            ("stderr", stderr.clone().filter(|stderr| !stderr.is_empty()).map(Value::from)),
            ("agentError", agent_error.clone()),
            ("install", install.clone().map(Value::from)),
            ("retryAfter", retry_after.map(Value::from)),
        ];
        for (name, value) in members.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            data[name] = value;
        }
        let message = FailureText {
            reason: detail,
            stderr: stderr.as_deref().unwrap_or_default(),
        }
        .to_string();
        JsonRpcParts { code: code.json_rpc(), message, data }
    }

    pub(crate) fn no_room() -> Self {
        let detail = "the bodies of all requests together exceed limits.bodies; try again";
        Self::new(ErrorCode::TOO_MANY_BODIES, detail).with_retry_after(1)
    }
}

impl From<BodyError> for Fault {
    fn from(why: BodyError) -> Self {
        match why {
            BodyError::TooLarge(limit) => {
                let detail = format!("a body may have {limit} bytes (limits.body, limits.frame)");
                Self::new(ErrorCode::BODY_TOO_LARGE, detail)
            }
            BodyError::Stalled => {
                Self::new(ErrorCode::CUT_OFF, "the body was not complete in time; send it faster")
                    .with_status(StatusCode::REQUEST_TIMEOUT)
            }
            BodyError::CutOff => {
                Self::new(ErrorCode::CUT_OFF, "the connection ended before the body was complete")
            }
            BodyError::NoRoom => Self::no_room(),
        }
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        let status =
            StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, [kind], self.to_problem().to_string()).into_response();
        response.extensions_mut().insert(RefusalCode(self.0.code.as_str()));
        if let Some(seconds) = self.0.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_has_the_same_word_in_both_projections() {
        for code in ErrorCode::ALL {
            let fault = Fault::new(*code, "why").with_session("sess_1");
            let problem = fault.to_problem();
            let parts = fault.to_json_rpc();
            assert_eq!(problem["code"], parts.data["reason"], "{code}");
            assert_eq!(
                (&problem["status"], parts.code),
                (&json!(code.status()), code.json_rpc()),
                "{code}"
            );
            assert_eq!(
                (&problem["sessionId"], &parts.data["sessionId"]),
                (&json!("sess_1"), &json!("sess_1"))
            );
        }
    }

    #[test]
    fn problem_carries_the_word_of_the_last_release() {
        let problem = Fault::new(ErrorCode::START_FAILED, "why")
            .with_legacy_code("spawn_failed")
            .to_problem();
        assert_eq!(
            (&problem["code"], &problem["legacyCode"]),
            (&json!("start_failed"), &json!("spawn_failed"))
        );
        assert_eq!(Fault::new(ErrorCode::KILLED, "why").to_problem().get("legacyCode"), None);
    }

    #[test]
    fn json_rpc_message_holds_the_stderr_of_an_agent_that_did_not_start() {
        let fault = Fault::new(ErrorCode::START_FAILED, "it ended")
            .with_members(|body| body.stderr = Some("no key".to_owned()));
        assert_eq!(fault.to_json_rpc().message, "it ended\nstderr: no key");
    }
}
