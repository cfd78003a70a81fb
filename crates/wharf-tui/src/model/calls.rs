//! The requests that have no answer yet, each with its purpose.

use std::collections::BTreeMap;
use std::time::Duration;

use super::TextSource;
use crate::input::{CallId, StreamId};
use crate::rows::RowPlace;

/// The use of a text that is read whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextUse {
    Reader,
    Pager,
}

/// A search for rows that are not held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowSearch {
    pub(crate) stream: StreamId,
    pub(crate) query: String,
    /// The pages of hits before this one.
    pub(crate) page: u32,
}

/// The purpose of a request for something to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadingPurpose {
    /// A text that is too long for its row, page by page.
    WholeText {
        source: TextSource,
        use_for: TextUse,
        so_far: String,
    },
    FindRows(RowSearch),
    ChangedFiles {
        session: String,
    },
    /// The row that changed a file.
    FileChange {
        session: String,
        path: String,
    },
}

/// The purpose of a request: it decides how the client reads the answer, and what the answer
/// changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallPurpose {
    /// The last line of a session in the list.
    LastLine {
        session: String,
    },
    /// Prompts of the session that may not be loaded.
    PromptHistory {
        stream: StreamId,
    },
    /// The whole text of a waiting prompt that is to be edited.
    QueuedText {
        stream: StreamId,
        prompt: String,
    },
    /// A row that an append did not fit.
    ReadRow {
        stream: StreamId,
    },
    OlderRows {
        stream: StreamId,
    },
    NewerRows {
        stream: StreamId,
    },
    Reading(ReadingPurpose),
    /// A prompt of the outbox.
    SendPrompt(SentPrompt),
    /// The changed text of a waiting prompt; it goes back to the composer if it is refused.
    SaveQueued(SavedQueueEdit),
    /// The newest prompt of a failed turn that is to be tried again.
    FindPrompt(TriedTurn),
    /// The whole prompt of that turn.
    TryAgain(TriedTurn),
    /// A session in the place of one whose agent cannot come back, which is archived if it is
    /// named. The new one opens if the person has pressed no key since.
    StartAgain {
        replaced: Option<String>,
        prompt: Option<AgainPrompt>,
        since: Duration,
    },
    Interrupt {
        session: String,
    },
    AnswerAsk {
        session: String,
        ask: u64,
    },
    MarkSeen,
    /// A change whose outcome the streams show. The sentence begins the report of a failure.
    Change {
        failed: &'static str,
    },
    /// The next mode of the agent.
    NextMode {
        stream: StreamId,
    },
    /// Files for a completion.
    Files {
        session: String,
        query: String,
    },
    /// A file that goes with a prompt.
    Upload {
        session: String,
    },
    Search {
        query: String,
    },
    /// A copy of a session. It opens if the person has pressed no key since.
    Fork {
        since: Duration,
    },
    Host,
    Adapters,
    Places,
    /// A new session. It opens if the person waits for it.
    Spawn {
        since: Duration,
    },
}

/// A prompt that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SentPrompt {
    pub(crate) session: String,
    pub(crate) text: String,
    /// The idempotency key: the host takes a prompt once for each key.
    pub(crate) key: String,
}

/// A failed turn that is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TriedTurn {
    pub(crate) session: String,
    /// The row of its end.
    pub(crate) end: RowPlace,
    /// The id of its prompt, if the row tells it.
    pub(crate) turn: Option<String>,
}

/// A prompt that is sent to another session again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgainPrompt {
    pub(crate) text: String,
    /// The content as JSON.
    pub(crate) content: String,
}

/// A changed waiting prompt that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedQueueEdit {
    pub(crate) session: String,
    pub(crate) prompt: String,
    pub(crate) text: String,
    /// The prompt is to be sent at once when the host has its text.
    pub(crate) is_sent_now: bool,
}

/// Prompts that came back into their field, although the host may have them.
#[derive(Debug, Default)]
pub(crate) struct UnansweredPrompts(Vec<SentPrompt>);

impl UnansweredPrompts {
    /// The prompts that are remembered.
    const MAX_COUNT: usize = 16;

    pub(crate) fn add(&mut self, prompt: SentPrompt) {
        if self.0.len() >= Self::MAX_COUNT {
            self.0.remove(0);
        }
        self.0.push(prompt);
    }

    /// Forgets the prompt with this key. Returns false if it is not known.
    pub(crate) fn forget(&mut self, key: &str) -> bool {
        let count = self.0.len();
        self.0.retain(|prompt| prompt.key != key);
        self.0.len() < count
    }

    /// Returns the key under which this text was sent, and forgets those of the session: the same
    /// text later is another prompt.
    pub(crate) fn take_key(&mut self, session: &str, text: &str) -> Option<String> {
        let newest_first = self.0.iter().rev();
        let found = newest_first
            .filter(|prompt| prompt.session == session)
            .find(|prompt| prompt.text == text);
        let key = found.map(|prompt| prompt.key.clone());
        self.0.retain(|prompt| prompt.session != session);
        key
    }
}

impl CallPurpose {
    /// Returns the session and the text of a waiting prompt that the person has changed.
    pub(crate) fn changed_text(&self) -> Option<(String, String)> {
        if let Self::SaveQueued(SavedQueueEdit { session, text, .. }) = self {
            return Some((session.clone(), text.clone()));
        }
        None
    }

    /// Returns true if the person wants something done, and false for everything that is only read.
    const fn is_change(&self) -> bool {
        match self {
            Self::SendPrompt(_)
            | Self::SaveQueued(_)
            | Self::Interrupt { .. }
            | Self::AnswerAsk { .. }
            | Self::Change { .. }
            | Self::NextMode { .. }
            | Self::FindPrompt(_)
            | Self::TryAgain(_)
            | Self::StartAgain { .. }
            | Self::Fork { .. }
            | Self::Spawn { .. } => true,
            Self::LastLine { .. }
            | Self::PromptHistory { .. }
            | Self::QueuedText { .. }
            | Self::ReadRow { .. }
            | Self::OlderRows { .. }
            | Self::NewerRows { .. }
            | Self::Reading(_)
            | Self::MarkSeen
            | Self::Files { .. }
            | Self::Upload { .. }
            | Self::Search { .. }
            | Self::Host
            | Self::Adapters
            | Self::Places => false,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct PendingCalls {
    last: u64,
    pending: BTreeMap<CallId, CallPurpose>,
}

impl PendingCalls {
    pub(crate) fn begin(&mut self, purpose: CallPurpose) -> CallId {
        let id = CallId(self.next_number());
        self.pending.insert(id, purpose);
        id
    }

    /// Returns the purpose of a request that is answered now.
    pub(crate) fn finish(&mut self, id: CallId) -> Option<CallPurpose> {
        self.pending.remove(&id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns the changes that have no answer yet.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &CallPurpose> {
        self.pending.values().filter(|purpose| purpose.is_change())
    }

    pub(crate) fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}
