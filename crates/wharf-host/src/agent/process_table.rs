//! Finds the processes of agents by descent, by record and by a tag in their environment, never by
//! name; signals and kills them.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

/// The variable that every agent process and all its children carry: `<directory id>.<start>`. By
/// itself it proves nothing: anybody can have got hold of it.
pub const TAG_VARIABLE: &str = "WHARF_AGENT_TAG";

/// The first argument of a keeper.
pub(super) const KEEPER_VERB: &str = "__keeper";

/// How often the table is read again while processes are being killed: a process may fork
/// meanwhile.
const MAX_KILL_ROUNDS: usize = 200;
const KILL_INTERVAL: Duration = Duration::from_millis(10);

/// One process, for good: another that gets its number has another start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// In the kernel's ticks since the boot.
    pub(crate) started: u64,
}

impl Process {
    /// This program.
    pub(crate) fn current() -> Self {
        let pid = std::process::id();
        Self { pid, started: started_at(pid).unwrap_or_default() }
    }

    /// Tells whether it still runs. A process that has ended and is not reaped yet does not.
    pub(crate) fn is_alive(self) -> bool {
        read_stat(self.pid).is_some_and(|stat| stat.started == self.started && stat.runs)
    }
}

/// Sends a signal. A process that is gone already does not count as an error.
pub(crate) fn send_signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Kills this very process, and no other that has its number by now.
fn kill_exactly(process: Process) {
    if let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw)
        && let Ok(handle) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
    {
        if started_at(process.pid) == Some(process.started) {
            let _ = rustix::process::pidfd_send_signal(&handle, Signal::KILL);
        }
        return;
    }
    if started_at(process.pid) == Some(process.started) {
        send_signal(process.pid, Signal::KILL);
    }
}

/// Kills the processes that `find` finds in the table until it finds none. Returns how many there
/// were at first.
pub(super) fn kill_until_gone(find: impl Fn(&ProcessTable) -> HashSet<Process>) -> usize {
    let mut first = None;
    for _ in 0..MAX_KILL_ROUNDS {
        let left = find(&ProcessTable::read());
        first.get_or_insert(left.len());
        if left.is_empty() {
            break;
        }
        left.into_iter().for_each(kill_exactly);
        std::thread::sleep(KILL_INTERVAL);
    }
    first.unwrap_or_default()
}

/// Kills everything below `root` and then `root`, a child of ours that does not do it itself.
pub(super) fn end_tree(root: u32) {
    let roots = HashSet::from([root]);
    kill_until_gone(|table| {
        table
            .descendants_of(&roots)
            .filter(|process| table.is_running(process.pid))
            .collect()
    });
    send_signal(root, Signal::KILL);
}

/// Returns the children of a process.
pub(super) fn child_pids(parent: u32) -> Vec<u32> {
    list_pids()
        .into_iter()
        .filter(|pid| read_stat(*pid).is_some_and(|stat| stat.parent == parent))
        .collect()
}

/// Returns every process that descends from `root`, without `root`. Empty where there is no
/// `/proc`.
pub fn descendant_pids(root: u32) -> Vec<u32> {
    ProcessTable::read()
        .descendants_of(&HashSet::from([root]))
        .map(|process| process.pid)
        .collect()
}

/// All processes of the machine at one moment. Empty where there is no `/proc`.
#[derive(Debug)]
pub(super) struct ProcessTable {
    stats: HashMap<u32, ProcStat>,
}

impl ProcessTable {
    pub(super) fn read() -> Self {
        Self {
            stats: list_pids().into_iter().filter_map(|pid| Some((pid, read_stat(pid)?))).collect(),
        }
    }

    /// Whether this very process is in the table.
    pub(super) fn contains_process(&self, process: Process) -> bool {
        self.stats.get(&process.pid).is_some_and(|stat| stat.started == process.started)
    }

    /// Whether the process runs: it is there, and has not ended already.
    pub(super) fn is_running(&self, pid: u32) -> bool {
        self.stats.get(&pid).is_some_and(|stat| stat.runs)
    }

    /// Every process that descends from one of `roots`, without these.
    pub(super) fn descendants_of(&self, roots: &HashSet<u32>) -> impl Iterator<Item = Process> {
        let descends = |mut pid: u32| {
            // A chain of parents is short; the bound guards against a table that changed while it
            // was read.
            for _ in 0..self.stats.len() {
                match self.stats.get(&pid) {
                    Some(stat) if roots.contains(&stat.parent) => return true,
                    Some(stat) => pid = stat.parent,
                    None => return false,
                }
            }
            false
        };
        let below = self
            .stats
            .iter()
            .filter(move |(pid, _)| descends(**pid) && !roots.contains(*pid));
        below.map(|(pid, stat)| Process { pid: *pid, started: stat.started })
    }
}

/// The processes that carry the tag of a start, or of a terminal of that start.
pub(super) fn find_tagged(tag: &str, table: &ProcessTable) -> impl Iterator<Item = Process> {
    let wanted = format!("{TAG_VARIABLE}={tag}");
    table.stats.iter().filter_map(move |(pid, stat)| {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let carries = |entry: &[u8]| {
            let rest = entry.strip_prefix(wanted.as_bytes());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
        };
        let ours = environment.split(|byte| *byte == 0).any(carries);
        ours.then_some(Process { pid: *pid, started: stat.started })
    })
}

/// Tells whether `pid` is the process `ancestor` or one of its descendants.
pub fn is_below(pid: u32, ancestor: u32) -> bool {
    process_and_ancestors(pid).contains(&ancestor)
}

/// Returns the process, its parent, and so on up to the first of all.
pub(crate) fn process_and_ancestors(pid: u32) -> Vec<u32> {
    // In a container the host itself may be process 1; only the first process of all has the parent
    // 0.
    let parent = |pid: &u32| read_stat(*pid).map(|stat| stat.parent).filter(|parent| *parent > 0);
    // A chain is short; the bound guards against a table that changes while it is read.
    std::iter::successors(Some(pid), parent).take(1_000).collect()
}

/// Returns true if the process is a keeper, of whichever host.
pub(super) fn is_keeper(pid: u32) -> bool {
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    arguments.split(|byte| *byte == 0).nth(1) == Some(KEEPER_VERB.as_bytes())
}

/// Tells whether a process has ended, so that its tree cannot be found any more.
pub fn is_gone(pid: u32) -> bool {
    read_stat(pid).is_none()
}

/// Returns the start time of a process in the kernel's ticks. Together with the pid it names a
/// process for good.
pub(crate) fn started_at(pid: u32) -> Option<u64> {
    read_stat(pid).map(|stat| stat.started)
}

#[derive(Debug)]
struct ProcStat {
    parent: u32,
    /// Not ended: neither a zombie nor dead.
    runs: bool,
    started: u64,
}

/// `/proc/PID/stat`; the command in it is in brackets and may hold anything, so fields count from
/// the last bracket.
fn read_stat(pid: u32) -> Option<ProcStat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    // After the command: state, then the parent; the start time is the 22nd field of the line, the
    // 20th here.
    let runs = !matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    Some(ProcStat { parent, runs, started })
}

fn list_pids() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}
