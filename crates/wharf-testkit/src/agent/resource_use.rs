//! Memory and CPU time that the agent uses on purpose, by itself and in a detached process.

use std::hint::black_box;
use std::io;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::{processes, program};

/// The memory that the agent holds, whichever session asked for it.
static HELD_MEMORY: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Holds this much memory from now on, instead of the earlier amount.
pub(super) fn hold_memory(mib: usize) {
    *HELD_MEMORY.lock().unwrap_or_else(PoisonError::into_inner) = vec![black_box(1); mib << 20];
}

/// Holds this much memory silently; the child of [`hold_memory_in_child`] runs this.
pub(super) fn hold_memory_for_long(mib: usize) {
    hold_memory(mib);
    // The same time as the other children: without an end it would outlive a failed test.
    thread::sleep(Duration::from_secs(900));
}

/// Starts a process in a session of its own, whose parent exits, that holds this much memory.
pub(super) fn hold_memory_in_child(mib: usize) -> io::Result<()> {
    let script = r#"setsid "$0" --hold "$1" </dev/null >/dev/null 2>&1 &"#;
    let mut command = program::new_command("sh");
    command.args(["-c", script]).arg(std::env::current_exe()?).arg(mib.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).status().map(drop)
}

/// Works until it has used this much CPU time, which takes longer on a busy machine.
pub(super) fn use_cpu(spin_for: Duration) {
    let used = || processes::cpu_time(std::process::id()).unwrap_or(Duration::MAX);
    let until = used().saturating_add(spin_for);
    let mut sum = 0_u64;
    while used() < until {
        for number in 0..1_000_000_u64 {
            sum = black_box(sum.wrapping_add(number));
        }
    }
}
