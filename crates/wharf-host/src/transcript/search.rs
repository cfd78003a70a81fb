//! Search over the transcripts of all sessions (rule 13.11): the hits, and the sessions of which
//! something is not searched yet.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use wharf_api::{SnippetPart, TranscriptRow};
use wharf_core::SessionId;
use wharf_store::{
    FoundRow, FoundRows, IndexStep, LogId, RowWords, StoreError, StoredRow, TranscriptStore,
    WordPhrase, WordSearch,
};
use wharf_transcript::parse_timestamp;
use wharf_transcript::search::{SearchQuery, index_words, make_snippet};

use super::catch_up::catch_up;
use super::row_cache::{NumberedRow, from_stored_row};
use super::{TranscriptFailure, stored_fold};
use crate::descriptor::Descriptor;
use crate::host::Host;

/// The rows that one search looks at. Those of sessions that are not selected count too, so that a
/// search for a common word in a small part of the host comes to an end.
const MAX_LOOKED_AT: usize = 20_000;
/// The sessions that a search brings up to date itself, and the time that it takes for that. It is
/// enough for the sessions at work; all else is left to the background.
const MAX_CAUGHT_UP: usize = 8;
const CATCH_UP_TIMEOUT: Duration = Duration::from_millis(100);
/// The rows, and their bytes, whose words are written in one transaction.
const INDEXED_ROWS: usize = 256;
const INDEXED_BYTES: usize = 256 * 1024;

/// Selects rows by their words.
#[derive(Clone, Debug)]
pub struct TranscriptSearch {
    pub query: SearchQuery,
    /// Only rows of these kinds; empty for all that are searched.
    pub kinds: Vec<String>,
    /// The `next` of the page before.
    pub before: Option<u64>,
    pub limit: usize,
}

/// A row that matches.
#[derive(Clone, Debug)]
pub struct TranscriptHit {
    pub session: SessionId,
    pub row: TranscriptRow,
    pub snippet: Vec<SnippetPart>,
}

/// The rows that match, the newest first.
#[derive(Clone, Debug, Default)]
pub struct TranscriptHits {
    pub hits: Vec<TranscriptHit>,
    /// There may be older hits before this place.
    pub next: Option<u64>,
    /// The sessions whose newest events are not searched yet.
    pub pending: usize,
}

impl Host {
    /// Searches the transcripts of these sessions, and no others.
    pub async fn search(
        &self,
        search: TranscriptSearch,
        sessions: &[Arc<Descriptor>],
    ) -> Result<TranscriptHits, TranscriptFailure> {
        let store = Arc::clone(&self.inner().transcripts.store);
        let generation = store.generation();
        let found = self.search_once(search.clone(), sessions).await;
        if store.generation() == generation {
            return found;
        }
        // The database was damaged, and the store has created it again. The second search returns
        // how much is missing.
        self.search_once(search, sessions).await
    }

    async fn search_once(
        &self,
        search: TranscriptSearch,
        sessions: &[Arc<Descriptor>],
    ) -> Result<TranscriptHits, TranscriptFailure> {
        let pending = self.catch_up_for_search(sessions).await?;
        let ids: HashSet<SessionId> =
            sessions.iter().map(|known| SessionId::new(known.id.as_str())).collect();
        let only = self.list_log_ids(&ids);
        let transcripts = &self.inner().transcripts;
        let store = Arc::clone(&transcripts.store);
        let fold = stored_fold(transcripts.secrets);
        let found =
            tokio::task::spawn_blocking(move || find_rows(&*store, fold, &search, &ids, &only));
        let (hits, next) = found.await.map_err(|_| TranscriptFailure::Gone)??;
        Ok(TranscriptHits { hits, next, pending })
    }

    /// Brings the sessions at work up to date and returns how many sessions are behind after that.
    async fn catch_up_for_search(
        &self,
        sessions: &[Arc<Descriptor>],
    ) -> Result<usize, TranscriptFailure> {
        // Events that come after this moment are not asked for.
        let mut behind = self.list_behind(sessions).await?;
        if behind.is_empty() {
            return Ok(0);
        }
        let inner = self.inner();
        behind.sort_unstable_by_key(|known| !known.status.is_alive());
        let deadline = tokio::time::Instant::now() + CATCH_UP_TIMEOUT;
        for known in behind.iter().take(MAX_CAUGHT_UP) {
            let id = SessionId::new(known.id.as_str());
            // Work that is cut off is not lost: the fold goes on where it stopped.
            if tokio::time::timeout_at(deadline, catch_up(self, &id)).await.is_err() {
                break;
            }
        }
        let left = self.list_behind(&behind).await?;
        if !left.is_empty() {
            inner.transcripts.wake_catch_up.notify_one();
        }
        Ok(left.len())
    }

    /// Returns the sessions of which the database does not have all events.
    async fn list_behind(
        &self,
        sessions: &[Arc<Descriptor>],
    ) -> Result<Vec<Arc<Descriptor>>, TranscriptFailure> {
        let covered = self.inner().transcripts.read_progress().await?;
        let is_behind = |known: &&Arc<Descriptor>| {
            let seq = covered.get(&SessionId::new(known.id.as_str()));
            seq.is_none_or(|seq| *seq < known.last_seq)
        };
        Ok(sessions.iter().filter(is_behind).cloned().collect())
    }

    fn list_log_ids(&self, ids: &HashSet<SessionId>) -> Vec<LogId> {
        let registry = &self.inner().registry;
        ids.iter().filter_map(|id| Some(registry.get(id)?.log_id().clone())).collect()
    }
}

impl super::Transcripts {
    /// Returns the last event that each transcript of this fold covers. One whose words are not
    /// written covers none.
    pub(super) async fn read_progress(&self) -> Result<HashMap<SessionId, u64>, TranscriptFailure> {
        let store = Arc::clone(&self.store);
        let progress = tokio::task::spawn_blocking(move || store.progress()).await;
        let progress = progress.map_err(|_| TranscriptFailure::Gone)??;
        let fold = stored_fold(self.secrets);
        let current = progress.into_iter().filter(|known| known.fold == fold && known.is_indexed);
        Ok(current.map(|known| (SessionId::new(known.id.name()), known.seq)).collect())
    }
}

/// Finds the rows and cuts their snippets.
pub(super) fn find_rows(
    store: &dyn TranscriptStore,
    fold: u32,
    search: &TranscriptSearch,
    ids: &HashSet<SessionId>,
    only: &[LogId],
) -> Result<(Vec<TranscriptHit>, Option<u64>), StoreError> {
    let to_phrase = |phrase: &wharf_transcript::search::SearchPhrase| WordPhrase {
        words: phrase.words.clone(),
        is_prefix: phrase.is_prefix,
    };
    let phrases: Vec<WordPhrase> = search.query.phrases().iter().map(to_phrase).collect();
    let is_selected = |id: &LogId| ids.contains(&SessionId::new(id.name()));
    let words = WordSearch {
        phrases: &phrases,
        kinds: &search.kinds,
        fold,
        only: Some(only),
        is_selected: &is_selected,
        before: search.before,
        max_rows: search.limit,
        max_looked_at: MAX_LOOKED_AT,
    };
    let FoundRows { rows, next } = store.search(&words)?;
    let hits = rows
        .iter()
        .filter_map(|found| to_hit(found, &search.query).transpose())
        .collect::<Result<_, _>>()?;
    Ok((hits, next))
}

/// Returns `None` for a row that was found by words which it does not have any more.
fn to_hit(found: &FoundRow, query: &SearchQuery) -> Result<Option<TranscriptHit>, StoreError> {
    let row = from_stored_row(&found.row)?.row;
    let snippet = make_snippet(&row, query);
    let is_match = snippet.iter().any(|part| part.is_match);
    Ok(is_match.then(|| TranscriptHit { session: SessionId::new(found.id.name()), row, snippet }))
}

/// Writes the words of some rows. Returns true if there may be more rows without theirs.
pub(super) fn index_some_rows(store: &dyn TranscriptStore, id: &LogId) -> Result<bool, StoreError> {
    let step = IndexStep {
        read_words: &read_row_words,
        max_rows: INDEXED_ROWS,
        max_bytes: INDEXED_BYTES,
    };
    store.index_some_rows(id, &step)
}

/// Returns the words by which a row is found. Its text has been redacted already. A row that cannot
/// be read has none.
fn read_row_words(stored: &StoredRow) -> RowWords {
    match from_stored_row(stored) {
        Ok(NumberedRow { row, .. }) => RowWords {
            at_millis: parse_timestamp(&row.at).unwrap_or_default().0,
            words: index_words(&row),
        },
        Err(_) => RowWords { at_millis: 0, words: String::new() },
    }
}
