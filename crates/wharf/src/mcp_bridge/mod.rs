//! `wharf mcp` between an MCP client on stdio and the host. [`McpBridge`] decides, without any IO;
//! `stdio_pump` carries bytes.
//!
//! Invariant: for the client, the server never goes away. Every request has one answer, even if the
//! host is restarted in between: the handshake is made again, and a request is repeated if that is
//! safe, else answered with an error.

mod connection;
#[cfg(test)]
mod tests;

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use wharf_api::ErrorCode;
use wharf_json::{Json, rpc};

use crate::stdio_pump::{
    BridgeStep, DisconnectCause, StdioBridge, WaitingLines, describe_oversized_line, refusal,
};

pub(crate) use connection::McpEndpoint;

/// Tools that only read, or that leave the same state if they are called twice.
const REPEATABLE_TOOLS: &[&str] = &[
    "list_agents",
    "list_agent_sessions",
    "agent_sessions_list",
    "get_agent_session_output",
    "agent_output",
    "wait_agent_session",
    "search_agent_sessions",
    "kill_agent_session",
    "agent_kill",
    "resume_agent_session",
];
/// Tools whose call carries a key by which the host recognises a repetition.
const KEYED_TOOLS: &[&str] =
    &["start_agent_session", "agent_start", "prompt_agent_session", "agent_prompt"];

/// A request of the client that the host has yet to answer.
#[derive(Debug)]
struct OpenRequest {
    /// JSON text.
    id: Bytes,
    /// For the answer if the host is lost: the tool, else the method.
    name: Box<str>,
    line: Bytes,
    is_tool: bool,
    can_repeat: bool,
    /// It was sent a second time. A request that ends the connection twice is not tried again.
    was_repeated: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    Disconnected,
    /// The bridge has sent `initialize` again under this id.
    Initializing(Bytes),
    Open,
}

/// The state machine between one MCP client and the host.
#[derive(Debug)]
pub(crate) struct McpBridge {
    /// Unique to this bridge: the beginning of the keys of its prompts.
    name: String,
    phase: Phase,
    /// The client's `initialize`, once the host has answered it.
    initialize: Option<Bytes>,
    /// The client's `notifications/initialized`.
    initialized: Option<Bytes>,
    open: Vec<OpenRequest>,
    waiting: WaitingLines,
    /// The number of requests and keys that the bridge itself has made.
    made: u64,
    step: BridgeStep,
}

impl McpBridge {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            phase: Phase::Disconnected,
            initialize: None,
            initialized: None,
            open: Vec::new(),
            waiting: WaitingLines::default(),
            made: 0,
            step: BridgeStep::default(),
        }
    }

    fn note_answer(&mut self, id: &[u8]) {
        let Some(place) = self.open.iter().position(|request| rpc::is_same_id(&request.id, id))
        else {
            return;
        };
        let answered = self.open.remove(place);
        if &*answered.name == "initialize" {
            self.initialize = Some(answered.line);
        }
    }

    /// Repeats the open requests that can be repeated, answers the others with an error, then sends
    /// the lines that waited.
    fn resume_traffic(&mut self) {
        self.phase = Phase::Open;
        for mut request in std::mem::take(&mut self.open) {
            if request.can_repeat && !request.was_repeated {
                request.was_repeated = true;
                self.step.to_host.push(request.line.clone());
                self.open.push(request);
            } else {
                self.step.to_client.push(refuse_lost(&request));
            }
        }
        while let Some(line) = self.waiting.pop() {
            self.pass_line(line);
        }
    }

    /// Sends a line of the client to the host, and remembers what a reconnect needs of it.
    fn pass_line(&mut self, line: Bytes) {
        // The host answers a line that is not a message.
        let Some((method, id)) = read_envelope(&line) else { return self.step.to_host.push(line) };
        let line = match (id, &*method) {
            (Some(id), "tools/call") => self.open_tool_call(id, line),
            (Some(id), _) => {
                let line = line;
                let was_repeated = false;
                let request = OpenRequest {
                    id,
                    name: method,
                    line,
                    is_tool: false,
                    can_repeat: true,
                    was_repeated,
                };
                self.open_request(request)
            }
            (None, "notifications/initialized") => self.initialized.insert(line).clone(),
            (None, "notifications/cancelled") => {
                self.forget_cancelled(&line);
                line
            }
            (None, _) => line,
        };
        self.step.to_host.push(line);
    }

    fn open_request(&mut self, request: OpenRequest) -> Bytes {
        let line = request.line.clone();
        self.open.push(request);
        line
    }

    fn open_tool_call(&mut self, id: Bytes, line: Bytes) -> Bytes {
        let tool = Json::parse(&line)
            .ok()
            .and_then(|call| call.text_at(&["params", "name"]).ok().flatten());
        let tool = tool.map(|tool| tool.into_owned()).unwrap_or_default();
        let is_keyed = KEYED_TOOLS.contains(&tool.as_str());
        let line = if is_keyed { self.add_key(line) } else { line };
        let can_repeat = is_keyed || REPEATABLE_TOOLS.contains(&tool.as_str());
        let name = tool.into_boxed_str();
        self.open_request(OpenRequest {
            id,
            name,
            line,
            is_tool: true,
            can_repeat,
            was_repeated: false,
        })
    }

    /// Gives a call a key if the client gave it none, so that it can be sent again without being
    /// carried out twice.
    fn add_key(&mut self, line: Bytes) -> Bytes {
        const PATH: &[&str] = &["params", "arguments", "idempotencyKey"];
        let Ok(call) = Json::parse(&line) else { return line };
        if !matches!(call.at(PATH), Ok(None)) {
            return line;
        }
        self.made += 1;
        let key = format!("\"{}-{}\"", self.name, self.made);
        wharf_json::set(call, PATH, &key).map_or(line, Bytes::from)
    }

    /// A request that the client has taken back gets no answer.
    fn forget_cancelled(&mut self, line: &[u8]) {
        let id = Json::parse(line)
            .ok()
            .and_then(|note| note.at(&["params", "requestId"]).ok().flatten());
        if let Some(id) = id {
            self.open.retain(|request| !rpc::is_same_id(&request.id, id.raw().as_bytes()));
        }
    }

    fn take_step(&mut self) -> BridgeStep {
        std::mem::take(&mut self.step)
    }
}

impl StdioBridge for McpBridge {
    /// Enough for the start of an agent.
    const ANSWER_GRACE: Duration = Duration::from_secs(5);
    type HostFacts = ();

    fn has_room(&self) -> bool {
        self.waiting.have_room()
    }

    fn needs_connection(&self) -> bool {
        self.awaits_answers()
    }

    /// A notification that still waits for the host does not count.
    fn awaits_answers(&self) -> bool {
        !self.open.is_empty() || self.waiting.iter().any(|line| expects_answer(line))
    }

    /// Makes the handshake again if the client has made one.
    fn handle_connected(&mut self, (): ()) -> BridgeStep {
        match &self.initialize {
            Some(initialize) => {
                self.made += 1;
                let id = Bytes::from(format!("\"wharf-mcp-{}\"", self.made));
                let again = replace_id(initialize, &id);
                self.phase = Phase::Initializing(id);
                self.step.to_host.push(again);
            }
            None => self.resume_traffic(),
        }
        self.take_step()
    }

    fn handle_disconnected(&mut self, _: DisconnectCause) -> BridgeStep {
        self.phase = Phase::Disconnected;
        self.take_step()
    }

    fn handle_line(&mut self, line: Bytes) -> BridgeStep {
        if self.phase == Phase::Open {
            self.pass_line(line);
        } else {
            self.waiting.push(line);
        }
        self.take_step()
    }

    fn handle_oversized_line(&mut self, head: &[u8], limit: usize) -> BridgeStep {
        let found = rpc::salvage_head(wharf_json::strip_bom(head));
        let message = describe_oversized_line(limit);
        self.step.to_client.push(refusal(
            rpc::refused_id(&found),
            ErrorCode::BODY_TOO_LARGE,
            &message,
        ));
        self.take_step()
    }

    fn handle_host_frame(&mut self, line: Bytes) -> BridgeStep {
        let answered = Json::parse(&line).ok().filter(|message| !message.has_key("method"));
        let answered = answered
            .and_then(|message| message.last_member("id"))
            .map(|id| id.raw().to_owned());
        match (&self.phase, answered) {
            (Phase::Initializing(own), Some(id)) if rpc::is_same_id(own, id.as_bytes()) => {
                self.step.to_host.extend(self.initialized.clone());
                self.resume_traffic();
            }
            (_, Some(id)) => {
                self.note_answer(id.as_bytes());
                self.step.to_client.push(line);
            }
            (_, None) => self.step.to_client.push(line),
        }
        self.take_step()
    }
}

/// Returns true if the host answers the line: it is a request, or no message at all.
fn expects_answer(line: &[u8]) -> bool {
    Json::parse(line).map_or(true, |message| message.has_key("method") && message.has_key("id"))
}

/// Returns the method of a message, and its id if it is a request. Returns `None` for an answer,
/// and for a line that is not a message.
fn read_envelope(line: &[u8]) -> Option<(Box<str>, Option<Bytes>)> {
    let message = Json::parse(line).ok()?;
    let method = message.text_at(&["method"]).ok()??.into();
    let id = message.member("id").ok()?.map(|id| Bytes::copy_from_slice(id.raw().as_bytes()));
    Some((method, id))
}

fn replace_id(line: &Bytes, id: &[u8]) -> Bytes {
    let id = String::from_utf8_lossy(id);
    let changed = Json::parse(line)
        .ok()
        .and_then(|message| wharf_json::set(message, &["id"], &id).ok());
    changed.map_or_else(|| line.clone(), Bytes::from)
}

/// Answers a request of which it is not known whether the host carried it out. A model reads the
/// text of a tool's error.
fn refuse_lost(request: &OpenRequest) -> Bytes {
    let code = ErrorCode::HOST_RESTARTED;
    let detail = format!(
        "the host was restarted before it answered {}; look at the sessions before you call it again",
        request.name
    );
    if !request.is_tool {
        return refusal(&request.id, code, &detail);
    }
    let text = json!({ "code": code, "detail": detail, "status": code.status() }).to_string();
    rpc::response(
        &request.id,
        json!({ "content": [{ "type": "text", "text": text }], "isError": true }),
    )
}
