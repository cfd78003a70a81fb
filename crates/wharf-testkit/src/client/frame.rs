//! One received frame: its text and its parsed body.

use serde_json::Value;

/// The error object of a response.
#[derive(Debug, Clone, PartialEq)]
pub struct CallFailure {
    pub code: i64,
    pub message: String,
    pub data: Value,
}

impl std::fmt::Display for CallFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.code, self.message, self.data)
    }
}

impl std::error::Error for CallFailure {}

/// The text and the parsed body of a frame. The body is `null` if the text is not JSON.
#[derive(Debug, Clone)]
pub struct ReceivedFrame {
    pub raw: String,
    pub body: Value,
}

impl ReceivedFrame {
    pub(super) fn parse(raw: &str) -> Self {
        let body = wharf_json::Json::parse(raw.as_bytes())
            .map(wharf_json::Json::to_value)
            .unwrap_or_default();
        Self { raw: raw.to_owned(), body }
    }

    /// Returns the method; empty for responses.
    pub fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    /// Returns true if the other side expects an answer.
    pub fn is_request(&self) -> bool {
        self.body.get("method").is_some() && self.body.get("id").is_some()
    }

    pub fn id(&self) -> &Value {
        &self.body["id"]
    }

    pub fn params(&self) -> &Value {
        &self.body["params"]
    }

    /// Returns the update of a `session/update`.
    pub fn update(&self) -> Option<&Value> {
        (self.method() == "session/update").then(|| &self.body["params"]["update"])
    }

    /// Returns the text of an `agent_message_chunk`.
    pub fn chunk_text(&self) -> Option<&str> {
        let update = self
            .update()
            .filter(|update| update["sessionUpdate"] == "agent_message_chunk")?;
        update["content"]["text"].as_str()
    }

    /// Returns the number at the start of a chunk of the scripted agent's `stream` or `burst`.
    pub fn chunk_index(&self) -> Option<u64> {
        self.chunk_text()?.split(' ').next()?.parse().ok()
    }

    /// Returns the result or the error of a response; `None` for other frames.
    pub(super) fn response_result(&self) -> Option<Result<Value, CallFailure>> {
        if self.body.get("method").is_some() || self.body.get("id").is_none() {
            return None;
        }
        Some(match self.body.get("error") {
            Some(error) => Err(CallFailure {
                code: error["code"].as_i64().unwrap_or_default(),
                message: error["message"].as_str().unwrap_or_default().to_owned(),
                data: error["data"].clone(),
            }),
            None => Ok(self.body["result"].clone()),
        })
    }
}
