//! The messages that the scripted agent received over all its starts: the file of its `--record`
//! flag.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;
use wharf_testkit::host::HostOptions;
use wharf_testkit::{WAIT_LIMIT, polling};

/// A file that outlives the agent.
#[derive(Debug)]
pub(crate) struct Recording {
    directory: TempDir,
}

impl Recording {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { directory: TempDir::with_prefix("wharf-recording-")? })
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("record")
    }

    /// Configures a host whose default agent is the scripted one with these flags and the
    /// recording.
    pub(crate) fn host_options(&self, flags: &[&str]) -> Result<HostOptions> {
        let path = self.path();
        let path = path.to_str().context("the path is not UTF-8")?;
        crate::scripted_host(&[&["--record", path], flags].concat())
    }

    /// Returns everything that the agent received, byte for byte.
    pub(crate) fn text(&self) -> Result<String> {
        fs::read_to_string(self.path()).context("reading the recording")
    }

    /// Returns every message, in order.
    pub(crate) fn read_messages(&self) -> Result<Vec<Value>> {
        let text = match fs::read_to_string(self.path()) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).context("reading the recording"),
        };
        // A line that is being written has no line break yet.
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines
            .map(|line| serde_json::from_str(line).with_context(|| format!("not JSON: {line}")))
            .collect()
    }

    /// Returns the requests and notifications since the last start of an agent, without its
    /// `initialize`.
    pub(crate) fn since_start(&self) -> Result<Vec<Value>> {
        let messages: Vec<Value> = self
            .read_messages()?
            .into_iter()
            .filter(|one| one["method"].is_string())
            .collect();
        let start = messages
            .iter()
            .rposition(|message| message["method"] == "initialize")
            .context("no start")?;
        Ok(messages.into_iter().skip(start + 1).collect())
    }

    /// Returns the methods of these messages.
    pub(crate) fn read_methods(&self) -> Result<Vec<String>> {
        let messages = self.since_start()?;
        Ok(messages
            .iter()
            .map(|message| message["method"].as_str().unwrap_or_default().to_owned())
            .collect())
    }

    /// Waits until the agent has received a message that matches.
    pub(crate) async fn expect(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Result<Value> {
        let found =
            polling::poll_until(WAIT_LIMIT, || Ok(self.read_messages()?.into_iter().find(&fits)))
                .await?;
        match found {
            Some(message) => Ok(message),
            None => anyhow::bail!("the agent did not get {what} but {:?}", self.read_messages()?),
        }
    }
}
