//! The transcript of one session while somebody reads it: the fold, the rows in memory and the
//! newest changes.

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard, watch};
use wharf_core::{Epoch, Event, EventId, PromptEvent, Seq};
use wharf_store::{LogId, StoreError, TranscriptCheckpoint, TranscriptStore};
use wharf_transcript::{Fold, LossDigest, Secrets};

use super::change_ring::{ChangeCollector, ChangeRing};
use super::row_cache::RowCache;
use super::stored_fold;
use crate::session::cursor::{Batch, Cursor, ReadError};
use crate::session::handle::SessionHandle;

/// Changes are written at the latest when more rows, or more bytes of events, wait than this. A
/// burst goes on during the write: the events that arrive meanwhile must fit into
/// `READ_AHEAD_BYTES` and the session's own memory.
const MAX_DIRTY_ROWS: usize = 4096;
const MAX_DIRTY_BYTES: usize = 2 * 1024 * 1024;
/// As long as the database cannot be written, reading fails once so many bytes of events wait.
const MAX_UNWRITABLE_BYTES: usize = 64 * 1024 * 1024;
/// So many bytes of events are taken out of the session's memory while others are folded, so that a
/// burst need not be read from the disk.
const READ_AHEAD_BYTES: usize = 4 * 1024 * 1024;
/// How many times one call may rebuild rows that the database has lost.
const MAX_REBUILDS: usize = 2;

/// Why a transcript cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptFailure {
    #[error(transparent)]
    Log(#[from] ReadError),
    #[error("the database of transcripts cannot be used: {0}")]
    Database(#[from] StoreError),
    /// The session was deleted.
    #[error("the session is gone")]
    Gone,
}

/// A transcript in memory. It advances only when a reader asks.
#[derive(Debug)]
pub(crate) struct LiveTranscript {
    state: Arc<Mutex<LiveState>>,
    remakes: watch::Receiver<u64>,
}

#[derive(Debug)]
pub(super) struct LiveState {
    store: Arc<dyn TranscriptStore>,
    id: LogId,
    secrets: Secrets,
    is_loaded: bool,
    /// True once the session was deleted: nothing may be written any more.
    is_gone: bool,
    pub(super) fold: Fold,
    pub(super) rows: RowCache,
    pub(super) ring: ChangeRing,
    /// The last event of the log that was read. Damage in the log may leave it beyond the last
    /// event of the fold.
    pub(super) read_to: Seq,
    /// The events after `read_to` that were read already.
    ahead: ReadAhead,
    /// The bytes of the events since the last write.
    dirty_bytes: usize,
    /// The last event of the checkpoint in the database. Events that change no row move it, too.
    written_to: Option<EventId>,
    /// True if a turn has ended since the last write.
    turn_ended: bool,
    /// True if the rows tell of all lost events that the host knew of when they were compared with
    /// the log, or when they were begun.
    has_checked_losses: bool,
    /// How often the rows were made again because of lost events.
    remakes: watch::Sender<u64>,
}

/// Consecutive events that wait to be folded.
#[derive(Debug, Default)]
struct ReadAhead {
    batches: Vec<Batch>,
    bytes: usize,
    /// How far they go.
    to: Seq,
}

impl ReadAhead {
    fn push(&mut self, batch: Batch, to: Seq) {
        self.bytes += batch.weight();
        self.batches.push(batch);
        self.to = to;
    }
}

impl LiveTranscript {
    pub(super) fn new(store: Arc<dyn TranscriptStore>, id: LogId, secrets: Secrets) -> Self {
        let state = LiveState::new(store, id, secrets);
        let remakes = state.remakes.subscribe();
        Self { state: Arc::new(Mutex::new(state)), remakes }
    }

    /// Returns how often the rows were made again because they told of other lost events than the
    /// log. What readers have of them is out of date then.
    pub(super) fn remakes(&self) -> watch::Receiver<u64> {
        self.remakes.clone()
    }

    /// Folds the log up to the event that is its last one now, then reads from the rows.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        handle: &SessionHandle,
        read: impl Fn(&mut LiveState) -> Result<T, StoreError> + Send + Sync + Clone + 'static,
    ) -> Result<T, TranscriptFailure> {
        let mut rebuilds = 0;
        loop {
            // Rows of a deleted session must not be made again. If the host stops, the log stays,
            // and readers get its last rows.
            if handle.is_closed() && !handle.shared.is_stopped() {
                return Err(TranscriptFailure::Gone);
            }
            let state = self.advance(handle).await?;
            let look = read.clone();
            let (state, outcome) = run_blocking(state, move |state| look(state)).await?;
            // Rows may have been lost while they were read.
            let error = match outcome {
                Ok(_) if state.rows.is_lost() => StoreError::Recreated,
                Ok(found) => {
                    self.write_later(state);
                    return Ok(found);
                }
                Err(error) => error,
            };
            rebuilds += 1;
            if rebuilds > MAX_REBUILDS {
                return Err(error.into());
            }
            forget_rows(state, handle, &error, rebuilds).await?;
        }
    }

    /// Folds the log up to the event that is its last one now.
    async fn advance(
        &self,
        handle: &SessionHandle,
    ) -> Result<OwnedMutexGuard<LiveState>, TranscriptFailure> {
        let mut state = Arc::clone(&self.state).lock_owned().await;
        let target = handle.head();
        for rebuild in 1..=MAX_REBUILDS + 1 {
            if state.is_gone {
                return Err(TranscriptFailure::Gone);
            }
            if state.rows.is_lost() {
                state.discard();
            }
            let mut failure = None;
            if !state.is_loaded {
                (state, failure) = load_checkpoint(state, handle).await?;
            } else if handle.shared.has_losses() && !state.has_checked_losses {
                // Another reader has met lost events: the host may have read only a part of the log
                // at its start.
                (state, failure) = check_losses(state, handle).await?;
            }
            if failure.is_none() {
                (state, failure) = fold_to(state, handle, target).await?;
            }
            let Some(error) = failure else { return Ok(state) };
            if rebuild > MAX_REBUILDS {
                return Err(error.into());
            }
            state = forget_rows(state, handle, &error, rebuild).await?;
        }
        Err(StoreError::Index("rows were lost again and again".to_owned()).into())
    }

    /// Writes the changes in the background if it is time.
    fn write_later(&self, state: OwnedMutexGuard<LiveState>) {
        if !state.turn_ended {
            return;
        }
        tokio::spawn(run_blocking(state, |state| {
            state.write_or_warn();
            Ok::<(), StoreError>(())
        }));
    }

    /// Writes the changes that are not in the database yet.
    pub(super) async fn flush(&self) {
        let state = Arc::clone(&self.state).lock_owned().await;
        let _ = run_blocking(state, |state| {
            state.write_or_warn();
            Ok::<(), StoreError>(())
        })
        .await;
    }

    /// Forgets the folded rows, since the database has lost them. The next reader folds the events
    /// again.
    pub(super) async fn reload(&self) {
        self.state.lock().await.discard();
    }

    /// Notes that the session was deleted: the transcript writes no rows from now on.
    pub(super) async fn end(&self) {
        let mut state = self.state.lock().await;
        state.is_gone = true;
        state.discard();
    }
}

impl LiveState {
    pub(super) fn new(store: Arc<dyn TranscriptStore>, id: LogId, secrets: Secrets) -> Self {
        Self {
            rows: RowCache::new(Arc::clone(&store), id.clone(), store.generation(), 0),
            store,
            id,
            secrets,
            is_loaded: false,
            is_gone: false,
            fold: Fold::new(secrets),
            ring: ChangeRing::default(),
            read_to: Seq::ZERO,
            ahead: ReadAhead::default(),
            dirty_bytes: 0,
            written_to: None,
            turn_ended: false,
            has_checked_losses: false,
            remakes: watch::Sender::new(0),
        }
    }

    /// Forgets all that was folded. The next reader begins with the checkpoint, or with the first
    /// event.
    fn discard(&mut self) {
        self.rows =
            RowCache::new(Arc::clone(&self.store), self.id.clone(), self.store.generation(), 0);
        self.fold = Fold::new(self.secrets);
        self.ring = ChangeRing::default();
        self.read_to = Seq::ZERO;
        self.ahead = ReadAhead::default();
        (self.dirty_bytes, self.turn_ended, self.is_loaded) = (0, false, false);
        self.written_to = None;
        self.has_checked_losses = false;
    }

    /// Takes the checkpoint over, if there is one of this fold.
    pub(super) fn load(&mut self) -> Result<Option<EventId>, StoreError> {
        self.discard();
        let generation = self.store.generation();
        let Some(checkpoint) = self.store.checkpoint(&self.id)? else { return Ok(None) };
        let TranscriptCheckpoint { fold, epoch, seq, rows, state } = checkpoint;
        if fold != stored_fold(self.secrets) {
            return Ok(None);
        }
        let Ok(fold) = wharf_json::read_own::<Fold>(&state) else { return Ok(None) };
        let position = EventId { epoch: Epoch(epoch), seq: Seq(seq) };
        if fold.row_count() != rows || fold.position() != Some(position) {
            return Ok(None);
        }
        self.rows = RowCache::new(Arc::clone(&self.store), self.id.clone(), generation, rows);
        self.fold = fold;
        self.read_to = position.seq;
        self.written_to = Some(position);
        Ok(Some(position))
    }

    /// Folds consecutive events. The last event that was read is `to`.
    pub(super) fn fold_batches(&mut self, batches: &[Batch], to: Seq) -> Result<(), StoreError> {
        // A panic in the fold leaves the state unusable: the next reader loads it again.
        self.is_loaded = false;
        let from = self.read_to;
        let mut collector = ChangeCollector::default();
        let mut changes = Vec::new();
        for entry in batches.iter().flat_map(Batch::entries) {
            self.fold
                .apply(entry.id(), entry.at, &entry.event, &mut self.rows, &mut changes);
            collector.add(entry.seq, entry.at, &mut changes);
            self.dirty_bytes += entry.weight();
            self.turn_ended |= matches!(entry.event, Event::Prompt(PromptEvent::Ended { .. }));
        }
        if let Some(error) = self.rows.take_failure() {
            return Err(error);
        }
        (self.read_to, self.is_loaded) = (to, true);
        self.ring.push(from, to, collector);
        if self.dirty_bytes > MAX_DIRTY_BYTES || self.rows.dirty_rows() > MAX_DIRTY_ROWS {
            match self.write() {
                Err(error @ StoreError::Recreated) => return Err(error),
                Err(error) if self.dirty_bytes > MAX_UNWRITABLE_BYTES => return Err(error),
                Err(error) => {
                    tracing::warn!(log = %self.id, %error, "the rows of a session cannot be written")
                }
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Writes the changes with the checkpoint that they lead to.
    pub(super) fn write(&mut self) -> Result<(), StoreError> {
        let is_new =
            |position: &EventId| self.written_to != Some(*position) || self.rows.is_dirty();
        let Some(position) = self.fold.position().filter(is_new) else { return Ok(()) };
        if self.is_gone {
            return Ok(());
        }
        let state =
            serde_json::to_vec(&self.fold).map_err(|error| StoreError::Index(error.to_string()))?;
        let epoch = position.epoch.0;
        let seq = position.seq.0;
        let rows = self.fold.row_count();
        self.rows.flush(TranscriptCheckpoint {
            fold: stored_fold(self.secrets),
            epoch,
            seq,
            rows,
            state,
        })?;
        (self.dirty_bytes, self.turn_ended, self.written_to) = (0, false, Some(position));
        Ok(())
    }

    fn write_or_warn(&mut self) {
        if let Err(error) = self.write() {
            // The next turn's end tries again; until then the log has it all.
            self.turn_ended = false;
            tracing::warn!(log = %self.id, %error, "the rows of a session cannot be written");
        }
    }
}

/// Folds the events up to `target`. More of the log is read meanwhile. Also returns the failure of
/// the database, if there was one.
async fn fold_to(
    mut state: OwnedMutexGuard<LiveState>,
    handle: &SessionHandle,
    target: Seq,
) -> Result<(OwnedMutexGuard<LiveState>, Option<StoreError>), TranscriptFailure> {
    if state.read_to >= target {
        return Ok((state, None));
    }
    let mut ahead = std::mem::take(&mut state.ahead);
    let mut cursor = handle.cursor(state.read_to.max(ahead.to));
    if ahead.batches.is_empty() {
        ahead.push(cursor.next().await?, cursor.position());
    }
    while ahead.to < target
        && ahead.bytes < READ_AHEAD_BYTES
        && let Some(batch) = cursor.next_in_memory()
    {
        ahead.push(batch, cursor.position());
    }
    loop {
        let ReadAhead { batches, to, .. } = std::mem::take(&mut ahead);
        let fold = run_blocking(state, move |state| state.fold_batches(&batches, to));
        let folded;
        (folded, ahead) = read_during(fold, &mut cursor, target).await?;
        let outcome;
        (state, outcome) = folded?;
        if let Err(error) = outcome {
            return Ok((state, Some(error)));
        }
        if to >= target {
            state.ahead = ahead;
            return Ok((state, None));
        }
    }
}

/// Forgets the rows of a session that the database does not have as it should. The first time the
/// checkpoint is loaded again; after that the rows are made from the log.
async fn forget_rows(
    mut state: OwnedMutexGuard<LiveState>,
    handle: &SessionHandle,
    error: &StoreError,
    attempt: usize,
) -> Result<OwnedMutexGuard<LiveState>, TranscriptFailure> {
    state.discard();
    if attempt < MAX_REBUILDS {
        tracing::warn!(session = %handle.id(), %error, "the rows of a session are loaded again");
        return Ok(state);
    }
    tracing::warn!(session = %handle.id(), %error, "the rows of a session are made anew from its log");
    let (state, removed) = run_blocking(state, |state| state.store.remove(&state.id)).await?;
    if let Err(error) = removed {
        // If the database was damaged, the store has created it again, and no rows are left to
        // remove.
        tracing::warn!(session = %handle.id(), %error, "the former rows of a session cannot be removed");
    }
    Ok(state)
}

/// Reads the log while events are folded: up to `target` from wherever it is, and beyond it as long
/// as it is in memory. Also returns the outcome of the fold.
async fn read_during<T>(
    fold: impl Future<Output = T>,
    cursor: &mut Cursor,
    target: Seq,
) -> Result<(T, ReadAhead), TranscriptFailure> {
    let mut fold = std::pin::pin!(fold);
    let mut folded = None;
    let mut ahead = ReadAhead::default();
    loop {
        let needs_more = ahead.batches.is_empty() && cursor.position() < target;
        if ahead.bytes >= READ_AHEAD_BYTES || !(folded.is_none() || needs_more) {
            break;
        }
        tokio::select! {
            biased;
            done = &mut fold, if folded.is_none() => {
                folded = Some(done);
                continue;
            }
            () = cursor.news() => {}
        }
        let batch = match cursor.next_in_memory() {
            Some(batch) => batch,
            None if cursor.position() < target => {
                // A read of the disk that was begun is never begun again.
                let mut next = std::pin::pin!(cursor.next());
                loop {
                    tokio::select! {
                        biased;
                        done = &mut fold, if folded.is_none() => folded = Some(done),
                        next = &mut next => break next?,
                    }
                }
            }
            None => break,
        };
        ahead.push(batch, cursor.position());
    }
    let folded = match folded {
        Some(folded) => folded,
        None => fold.await,
    };
    Ok((folded, ahead))
}

/// Loads the checkpoint if it fits the log: another log may have its numbers after power loss, and
/// events may have been lost since. Also returns the failure of the database, if there was one.
async fn load_checkpoint(
    state: OwnedMutexGuard<LiveState>,
    handle: &SessionHandle,
) -> Result<(OwnedMutexGuard<LiveState>, Option<StoreError>), TranscriptFailure> {
    let (mut state, loaded) = run_blocking(state, LiveState::load).await?;
    let fits = match loaded {
        Ok(Some(position)) => handle.holds_event(position).await?,
        Ok(None) => false,
        Err(error) => return Ok((state, Some(error))),
    };
    if !fits {
        return start_over(state, handle).await;
    }
    state.is_loaded = true;
    if handle.shared.has_losses() || !state.fold.losses().is_empty() {
        return check_losses(state, handle).await;
    }
    Ok((state, None))
}

/// Compares the lost events that the rows tell of with those of the log, and makes the rows again
/// if they differ (rule 1.8). It reads the log up to the rows' last event. Also returns the failure
/// of the database, if there was one.
async fn check_losses(
    mut state: OwnedMutexGuard<LiveState>,
    handle: &SessionHandle,
) -> Result<(OwnedMutexGuard<LiveState>, Option<StoreError>), TranscriptFailure> {
    let position = state.fold.position().map_or(Seq::ZERO, |position| position.seq);
    if read_losses(handle, position).await? == state.fold.losses() {
        state.has_checked_losses = true;
        return Ok((state, None));
    }
    tracing::warn!(session = %handle.id(), "other events of the log are lost than its rows tell; they are made again");
    state.remakes.send_modify(|count| *count += 1);
    start_over(state, handle).await
}

/// Returns the events up to `last` that the log has lost.
async fn read_losses(handle: &SessionHandle, last: Seq) -> Result<LossDigest, ReadError> {
    let mut losses = LossDigest::default();
    let mut cursor = handle.cursor(Seq::ZERO);
    while cursor.position() < last {
        let batch = cursor.next().await?;
        for entry in batch.entries().iter().take_while(|entry| entry.seq <= last) {
            if let Event::Lost(lost) = &entry.event {
                losses.add(lost.first, entry.seq);
            }
        }
    }
    Ok(losses)
}

/// Forgets all rows of a session, so that they are made from the first event on. Also returns the
/// failure of the database, if there was one.
async fn start_over(
    mut state: OwnedMutexGuard<LiveState>,
    handle: &SessionHandle,
) -> Result<(OwnedMutexGuard<LiveState>, Option<StoreError>), TranscriptFailure> {
    state.discard();
    let (mut state, removed) = run_blocking(state, |state| state.store.remove(&state.id)).await?;
    if let Err(error) = removed {
        return Ok((state, Some(error)));
    }
    state.has_checked_losses = handle.shared.has_losses();
    state.is_loaded = true;
    Ok((state, None))
}

/// Works on the state on a thread that may block.
async fn run_blocking<T: Send + 'static>(
    mut state: OwnedMutexGuard<LiveState>,
    work: impl FnOnce(&mut LiveState) -> Result<T, StoreError> + Send + 'static,
) -> Result<(OwnedMutexGuard<LiveState>, Result<T, StoreError>), TranscriptFailure> {
    let done = tokio::task::spawn_blocking(move || {
        let outcome = work(&mut state);
        (state, outcome)
    });
    done.await.map_err(|_| TranscriptFailure::Gone)
}
