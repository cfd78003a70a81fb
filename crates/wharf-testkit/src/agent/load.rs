//! Memory and CPU time that the agent uses on purpose, by itself and in a process that it has let go of.

use std::hint::black_box;
use std::io;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::{procs, program};

/// What the agent holds, whichever session asked for it.
static HELD: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Holds so much from now on, instead of what it held before.
pub(super) fn hold(mib: usize) {
    *HELD.lock().unwrap_or_else(PoisonError::into_inner) = vec![black_box(1); mib << 20];
}

/// Holds so much, and says nothing: what the child of [`hold_apart`] does.
pub(super) fn hold_for_long(mib: usize) {
    hold(mib);
    // As long as the other children: forever would outlive a failed test by too much.
    thread::sleep(Duration::from_secs(900));
}

/// A process in a session of its own, whose parent is gone, holds so much.
pub(super) fn hold_apart(mib: usize) -> io::Result<()> {
    let script = r#"setsid "$0" --hold "$1" </dev/null >/dev/null 2>&1 &"#;
    let mut command = program::command("sh");
    command.args(["-c", script]).arg(std::env::current_exe()?).arg(mib.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).status().map(drop)
}

/// Works until it has used so much time of a processor, which on a busy machine takes longer.
pub(super) fn spin(spin_for: Duration) {
    let used = || procs::cpu_time(std::process::id()).unwrap_or(Duration::MAX);
    let until = used().saturating_add(spin_for);
    let mut sum = 0_u64;
    while used() < until {
        for number in 0..1_000_000_u64 {
            sum = black_box(sum.wrapping_add(number));
        }
    }
}
