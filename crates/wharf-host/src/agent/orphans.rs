//! What a killed shim leaves behind becomes the host's, which is a subreaper too (Linux). So it stays below the host,
//! where it is known for an agent's, and is ended and reaped here, whatever it did to its environment.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions};

use super::process_table::{child_pids, descendant_pids, send_signal};

/// A process that forks while it is being killed is met again in the next look.
const KILL_INTERVAL: Duration = Duration::from_millis(50);
/// Five seconds of them. What is still there then cannot be killed, and other sessions must not wait for it; the next
/// call meets it again.
const MAX_KILL_ROUNDS: usize = 100;

static ADOPTS_ORPHANS: AtomicBool = AtomicBool::new(false);
/// Our children that are as they should be. Held while one is forked, so that none is unknown.
static RUNNING_SHIMS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// From now on what loses its parent below us becomes ours, and not the system's. For a program that is a host and
/// nothing else: all its later children are shims.
pub fn adopt_orphans() {
    // Whoever started us may have left us children of its own.
    lock_shims().extend(child_pids(std::process::id()));
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        tracing::warn!(%error, "what a killed shim leaves behind can only be found by its tag");
        return;
    }
    ADOPTS_ORPHANS.store(cfg!(target_os = "linux"), Ordering::Relaxed);
}

pub(super) fn lock_shims() -> MutexGuard<'static, BTreeSet<u32>> {
    RUNNING_SHIMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A shim, for as long as it is to be left alone.
#[derive(Debug)]
pub(super) struct RegisteredShim(pub(super) u32);

impl Drop for RegisteredShim {
    fn drop(&mut self) {
        lock_shims().remove(&self.0);
    }
}

/// Ends what has become ours.
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
    tracing::error!("what an agent left behind cannot be ended");
}

/// How many there were.
fn kill_orphans() -> usize {
    let shims = lock_shims();
    let strangers: Vec<u32> = child_pids(std::process::id()).into_iter().filter(|pid| !shims.contains(pid)).collect();
    for pid in &strangers {
        for below in descendant_pids(*pid) {
            send_signal(below, Signal::KILL);
        }
        send_signal(*pid, Signal::KILL);
        let _ = i32::try_from(*pid).ok().and_then(Pid::from_raw).map(|pid| {
            // Nobody else waits for it.
            rustix::process::waitpid(Some(pid), WaitOptions::NOHANG)
        });
    }
    strangers.len()
}
