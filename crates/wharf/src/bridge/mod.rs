//! The stdio bridge: what an editor starts instead of the agent. [`Bridge`] decides, without any IO; [`run`] carries
//! bytes between stdin, stdout and the host's socket.
//!
//! Invariant: the client sees what it would see of an agent that never goes away. Every request has one answer, every
//! update comes once and in order, whatever becomes of the host in between.

mod asks;
mod dial;
mod followed;
mod from_client;
mod from_host;
mod meta;
mod own;
mod pump;
mod rejoin;
mod stdio;
#[cfg(test)]
mod tests;
mod unanswered;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use serde_json::json;
use wharf_api::ErrorCode;
use wharf_json::rpc;

use asks::Asks;
use followed::Followed;
use unanswered::Unanswered;

pub(crate) use dial::Dial;
pub(crate) use pump::run;

/// Messages that may wait for the host to come back: as much as one message may be, or more of them than a person
/// could have caused. Beyond that stdin is not read.
const WAITING_BYTES: usize = 32 << 20;
const WAITING_MESSAGES: usize = 1_000;

/// How the bridge is to behave.
#[derive(Debug)]
pub(crate) struct Options {
    /// No other bridge has it: prompts are known again by it.
    pub(crate) name: String,
    /// Every `session/new` joins this session.
    pub(crate) session: Option<String>,
    /// Where it was started: usually where the client's sessions will be.
    pub(crate) cwd: Option<String>,
}

/// What to do: messages in order, each way.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) to_client: Vec<Bytes>,
    pub(crate) to_host: Vec<Bytes>,
    /// For the person who reads stderr.
    pub(crate) notes: Vec<String>,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    Gone,
    /// Something that was sent is over the host's limit. Sent again, it would be so again.
    TooBig,
}

/// Between one client and the host. Takes what comes and says what to do.
#[derive(Debug)]
pub(crate) struct Bridge {
    options: Options,
    phase: Phase,
    /// The process that was connected to last: another one knows nothing of what this one was doing.
    host: Option<u32>,
    connected_before: bool,
    /// What has no answer is to be sent again once the sessions are attached.
    returning: bool,
    /// As it was sent to the host.
    initialize: Option<Bytes>,
    wishes: Wishes,
    /// What the host is to give the agent of our environment.
    environment: BTreeMap<String, String>,
    unanswered: Unanswered,
    asks: Asks,
    sessions: BTreeMap<String, Followed>,
    waiting: VecDeque<Bytes>,
    waiting_bytes: usize,
    /// Requests of the bridge itself, and keys of prompts.
    requests: u64,
    keys: u64,
    step: Step,
}

#[derive(Debug)]
enum Phase {
    /// There is no connection.
    Apart,
    /// `initialize` was sent again under this id.
    Greeting(Bytes),
    /// Sessions are being attached again: the requests, and which session each is for.
    Attaching(Vec<(Bytes, String)>),
    Open,
}

/// What the client itself asked for at `initialize`.
#[derive(Clone, Copy, Debug, Default)]
struct Wishes {
    event_ids: bool,
    multi_client_updates: bool,
}

impl Bridge {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            options,
            phase: Phase::Apart,
            host: None,
            connected_before: false,
            returning: false,
            initialize: None,
            wishes: Wishes::default(),
            environment: BTreeMap::new(),
            unanswered: Unanswered::default(),
            asks: Asks::default(),
            sessions: BTreeMap::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            requests: 0,
            keys: 0,
            step: Step::default(),
        }
    }

    /// What the client's `initialize` is to bring along.
    pub(crate) fn handle_environment(&mut self, environment: BTreeMap<String, String>) {
        self.environment = environment;
    }

    /// May another line be handled? If not, stdin is to wait.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < WAITING_MESSAGES && self.waiting_bytes < WAITING_BYTES
    }

    /// Does something wait for a host to be sent to?
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Is an answer to come that a client waits for even if it has nothing more to say? A prompt's may take hours.
    pub(crate) fn owes(&self) -> bool {
        self.is_waiting() || self.unanswered.iter().any(|request| &*request.method != "session/prompt")
    }

    fn done(&mut self) -> Step {
        std::mem::take(&mut self.step)
    }

    fn tell_host(&mut self, frame: Bytes) {
        self.step.to_host.push(frame);
    }

    fn tell_client(&mut self, frame: Bytes) {
        self.step.to_client.push(frame);
    }

    fn note(&mut self, text: impl Into<String>) {
        self.step.notes.push(text.into());
    }

    /// Tells the client that it need not answer these any more.
    fn withdraw(&mut self, asks: Vec<Bytes>) {
        for id in asks {
            self.tell_client(rpc::cancel_request(&id));
        }
    }

    /// The id of a request of the bridge itself, as JSON text.
    fn own_id(&mut self) -> Bytes {
        self.requests += 1;
        format!("\"wharf-bridge-{}\"", self.requests).into()
    }
}

/// Makes the error response to a request that the bridge answers itself.
fn refusal(id: &[u8], reason: ErrorCode, message: &str) -> Bytes {
    rpc::error_response(id, rpc::error(reason.json_rpc(), message, Some(json!({ "reason": reason }))))
}
