//! Inspects processes: whether they run, their resource use, and their children. Waits for their
//! end by pidfd, which reports it for any process, child or not.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// The kernel's unit for times in `/proc/PID/stat`; it is 100 per second on every Linux that Rust
/// supports.
const CLOCK_TICK: Duration = Duration::from_millis(10);

/// The variable by which the processes of a test host are found: its keepers and agents inherit it.
/// A host that a verb starts keeps only the variables of the locale, some paths and its own.
pub const MARK_VARIABLE: &str = "LC_TEST_HOST_DIRECTORY";
/// The pause between two rounds of kills. A process that forks while it is being killed is found in
/// the next round.
const KILL_INTERVAL: Duration = Duration::from_millis(5);

/// Marks all processes that this command will start, so that [`kill_marked`] finds them.
pub fn mark_command(command: &mut Command, mark: &Path) {
    command.env(MARK_VARIABLE, mark);
}

/// Kills the processes that carry this mark and all their descendants, whatever their environment.
/// Fails with the processes that are left at the limit.
pub fn kill_marked(mark: &Path, limit: Duration) -> Result<(), Vec<u32>> {
    let give_up_at = Instant::now() + limit;
    loop {
        let (keepers, others): (Vec<u32>, Vec<u32>) =
            list_marked(mark).into_iter().partition(|pid| is_keeper(*pid));
        // A keeper is the parent of all that it keeps: without it, a process that has emptied its
        // environment is lost.
        let next = if others.is_empty() { keepers } else { others };
        if next.is_empty() {
            return Ok(());
        }
        if Instant::now() > give_up_at {
            return Err(next);
        }
        for pid in next {
            send_sigkill(pid);
        }
        thread::sleep(KILL_INTERVAL);
    }
}

/// Returns the living processes that carry this mark, and those below them.
fn list_marked(mark: &Path) -> Vec<u32> {
    let entry = [MARK_VARIABLE.as_bytes(), b"=", mark.as_os_str().as_bytes()].concat();
    let carries = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|found| found == entry)
    };
    let roots = list_pids().into_iter().filter(carries).collect();
    let mut found = with_descendants(roots);
    found.retain(|pid| is_alive(*pid));
    found
}

fn is_keeper(pid: u32) -> bool {
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    arguments.split(|byte| *byte == 0).nth(1) == Some(b"__keeper")
}

/// Returns true if the process runs. A zombie does not.
pub fn is_alive(pid: u32) -> bool {
    match read_stat(pid) {
        Some(fields) => !matches!(fields.first().map(String::as_str), Some("Z" | "X") | None),
        None => false,
    }
}

/// Waits until all processes have ended. Fails with the processes that still run at the limit.
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

/// Waits for the kernel to report the end of a process, at most until `give_up_at`. Returns at once
/// if there is no such process.
fn wait_for_end(pid: u32, give_up_at: Instant) {
    let Some(process) = as_pid(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
    else {
        return;
    };
    loop {
        let left = give_up_at.saturating_duration_since(Instant::now());
        // Waits without a limit if the limit is beyond the kernel's range.
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

/// Sends SIGCONT. Returns false if there is no such process.
pub fn send_sigcont(pid: u32) -> bool {
    as_pid(pid).is_some_and(|pid| kill_process(pid, Signal::CONT).is_ok())
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
    let mut found = with_descendants(vec![pid]);
    found.remove(0);
    found
}

/// Returns these processes, each once, and behind them all that descend from them.
fn with_descendants(mut found: Vec<u32>) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = list_pids()
        .into_iter()
        .filter_map(|child| Some((child, read_stat(child)?.get(1)?.parse().ok()?)))
        .collect();
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        let children = parents.iter().filter(|(_, of)| *of == parent).map(|(child, _)| *child);
        let children: Vec<u32> = children.filter(|child| !found.contains(child)).collect();
        found.extend(children);
        next += 1;
    }
    found
}

fn list_pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the fields of `/proc/PID/stat` after the name: state, parent, and so on.
fn read_stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = text.rsplit_once(')')?;
    Some(after_name.split_whitespace().map(str::to_owned).collect())
}
