//! Transcripts: the log of a session as rows, for readers (chapter 13).
//!
//! A transcript is made from the log when somebody reads it, never by the session's task. Rows are
//! kept in a derived database, which may be deleted at any time. Reasons are in
//! docs/design/transcript.md.

mod catch_up;
mod change_ring;
mod changed_files;
mod changes;
mod live;
mod pages;
mod row_cache;
mod search;
#[cfg(test)]
mod tests;
mod turns;
mod whole_rows;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use wharf_api::{FOLD_NUMBER, TranscriptRow};
use wharf_core::{EventId, Seq, SessionId};
use wharf_store::{LogId, SqliteTranscripts, StoreError, TranscriptStore};
use wharf_transcript::Secrets;

pub(crate) use catch_up::catch_up_in_background;
pub use changed_files::ChangedFileSlice;
pub use changes::{RowUpdate, RowUpdates};
use live::LiveTranscript;
pub use live::TranscriptFailure;
pub use pages::{MAX_PAGE_ROWS, PageAnchor, PageRequest, RowSlice, TurnPlace, UnknownAnchor};
pub use search::{TranscriptHit, TranscriptHits, TranscriptSearch};
pub use turns::{TurnRows, TurnSlice, TurnText};

use crate::session::handle::SessionHandle;

/// How long an unused transcript stays in memory.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// The most transcripts that stay in memory without a reader.
const MAX_IDLE_TRANSCRIPTS: usize = 16;

/// The transcripts with secrets that are made at once. Each folds a whole log into a file of its
/// own.
const MAX_UNREDACTED_TRANSCRIPTS: usize = 2;

/// Rows with secrets are stored under this number above that of their fold, so that neither kind is
/// taken for the other.
const UNREDACTED_FOLDS: u32 = 1 << 30;

/// A deletion that takes longer goes on in the background.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(2);

/// The transcripts of all sessions.
#[derive(Debug)]
pub(crate) struct Transcripts {
    store: Arc<dyn TranscriptStore>,
    /// Whether the rows in the database show secrets.
    secrets: Secrets,
    live: Mutex<HashMap<SessionId, KnownTranscript>>,
    /// Lets the background catch sessions up at once: a search has missed some.
    wake_catch_up: Arc<Notify>,
    /// Permits for transcripts with secrets beside those of the database.
    unredacted: Arc<Semaphore>,
}

#[derive(Debug)]
struct KnownTranscript {
    live: Arc<LiveTranscript>,
    used_at: Instant,
}

impl Transcripts {
    /// Opens the database. It is derived: where no file can be kept, memory will do.
    pub(crate) fn open(root: &Path, secrets: Secrets) -> Result<Self, StoreError> {
        let path = root.join("transcript.db");
        let opened = SqliteTranscripts::open(&path).and_then(|store| {
            // If the first attempt finds damage, the store creates the database again. So try
            // twice.
            let progress = store.progress().or_else(|_| store.progress())?;
            // One new file is made sooner than the rows of another fold are deleted session by
            // session.
            let is_current = progress.iter().all(|known| known.fold == stored_fold(secrets));
            if is_current { Ok(store) } else { store.recreate().map(|()| store) }
        });
        let store = opened.or_else(|error| {
            tracing::warn!(%error, "the database of transcripts cannot be used; they are made from the logs at every start");
            SqliteTranscripts::in_memory()
        })?;
        let unredacted = Arc::new(Semaphore::new(MAX_UNREDACTED_TRANSCRIPTS));
        Ok(Self {
            store,
            secrets,
            live: Mutex::default(),
            wake_catch_up: Arc::default(),
            unredacted,
        })
    }

    /// Returns the transcript of a session, in memory.
    fn find(&self, handle: &SessionHandle) -> Arc<LiveTranscript> {
        let mut live = self.lock();
        let known = live.entry(handle.id().clone()).or_insert_with(|| {
            let live = LiveTranscript::new(
                Arc::clone(&self.store),
                handle.shared.log_id.clone(),
                self.secrets,
            );
            KnownTranscript { live: Arc::new(live), used_at: Instant::now() }
        });
        known.used_at = Instant::now();
        Arc::clone(&known.live)
    }

    /// Deletes all that there is of a session's transcript.
    pub(crate) async fn remove(&self, session: &SessionId, log_id: &LogId) {
        let known = self.lock().remove(session);
        if let Some(known) = known {
            known.live.end().await;
        }
        let store = Arc::clone(&self.store);
        let log_id = log_id.clone();
        let session = session.clone();
        let removal = tokio::task::spawn_blocking(move || {
            if let Err(error) = store.remove(&log_id) {
                tracing::warn!(%session, %error, "the rows of a deleted session are left in transcript.db; delete that file to be sure");
            }
        });
        // The words of a long session take a while. If the host ends meanwhile, its next start
        // deletes the rest.
        let _ = tokio::time::timeout(REMOVAL_TIMEOUT, removal).await;
    }

    /// Drops unused transcripts, after it has written their last changes.
    async fn drop_idle(&self) {
        let mut idle: Vec<(Instant, SessionId, Arc<LiveTranscript>)> = {
            let live = self.lock();
            let unused = live.iter().filter(|(_, known)| Arc::strong_count(&known.live) == 1);
            unused
                .map(|(id, known)| (known.used_at, id.clone(), Arc::clone(&known.live)))
                .collect()
        };
        idle.sort_unstable_by(|(a, ..), (b, ..)| b.cmp(a));
        let doomed = idle.into_iter().enumerate();
        let doomed = doomed.filter(|(n, (used_at, ..))| {
            *n >= MAX_IDLE_TRANSCRIPTS || used_at.elapsed() > IDLE_TIMEOUT
        });
        for (_, (used_at, id, transcript)) in doomed {
            transcript.flush().await;
            let mut live = self.lock();
            // The map's own handle and ours.
            let is_unused = |known: &KnownTranscript| {
                known.used_at == used_at && Arc::strong_count(&known.live) == 2
            };
            if live.get(&id).is_some_and(is_unused) {
                live.remove(&id);
            }
        }
    }

    /// Writes the changes that are not in the database yet.
    pub(crate) async fn finish(&self) {
        let live: Vec<_> = self.lock().values().map(|known| Arc::clone(&known.live)).collect();
        for transcript in live {
            transcript.flush().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, KnownTranscript>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number under which the rows of this fold are stored.
const fn stored_fold(secrets: Secrets) -> u32 {
    match secrets {
        Secrets::Hidden => FOLD_NUMBER,
        Secrets::Shown => FOLD_NUMBER + UNREDACTED_FOLDS,
    }
}

/// A piece of a text that is too large for its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowTextSlice {
    pub text: String,
    /// Where the piece begins.
    pub offset: u64,
    /// The bytes of the whole text.
    pub total: u64,
}

/// Bytes that rows refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowBlob {
    /// The type by the first bytes.
    pub mime: String,
    pub bytes: Vec<u8>,
}

/// The transcript of a session as a reader uses it. Each call covers the whole log as it is at that
/// moment.
#[derive(Clone, Debug)]
pub struct SessionTranscript {
    handle: SessionHandle,
    live: Arc<LiveTranscript>,
    secrets: Secrets,
    /// Held by a transcript beside those of the database.
    _permit: Option<Arc<OwnedSemaphorePermit>>,
}

impl SessionTranscript {
    pub(crate) fn open(transcripts: &Transcripts, handle: SessionHandle) -> Self {
        Self {
            live: transcripts.find(&handle),
            handle,
            secrets: transcripts.secrets,
            _permit: None,
        }
    }

    /// Makes a transcript that shows secrets. It is kept in a temporary file that is gone when the
    /// transcript is dropped.
    pub(crate) async fn open_unredacted(
        transcripts: &Transcripts,
        handle: SessionHandle,
    ) -> Result<Self, TranscriptFailure> {
        if transcripts.secrets == Secrets::Shown {
            return Ok(Self::open(transcripts, handle));
        }
        let permit = Arc::clone(&transcripts.unredacted)
            .acquire_owned()
            .await
            .map_err(|_| TranscriptFailure::Gone)?;
        let store = tokio::task::spawn_blocking(SqliteTranscripts::temporary).await;
        let store = store.map_err(|_| TranscriptFailure::Gone)??;
        let live =
            Arc::new(LiveTranscript::new(store, handle.shared.log_id.clone(), Secrets::Shown));
        Ok(Self {
            handle,
            live,
            secrets: Secrets::Shown,
            _permit: Some(Arc::new(permit)),
        })
    }

    pub const fn handle(&self) -> &SessionHandle {
        &self.handle
    }

    pub async fn page(
        &self,
        request: PageRequest,
    ) -> Result<Result<RowSlice, UnknownAnchor>, TranscriptFailure> {
        self.live.read(&self.handle, move |state| state.page(&request)).await
    }

    /// Returns how often the rows were made again because they told of other lost events than the
    /// log. A reader that read before has to read all of them again.
    pub fn remakes(&self) -> watch::Receiver<u64> {
        self.live.remakes()
    }

    /// Returns the changes of all events after `position`. The log must hold that event.
    pub async fn changes_after(&self, position: Seq) -> Result<RowUpdates, TranscriptFailure> {
        self.live.read(&self.handle, move |state| state.changes_after(position)).await
    }

    /// Returns the rows of the open asks, the oldest first.
    pub async fn open_asks(&self) -> Result<Vec<TranscriptRow>, TranscriptFailure> {
        self.live.read(&self.handle, live::LiveState::open_asks).await
    }

    /// Folds the events that have come, for a reader that will ask soon. Returns how far the log
    /// was read.
    pub async fn fold_news(&self) -> Result<Seq, TranscriptFailure> {
        self.live.read(&self.handle, |state| Ok(state.read_to)).await
    }

    /// Returns the last lines that a running command has written, redacted as rows are; `None` if
    /// the terminal is gone.
    pub fn live_text(&self, terminal: &str) -> Option<Arc<str>> {
        self.handle.live_text(terminal, self.secrets)
    }

    /// Returns true if the log holds this event, so that a reader can go on from there.
    pub async fn holds_event(&self, id: EventId) -> Result<bool, TranscriptFailure> {
        Ok(self.handle.holds_event(id).await?)
    }

    /// Returns the row with this id, or that holds this event, with its texts whole as far as they
    /// fit.
    pub async fn row(&self, id: &str) -> Result<Option<TranscriptRow>, TranscriptFailure> {
        let id = id.to_owned();
        self.live.read(&self.handle, move |state| state.whole_row(&id)).await
    }

    /// Returns a page of the whole text of a row's part.
    pub async fn text(
        &self,
        id: &str,
        part: &str,
        offset: u64,
    ) -> Result<Option<RowTextSlice>, TranscriptFailure> {
        let id = id.to_owned();
        let part = part.to_owned();
        let slice = self
            .live
            .read(&self.handle, move |state| state.text_page(&id, &part, offset))
            .await?;
        Ok(slice.map(|slice| RowTextSlice {
            text: slice.text,
            offset: slice.offset,
            total: slice.total,
        }))
    }

    /// Returns the bytes that rows refer to by this name.
    pub async fn blob(&self, name: &str) -> Result<Option<RowBlob>, TranscriptFailure> {
        let name = name.to_owned();
        let blob = self.live.read(&self.handle, move |state| state.blob(&name)).await?;
        Ok(blob.map(|blob| RowBlob { mime: blob.mime, bytes: blob.bytes }))
    }

    /// Returns turns, the newest first. Returns `None` if the row `before` does not exist.
    pub async fn turns(
        &self,
        before: Option<String>,
        limit: usize,
    ) -> Result<Option<TurnSlice>, TranscriptFailure> {
        self.live
            .read(&self.handle, move |state| state.list_turns(before.as_deref(), limit))
            .await
    }

    /// Returns the files that were changed, the last changed first; `None` if there is no such
    /// turn.
    pub async fn changed_files(
        &self,
        turn: Option<String>,
        limit: usize,
    ) -> Result<Option<ChangedFileSlice>, TranscriptFailure> {
        self.live
            .read(&self.handle, move |state| state.changed_files(turn.as_deref(), limit))
            .await
    }

    /// Returns the newest turn of a prompt with the agent's answer; `None` if it has not begun.
    pub async fn turn(&self, prompt: &str) -> Result<Option<TurnText>, TranscriptFailure> {
        let prompt = prompt.to_owned();
        self.live.read(&self.handle, move |state| state.turn_text(&prompt)).await
    }
}
