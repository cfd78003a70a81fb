//! Inspects processes: whether they run, their resource use, and their children. Waits for their end by pidfd, which
//! reports it for any process, child or not.

use std::fs;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, test_kill_process};

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

/// Waits until all processes have ended; otherwise returns the ones that still run.
pub fn wait_gone(pids: &[u32], limit: Duration) -> Result<(), Vec<u32>> {
    let give_up_at = Instant::now() + limit;
    for pid in pids {
        wait_for_end(*pid, give_up_at);
    }
    let left: Vec<u32> = pids.iter().copied().filter(|pid| is_alive(*pid)).collect();
    if left.is_empty() { Ok(()) } else { Err(left) }
}

/// Waits for a child of this process; `None` at the limit.
pub fn wait_exit(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    wait_for_end(child.id(), Instant::now() + limit);
    child.try_wait()
}

/// Waits for the kernel to report the end of a process, at most until `give_up_at`. Returns at once if there is no such process.
fn wait_for_end(pid: u32, give_up_at: Instant) {
    let Some(process) = as_pid(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else { return };
    loop {
        let left = give_up_at.saturating_duration_since(Instant::now());
        // A limit beyond the kernel's range counts as none.
        let timeout = Timespec::try_from(left).ok();
        // A signal to the test interrupts the wait, which then begins again.
        if poll(&mut [PollFd::new(&process, PollFlags::IN)], timeout.as_ref()) != Err(Errno::INTR) {
            return;
        }
    }
}

/// Sends SIGTERM. Returns false if there is no such process.
pub fn send_sigterm(pid: u32) -> bool {
    as_pid(pid).is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok())
}

/// Sends SIGHUP, as a terminal does that is closed. Returns false if there is no such process.
pub fn send_sighup(pid: u32) -> bool {
    as_pid(pid).is_some_and(|pid| kill_process(pid, Signal::HUP).is_ok())
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
