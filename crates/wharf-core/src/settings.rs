//! The settings of a session's decisions, and the arguments of its creation.

use std::sync::Arc;

use crate::{AgentSetting, Millis, Origin};

/// The settings of the core's decisions. All durations in milliseconds; `None` means never.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub cancel_timeout: Option<Millis>,
    pub ask_timeout: Option<Millis>,
    pub forms: FormAnswerers,
    pub idle_ttl: Option<Millis>,
    /// The longest duration of a turn, and the longest silence of the agent in one (rule 2.8).
    pub turn_deadline: Option<Millis>,
    pub no_progress: Option<Millis>,
    pub on_restart: OnRestart,
    pub max_queue: usize,
    pub max_asks: usize,
    /// The delays after which a failed start is retried while prompts are queued (rule 12.5).
    pub start_retries: Vec<Millis>,
    /// A snapshot is taken at the first idle moment after this many events.
    pub snapshot_every: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cancel_timeout: Some(Millis(30_000)),
            ask_timeout: None,
            forms: FormAnswerers::Clients,
            idle_ttl: None,
            turn_deadline: None,
            no_progress: None,
            on_restart: OnRestart::Mark,
            max_queue: 100,
            max_asks: 100,
            start_retries: vec![Millis(1_000), Millis(4_000), Millis(15_000)],
            snapshot_every: 10_000,
        }
    }
}

/// The callers that a form may wait for (rule 3.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormAnswerers {
    /// Attached clients that can show forms. Without one the form is cancelled.
    Clients,
    /// Any caller, even if it is not attached: the form waits as a permission does.
    Anyone,
}

/// The treatment of a turn that a death of the host or the agent interrupted (rules 2.7, 12.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnRestart {
    /// The turn is ended, and its sender notified.
    Mark,
    /// The prompt goes back to the head of the queue, once.
    Requeue,
}

/// The arguments of `Session::create`.
#[derive(Clone, Debug)]
pub struct NewSession {
    pub origin: Origin,
    pub settings: Settings,
    /// A title of the client that creates it.
    pub title: Option<Arc<str>>,
    /// The settings that the agent is given before its first prompt: those of the session that a
    /// fork is a copy of.
    pub agent_settings: Option<Vec<AgentSetting>>,
}

impl NewSession {
    /// Returns the arguments for an ordinary session.
    pub const fn new(origin: Origin, settings: Settings) -> Self {
        Self { origin, settings, title: None, agent_settings: None }
    }
}
