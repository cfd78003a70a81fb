//! Requests that have no answer yet, in both directions: the client's prompts and the messages that
//! were passed on for it, and the questions that the client has to answer. Besides, what past
//! answers said: logins and terminals.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use wharf_host::core::{AskId, PromptId, SessionId};
use wharf_json::Json;

/// Terminals of one client that are known to be its own: more than agents keep on a screen.
const MAX_TERMINALS: usize = 256;

/// The newest logins that are kept for later agents: more than an agent has ways to log in.
const MAX_LOGINS: usize = 8;

/// Shared by the two halves of a connection: a prompt is noted before it is submitted, so its end
/// finds it here.
#[derive(Debug, Default)]
pub(super) struct PendingRequests {
    pending: Mutex<Pending>,
}

#[derive(Debug, Default)]
struct Pending {
    /// The requests (their ids as JSON text) that each prompt is to be answered to, and its
    /// session. More than one if a prompt was submitted again under its idempotency key.
    prompts: HashMap<PromptId, (SessionId, Vec<Bytes>)>,
    /// Requests that were passed on to the agent of a session.
    forwards: HashMap<Bytes, ForwardedRequest>,
    /// Our request ids that the client has yet to answer.
    asks: HashMap<u64, Asked>,
    next_request: u64,
    /// Terminals that the client has made, the newest last.
    terminals: VecDeque<(SessionId, String)>,
    /// Logins that succeeded, for this connection's later agents.
    logins: VecDeque<Bytes>,
}

/// A request that was passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ForwardedRequest {
    pub(super) session: SessionId,
    /// Its answer lists the session's options.
    pub(super) tells_options: bool,
    /// The request, if it is a login: it is repeated for later agents if it succeeds.
    pub(super) login: Option<Bytes>,
}

/// A question that the client has to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) session: SessionId,
    pub(super) what: What,
    pub(super) wanted: Wanted,
}

/// The content of the answer that a question expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Permission,
    Elicitation,
    /// Which terminal the client has made.
    Terminal,
    Other,
}

impl Wanted {
    pub(super) fn by(method: &str) -> Self {
        match method {
            "session/request_permission" => Self::Permission,
            "elicitation/create" => Self::Elicitation,
            "terminal/create" => Self::Terminal,
            _ => Self::Other,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// An ask that others may answer too.
    Ask(AskId),
    /// A request that was given to this client alone.
    Relay(u64),
}

impl PendingRequests {
    /// The ids of the connection's own requests come after `last_id`.
    pub(super) fn new(last_id: u64) -> Self {
        Self {
            pending: Mutex::new(Pending { next_request: last_id, ..Pending::default() }),
        }
    }

    pub(super) fn owe(&self, prompt: PromptId, session: SessionId, request: Bytes) {
        self.lock()
            .prompts
            .entry(prompt)
            .or_insert_with(|| (session, Vec::new()))
            .1
            .push(request);
    }

    pub(super) fn owes(&self, prompt: &PromptId) -> bool {
        self.lock().prompts.contains_key(prompt)
    }

    /// Returns true if a prompt of this session has no answer yet.
    pub(super) fn owes_in(&self, session: &SessionId) -> bool {
        self.lock().prompts.values().any(|(of, _)| of == session)
    }

    /// Returns the prompts in a session that have no answer yet.
    pub(super) fn owed(&self, session: &SessionId) -> Vec<PromptId> {
        let pending = self.lock();
        let owed = pending.prompts.iter().filter(|(_, (owed_in, _))| owed_in == session);
        owed.map(|(prompt, _)| prompt.clone()).collect()
    }

    /// Takes the requests that a prompt's end answers.
    pub(super) fn settle(&self, prompt: &PromptId) -> Vec<Bytes> {
        self.lock()
            .prompts
            .remove(prompt)
            .map(|(_, requests)| requests)
            .unwrap_or_default()
    }

    /// Returns the prompt that was submitted with this request id.
    pub(super) fn prompt_of(&self, request: &[u8]) -> Option<(SessionId, PromptId)> {
        let pending = self.lock();
        let found = pending.prompts.iter().find(|(_, (_, ids))| ids.iter().any(|id| id == request));
        found.map(|(prompt, (session, _))| (session.clone(), prompt.clone()))
    }

    pub(super) fn forward(&self, request: Bytes, forward: ForwardedRequest) {
        self.lock().forwards.insert(request, forward);
    }

    /// Returns the session whose agent has this request.
    pub(super) fn forwarded(&self, request: &[u8]) -> Option<SessionId> {
        self.lock().forwards.get(request).map(|forward| forward.session.clone())
    }

    /// Takes a request that was passed on and has its answer now. A request that is never answered
    /// stays until the connection ends.
    pub(super) fn settle_forward(&self, request: &[u8]) -> Option<ForwardedRequest> {
        self.lock().forwards.remove(request)
    }

    pub(super) fn add_login(&self, login: Bytes) {
        let mut pending = self.lock();
        if pending.logins.len() >= MAX_LOGINS {
            pending.logins.pop_front();
        }
        pending.logins.push_back(login);
    }

    pub(super) fn logins(&self) -> Vec<Bytes> {
        self.lock().logins.iter().cloned().collect()
    }

    pub(super) fn clear_logins(&self) {
        self.lock().logins.clear();
    }

    /// Notes a question. Returns the new id under which the client is asked.
    pub(super) fn ask(&self, asked: Asked) -> u64 {
        let mut pending = self.lock();
        pending.next_request += 1;
        let id = pending.next_request;
        pending.asks.insert(id, asked);
        id
    }

    /// The same under the number of the session's ask. The connection's own ids must come after all
    /// such numbers.
    pub(super) fn ask_as(&self, id: u64, asked: Asked) -> u64 {
        self.lock().asks.insert(id, asked);
        id
    }

    /// Notes the terminal that an answer of the client names.
    pub(super) fn note_terminal(&self, session: &SessionId, answer: &[u8]) {
        // An answer without one is the agent's to complain about.
        let terminal =
            Json::parse(answer).and_then(|answer| answer.text_at(&["result", "terminalId"]));
        let Ok(Some(terminal)) = terminal else { return };
        let mut pending = self.lock();
        if pending.terminals.len() >= MAX_TERMINALS {
            pending.terminals.pop_front();
        }
        pending.terminals.push_back((session.clone(), terminal.into_owned()));
    }

    /// Returns true if this client has made that terminal.
    pub(super) fn made_terminal(&self, session: &SessionId, terminal: &str) -> bool {
        self.lock().terminals.iter().any(|(of, made)| of == session && made == terminal)
    }

    /// Takes the question that a response answers.
    pub(super) fn answered(&self, request: u64) -> Option<Asked> {
        self.lock().asks.remove(&request)
    }

    /// Puts back a question whose answer was not taken: it is still open.
    pub(super) fn reopen(&self, request: u64, asked: Asked) {
        self.lock().asks.insert(request, asked);
    }

    /// Takes the questions that are settled elsewhere and returns their ids: a client that loaded
    /// twice has two.
    pub(super) fn withdraw(&self, session: &SessionId, what: What) -> Vec<u64> {
        let mut pending = self.lock();
        let copies = pending
            .asks
            .extract_if(|_, asked| asked.what == what && asked.session == *session);
        let mut copies: Vec<u64> = copies.map(|(id, _)| id).collect();
        copies.sort_unstable();
        copies
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
