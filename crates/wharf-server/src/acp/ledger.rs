//! What a connection owes and is owed: which of its requests are prompts in a session, and which asks it was shown.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use wharf_host::core::{AskId, PromptId, SessionId};

/// Shared by the two halves of a connection: a prompt is noted before it is submitted, so its end finds it here.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    /// The request id (JSON text) that each prompt is to be answered to.
    prompts: HashMap<PromptId, Bytes>,
    /// Our request ids that the client has yet to answer.
    asks: HashMap<u64, Shown>,
    next_request: u64,
}

/// An ask that the client was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) session: SessionId,
    pub(super) ask: AskId,
}

impl Ledger {
    pub(super) fn owe(&self, prompt: PromptId, request: Bytes) {
        self.lock().prompts.insert(prompt, request);
    }

    pub(super) fn owes(&self, prompt: &PromptId) -> bool {
        self.lock().prompts.contains_key(prompt)
    }

    /// The request to answer, once.
    pub(super) fn settle(&self, prompt: &PromptId) -> Option<Bytes> {
        self.lock().prompts.remove(prompt)
    }

    /// The prompt that was submitted with this request id.
    pub(super) fn prompt_of(&self, request: &[u8]) -> Option<PromptId> {
        self.lock().prompts.iter().find(|(_, id)| &id[..] == request).map(|(prompt, _)| prompt.clone())
    }

    /// Notes an ask that goes out; the id is ours and new.
    pub(super) fn show(&self, session: SessionId, ask: AskId) -> u64 {
        let mut books = self.lock();
        books.next_request += 1;
        let id = books.next_request;
        books.asks.insert(id, Shown { session, ask });
        id
    }

    /// The ask that a response is for, once.
    pub(super) fn answered(&self, request: u64) -> Option<Shown> {
        self.lock().asks.remove(&request)
    }

    /// Puts back an ask whose answer was not valid: it is still open.
    pub(super) fn reopen(&self, request: u64, shown: Shown) {
        self.lock().asks.insert(request, shown);
    }

    /// The requests to withdraw now that the ask was settled elsewhere: a client that loaded twice has two.
    pub(super) fn withdraw(&self, session: &SessionId, ask: AskId) -> Vec<u64> {
        let mut books = self.lock();
        let copies = books.asks.extract_if(|_, shown| shown.ask == ask && shown.session == *session);
        let mut copies: Vec<u64> = copies.map(|(id, _)| id).collect();
        copies.sort_unstable();
        copies
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
