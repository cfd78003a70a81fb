//! The requests that have no answer yet, each with its purpose.

use std::collections::BTreeMap;

use super::TextSource;
use crate::input::{CallId, StreamId};

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

/// The purpose of a request: how its answer is read and what it changes.
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
    /// A prompt; the text goes back to the composer if it is refused.
    SendPrompt {
        session: String,
        text: String,
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
    Fork,
    Host,
    Adapters,
    Places,
    Spawn,
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

    pub(crate) fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}
