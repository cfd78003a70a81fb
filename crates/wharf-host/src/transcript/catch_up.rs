//! Catches transcripts up in the background: some seconds after a turn ended, one session at a
//! time. A page after a restart then needs little of the log.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use wharf_core::SessionId;
use wharf_store::LogId;

use super::SessionTranscript;
use super::search::index_some_rows;
use crate::descriptor::TurnWord;
use crate::host::{Host, Inner};
use crate::registry::KnownSession;

/// How long after a change sessions are looked through.
const CATCH_UP_DELAY: Duration = Duration::from_secs(5);
/// The pause after each session, so that this work never takes a whole core.
const CATCH_UP_PAUSE: Duration = Duration::from_millis(50);

/// Starts the task that catches transcripts up. It ends with the host.
pub(crate) fn catch_up_in_background(inner: &Arc<Inner>) {
    let weak = Arc::downgrade(inner);
    let changes = inner.registry.watch_changes();
    tokio::spawn(run(weak, changes));
}

async fn run(host: Weak<Inner>, mut changes: tokio::sync::watch::Receiver<u64>) {
    if let Some(inner) = host.upgrade() {
        remove_orphans(&inner).await;
    }
    // The last event of sessions that could not be caught up. Trying again before there is another
    // would be in vain.
    let mut failed: HashMap<SessionId, u64> = HashMap::new();
    // The sessions with lost events whose rows were compared with the log. A search would find the
    // former rows otherwise.
    let mut checked: HashSet<SessionId> = HashSet::new();
    let mut is_wanted = false;
    loop {
        if !is_wanted {
            wait_until_wanted(&host, CATCH_UP_DELAY).await;
        }
        changes.borrow_and_update();
        let Some(inner) = host.upgrade() else { return };
        inner.transcripts.drop_idle().await;
        let behind = list_behind(&inner, &failed, &checked).await;
        drop(inner);
        for (id, last_seq) in behind {
            let Some(inner) = host.upgrade() else { return };
            let host = Host::from_inner(inner);
            let has_losses = has_losses(host.inner(), &id);
            if !catch_up(&host, &id).await {
                failed.insert(id, last_seq);
            } else if has_losses {
                checked.insert(id);
            }
            host.inner().transcripts.drop_idle().await;
            drop(host);
            tokio::time::sleep(CATCH_UP_PAUSE).await;
        }
        is_wanted = tokio::select! {
            is_wanted = wait_until_wanted(&host, super::IDLE_TIMEOUT) => is_wanted,
            changed = changes.changed() => if changed.is_err() { return } else { false },
        }
    }
}

/// Waits until a search wants sessions to be caught up. Returns false if `at_most` passes without
/// such a search, or if the host is gone.
async fn wait_until_wanted(host: &Weak<Inner>, at_most: Duration) -> bool {
    let Some(inner) = host.upgrade() else { return false };
    // The task must not keep the host alive while it waits.
    let wake = Arc::clone(&inner.transcripts.wake_catch_up);
    drop(inner);
    tokio::time::timeout(at_most, wake.notified()).await.is_ok()
}

/// Deletes the rows of sessions that are gone: a crash amid a deletion, or a person who deleted a
/// session's directory, leaves them behind.
async fn remove_orphans(inner: &Inner) {
    let store = Arc::clone(&inner.transcripts.store);
    let Ok(Ok(progress)) = tokio::task::spawn_blocking(move || store.progress()).await else {
        return;
    };
    for known in progress {
        let id = SessionId::new(known.id.name());
        if inner.registry.get(&id).is_none() && !inner.storage.is_unreadable(&id) {
            inner.transcripts.remove(&id, &known.id).await;
        }
    }
}

/// Returns true if the log of a session that is in memory has lost events.
fn has_losses(inner: &Inner, id: &SessionId) -> bool {
    matches!(inner.registry.get(id), Some(KnownSession::Live(handle)) if handle.shared.has_losses())
}

/// Returns the sessions whose transcript is behind, or may lack lost events, and whose agent does
/// not work at the moment, the newest first, each with its last event.
pub(super) async fn list_behind(
    inner: &Inner,
    failed: &HashMap<SessionId, u64>,
    checked: &HashSet<SessionId>,
) -> Vec<(SessionId, u64)> {
    let Ok(covered) = inner.transcripts.read_progress().await else { return Vec::new() };
    let mut behind = Vec::new();
    inner.registry.for_each_session(|known| {
        let descriptor = known.descriptor();
        let id = SessionId::new(descriptor.id.as_str());
        let last_seq = descriptor.last_seq;
        let is_done =
            |known: &HashMap<SessionId, u64>| known.get(&id).is_some_and(|seq| *seq >= last_seq);
        let is_loaded = matches!(known, KnownSession::Live(_));
        let is_unchecked = matches!(known, KnownSession::Live(handle) if handle.shared.has_losses())
            && !checked.contains(&id);
        if (!is_done(&covered) || is_unchecked)
            && !is_done(failed)
            && descriptor.turn == TurnWord::Idle
        {
            behind.push((is_loaded, id, last_seq));
        }
    });
    behind.sort_unstable_by(|a, b| b.cmp(a));
    behind.into_iter().map(|(_, id, last_seq)| (id, last_seq)).collect()
}

/// Folds a session's log and writes its rows and their words. Returns false if the database does
/// not have all of them after that.
pub(super) async fn catch_up(host: &Host, id: &SessionId) -> bool {
    // The second attempt is for rows that the database has lost.
    for _ in 0..2 {
        let Ok(handle) = host.open(id).await else { return false };
        let head = handle.head();
        let log_id = handle.shared.log_id.clone();
        let transcript = SessionTranscript::open(&host.inner().transcripts, handle);
        if let Err(error) = transcript.changes_after(head).await {
            tracing::debug!(session = %id, %error, "the rows of a session cannot be made");
            return false;
        }
        transcript.live.flush().await;
        let store = Arc::clone(&host.inner().transcripts.store);
        let of = log_id.clone();
        match tokio::task::spawn_blocking(move || store.checkpoint(&of)).await {
            Ok(Ok(Some(checkpoint))) => {
                return checkpoint.seq >= head.0 && index_rows(host, log_id).await;
            }
            Ok(Ok(None)) => transcript.live.reload().await,
            Ok(Err(_)) | Err(_) => return false,
        }
    }
    false
}

/// Writes the words of a session's rows, some rows at a time: nothing else can be written
/// meanwhile. Returns false if that failed.
async fn index_rows(host: &Host, id: LogId) -> bool {
    loop {
        let store = Arc::clone(&host.inner().transcripts.store);
        let of = id.clone();
        match tokio::task::spawn_blocking(move || index_some_rows(&*store, &of)).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return true,
            Ok(Err(error)) => {
                tracing::debug!(log = %id, %error, "the words of a session's rows cannot be written");
                return false;
            }
            Err(_) => return false,
        }
    }
}
