//! Faults as HTTP answers: `application/problem+json` with a word that stays the same (rule 8.2).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};

use crate::intake::NoBody;
use crate::metrics::Code;

/// A fault: its status, a word that programs can rely on, and a sentence that says what to do.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) detail: String,
    /// Members besides, such as the id of a session that could not start.
    more: Map<String, Value>,
    /// In so many seconds it may go through.
    retry_after: Option<u64>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), more: Map::new(), retry_after: None }
    }

    /// With one more member.
    pub(crate) fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.more.insert(member.to_owned(), value.into());
        self
    }

    /// With the header `Retry-After`, and the same as a member for those who see no headers.
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self.with("retryAfter", seconds)
    }

    /// The body.
    pub(crate) fn to_json(&self) -> Value {
        let mut body = self.more.clone();
        body.insert("type".to_owned(), "about:blank".into());
        body.insert("title".to_owned(), self.status.canonical_reason().unwrap_or_default().into());
        body.insert("status".to_owned(), self.status.as_u16().into());
        body.insert("code".to_owned(), self.code.into());
        body.insert("detail".to_owned(), self.detail.as_str().into());
        Value::Object(body)
    }
}

impl From<NoBody> for Problem {
    fn from(why: NoBody) -> Self {
        match why {
            NoBody::TooLarge(limit) => {
                let detail = format!("a body may have {limit} bytes (limits.body, limits.frame)");
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail)
            }
            NoBody::Stalled => {
                Self::new(StatusCode::REQUEST_TIMEOUT, "cut_off", "the body did not come to its end in time")
            }
            NoBody::CutOff => Self::new(StatusCode::BAD_REQUEST, "cut_off", "the body did not come to its end"),
            NoBody::NoRoom => Self::no_room(),
        }
    }
}

impl Problem {
    pub(crate) fn no_room() -> Self {
        let detail = "too much is being sent at once by all clients together (limits.bodies); try again";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_bodies", detail).retry_after(1)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        let mut response = (self.status, [kind], self.to_json().to_string()).into_response();
        response.extensions_mut().insert(Code(self.code));
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}
