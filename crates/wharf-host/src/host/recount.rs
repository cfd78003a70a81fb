//! Counts the tokens of sessions again whose index rows have sums of an older rule (rule 15.1).

use std::sync::Arc;

use wharf_core::{Input, LifecycleInput, SessionId};

use super::{Host, Inner};
use crate::descriptor::Descriptor;
use crate::ids::Now;
use crate::registry::KnownSession;

impl Host {
    /// Reads the logs of these sessions again in the background, one after the other.
    pub(super) fn recount_tokens(&self) {
        let outdated = self.list_outdated_sums();
        if outdated.is_empty() {
            return;
        }
        let host = self.clone();
        tokio::spawn(async move {
            host.announced().await;
            tracing::info!(
                sessions = outdated.len(),
                "the tokens of older sessions are counted again"
            );
            for id in outdated {
                host.recount_session(id).await;
            }
        });
    }

    fn list_outdated_sums(&self) -> Vec<SessionId> {
        let mut outdated = Vec::new();
        self.inner.registry.for_each_session(|known| {
            if let KnownSession::Cold { descriptor, .. } = known
                && !descriptor.has_current_sums()
            {
                outdated.push(SessionId::new(descriptor.id.as_str()));
            }
        });
        outdated
    }

    /// Reads the log of a session at rest and writes its row. The lock keeps others from opening or
    /// forgetting the session meanwhile: a row that is written here is the newest one.
    async fn recount_session(&self, id: SessionId) {
        let _one = self.inner.locks.opening.lock().await;
        let inner = Arc::clone(&self.inner);
        let counted = tokio::task::spawn_blocking(move || inner.recount_cold_session(&id)).await;
        if let Err(error) = counted {
            tracing::warn!(%error, "the tokens of a session are not counted again");
        }
    }
}

impl Inner {
    /// Does nothing if the session has a task, which folds the log by itself, or is gone.
    fn recount_cold_session(&self, id: &SessionId) {
        let Some(KnownSession::Cold { log_id, descriptor, .. }) = self.registry.get(id) else {
            return;
        };
        let (mut session, shared) = match self.load_from_log(&log_id, None, Some(&descriptor)) {
            Ok(loaded) => loaded,
            Err(error) => {
                tracing::debug!(session = %id, %error, "the tokens of a session are not counted again");
                return;
            }
        };
        let step = session.handle(Input::Lifecycle(LifecycleInput::HostRestarted), Now::millis());
        if !step.events.is_empty() {
            // The log lacks the end of something. Whoever opens the session adds it.
            return;
        }
        let counted = Descriptor::of_session(&session, &shared.attention);
        self.index.put(self.list(&shared, counted, None));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use wharf_config::ConfigSources;
    use wharf_core::COUNTING_RULE;
    use wharf_store::{Index, IndexRow, SqliteIndex};
    use wharf_testkit::cold_sessions::ColdSessions;
    use wharf_testkit::{WAIT_LIMIT, polling};

    use super::*;

    const SESSION_COUNT: usize = 20;

    /// Starts a host. One that was shut down before holds the directory until its last task has
    /// ended.
    async fn start_host(dir: &Path) -> Host {
        let try_start = || {
            let mut config =
                ConfigSources::new(Some(dir.join("config.toml")), false, &[])?.load()?;
            config.state_dir = dir.join("state");
            Ok(Host::start(config).ok())
        };
        polling::poll_until(WAIT_LIMIT, try_start)
            .await
            .unwrap()
            .expect("the host does not start")
    }

    fn read_rows(dir: &Path) -> Vec<IndexRow> {
        SqliteIndex::open(&dir.join("state/index.db")).unwrap().all().unwrap()
    }

    fn counted_input(known: &Descriptor) -> Option<u64> {
        known.usage.as_ref()?.tokens.input
    }

    /// Gives the rows of the index the sums of an older rule.
    fn make_rows_outdated(dir: &Path) {
        let mut rows = read_rows(dir);
        for row in &mut rows {
            let mut known = Descriptor::from_summary(&row.summary).unwrap();
            known.counting_rule = COUNTING_RULE - 1;
            known.usage.as_mut().unwrap().tokens.input = Some(9_500);
            row.summary = known.to_summary().unwrap().into();
        }
        SqliteIndex::open(&dir.join("state/index.db")).unwrap().put(&rows).unwrap();
    }

    #[tokio::test]
    async fn rows_with_older_sums_are_counted_again_without_a_task_per_session() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.toml"), "").unwrap();
        let cold = ColdSessions {
            count: SESSION_COUNT,
            agent: "absent",
            cwd: dir.path(),
            events: 0,
            waiting: None,
        };
        let ids = cold.write_to(&dir.path().join("state")).unwrap();
        let host = start_host(dir.path()).await;
        let input = counted_input(&host.descriptors()[0]);
        assert!(input.is_some());
        host.shut_down().await;
        drop(host);
        make_rows_outdated(dir.path());

        let host = start_host(dir.path()).await;
        let mut changes = host.changes();
        assert!(host.descriptors().iter().all(|known| counted_input(known) == Some(9_500)));
        let forgotten = SessionId::new(ids[SESSION_COUNT / 2].as_str());
        host.forget(&forgotten).await.unwrap();
        while host.descriptors().iter().any(|known| !known.has_current_sums()) {
            changes.changed().await.unwrap();
        }
        assert!(host.descriptors().iter().all(|known| counted_input(known) == input));
        assert_eq!(
            host.inner().registry.live_sessions().len(),
            0,
            "sessions that were opened to be counted"
        );
        // The last row is on its way to the index as long as the lock is held.
        drop(host.inner.locks.opening.lock().await);
        host.shut_down().await;
        let known = read_rows(dir.path())
            .into_iter()
            .map(|row| Descriptor::from_summary(&row.summary).unwrap());
        let known: Vec<_> = known.collect();
        assert_eq!(known.len(), SESSION_COUNT - 1, "without the forgotten one");
        assert!(
            known
                .iter()
                .all(|known| known.has_current_sums() && counted_input(known) == input)
        );
    }
}
