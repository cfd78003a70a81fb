//! All that the host knows of itself in numbers, gathered when somebody asks.

use std::sync::atomic::Ordering;
use std::time::UNIX_EPOCH;

use wharf_config::KeeperSettings;
use wharf_core::{SessionId, Status};

use super::reported_usage::of_reported_usage;
use super::{Counter, Family, Metrics, NotifyMetrics, PROMPT_OUTCOMES, START_WORDS, Value};
use crate::agent::KeeperLimits;
use crate::descriptor::{Descriptor, TurnWord};
use crate::host::Host;
use crate::ids::Now;
use crate::limits::Direction;
use crate::notify::NotifyReceiver;
use crate::registry::KnownSession;
use crate::session::TailBudget;
use crate::usage::own_usage;

/// How a session is, for those who look after the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Insight {
    pub asks: u64,
    /// Clients that follow the session.
    pub readers: u64,
    /// By how many events the slowest of them is behind.
    pub lag_events: u64,
    pub log_bytes: u64,
    /// It waits for space on the disk.
    pub paused: bool,
    /// How long its agent has had nothing to do; `None` while it has.
    pub idle_millis: Option<u64>,
}

/// Sums over all sessions.
#[derive(Default)]
struct Sums {
    log_bytes: u64,
    asks: u64,
    paused: u64,
    readers: u64,
    lag: u64,
    over: u64,
}

impl Host {
    /// Returns the host's counters, to which the server adds its own.
    pub fn metrics(&self) -> &Metrics {
        &self.inner().metrics
    }

    /// Is a session paused because its log has no room?
    pub fn storage_full(&self) -> bool {
        let mut full = false;
        self.inner().registry.for_each_session(|known| {
            full |= matches!(known, KnownSession::Live(handle) if handle.shared.is_paused());
        });
        full
    }

    /// Returns the numbers of a session. A session without a task has only the size of its log.
    pub fn insight(&self, id: &SessionId) -> Insight {
        let handle = match self.inner().registry.get(id) {
            Some(KnownSession::Live(handle)) => handle,
            Some(KnownSession::Cold { bytes, .. }) => {
                return Insight { log_bytes: bytes, ..Insight::default() };
            }
            None => return Insight::default(),
        };
        let shared = &handle.shared;
        let (readers, lag_events) = shared.lag();
        let idle_millis = shared.rest().since.map(|since| Now::millis().0.saturating_sub(since.0));
        let asks = shared.asks();
        let paused = shared.is_paused();
        let log_bytes = shared.log.head().bytes;
        Insight { asks, readers, lag_events, log_bytes, paused, idle_millis }
    }

    /// Every metric of the host. Takes time in proportion to the number of sessions, and wakes
    /// none.
    pub fn families(&self) -> Vec<Family> {
        let inner = self.inner();
        let metrics = self.metrics();
        let mut sums = Sums::default();
        let mut known = Vec::new();
        inner.registry.for_each_session(|session| {
            sums.add(session);
            known.push(session.descriptor());
        });
        let mut families = of_sessions(&known, &sums);
        families.extend(of_reported_usage(&known));
        families.extend(metrics.of_turns());
        families.extend(metrics.of_logs(&inner.budget, &sums));
        families.extend(metrics.of_agents());
        families
            .extend(metrics.of_keepers(inner.agents.records().count_kept(), &inner.config.keeper));
        let caps = &inner.config.limits;
        for (name, help, cap) in [
            (
                "wharf_memory_limit_bytes",
                "The bound for the memory of all agents (limits.memory)",
                caps.memory,
            ),
            (
                "wharf_session_memory_limit_bytes",
                "The bound for one session (limits.session_memory)",
                caps.session_memory,
            ),
        ] {
            families.extend(cap.0.map(|cap| Family::gauge(name, help).of(cap)));
        }
        families.extend(metrics.of_host());
        families
    }
}

impl Sums {
    fn add(&mut self, session: &KnownSession) {
        match session {
            KnownSession::Cold { bytes, .. } => self.log_bytes += bytes,
            KnownSession::Live(handle) => {
                let shared = &handle.shared;
                self.log_bytes += shared.log.head().bytes;
                self.asks += shared.asks();
                self.paused += u64::from(shared.is_paused());
                let (readers, lag) = shared.lag();
                self.readers += readers;
                self.lag = self.lag.max(lag);
                self.over += u64::from(shared.resources().is_some_and(|used| used.over_limit));
            }
        }
    }
}

fn of_sessions(known: &[std::sync::Arc<Descriptor>], sums: &Sums) -> Vec<Family> {
    let count =
        |is: &dyn Fn(&Descriptor) -> bool| known.iter().filter(|known| is(known)).count() as u64;
    let mut statuses = Family::gauge("wharf_sessions", "Sessions by status");
    for status in [Status::Starting, Status::Running, Status::Exited, Status::Killed, Status::Error]
    {
        let word = serde_json::to_value(status)
            .ok()
            .and_then(|word| word.as_str().map(str::to_owned));
        let number = count(&|known| known.status == status);
        statuses = statuses.with("status", word.unwrap_or_default(), Value::Whole(number));
    }
    let mut turns = Family::gauge("wharf_turns", "Turns under way, by what they wait for");
    for (word, turn) in
        [("running", TurnWord::Running), ("awaiting_input", TurnWord::AwaitingInput)]
    {
        turns = turns.with("state", word, Value::Whole(count(&|known| known.turn == turn)));
    }
    let sum = |of: &dyn Fn(&Descriptor) -> usize| known.iter().map(|known| of(known) as u64).sum();
    vec![
        statuses,
        turns,
        Family::gauge("wharf_prompts_queued", "Prompts that wait for their turn")
            .of(sum(&|known| known.queued)),
        Family::gauge("wharf_clients", "Clients attached to sessions")
            .of(sum(&|known| known.clients)),
        Family::gauge("wharf_asks_open", "Asks that wait for an answer").of(sums.asks),
        Family::gauge("wharf_readers", "Readers that follow a session").of(sums.readers),
        Family::gauge(
            "wharf_reader_lag_events",
            "Events by which the slowest reader is behind its session",
        )
        .of(sums.lag),
        Family::gauge("wharf_sessions_paused", "Sessions that wait for space on the disk")
            .of(sums.paused),
        Family::gauge(
            "wharf_sessions_over_memory",
            "Sessions that use more memory than limits.session_memory",
        )
        .of(sums.over),
    ]
}

fn by_outcome(mut family: Family, counters: &[Counter]) -> Family {
    for (word, counter) in PROMPT_OUTCOMES.iter().zip(counters) {
        family = family.with("outcome", *word, Value::Whole(counter.get()));
    }
    family
}

impl Metrics {
    fn of_turns(&self) -> Vec<Family> {
        let ended = Family::counter("wharf_turns_ended_total", "Turns that have ended, by how");
        let dropped = Family::counter(
            "wharf_prompts_dropped_total",
            "Prompts that ended before their turn began, by how",
        );
        vec![
            Family::counter("wharf_turns_started_total", "Turns that have begun")
                .of(self.turns_started.get()),
            by_outcome(ended, &self.turns_ended),
            by_outcome(dropped, &self.prompts_dropped),
            Family::histogram(
                "wharf_turn_seconds",
                "How long turns took",
                self.turn_time.classes(),
            ),
            Family::histogram(
                "wharf_queue_seconds",
                "How long prompts waited for their turn",
                self.queue_time.classes(),
            ),
            Family::counter("wharf_asks_total", "Asks that agents have opened").of(self.asks.get()),
        ]
    }

    fn of_logs(&self, tail: &TailBudget, sums: &Sums) -> Vec<Family> {
        let in_use = |direction| Value::Whole(tail.buffers.bytes_in_use(direction) as u64);
        vec![
            Family::counter("wharf_events_appended_total", "Events appended to logs")
                .of(self.events.get()),
            Family::counter("wharf_event_bytes_total", "Bytes of the events appended to logs")
                .of(self.event_bytes.get()),
            Family::histogram(
                "wharf_append_seconds",
                "How long appends took, some events each",
                self.append.classes(),
            ),
            Family::histogram(
                "wharf_sync_seconds",
                "How long syncs took, from request to safety",
                self.sync.classes(),
            ),
            Family::gauge("wharf_log_bytes", "Size of all logs").of(sums.log_bytes),
            Family::gauge("wharf_tail_bytes", "Memory of the tail caches").of(tail.used() as u64),
            Family::counter("wharf_tail_hits_total", "Reads of events from the tail cache")
                .of(tail.hits.get()),
            Family::counter("wharf_tail_misses_total", "Reads of events from the disk")
                .of(tail.misses.get()),
            Family::gauge(
                "wharf_buffer_bytes",
                "Large messages on their way to and from clients, by direction",
            )
            .with("direction", "in", in_use(Direction::In))
            .with("direction", "out", in_use(Direction::Out)),
            Family::gauge(
                "wharf_buffer_limit_bytes",
                "How many bytes there may be (limits.buffers)",
            )
            .of(tail.buffers.limit() as u64),
            Family::counter(
                "wharf_readers_closed_total",
                "Connections closed because they took nothing",
            )
            .of(tail.buffers.closed(Direction::Out)),
            Family::counter(
                "wharf_senders_closed_total",
                "Connections closed because their message did not end",
            )
            .of(tail.buffers.closed(Direction::In)),
        ]
    }

    fn of_agents(&self) -> Vec<Family> {
        let mut starts = Family::counter(
            "wharf_agent_starts_total",
            "Starts of agents, by how; load and resume are restarts",
        );
        for (word, counter) in START_WORDS.iter().zip(&self.agent_starts) {
            starts = starts.with("how", *word, Value::Whole(counter.get()));
        }
        let slept = Family::counter(
            "wharf_sessions_put_to_sleep_total",
            "Sessions put to sleep, by reason",
        )
        .with("reason", "memory", Value::Whole(self.slept_for_memory.get()))
        .with("reason", "idle", Value::Whole(self.slept_when_idle.get()));
        let mut families = vec![
            starts,
            Family::counter("wharf_agent_start_failures_total", "Starts of agents that failed")
                .of(self.start_failures.get()),
            Family::counter("wharf_agent_exits_total", "Agents that went by themselves")
                .of(self.agent_exits.get()),
            slept,
        ];
        let mut memory = Family::gauge(
            "wharf_agent_memory_bytes",
            "Memory of agents and all that they started, by adapter",
        );
        let mut processes = Family::gauge(
            "wharf_agent_processes",
            "Processes of agents and all that they started, by adapter",
        );
        let mut cpu = Family::counter(
            "wharf_agent_cpu_seconds_total",
            "CPU time of agents and all that they started, by adapter",
        );
        for (adapter, used) in &*self.agents() {
            memory = memory.with("adapter", adapter, Value::Whole(used.memory));
            processes = processes.with("adapter", adapter, Value::Whole(used.processes));
            cpu = cpu.with("adapter", adapter, Value::Real(used.cpu_millis as f64 / 1_000.0));
        }
        families.extend([memory, processes, cpu]);
        families.extend(self.notifications.families());
        let help = "How long looking at the process table took";
        families.push(Family::histogram("wharf_accounting_seconds", help, self.look.classes()));
        families
    }

    fn of_keepers(&self, kept: usize, settings: &KeeperSettings) -> Vec<Family> {
        let limits = KeeperLimits::from_settings(settings);
        let longest = self.longest_absence_millis.load(Ordering::Relaxed);
        let mut families = vec![
            Family::gauge("wharf_agents_kept", "Agents that go on if the host ends")
                .of(kept as u64),
            Family::gauge(
                "wharf_agents_taken_over",
                "Agents of an earlier host that this one took over at its start",
            )
            .of(self.agents_taken_over.get()),
            Family::gauge(
                "wharf_longest_absence_seconds",
                "The longest time that one of them had no host",
            )
            .seconds(longest),
            Family::gauge(
                "wharf_absence_output_limit_bytes",
                "Output that an agent may leave for the next host (keeper.output)",
            )
            .of(limits.output_bytes),
        ];
        for (name, help, limit) in [
            (
                "wharf_absence_limit_seconds",
                "How long an agent in a turn goes on without a host (keeper.absence)",
                limits.absence_millis,
            ),
            (
                "wharf_idle_absence_limit_seconds",
                "The same for an idle agent (keeper.idle_absence)",
                limits.idle_absence_millis,
            ),
        ] {
            families.extend(limit.map(|millis| Family::gauge(name, help).seconds(millis)));
        }
        families
    }

    fn of_host(&self) -> Vec<Family> {
        let began = self.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        let began = u64::try_from(began.as_millis()).unwrap_or_default();
        let mut families = vec![
            Family::gauge("wharf_build_info", "Always 1; the label tells the version").with(
                "version",
                env!("CARGO_PKG_VERSION"),
                Value::Whole(1),
            ),
            Family::gauge("wharf_start_time_seconds", "When the host began, in seconds since 1970")
                .seconds(began),
        ];
        if let Some((memory, cpu)) = own_usage() {
            families.push(
                Family::gauge("wharf_resident_memory_bytes", "Resident memory of the host itself")
                    .of(memory),
            );
            families.push(
                Family::counter("wharf_cpu_seconds_total", "CPU time of the host itself")
                    .seconds(cpu),
            );
        }
        families
    }
}

impl NotifyMetrics {
    fn families(&self) -> [Family; 3] {
        let by_receiver = |family: Family, counters: &[Counter]| {
            NotifyReceiver::ALL.into_iter().zip(counters).fold(
                family,
                |family, (receiver, counter)| {
                    family.with("receiver", receiver.as_str(), Value::Whole(counter.get()))
                },
            )
        };
        let counter = Family::counter;
        let [sent, failed, dropped] = [
            counter(
                "wharf_notifications_sent_total",
                "Notifications that were delivered, by receiver",
            ),
            counter(
                "wharf_notifications_failed_total",
                "Notifications that could not be delivered, by receiver",
            ),
            counter(
                "wharf_notifications_dropped_total",
                "Notifications dropped because too many waited, by receiver",
            ),
        ];
        [
            by_receiver(sent, &self.sent),
            by_receiver(failed, &self.failed),
            by_receiver(dropped, &self.dropped),
        ]
    }
}
