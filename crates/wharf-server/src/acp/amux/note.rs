//! Builds one `amux/*` notification. JSON from an agent or a client goes in as it was spelled.

use bytes::Bytes;
use serde_json::Value;
use wharf_host::{Entry, format_timestamp};
use wharf_json::rpc;

#[derive(Debug)]
pub(super) struct Note {
    method: String,
    /// The JSON text of the params without its closing brace.
    params: String,
}

impl Note {
    /// Both words for the session's name: amux changed its mind between versions.
    pub(super) fn new(method: &str, name: &str) -> Self {
        let name = Value::from(name);
        let params = format!(r#"{{"sessionId":{name},"roomId":{name}"#);
        Self { method: format!("amux/{method}"), params }
    }

    pub(super) fn with(self, key: &str, value: impl Into<Value>) -> Self {
        let value: Value = value.into();
        self.raw(key, &value.to_string())
    }

    /// Adds a member unless its value is unknown.
    pub(super) fn maybe(self, key: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// A member whose value is JSON text already.
    pub(super) fn raw(mut self, key: &str, json: &str) -> Self {
        self.params.push_str(&format!(r#","{key}":{json}"#));
        self
    }

    /// Says when something of the past was recorded, and where.
    pub(super) fn recorded(self, entry: &Entry) -> Self {
        let amux = serde_json::json!({ "recordedAt": format_timestamp(entry.at), "replaySeq": entry.seq.0 });
        self.with("_meta", serde_json::json!({ "amux": amux }))
    }

    pub(super) fn end(self) -> Bytes {
        rpc::notification(&self.method, format_args!("{}}}", self.params))
    }
}
