//! The use of memory and CPU by sessions: one look at the process table for all of them every two seconds, more often after an agent has
//! started, and the caps on memory.
//!
//! Nobody is ended for it while at work: a session that is over its cap and busy, or that could not come back, is
//! reported and left alone.

mod caps;
mod processes;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use wharf_core::{EndReason, SessionId};

use crate::descriptor::Resources;
use crate::host::Inner;
use crate::ids::Now;
use crate::metrics::AgentUse;
use crate::session::handle::{CallError, SessionHandle};
use caps::{Caps, Standing, Why};
pub(crate) use processes::own_usage;
use processes::{Processes, Tree};

/// How often it is measured while agents run.
const EVERY: Duration = Duration::from_secs(2);
/// A look costs some microseconds per process of the machine. On a very full one it is taken less often, so that it
/// never takes more than this part of a processor.
const AT_MOST: u32 = 50;
/// The first look is taken when an agent starts, the second after this time, and then each after twice the time of the
/// one before: a process that was never seen cannot be found again if host and shim are killed together.
const SECOND_LOOK_AFTER: Duration = Duration::from_millis(100);

/// What is remembered between two looks.
#[derive(Debug, Default)]
struct Accounts {
    sessions: HashMap<SessionId, Account>,
    /// Sessions whose excess has been reported.
    over: HashSet<SessionId>,
    over_total: bool,
}

#[derive(Debug, Default)]
struct Account {
    /// The agent's own tree: with another one, counting begins anew.
    agent: u32,
    /// The CPU time of each tree as of the last look.
    roots: BTreeMap<u32, u64>,
    cpu_millis: u64,
}

/// The figures of one look.
struct Look {
    trees: Vec<(SessionHandle, Vec<(u32, Tree)>)>,
    /// How many shims there are, those of agents without a session included.
    shims: usize,
    took: Duration,
}

/// Keeps accounts for as long as the host lives. While no agent runs it costs nothing.
pub(crate) fn keep(host: &Arc<Inner>) {
    let (weak, mut changes) = (Arc::downgrade(host), host.registry.changes());
    let mut shims = host.agents.records().count();
    tokio::spawn(async move {
        let mut accounts = Accounts::default();
        let mut wait = SECOND_LOOK_AFTER;
        loop {
            changes.borrow_and_update();
            shims.borrow_and_update();
            let Some(look) = look(&weak).await else { return };
            let (shims_run, rest) = (look.shims > 0 || !look.trees.is_empty(), look.took * AT_MOST);
            if look.trees.is_empty() {
                accounts = Accounts::default();
                if let Some(host) = weak.upgrade() {
                    host.metrics.note_agents(BTreeMap::new());
                }
            } else {
                accounts.enter(&weak, look);
            }
            if shims_run {
                let waited = next_wait(wait, rest, &mut shims).await;
                let Some(next) = waited else { return };
                wait = next;
            } else {
                let changed = tokio::select! {
                    changed = changes.changed() => changed,
                    changed = shims.changed() => changed,
                };
                if changed.is_err() {
                    return;
                }
                wait = SECOND_LOOK_AFTER;
            }
        }
    });
}

/// Waits for the next look: for `wait`, or until a shim comes or goes, and at least for `rest`. Returns how long to wait
/// after that look; `None` when the host is gone.
async fn next_wait(wait: Duration, rest: Duration, shims: &mut watch::Receiver<usize>) -> Option<Duration> {
    let began = tokio::time::Instant::now();
    tokio::select! {
        () = tokio::time::sleep(wait.max(rest)) => Some(lengthen(wait)),
        changed = shims.changed() => {
            changed.ok()?;
            tokio::time::sleep_until(began + rest).await;
            Some(SECOND_LOOK_AFTER)
        }
    }
}

fn lengthen(wait: Duration) -> Duration {
    (wait * 2).min(EVERY)
}

/// Measures every session that has processes, and records the processes of every tree, so that a later host finds them.
/// `None` when the host is gone.
async fn look(host: &Weak<Inner>) -> Option<Look> {
    let inner = host.upgrade()?;
    let (live, records) = (inner.registry.live(), inner.agents.records().clone());
    drop(inner);
    live.iter().for_each(|handle| handle.shared.tail.release_large());
    let roots: Vec<(SessionHandle, Vec<u32>)> = live
        .into_iter()
        .map(|handle| (handle.shared.shims(), handle))
        .filter(|(shims, _)| !shims.is_empty())
        .map(|(shims, handle)| (handle, shims))
        .collect();
    let shims = records.shims();
    if roots.is_empty() && shims.is_empty() {
        return Some(Look { trees: Vec::new(), shims: 0, took: Duration::ZERO });
    }
    let measured = tokio::task::spawn_blocking(move || {
        let (began, own) = (Instant::now(), std::process::id());
        let table = Processes::look();
        let trees = roots.into_iter().map(|(handle, roots)| {
            let trees = roots.into_iter().filter_map(|root| Some((root, table.tree(own, root)?))).collect();
            (handle, trees)
        });
        let trees = trees.collect();
        for shim in &shims {
            if let Some(below) = table.below(own, *shim) {
                records.note_seen(*shim, below);
            }
        }
        Look { trees, shims: shims.len(), took: began.elapsed() }
    });
    measured.await.ok()
}

impl Accounts {
    /// Enters the figures, and does what the caps ask for.
    fn enter(&mut self, host: &Weak<Inner>, look: Look) {
        let Some(inner) = host.upgrade() else { return };
        let limits = &inner.config.limits;
        let caps = Caps { session: limits.session_memory.0, total: limits.memory.0 };
        let seen: HashSet<SessionId> = look.trees.iter().map(|(handle, _)| handle.id().clone()).collect();
        self.sessions.retain(|id, _| seen.contains(id));
        self.over.retain(|id| seen.contains(id));
        inner.metrics.look.observe(look.took);
        let (mut news, mut handles, mut standings) = (false, Vec::new(), Vec::new());
        let mut agents = BTreeMap::new();
        for (handle, trees) in look.trees {
            let (standing, visible) = self.enter_session(&handle, &trees, caps, &mut agents);
            news |= visible;
            standings.push(standing);
            handles.push(handle);
        }
        inner.metrics.note_agents(agents);
        if news {
            inner.registry.note_change();
        }
        drop(inner);
        self.report(&handles, &standings, caps);
        for (place, why) in caps::choose(&standings, caps) {
            if let Some(handle) = handles.get(place).cloned() {
                // A slow disk of one session must not keep the others from being measured.
                tokio::spawn(put_to_sleep(handle, why, Weak::clone(host)));
            }
        }
    }

    /// One session's part. True if somebody who watches would see a difference.
    fn enter_session(
        &mut self,
        handle: &SessionHandle,
        trees: &[(u32, Tree)],
        caps: Caps,
        agents: &mut BTreeMap<String, AgentUse>,
    ) -> (Standing, bool) {
        let account = self.sessions.entry(handle.id().clone()).or_default();
        let cpu_millis = account.enter(trees);
        let memory = trees.iter().map(|(_, tree)| tree.memory).sum();
        let standing = standing(handle, memory, trees.len());
        // Where nothing can be seen, nothing is claimed.
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

    /// Says once when a session, or all together, come to be over a cap.
    fn report(&mut self, handles: &[SessionHandle], standings: &[Standing], caps: Caps) {
        for (handle, standing) in handles.iter().zip(standings) {
            if !standing.is_over(caps) {
                self.over.remove(handle.id());
            } else if self.over.insert(handle.id().clone()) {
                tracing::warn!(session = %handle.id(), memory = standing.memory, cap = caps.session.unwrap_or_default(),
                    busy = standing.idle_for.is_none(), resumable = standing.comes_back,
                    "a session uses more memory than limits.session_memory; it is put to sleep when it is idle and can come back");
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

impl Account {
    /// Returns the CPU time since the last look.
    fn enter(&mut self, trees: &[(u32, Tree)]) -> u64 {
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

/// One that has terminals open is not idle, whatever its agent does.
fn standing(handle: &SessionHandle, memory: u64, trees: usize) -> Standing {
    let (rest, now) = (handle.shared.rest(), Now::millis());
    let idle_for = rest.since.filter(|_| trees <= 1).map(|since| Duration::from_millis(now.0.saturating_sub(since.0)));
    let idle_limit = rest.for_at_most.map(|limit| Duration::from_millis(limit.0));
    Standing { memory, idle_for, comes_back: rest.comes_back, idle_limit }
}

/// The session decides: it may have got something to do meanwhile.
async fn put_to_sleep(handle: SessionHandle, why: Why, host: Weak<Inner>) {
    let reason = match why {
        Why::Idle { .. } => EndReason::Idle,
        Why::SessionMemory { .. } | Why::TotalMemory { .. } => EndReason::Memory,
    };
    match handle.sleep(reason, why.tell().into()).await {
        Ok(()) => {
            tracing::info!(session = %handle.id(), why = why.tell(), "a session was put to sleep");
            if let Some(host) = host.upgrade() {
                let metrics = &host.metrics;
                let slept =
                    if reason == EndReason::Idle { &metrics.slept_when_idle } else { &metrics.slept_for_memory };
                slept.add(1);
            }
        }
        Err(CallError::Refused(refusal)) => {
            tracing::debug!(session = %handle.id(), ?refusal, "a session was not put to sleep");
        }
        // The disk is full, say: it is tried again at every look, and said elsewhere.
        Err(error) => tracing::debug!(session = %handle.id(), %error, "a session could not be put to sleep"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_come_close_together_at_first() {
        let waits = std::iter::successors(Some(SECOND_LOOK_AFTER), |wait| Some(lengthen(*wait)));
        let waits: Vec<u128> = waits.take(7).map(|wait| wait.as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 2000, 2000]);
    }

    #[tokio::test]
    async fn looks_begin_anew_when_a_shim_starts() {
        let (count, mut shims) = watch::channel(1);
        count.send_replace(2);
        assert_eq!(next_wait(EVERY, Duration::ZERO, &mut shims).await, Some(SECOND_LOOK_AFTER));
        drop(count);
        assert_eq!(next_wait(EVERY, Duration::ZERO, &mut shims).await, None, "the host is gone");
    }
}
