//! A session with a sender and a watcher, whose agent records what it receives.

use std::fs;

use anyhow::{Context, Result};
use serde_json::json;
use wharf_testkit::client::TestClient;
use wharf_testkit::host::TestHost;

use super::able_client;
use crate::transports::Transport;
use crate::{cwd, scripted_host};

/// The agent's own id of its session.
pub(super) const AGENT_WORDS: &str = "the agents own";

pub(super) struct Stage {
    pub(super) host: TestHost,
    record: tempfile::NamedTempFile,
    /// Has made the session.
    pub(super) sender: TestClient,
    /// An observer over WebSocket.
    pub(super) watcher: TestClient,
    pub(super) session: String,
}

impl Stage {
    /// Starts a host; the sender comes by this way.
    pub(super) async fn open(way: Transport, flags: &[&str]) -> Result<Self> {
        let record = tempfile::NamedTempFile::new()?;
        let path = record.path().to_str().context("not UTF-8")?;
        let host =
            scripted_host(&[&["--record", path, "--session-id", AGENT_WORDS], flags].concat())?
                .start_host()?;
        let sender = able_client(&host, way).await?;
        let session = sender.new_session(&cwd(&host)?).await?;
        let watcher = able_client(&host, Transport::WebSocket).await?;
        let attach = json!({ "sessionId": session, "historyPolicy": "none", "role": "observer" });
        watcher.call_method("session/attach", attach).await?;
        Ok(Self { host, record, sender, watcher, session })
    }

    /// The whole lines that the agent has received.
    pub(super) fn read_lines(&self) -> Result<Vec<String>> {
        let text = fs::read_to_string(self.record.path())?;
        Ok(text
            .split_inclusive('\n')
            .filter_map(|line| line.strip_suffix('\n'))
            .map(str::to_owned)
            .collect())
    }
}
