//! The host itself.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{SessionInfo, SettingsState};

/// The host itself.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Described)]
pub struct HostInfo {
    pub version: String,
    pub pid: u32,
    /// Where it listens.
    pub url: String,
    /// The address of the web page for other machines (`public_url`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub public_url: Option<String>,
    pub state_dir: String,
    /// The agent of clients that name none.
    pub default_agent: String,
    /// How long an agent has to end a turn that was interrupted before it is ended by force; absent
    /// if it is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub cancel_timeout_ms: Option<u64>,
    /// The file on the host's machine that its own log goes to; absent if that is its stderr.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub log_file: Option<String>,
    pub sessions: SessionCount,
    /// Turns under way. Older hosts do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub turns: Option<TurnCount>,
    /// The configuration file. For admins.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub settings: Option<SettingsState>,
    /// How it was started. For admins.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub process: Option<HostProcess>,
}

words! {
    /// How the host was started.
    pub enum StartKind as "StartKind" {
        /// In a terminal, or by a program that is not known.
        Foreground = "foreground",
        /// By a verb that needed it.
        Background = "background",
        /// By the system's service manager.
        Service = "service",
    }
}

/// The host's process, for a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = HostProcess)]
pub struct HostProcess {
    pub started_as: StartKind,
    /// The name of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub service: Option<String>,
    /// Its arguments, from the verb on.
    pub arguments: Vec<String>,
}

impl Default for HostProcess {
    fn default() -> Self {
        Self {
            started_as: StartKind::Foreground,
            service: None,
            arguments: Vec::new(),
        }
    }
}

/// How many sessions there are.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Count)]
pub struct SessionCount {
    /// With an agent.
    pub live: usize,
    /// With those that have ended.
    pub total: usize,
}

/// How many turns are under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TurnCount {
    pub running: usize,
    /// Running turns whose agents can outlive the host.
    pub kept: usize,
}

/// The fate of the agents when the host stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum StopAgents {
    /// They end with the host.
    #[default]
    End,
    /// They go on, and the next host takes them over.
    Leave,
}

/// How the host is to stop.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct StopQuery {
    /// `end` (the default) or `leave`.
    #[param(inline)]
    pub agents: Option<StopAgents>,
}

/// The host is on its way out.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Stopping)]
pub struct StopReceipt {
    pub ok: bool,
    /// The process that will be gone.
    pub pid: u32,
}

/// Sessions with what they run as.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Processes)]
pub struct ProcessList {
    pub sessions: Vec<SessionProcesses>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionProcesses {
    #[serde(flatten)]
    pub session: SessionInfo,
    /// The roots of its process trees: the agent's, and its terminals'.
    pub pids: Vec<u32>,
    /// Asks that are open.
    pub asks: u64,
    /// Readers that follow it, and by how many events the slowest of them is behind.
    pub readers: u64,
    pub lag_events: u64,
    pub log_bytes: u64,
    /// How long its agent has had nothing to do; left out while it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub idle_millis: Option<u64>,
}
