//! What a session's agent was started with, kept in a private file beside the log: it may hold secrets, so it is
//! never in the log (rule 2.6).

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wharf_core::Raw;
use wharf_store::LogId;

use super::Inner;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StartInputs {
    pub(crate) version: u32,
    /// The JSON of `clientCapabilities` as told to the agent.
    pub(crate) capabilities: String,
    /// The `session/new` request: cwd, directories, MCP servers with their secrets.
    pub(crate) new_frame: Raw,
}

impl Inner {
    pub(crate) fn session_dir(&self, log_id: &LogId) -> PathBuf {
        self.config.state_dir.join("workspaces").join(log_id.bucket()).join("sessions").join(log_id.name())
    }

    pub(crate) fn start_inputs(&self, log_id: &LogId) -> Result<StartInputs, String> {
        let path = self.session_dir(log_id).join("start.json");
        let text = std::fs::read(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        serde_json::from_slice(&text).map_err(|error| format!("{} is damaged: {error}", path.display()))
    }

    pub(crate) fn keep_start_inputs(&self, log_id: &LogId, inputs: &StartInputs) -> std::io::Result<()> {
        let text = serde_json::to_vec(inputs).map_err(std::io::Error::other)?;
        write_private(&self.session_dir(log_id).join("start.json"), &text)
    }
}

/// Writes a file that only its owner can read, whole or not at all.
pub(crate) fn write_private(path: &Path, text: &[u8]) -> std::io::Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let half = path.with_extension("new");
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&half)?;
    file.write_all(text)?;
    file.sync_all()?;
    std::fs::rename(&half, path)
}
