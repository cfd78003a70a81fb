//! What a killed shim leaves behind becomes the host's, which is a subreaper too (Linux). So it stays below the host,
//! where it is known for an agent's, and is ended and reaped here, whatever it did to its environment.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions};

use super::sweep::{children, descendants, signal};

/// A process that forks while it is being killed is met again in the next look.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Five seconds of them. What is still there then cannot be killed, and other sessions must not wait for it; the next
/// call meets it again.
const LOOKS: usize = 100;

static ADOPTS: AtomicBool = AtomicBool::new(false);
/// Our children that are as they should be. Held while one is forked, so that none is unknown.
static SHIMS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// From now on what loses its parent below us becomes ours, and not the system's. For a program that is a host and
/// nothing else: all its later children are shims.
pub fn adopt() {
    // Whoever started us may have left us children of its own.
    shims().extend(children(std::process::id()));
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        tracing::warn!(%error, "what a killed shim leaves behind can only be found by its tag");
        return;
    }
    ADOPTS.store(cfg!(target_os = "linux"), Ordering::Relaxed);
}

pub(super) fn shims() -> MutexGuard<'static, BTreeSet<u32>> {
    SHIMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A shim, for as long as it is to be left alone.
#[derive(Debug)]
pub(super) struct Shim(pub(super) u32);

impl Drop for Shim {
    fn drop(&mut self) {
        shims().remove(&self.0);
    }
}

/// Ends what has become ours.
pub(super) async fn end() {
    if !ADOPTS.load(Ordering::Relaxed) {
        return;
    }
    for _ in 0..LOOKS {
        if tokio::task::spawn_blocking(look).await.unwrap_or_default() == 0 {
            return;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    tracing::error!("what an agent left behind cannot be ended");
}

/// How many there were.
fn look() -> usize {
    let shims = shims();
    let strangers: Vec<u32> = children(std::process::id()).into_iter().filter(|pid| !shims.contains(pid)).collect();
    for pid in &strangers {
        for below in descendants(*pid) {
            signal(below, Signal::KILL);
        }
        signal(*pid, Signal::KILL);
        let _ = i32::try_from(*pid).ok().and_then(Pid::from_raw).map(|pid| {
            // Nobody else waits for it.
            rustix::process::waitpid(Some(pid), WaitOptions::NOHANG)
        });
    }
    strangers.len()
}
