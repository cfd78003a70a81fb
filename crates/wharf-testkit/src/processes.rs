//! Inspects processes: whether they run, their resource use, and their children.
//!
//! There is no event for the end of a process that is not a child, so these waits poll every few milliseconds, up to a
//! limit.

use std::fs;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// The polling interval: short against any grace period, long against the cost of a check.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The kernel's unit for times in `/proc/PID/stat`; it is 100 per second on every Linux that Rust supports.
const CLOCK_TICK: Duration = Duration::from_millis(10);

/// Returns true if the process runs. A zombie does not.
pub fn is_alive(pid: u32) -> bool {
    match read_stat(pid) {
        Some(fields) => !matches!(fields.first().map(String::as_str), Some("Z" | "X") | None),
        None if cfg!(target_os = "linux") => false,
        None => as_pid(pid).is_some_and(|pid| test_kill_process(pid).is_ok()),
    }
}

/// Waits until none of the processes runs; otherwise returns those that still do.
pub fn wait_gone(pids: &[u32], limit: Duration) -> Result<(), Vec<u32>> {
    let give_up_at = Instant::now() + limit;
    loop {
        let left: Vec<u32> = pids.iter().copied().filter(|pid| is_alive(*pid)).collect();
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= give_up_at {
            return Err(left);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Waits for a child of this process; `None` at the limit.
pub fn wait_exit(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let give_up_at = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= give_up_at {
            return Ok(None);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Sends SIGTERM. Returns false if there is no such process.
pub fn send_sigterm(pid: u32) -> bool {
    as_pid(pid).is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok())
}

/// Sends SIGKILL. Returns false if there is no such process.
pub fn send_sigkill(pid: u32) -> bool {
    as_pid(pid).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
}

/// Sends SIGSTOP. Returns false if there is no such process.
pub fn send_sigstop(pid: u32) -> bool {
    as_pid(pid).is_some_and(|pid| kill_process(pid, Signal::STOP).is_ok())
}

fn as_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// Returns the resident memory in KiB (Linux).
pub fn rss_kib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the CPU time used so far, user and system, of all threads (Linux).
pub fn cpu_time(pid: u32) -> Option<Duration> {
    let fields = read_stat(pid)?;
    // The times utime and stime are fields 14 and 15 of the file; `fields` begins with the third.
    let ticks = |place: usize| fields.get(place)?.parse::<u32>().ok();
    Some(CLOCK_TICK * (ticks(11)? + ticks(12)?))
}

/// Returns all processes below this one (Linux).
pub fn list_descendants(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let parents: Vec<(u32, u32)> =
        pids.into_iter().filter_map(|child| Some((child, read_stat(child)?.get(1)?.parse().ok()?))).collect();
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(child, _)| *child));
        next += 1;
    }
    found.remove(0);
    found
}

/// Returns the fields of `/proc/PID/stat` after the name: state, parent, and so on.
fn read_stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = text.rsplit_once(')')?;
    Some(after_name.split_whitespace().map(str::to_owned).collect())
}
