//! Catches transcripts up in the background: some seconds after a turn ended, one session at a time. A page after a restart
//! then needs little of the log.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use wharf_core::SessionId;

use super::SessionTranscript;
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
    // The last event that each transcript covers, as far as it is known.
    let mut covered: HashMap<SessionId, u64> = HashMap::new();
    if let Some(inner) = host.upgrade() {
        covered.extend(read_progress(&inner).await);
    }
    loop {
        tokio::time::sleep(CATCH_UP_DELAY).await;
        changes.borrow_and_update();
        let Some(inner) = host.upgrade() else { return };
        inner.transcripts.drop_idle().await;
        let behind = list_behind(&inner, &covered);
        drop(inner);
        for id in behind {
            let Some(inner) = host.upgrade() else { return };
            let host = Host::from_inner(inner);
            if let Some(seq) = catch_up(&host, &id).await {
                covered.insert(id, seq);
            }
            host.inner().transcripts.drop_idle().await;
            drop(host);
            tokio::time::sleep(CATCH_UP_PAUSE).await;
        }
        let wait = tokio::time::timeout(super::IDLE_TIMEOUT, changes.changed());
        if matches!(wait.await, Ok(Err(_))) {
            return;
        }
    }
}

/// Returns the last event that each transcript covers. Rows of sessions that are gone are deleted: a crash amid a deletion, or a
/// person who deleted a session's directory, leaves them behind.
async fn read_progress(inner: &Inner) -> Vec<(SessionId, u64)> {
    let store = Arc::clone(&inner.transcripts.store);
    let Ok(Ok(progress)) = tokio::task::spawn_blocking(move || store.progress()).await else { return Vec::new() };
    let mut known = Vec::new();
    for (log_id, seq) in progress {
        let id = SessionId::new(log_id.name());
        if inner.registry.get(&id).is_some() || inner.storage.is_unreadable(&id) {
            known.push((id, seq));
        } else {
            inner.transcripts.remove(&id, &log_id).await;
        }
    }
    known
}

/// Returns the sessions whose transcript is behind and whose agent does not work at the moment, the newest first.
fn list_behind(inner: &Inner, covered: &HashMap<SessionId, u64>) -> Vec<SessionId> {
    let mut behind = Vec::new();
    inner.registry.for_each_session(|known| {
        let descriptor = known.descriptor();
        let id = SessionId::new(descriptor.id.as_str());
        let is_behind = covered.get(&id).is_none_or(|seq| *seq < descriptor.last_seq);
        let is_loaded = matches!(known, KnownSession::Live(_));
        if is_behind && descriptor.turn == TurnWord::Idle {
            behind.push((is_loaded, id));
        }
    });
    behind.sort_unstable_by(|a, b| b.cmp(a));
    behind.into_iter().map(|(_, id)| id).collect()
}

/// Folds a session's log and writes its rows. Returns the last event that they cover.
async fn catch_up(host: &Host, id: &SessionId) -> Option<u64> {
    let handle = host.open(id).await.ok()?;
    let head = handle.head();
    let transcript = SessionTranscript::open(&host.inner().transcripts, handle);
    let folded = transcript.changes_after(head).await;
    if let Err(error) = folded {
        tracing::debug!(session = %id, %error, "the rows of a session cannot be made");
        // Trying again at every change would be in vain.
        return Some(head.0);
    }
    transcript.live.flush().await;
    Some(transcript.live.folded().0)
}
