//! The stdio bridge: an editor starts it instead of the agent. [`Bridge`] decides, without any IO;
//! `stdio_pump` carries bytes between stdin, stdout and the host.
//!
//! Invariant: for the client, the bridge is an agent that never goes away. Every request has one
//! answer and every update comes once and in order, even if the host is restarted in between.

mod asks;
mod followed_session;
mod from_client;
mod from_host;
mod host_connection;
mod meta_options;
mod own_prompts;
mod reconnect;
#[cfg(test)]
mod tests;
mod unanswered_requests;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use wharf_json::rpc;

use crate::stdio_pump::{BridgeStep, DisconnectCause, StdioBridge, WaitingLines};
use asks::Asks;
use followed_session::FollowedSession;
use unanswered_requests::UnansweredRequests;

pub(crate) use host_connection::{AcpEndpoint, AcpHostFacts};

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

/// The state machine between one editor and the host.
#[derive(Debug)]
pub(crate) struct Bridge {
    options: BridgeOptions,
    phase: Phase,
    /// The process id of the host of the last connection. Another process does not know the
    /// requests that were open.
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
    /// Requests of the bridge whose answers come after the open asks of a session: the id of each,
    /// and its session.
    ask_markers: BTreeMap<Bytes, String>,
    sessions: BTreeMap<String, FollowedSession>,
    waiting: WaitingLines,
    /// The number of requests that the bridge itself has sent.
    requests: u64,
    /// The number of keys that prompts have got.
    keys: u64,
    step: BridgeStep,
}

#[derive(Debug)]
enum Phase {
    /// The bridge is not connected to the host.
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
            ask_markers: BTreeMap::new(),
            sessions: BTreeMap::new(),
            waiting: WaitingLines::default(),
            requests: 0,
            keys: 0,
            step: BridgeStep::default(),
        }
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

impl StdioBridge for Bridge {
    const ANSWER_GRACE: Duration = Duration::from_secs(5);
    type HostFacts = AcpHostFacts;

    fn handle_connected(&mut self, facts: AcpHostFacts) -> BridgeStep {
        self.environment = facts.environment;
        self.begin_connection(facts.pid);
        self.take_step()
    }

    fn handle_disconnected(&mut self, cause: DisconnectCause) -> BridgeStep {
        self.end_connection(cause);
        self.take_step()
    }

    fn handle_line(&mut self, line: Bytes) -> BridgeStep {
        self.take_line(line);
        self.take_step()
    }

    fn handle_oversized_line(&mut self, head: &[u8], limit: usize) -> BridgeStep {
        self.refuse_oversized_line(head, limit);
        self.take_step()
    }

    fn handle_host_frame(&mut self, frame: Bytes) -> BridgeStep {
        self.take_host_frame(frame);
        self.take_step()
    }

    fn has_room(&self) -> bool {
        self.waiting.have_room()
    }

    fn needs_connection(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Prompts do not count: their answers may take hours.
    fn awaits_answers(&self) -> bool {
        self.needs_connection()
            || self.unanswered.iter().any(|request| &*request.method != "session/prompt")
    }
}
