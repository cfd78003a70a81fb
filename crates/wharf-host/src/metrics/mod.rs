//! The host's metrics. They hold numbers only: no id, no name of a user, no content of a session.

mod family;
mod gather;
mod numbers;
mod reported_usage;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use wharf_core::{PromptEnd, StartKind};

use crate::notify::NotifyReceiver;

pub use family::{Family, Kind, Sample, Value};
pub use gather::Insight;
pub use numbers::{Classes, Counter, Histogram};
use numbers::{DISK_BUCKET_SECONDS, WORK_BUCKET_SECONDS};

/// How turns end. An agent's own words for it are not among them: whatever else it says is `other`.
const PROMPT_OUTCOMES: [&str; 13] = [
    "end_turn",
    "max_tokens",
    "max_turn_requests",
    "refusal",
    "cancelled",
    "other",
    "failed",
    "removed",
    "agent_exited",
    "start_failed",
    "session_ended",
    "host_shutdown",
    "host_restarted",
];

/// Counted from the host's start on.
#[derive(Debug)]
pub struct Metrics {
    pub(crate) events: Counter,
    pub(crate) event_bytes: Counter,
    pub(crate) append: Histogram,
    pub(crate) sync: Histogram,
    pub(crate) turns_started: Counter,
    turns_ended: [Counter; PROMPT_OUTCOMES.len()],
    prompts_dropped: [Counter; PROMPT_OUTCOMES.len()],
    pub(crate) turn_time: Histogram,
    pub(crate) queue_time: Histogram,
    pub(crate) asks: Counter,
    agent_starts: [Counter; START_WORDS.len()],
    pub(crate) start_failures: Counter,
    pub(crate) agent_exits: Counter,
    agents_taken_over: Counter,
    longest_absence_millis: AtomicU64,
    pub(crate) slept_for_memory: Counter,
    pub(crate) slept_when_idle: Counter,
    /// The duration of one sample of the process table.
    pub(crate) look: Histogram,
    pub notifications: NotifyMetrics,
    agents: Mutex<BTreeMap<String, AgentUse>>,
    started: SystemTime,
}

/// Notifications by what became of them, each for all receivers in the order of
/// [`NotifyReceiver::ALL`].
#[derive(Debug, Default)]
pub struct NotifyMetrics {
    sent: [Counter; NotifyReceiver::ALL.len()],
    failed: [Counter; NotifyReceiver::ALL.len()],
    dropped: [Counter; NotifyReceiver::ALL.len()],
}

impl NotifyMetrics {
    pub fn count_sent(&self, receiver: NotifyReceiver) {
        self.sent[receiver as usize].add(1);
    }

    /// Counts a notification that was given up after its last try.
    pub fn count_failed(&self, receiver: NotifyReceiver) {
        self.failed[receiver as usize].add(1);
    }

    /// Counts a notification that was never tried, because too many waited.
    pub fn count_dropped(&self, receiver: NotifyReceiver) {
        self.dropped[receiver as usize].add(1);
    }
}

/// Memory, CPU time and processes of the agents of one adapter.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AgentUse {
    pub(crate) memory: u64,
    pub(crate) processes: u64,
    /// Only grows: of all that ever ran.
    pub(crate) cpu_millis: u64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            events: Counter::default(),
            event_bytes: Counter::default(),
            append: Histogram::new(DISK_BUCKET_SECONDS),
            sync: Histogram::new(DISK_BUCKET_SECONDS),
            turns_started: Counter::default(),
            turns_ended: Default::default(),
            prompts_dropped: Default::default(),
            turn_time: Histogram::new(WORK_BUCKET_SECONDS),
            queue_time: Histogram::new(WORK_BUCKET_SECONDS),
            asks: Counter::default(),
            agent_starts: Default::default(),
            start_failures: Counter::default(),
            agent_exits: Counter::default(),
            agents_taken_over: Counter::default(),
            longest_absence_millis: AtomicU64::new(0),
            slept_for_memory: Counter::default(),
            slept_when_idle: Counter::default(),
            look: Histogram::new(DISK_BUCKET_SECONDS),
            notifications: NotifyMetrics::default(),
            agents: Mutex::default(),
            started: SystemTime::now(),
        }
    }
}

/// The words for the ways in which agents are started.
const START_WORDS: [&str; 4] = ["new", "load", "resume", "fork"];

impl Metrics {
    /// Counts the end of a prompt whose turn had begun, or never did.
    pub(crate) fn prompt_ended(&self, outcome: &'static str, had_turn: bool) {
        let counters = if had_turn { &self.turns_ended } else { &self.prompts_dropped };
        if let Some(place) = PROMPT_OUTCOMES.iter().position(|known| *known == outcome) {
            counters[place].add(1);
        }
    }

    pub(crate) fn agent_starting(&self, how: StartKind) {
        let place = match how {
            StartKind::New => 0,
            StartKind::Load => 1,
            StartKind::Resume => 2,
            StartKind::Fork => 3,
        };
        self.agent_starts[place].add(1);
    }

    /// Counts an agent of an earlier host that this host has taken over. The agent was without a
    /// host for `absence`.
    pub(crate) fn note_takeover(&self, absence: Duration) {
        self.agents_taken_over.add(1);
        let millis = u64::try_from(absence.as_millis()).unwrap_or(u64::MAX);
        self.longest_absence_millis.fetch_max(millis, Ordering::Relaxed);
    }

    /// Sets the current usage by adapter; the CPU time is that since the last call. An adapter that
    /// is not named uses nothing.
    pub(crate) fn note_agents(&self, now: BTreeMap<String, AgentUse>) {
        let mut agents = self.agents();
        agents.values_mut().for_each(|used| (used.memory, used.processes) = (0, 0));
        for (adapter, AgentUse { memory, processes, cpu_millis }) in now {
            let used = agents.entry(adapter).or_default();
            (used.memory, used.processes) = (memory, processes);
            used.cpu_millis += cpu_millis;
        }
    }

    fn agents(&self) -> MutexGuard<'_, BTreeMap<String, AgentUse>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of a prompt in one word.
pub(crate) fn outcome(end: &PromptEnd) -> &'static str {
    match end {
        PromptEnd::Answered { stop_reason, .. } => PROMPT_OUTCOMES[..5]
            .iter()
            .find(|known| **known == &**stop_reason)
            .unwrap_or(&"other"),
        PromptEnd::Failed { .. }
        | PromptEnd::Cancelled
        | PromptEnd::Removed { .. }
        | PromptEnd::AgentExited
        | PromptEnd::StartFailed
        | PromptEnd::SessionEnded
        | PromptEnd::HostShutdown
        | PromptEnd::HostRestarted => end.word(),
    }
}
