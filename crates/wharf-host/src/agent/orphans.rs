//! Orphans: processes that a killed keeper leaves behind. The host is a subreaper too (Linux), so
//! they become its children and stay recognisable as an agent's, whatever they did to their
//! environment. This module ends and reaps them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions};

use super::process_table::{child_pids, descendant_pids, send_signal};

/// The time between two rounds. A process that forks while it is being killed is found in the next
/// round.
const KILL_INTERVAL: Duration = Duration::from_millis(50);
/// Five seconds of rounds. A process that is still there then cannot be killed, and other sessions
/// must not wait for it; the next call finds it again.
const MAX_KILL_ROUNDS: usize = 100;

static ADOPTS_ORPHANS: AtomicBool = AtomicBool::new(false);
/// The pids of the keepers. The lock is held while a keeper is forked, so that every child is
/// known.
static RUNNING_KEEPERS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Makes this process the parent of every descendant that loses its own parent. For a program that
/// is a host and nothing else: all its later children are keepers.
pub fn adopt_orphans() {
    // The program that started the host may have left it children of its own.
    lock_keepers().extend(child_pids(std::process::id()));
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        tracing::warn!(%error, "processes that a killed keeper leaves behind can only be found by their tag");
        return;
    }
    ADOPTS_ORPHANS.store(true, Ordering::Relaxed);
}

pub(super) fn lock_keepers() -> MutexGuard<'static, BTreeSet<u32>> {
    RUNNING_KEEPERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a keeper, so that it does not count as an orphan. Dropping it removes the keeper.
#[derive(Debug)]
pub(super) struct RegisteredKeeper(pub(super) u32);

impl Drop for RegisteredKeeper {
    fn drop(&mut self) {
        lock_keepers().remove(&self.0);
    }
}

/// Kills all orphans, and reaps them.
pub(super) async fn end_orphans() {
    if !ADOPTS_ORPHANS.load(Ordering::Relaxed) {
        return;
    }
    for _ in 0..MAX_KILL_ROUNDS {
        if tokio::task::spawn_blocking(kill_orphans).await.unwrap_or_default() == 0 {
            return;
        }
        tokio::time::sleep(KILL_INTERVAL).await;
    }
    tracing::error!("processes that an agent left behind cannot be killed");
}

/// Kills every orphan once. Returns how many there were.
fn kill_orphans() -> usize {
    let keepers = lock_keepers();
    let strangers: Vec<u32> = child_pids(std::process::id())
        .into_iter()
        .filter(|pid| !keepers.contains(pid))
        .collect();
    for pid in &strangers {
        for below in descendant_pids(*pid) {
            send_signal(below, Signal::KILL);
        }
        send_signal(*pid, Signal::KILL);
        let _ = i32::try_from(*pid).ok().and_then(Pid::from_raw).map(|pid| {
            // No other code waits for an orphan.
            rustix::process::waitpid(Some(pid), WaitOptions::NOHANG)
        });
    }
    strangers.len()
}
