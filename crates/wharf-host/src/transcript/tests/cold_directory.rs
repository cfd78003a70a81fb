//! A host over the log of a session that has ended.

use std::fs;
use std::path::PathBuf;

use wharf_api::TranscriptRow;
use wharf_config::ConfigSources;
use wharf_core::SessionId;
use wharf_testkit::cold_sessions::ColdSessions;
use wharf_testkit::{WAIT_LIMIT, polling};

use crate::transcript::{PageAnchor, PageRequest, SessionTranscript};
use crate::{Host, SessionHandle};

/// A state directory with one ended session.
pub(super) struct ColdDirectory {
    dir: tempfile::TempDir,
    pub(super) session: SessionId,
}

impl ColdDirectory {
    pub(super) fn new(events: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("config.toml"), "").unwrap();
        let cold = ColdSessions {
            count: 1,
            agent: "absent",
            cwd: dir.path(),
            events,
            waiting: None,
        };
        let ids = cold.write_to(&dir.path().join("state")).unwrap();
        Self { session: SessionId::new(ids[0].as_str()), dir }
    }

    pub(super) fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// Starts a host. A host that was shut down before holds the directory until its last task has
    /// ended.
    pub(super) async fn start_host(&self) -> Host {
        let try_start = || {
            let mut config =
                ConfigSources::new(Some(self.dir.path().join("config.toml")), false, &[])?
                    .load()?;
            config.state_dir = self.state();
            Ok(Host::start(config).ok())
        };
        polling::poll_until(WAIT_LIMIT, try_start)
            .await
            .unwrap()
            .expect("the host does not start")
    }

    /// Reads all rows with a host of its own.
    pub(super) async fn read_rows(&self) -> Vec<TranscriptRow> {
        let host = self.start_host().await;
        let rows = read_rows(&host, &host.open(&self.session).await.unwrap()).await;
        host.shut_down().await;
        rows
    }

    pub(super) fn segment(&self) -> PathBuf {
        let log = self
            .state()
            .join("workspaces/default/sessions")
            .join(self.session.as_str())
            .join("log");
        log.join(format!("{:020}.log", 1))
    }

    pub(super) fn delete_rows(&self) {
        for suffix in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(self.state().join(format!("transcript.db{suffix}")));
        }
    }
}

pub(super) async fn read_rows(host: &Host, handle: &SessionHandle) -> Vec<TranscriptRow> {
    let transcript = SessionTranscript::open(&host.inner().transcripts, handle.clone());
    let request = PageRequest { anchor: PageAnchor::Start, limit: 200, kinds: Vec::new() };
    transcript.page(request).await.unwrap().unwrap().rows
}
