//! Newline-delimited JSON-RPC 2.0: reading messages, writing them, and building the few shapes an
//! agent sends.

use std::io::{self, BufRead, Write};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

/// The bytes are not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The JSON is not a message, or the message is refused as a whole.
pub const INVALID_REQUEST: i64 = -32600;
/// The agent does not have the method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The agent cannot use the params of the method.
pub const INVALID_PARAMS: i64 = -32602;
/// The sender withdrew the request.
pub const REQUEST_CANCELLED: i64 = -32800;
/// ACP: `authenticate` has to come first.
pub const AUTH_REQUIRED: i64 = -32000;
/// ACP: there is no such session, file or other thing.
pub const NOT_FOUND: i64 = -32002;

/// The other side's answer to a request: the result, or the error object.
pub type RpcResult = Result<Value, Value>;

/// One line of input, parsed as far as the envelope.
#[derive(Debug, Clone, PartialEq)]
pub enum RpcMessage {
    /// Needs exactly one response with the same id.
    Request { id: Value, method: String, params: Value },
    /// Needs no response.
    Notification { method: String, params: Value },
    /// Answers a request of this side.
    Response { id: Value, answer: RpcResult },
    /// Not JSON; holds the parser's message.
    Malformed(String),
    /// JSON, but none of the above; holds the id if there was one.
    Invalid(Value),
}

/// Reads messages line by line from any input.
#[derive(Debug)]
pub struct MessageReader<R> {
    input: R,
    line: Vec<u8>,
}

impl<R: BufRead> MessageReader<R> {
    pub fn new(input: R) -> Self {
        Self { input, line: Vec::new() }
    }

    /// Returns the next message and skips blank lines. Returns `None` at the end of the input.
    pub fn next_message(&mut self) -> io::Result<Option<RpcMessage>> {
        loop {
            self.line.clear();
            if self.input.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            if !self.line.trim_ascii().is_empty() {
                return Ok(Some(parse_line(&self.line)));
            }
        }
    }

    /// Returns the bytes of the line that the last message came from.
    pub fn line(&self) -> &[u8] {
        self.line.trim_ascii()
    }
}

fn parse_line(line: &[u8]) -> RpcMessage {
    match serde_json::from_slice(line) {
        Ok(body) => parse_value(body),
        Err(error) => RpcMessage::Malformed(error.to_string()),
    }
}

/// Classifies a message.
pub fn parse_value(mut body: Value) -> RpcMessage {
    let id = body.get_mut("id").map(Value::take);
    let method = body.get("method").and_then(Value::as_str).map(str::to_owned);
    let params = body.get_mut("params").map(Value::take).unwrap_or_default();
    match (id, method) {
        (Some(id), Some(method)) => RpcMessage::Request { id, method, params },
        (None, Some(method)) => RpcMessage::Notification { method, params },
        (Some(id), None) => {
            match (body.get_mut("result").map(Value::take), body.get_mut("error").map(Value::take))
            {
                (_, Some(error)) => RpcMessage::Response { id, answer: Err(error) },
                (Some(result), None) => RpcMessage::Response { id, answer: Ok(result) },
                (None, None) => RpcMessage::Invalid(id),
            }
        }
        (None, None) => RpcMessage::Invalid(Value::Null),
    }
}

/// The shared output of all threads: each call writes whole lines, so lines never mix.
#[derive(Clone)]
pub struct MessageWriter(Arc<Mutex<Box<dyn Write + Send>>>);

impl std::fmt::Debug for MessageWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Output")
    }
}

impl MessageWriter {
    pub fn new(output: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Box::new(output))))
    }

    /// Writes one message as one line in one write, flushed.
    pub fn send_message(&self, message: &Value) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.send_bytes(&line)
    }

    /// Writes bytes unchanged: whole lines prepared by the caller, or deliberate garbage.
    pub fn send_bytes(&self, bytes: &[u8]) -> io::Result<()> {
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        output.write_all(bytes)?;
        output.flush()
    }
}

pub fn request_frame(id: &Value, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

pub fn notification_frame(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

pub fn result_frame(id: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

pub fn error_frame(id: &Value, error: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": error })
}

/// Returns an error object without data.
pub fn error_object(code: i64, message: impl Into<String>) -> Value {
    json!({ "code": code, "message": message.into() })
}

/// Returns the error for an unknown session, in the form of ACP.
pub fn unknown_session_error(session: &str) -> Value {
    json!({ "code": NOT_FOUND, "message": "Resource not found", "data": { "sessionId": session } })
}

/// Returns a `session/update` notification.
pub fn update_frame(session: &str, update: &Value) -> Value {
    notification_frame("session/update", json!({ "sessionId": session, "update": update }))
}

/// Returns a piece of a message; `kind` is `agent_message_chunk`, `agent_thought_chunk` or
/// `user_message_chunk`.
pub fn chunk_update(kind: &str, message_id: &str, text: &str) -> Value {
    json!({ "sessionUpdate": kind, "messageId": message_id, "content": { "type": "text", "text": text } })
}

/// Returns all text of a prompt, its text blocks joined by a blank.
pub fn prompt_text(params: &Value) -> String {
    let blocks = params["prompt"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    texts.join(" ")
}
