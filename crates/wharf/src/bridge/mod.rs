//! The stdio bridge: an editor starts it instead of the agent. [`Bridge`] decides, without any IO; [`run`] carries bytes
//! between stdin, stdout and the host's socket.
//!
//! Invariant: for the client, the bridge is an agent that never goes away. Every request has one answer and every update
//! comes once and in order, even if the host is restarted in between.

mod asks;
mod followed_session;
mod from_client;
mod from_host;
mod host_connection;
mod meta_options;
mod own_prompts;
mod pump;
mod reconnect;
pub(crate) mod stdio;
#[cfg(test)]
mod tests;
mod unanswered_requests;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use serde_json::json;
use wharf_api::ErrorCode;
use wharf_json::rpc;

use asks::Asks;
use followed_session::FollowedSession;
use unanswered_requests::UnansweredRequests;

pub(crate) use host_connection::HostConnector;
pub(crate) use pump::run;

/// The most bytes that may wait for the host to come back: as many as one message may have. Beyond that, stdin is not read.
const MAX_WAITING_BYTES: usize = 32 << 20;
/// The most messages that may wait for the host: more than a person causes.
const MAX_WAITING_MESSAGES: usize = 1_000;

/// The settings of a bridge.
#[derive(Debug)]
pub(crate) struct BridgeOptions {
    /// Unique to this bridge. The host recognises the bridge's prompts by it.
    pub(crate) name: String,
    /// Every `session/new` joins this session.
    pub(crate) session: Option<String>,
    /// The directory in which the bridge was started: usually that of the client's sessions.
    pub(crate) cwd: Option<String>,
}

/// The messages that [`run`] has to send, in order, in each direction.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct BridgeStep {
    pub(crate) to_client: Vec<Bytes>,
    pub(crate) to_host: Vec<Bytes>,
    /// Lines for stderr.
    pub(crate) notes: Vec<String>,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DisconnectCause {
    ConnectionLost,
    /// The host refused a message that is over its limit. It would refuse the message again.
    MessageTooLarge,
}

/// The state machine between one client and the host: takes messages of both and returns the messages to send.
#[derive(Debug)]
pub(crate) struct Bridge {
    options: BridgeOptions,
    phase: Phase,
    /// The process id of the host of the last connection. Another process does not know the requests that were open.
    host: Option<u32>,
    connected_before: bool,
    /// Unanswered requests have to be sent again once the sessions are attached.
    must_resend: bool,
    /// The client's `initialize` as it was sent to the host.
    initialize: Option<Bytes>,
    client_options: ClientOptions,
    /// The variables of this process that the host passes to the agent.
    environment: BTreeMap<String, String>,
    unanswered: UnansweredRequests,
    asks: Asks,
    sessions: BTreeMap<String, FollowedSession>,
    waiting: VecDeque<Bytes>,
    waiting_bytes: usize,
    /// The number of requests that the bridge itself has sent.
    requests: u64,
    /// The number of keys that prompts have got.
    keys: u64,
    step: BridgeStep,
}

#[derive(Debug)]
enum Phase {
    /// There is no connection.
    Disconnected,
    /// The bridge has sent `initialize` again under this id.
    Initializing(Bytes),
    /// Sessions are being attached again: the id of each request, and its session.
    Attaching(Vec<(Bytes, String)>),
    Open,
}

/// Options that the client itself set at `initialize`.
#[derive(Clone, Copy, Debug, Default)]
struct ClientOptions {
    event_ids: bool,
    multi_client_updates: bool,
}

impl Bridge {
    pub(crate) fn new(options: BridgeOptions) -> Self {
        Self {
            options,
            phase: Phase::Disconnected,
            host: None,
            connected_before: false,
            must_resend: false,
            initialize: None,
            client_options: ClientOptions::default(),
            environment: BTreeMap::new(),
            unanswered: UnansweredRequests::default(),
            asks: Asks::default(),
            sessions: BTreeMap::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            requests: 0,
            keys: 0,
            step: BridgeStep::default(),
        }
    }

    /// Sets the variables that the client's `initialize` will carry.
    pub(crate) fn handle_environment(&mut self, environment: BTreeMap<String, String>) {
        self.environment = environment;
    }

    /// Returns true if another line can be handled. Otherwise stdin has to wait.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < MAX_WAITING_MESSAGES && self.waiting_bytes < MAX_WAITING_BYTES
    }

    /// Returns true if lines wait to be sent to a host.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns true if the client, even after it has closed stdin, waits for an answer. Prompts do not count: theirs may take
    /// hours.
    pub(crate) fn has_unanswered_requests(&self) -> bool {
        self.is_waiting() || self.unanswered.iter().any(|request| &*request.method != "session/prompt")
    }

    fn take_step(&mut self) -> BridgeStep {
        std::mem::take(&mut self.step)
    }

    fn send_to_host(&mut self, frame: Bytes) {
        self.step.to_host.push(frame);
    }

    fn send_to_client(&mut self, frame: Bytes) {
        self.step.to_client.push(frame);
    }

    fn add_note(&mut self, text: impl Into<String>) {
        self.step.notes.push(text.into());
    }

    /// Tells the client that it need not answer these requests any more.
    fn cancel_asks(&mut self, asks: Vec<Bytes>) {
        for id in asks {
            self.send_to_client(rpc::cancel_request(&id));
        }
    }

    /// Returns a new id for a request of the bridge itself, as JSON text.
    fn next_own_id(&mut self) -> Bytes {
        self.requests += 1;
        format!("\"wharf-bridge-{}\"", self.requests).into()
    }
}

/// Makes the error response to a request that the bridge answers itself.
fn refusal(id: &[u8], reason: ErrorCode, message: &str) -> Bytes {
    rpc::error_response(id, rpc::error(reason.json_rpc(), message, Some(json!({ "reason": reason }))))
}
