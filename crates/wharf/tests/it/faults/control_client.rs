//! A client that works in a session of its own while others fail, and must not be affected.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use wharf_testkit::client::TestClient;
use wharf_testkit::host::TestHost;

use crate::{open_session, prompt_for_text, stop_reason};

/// A turn takes milliseconds. This limit allows for a busy machine: a turn that another session
/// blocks never ends.
const TURN_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) struct ControlClient {
    client: TestClient,
    session: String,
}

impl ControlClient {
    pub(super) async fn start(host: &TestHost) -> Result<Self> {
        let (client, session) = open_session(host).await?;
        Ok(Self { client, session })
    }

    /// Runs this many turns, each with a complete answer. Returns the slowest.
    pub(super) async fn run_turns(&self, turns: usize) -> Result<Duration> {
        let mut slowest = Duration::ZERO;
        for turn in 0..turns {
            let began = Instant::now();
            ensure!(
                prompt_for_text(&self.client, &self.session, &format!("echo turn {turn}")).await?
                    == format!("turn {turn}")
            );
            slowest = slowest.max(began.elapsed());
        }
        ensure!(slowest < TURN_TIMEOUT, "a turn took {slowest:?}");
        Ok(slowest)
    }

    /// Runs turns until `fault` is over, at least one.
    pub(super) async fn works_during<T>(
        &self,
        fault: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let work = async {
            loop {
                if let Err(error) = self.run_turns(1).await {
                    return error;
                }
            }
        };
        let done = tokio::select! {
            done = fault => done?,
            error = work => return Err(error),
        };
        // The turn that was under way does not count.
        let _ = stop_reason(self.client.send_prompt(&self.session, "echo done").await)?;
        self.run_turns(1).await?;
        Ok(done)
    }
}

impl ControlClient {
    /// Returns the parameters by which a client joins the session.
    pub(super) fn session_params(&self, cwd: &str) -> serde_json::Value {
        serde_json::json!({ "sessionId": self.session, "cwd": cwd, "mcpServers": [], "historyPolicy": "none" })
    }
}
