//! Lines that agents write beside the protocol (rule 8.8).

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

words! {
    /// The stream that an agent wrote to.
    pub enum LogStream as "LogStream" {
        Stderr = "stderr",
        /// A line on stdout that is not JSON.
        Stdout = "stdout",
    }
}

/// Selects lines of an agent's log.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub struct AgentLogQuery {
    /// `next` of another answer: the lines after it. Without it, the newest lines.
    pub after: Option<String>,
    #[param(minimum = 1, maximum = 5000, default = 200)]
    pub limit: Option<usize>,
    /// With `after`: waits so long for a line, such as `20s`, at most `1h`.
    pub wait: Option<String>,
}

/// Lines of a session's agents, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentLogPage {
    /// The session.
    pub id: String,
    pub lines: Vec<AgentLogLine>,
    /// The position after the last of these lines: the next call takes it as `after`.
    pub next: String,
    /// True if lines after `after` are not kept any more: they were too many, or the host has
    /// started again since.
    #[serde(default)]
    pub gap: bool,
}

/// A line without control characters and secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentLogLine {
    /// ISO 8601, the time when the host read the line.
    pub at: String,
    pub stream: LogStream,
    pub text: String,
    /// True if the line was longer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}
