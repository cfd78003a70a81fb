//! One `amux/*` notification being written. What comes from an agent or a client goes in as it was spelled.

use bytes::Bytes;
use serde_json::Value;
use wharf_host::{Entry, timestamp};

#[derive(Debug)]
pub(super) struct Note(String);

impl Note {
    /// Both words for the session's name: amux changed its mind between versions.
    pub(super) fn new(method: &str, name: &str) -> Self {
        let name = Value::from(name);
        Self(format!(r#"{{"jsonrpc":"2.0","method":"amux/{method}","params":{{"sessionId":{name},"roomId":{name}"#))
    }

    pub(super) fn with(self, key: &str, value: impl Into<Value>) -> Self {
        let value: Value = value.into();
        self.raw(key, &value.to_string())
    }

    /// Leaves out what is not known.
    pub(super) fn maybe(self, key: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// A member whose value is JSON text already.
    pub(super) fn raw(mut self, key: &str, json: &str) -> Self {
        self.0.push_str(&format!(r#","{key}":{json}"#));
        self
    }

    /// Says when something of the past was recorded, and where.
    pub(super) fn recorded(self, entry: &Entry) -> Self {
        let amux = serde_json::json!({ "recordedAt": timestamp(entry.at), "replaySeq": entry.seq.0 });
        self.with("_meta", serde_json::json!({ "amux": amux }))
    }

    pub(super) fn end(mut self) -> Bytes {
        self.0.push_str("}}");
        self.0.into()
    }
}
