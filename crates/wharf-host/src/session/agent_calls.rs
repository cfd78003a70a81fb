//! Requests to the agent of callers that are no clients of the session.

use bytes::Bytes;
use tokio::sync::oneshot;

use super::command::Command;
use super::handle::{CallError, SessionHandle};

/// The agent's answer to a caller's request: the whole response frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentAnswer {
    pub frame: Bytes,
    /// True for a result, false for an error.
    pub is_result: bool,
}

impl SessionHandle {
    /// Sends a request to the agent and waits for the answer. The session task replaces the ids in
    /// the frame on the way. A setting that the agent agrees to is in the log before this returns
    /// (rule 12.9). Returns `None` if the session has no agent, or if the agent goes away before it
    /// answers.
    pub async fn call_agent(&self, frame: Bytes) -> Result<Option<AgentAnswer>, CallError> {
        let (answer, wait) = oneshot::channel();
        self.send(Command::CallAgent { frame, answer }).await?;
        Ok(wait.await.ok())
    }
}
