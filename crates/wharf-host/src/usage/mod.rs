//! Memory and CPU time of sessions, and the caps on memory. One sample of the process table serves
//! all sessions; it is taken every two seconds, and more often after an agent has started.
//!
//! A session that is over its cap but busy, or that could not come back, is reported and not put to
//! sleep.

mod memory_caps;
mod process_snapshot;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use wharf_core::{EndReason, Millis, SessionId};

use crate::descriptor::Resources;
use crate::host::Inner;
use crate::ids::Now;
use crate::metrics::AgentUse;
use crate::session::Rest;
use crate::session::handle::{CallError, SessionHandle};
use memory_caps::{IdleLimit, MemoryCaps, SessionUsage, SleepCause};
pub(crate) use process_snapshot::own_usage;
use process_snapshot::{ProcessSnapshot, TreeUsage};

/// The time between two samples while agents run.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(2);
/// The pause after a sample, as a multiple of the sample's duration. A sample costs some
/// microseconds per process of the machine; on a very full machine samples are taken less often, so
/// that they use at most a fiftieth of a processor.
const MIN_PAUSE_PER_SAMPLE: u32 = 50;
/// The first sample is taken when an agent starts, the second after this time, and each further one
/// after twice the time of the one before: a process that was never seen cannot be found again if
/// host and keeper are killed together.
const SECOND_SAMPLE_DELAY: Duration = Duration::from_millis(100);

/// The state that is kept between two samples.
#[derive(Debug, Default)]
struct UsageTracker {
    sessions: HashMap<SessionId, SessionCpu>,
    /// Sessions whose excess has been reported.
    over: HashSet<SessionId>,
    over_total: bool,
    /// `session.sleep_after` as of this sample.
    sleep_after: Option<Duration>,
}

#[derive(Debug, Default)]
struct SessionCpu {
    /// The root of the agent's own process tree. If it changes, counting begins at zero.
    agent: u32,
    /// The CPU time of each tree as of the last sample.
    roots: BTreeMap<u32, u64>,
    cpu_millis: u64,
}

/// The figures of one sample.
struct UsageSample {
    sessions: Vec<SessionSample>,
    /// How many keepers there are, those of agents without a session included.
    keepers: usize,
    took: Duration,
}

/// The trees of one session that were measured.
struct SessionSample {
    handle: SessionHandle,
    trees: Vec<(u32, TreeUsage)>,
    /// Whether the agent has terminals open.
    has_terminals: bool,
}

/// Takes samples for as long as the host lives. While no agent runs it costs nothing.
pub(crate) fn track_usage(host: &Arc<Inner>) {
    let weak = Arc::downgrade(host);
    let mut changes = host.registry.watch_changes();
    let mut keepers = host.agents.records().watch_count();
    tokio::spawn(async move {
        let mut accounts = UsageTracker::default();
        let mut wait = SECOND_SAMPLE_DELAY;
        loop {
            changes.borrow_and_update();
            keepers.borrow_and_update();
            let Some(look) = take_sample(&weak).await else { return };
            let (keepers_run, rest) =
                (look.keepers > 0 || !look.sessions.is_empty(), look.took * MIN_PAUSE_PER_SAMPLE);
            if look.sessions.is_empty() {
                accounts = UsageTracker::default();
                if let Some(host) = weak.upgrade() {
                    host.metrics.note_agents(BTreeMap::new());
                }
            } else {
                accounts.apply_sample(&weak, look);
            }
            if keepers_run {
                let waited = wait_for_next_sample(wait, rest, &mut keepers).await;
                let Some(next) = waited else { return };
                wait = next;
            } else {
                let changed = tokio::select! {
                    changed = changes.changed() => changed,
                    changed = keepers.changed() => changed,
                };
                if changed.is_err() {
                    return;
                }
                wait = SECOND_SAMPLE_DELAY;
            }
        }
    });
}

/// Waits for the next sample: for `wait`, or until a keeper starts or ends, and at least for
/// `rest`. Returns how long to wait after that sample; `None` when the host is gone.
async fn wait_for_next_sample(
    wait: Duration,
    rest: Duration,
    keepers: &mut watch::Receiver<usize>,
) -> Option<Duration> {
    let began = tokio::time::Instant::now();
    tokio::select! {
        () = tokio::time::sleep(wait.max(rest)) => Some(lengthen_wait(wait)),
        changed = keepers.changed() => {
            changed.ok()?;
            tokio::time::sleep_until(began + rest).await;
            Some(SECOND_SAMPLE_DELAY)
        }
    }
}

fn lengthen_wait(wait: Duration) -> Duration {
    (wait * 2).min(SAMPLE_INTERVAL)
}

/// Measures every session that has processes, and records the processes of every tree, so that a
/// later host finds them. `None` when the host is gone.
async fn take_sample(host: &Weak<Inner>) -> Option<UsageSample> {
    let inner = host.upgrade()?;
    let live = inner.registry.live_sessions();
    let records = inner.agents.records().clone();
    drop(inner);
    live.iter().for_each(|handle| handle.shared.tail.release_large());
    let roots: Vec<(SessionHandle, Vec<u32>)> = live
        .into_iter()
        .map(|handle| (handle.shared.keepers(), handle))
        .filter(|(keepers, _)| !keepers.is_empty())
        .map(|(keepers, handle)| (handle, keepers))
        .collect();
    let keepers = records.running_keepers();
    if roots.is_empty() && keepers.is_empty() {
        return Some(UsageSample { sessions: Vec::new(), keepers: 0, took: Duration::ZERO });
    }
    let measured = tokio::task::spawn_blocking(move || {
        let began = Instant::now();
        let table = ProcessSnapshot::read_proc();
        let find = |pid: u32| keepers.iter().copied().find(|keeper| keeper.pid == pid);
        let sessions = roots.into_iter().map(|(handle, roots)| {
            let has_terminals = roots.len() > 1;
            let measure = |root: u32| Some((root, table.measure_tree(find(root)?)?));
            SessionSample {
                handle,
                trees: roots.into_iter().filter_map(measure).collect(),
                has_terminals,
            }
        });
        let sessions = sessions.collect();
        for keeper in &keepers {
            if let Some(below) = table.descendants_of(*keeper) {
                records.note_seen(keeper.pid, below);
            }
        }
        UsageSample { sessions, keepers: keepers.len(), took: began.elapsed() }
    });
    measured.await.ok()
}

impl UsageTracker {
    /// Publishes the figures, and puts sessions to sleep that exceed the caps.
    fn apply_sample(&mut self, host: &Weak<Inner>, look: UsageSample) {
        let Some(inner) = host.upgrade() else { return };
        let limits = &inner.config.limits;
        self.sleep_after = inner.config.session.sleep_after.to_std();
        let caps = MemoryCaps { session: limits.session_memory.0, total: limits.memory.0 };
        let seen: HashSet<SessionId> =
            look.sessions.iter().map(|sample| sample.handle.id().clone()).collect();
        self.sessions.retain(|id, _| seen.contains(id));
        self.over.retain(|id| seen.contains(id));
        inner.metrics.look.observe(look.took);
        let mut news = false;
        let mut handles = Vec::new();
        let mut standings = Vec::new();
        let mut agents = BTreeMap::new();
        for sample in look.sessions {
            let (standing, visible) = self.apply_session(&sample, caps, &mut agents);
            news |= visible;
            standings.push(standing);
            handles.push(sample.handle);
        }
        inner.metrics.note_agents(agents);
        if news {
            inner.registry.note_change();
        }
        drop(inner);
        self.report_excess(&handles, &standings, caps);
        for (place, why) in memory_caps::choose_sleepers(&standings, caps) {
            if let Some(handle) = handles.get(place).cloned() {
                // A slow disk of one session must not keep the others from being measured.
                tokio::spawn(put_to_sleep(handle, why, Weak::clone(host)));
            }
        }
    }

    /// Publishes the figures of one session. Returns true if a client that watches would see a
    /// difference.
    fn apply_session(
        &mut self,
        sample: &SessionSample,
        caps: MemoryCaps,
        agents: &mut BTreeMap<String, AgentUse>,
    ) -> (SessionUsage, bool) {
        let SessionSample { handle, trees, .. } = sample;
        let account = self.sessions.entry(handle.id().clone()).or_default();
        let cpu_millis = account.add_trees(trees);
        let memory = trees.iter().map(|(_, tree)| tree.memory).sum();
        let standing = session_usage(sample, memory, self.sleep_after);
        // Without a visible process there are no figures.
        if trees.is_empty() {
            handle.shared.set_resources(None);
            return (standing, false);
        }
        let now = Resources {
            memory_bytes: memory,
            cpu_millis: account.cpu_millis,
            processes: trees.iter().map(|(_, tree)| tree.processes).sum(),
            over_limit: standing.is_over(caps),
        };
        let used = agents.entry(handle.descriptor().adapter_slug.clone()).or_default();
        used.memory += now.memory_bytes;
        used.processes += now.processes;
        used.cpu_millis += cpu_millis;
        let before = handle.shared.set_resources(Some(now));
        (standing, before.is_none_or(|before| !before.is_near(&now)))
    }

    /// Logs a warning once when a session, or all together, come to be over a cap.
    fn report_excess(
        &mut self,
        handles: &[SessionHandle],
        standings: &[SessionUsage],
        caps: MemoryCaps,
    ) {
        for (handle, standing) in handles.iter().zip(standings) {
            if !standing.is_over(caps) {
                self.over.remove(handle.id());
            } else if self.over.insert(handle.id().clone()) {
                handle.span().in_scope(|| tracing::warn!(session = %handle.id(), memory = standing.memory, cap = caps.session.unwrap_or_default(),
                    busy = standing.idle_for.is_none(), resumable = standing.comes_back,
                    "a session uses more memory than limits.session_memory; it is put to sleep when it is idle and can come back"));
            }
        }
        let total: u64 = standings.iter().map(|standing| standing.memory).sum();
        let over = caps.total.is_some_and(|cap| total > cap);
        if over && !self.over_total {
            tracing::warn!(
                memory = total,
                cap = caps.total.unwrap_or_default(),
                "all agents together use more memory than limits.memory; idle sessions are put to sleep"
            );
        }
        self.over_total = over;
    }
}

impl SessionCpu {
    /// Returns the CPU time since the last sample.
    fn add_trees(&mut self, trees: &[(u32, TreeUsage)]) -> u64 {
        // The agent's own is always the first.
        let agent = trees.first().map_or(0, |(root, _)| *root);
        if agent != self.agent {
            *self = Self { agent, ..Self::default() };
        }
        let mut more = 0;
        for (root, tree) in trees {
            let before = self.roots.insert(*root, tree.cpu_millis).unwrap_or_default();
            more += tree.cpu_millis.saturating_sub(before);
        }
        self.roots.retain(|root, _| trees.iter().any(|(seen, _)| seen == root));
        self.cpu_millis += more;
        more
    }
}

/// Returns the session's usage. A session with open terminals is not idle, whatever its agent does.
fn session_usage(
    sample: &SessionSample,
    memory: u64,
    sleep_after: Option<Duration>,
) -> SessionUsage {
    let rest = sample.handle.shared.rest();
    let now = Now::millis();
    let time_since = |since: Option<Millis>| {
        since
            .filter(|_| !sample.has_terminals)
            .map(|since| Duration::from_millis(now.0.saturating_sub(since.0)))
    };
    let unattended_for =
        time_since(rest.unattended_since).filter(|_| !has_work_processes(&rest, &sample.trees));
    let of_manifest = rest.for_at_most.map(|limit| (Duration::from_millis(limit.0), true));
    let idle_limit = of_manifest.or(sleep_after.map(|limit| (limit, false)));
    let idle_limit = idle_limit.map(|(limit, is_of_manifest)| IdleLimit { limit, is_of_manifest });
    SessionUsage {
        memory,
        idle_for: time_since(rest.since),
        unattended_for,
        comes_back: rest.comes_back,
        idle_limit,
    }
}

/// Returns true if a process runs that the agent has started since its first turn, such as a server
/// in the background. Processes that are older belong to the agent itself: wrappers and MCP
/// servers.
fn has_work_processes(rest: &Rest, trees: &[(u32, TreeUsage)]) -> bool {
    let Some(first_turn_at) = rest.first_turn_at else { return false };
    trees
        .iter()
        .any(|(_, tree)| tree.youngest_since.is_none_or(|since| since > first_turn_at))
}

/// The session decides: it may have got something to do meanwhile.
async fn put_to_sleep(handle: SessionHandle, why: SleepCause, host: Weak<Inner>) {
    let reason = match why {
        SleepCause::Idle(_) => EndReason::Idle,
        SleepCause::SessionMemory { .. } | SleepCause::TotalMemory { .. } => EndReason::Memory,
    };
    match handle.sleep(reason, why.describe_cause().into()).await {
        Ok(()) => {
            handle.span().in_scope(
                || tracing::info!(session = %handle.id(), why = why.describe_cause(), "a session was put to sleep"),
            );
            if let Some(host) = host.upgrade() {
                let metrics = &host.metrics;
                let slept =
                    if reason == EndReason::Idle { &metrics.slept_when_idle } else { &metrics.slept_for_memory };
                slept.add(1);
            }
        }
        Err(CallError::Refused(refusal)) => {
            handle
                .span()
                .in_scope(|| tracing::debug!(session = %handle.id(), ?refusal, "a session was not put to sleep"));
        }
        // For example the disk is full: every sample tries again, and the storage pause is logged
        // elsewhere.
        Err(error) => handle
            .span()
            .in_scope(|| tracing::debug!(session = %handle.id(), %error, "a session could not be put to sleep")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_come_close_together_at_first() {
        let waits =
            std::iter::successors(Some(SECOND_SAMPLE_DELAY), |wait| Some(lengthen_wait(*wait)));
        let waits: Vec<u128> = waits.take(7).map(|wait| wait.as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 2000, 2000]);
    }

    #[tokio::test]
    async fn looks_begin_anew_when_a_keeper_starts() {
        let (count, mut keepers) = watch::channel(1);
        count.send_replace(2);
        assert_eq!(
            wait_for_next_sample(SAMPLE_INTERVAL, Duration::ZERO, &mut keepers).await,
            Some(SECOND_SAMPLE_DELAY)
        );
        drop(count);
        assert_eq!(
            wait_for_next_sample(SAMPLE_INTERVAL, Duration::ZERO, &mut keepers).await,
            None,
            "the host is gone"
        );
    }
}
