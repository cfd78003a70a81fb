//! Finding processes that are ours, by descent, by record and by a tag in their environment; never by name.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal};

/// The variable that every agent process and all its children carry: `<state id>.<session>.<start>`.
pub const TAG: &str = "WHARF_AGENT_TAG";

/// Sends a signal; a process that is gone already is no error.
pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// The processes whose parent it is.
pub(super) fn children(parent: u32) -> Vec<u32> {
    processes().into_iter().filter(|pid| stat(*pid).is_some_and(|stat| stat.parent == parent)).collect()
}

/// Every process that descends from `root`, without it. Empty where there is no `/proc`.
pub fn descendants(root: u32) -> Vec<u32> {
    let parents: HashMap<u32, u32> = processes().into_iter().filter_map(|pid| Some((pid, stat(pid)?.parent))).collect();
    let descends = |mut pid: u32| {
        // A chain of parents is short; the bound guards against a table that changed while it was read.
        for _ in 0..parents.len() {
            match parents.get(&pid) {
                Some(parent) if *parent == root => return true,
                Some(parent) => pid = *parent,
                None => return false,
            }
        }
        false
    };
    parents.keys().copied().filter(|pid| descends(*pid)).collect()
}

/// Is `pid` the process `ancestor` or below it?
pub fn is_below(pid: u32, ancestor: u32) -> bool {
    ancestry(pid).contains(&ancestor)
}

/// The process, its parent, and so on up to the first of all. The process alone where there is no `/proc`.
pub(crate) fn ancestry(pid: u32) -> Vec<u32> {
    // In a container the host itself may be process 1; nothing has the parent 0 but the first of all.
    let parent = |pid: &u32| stat(*pid).map(|stat| stat.parent).filter(|parent| *parent > 0);
    // A chain is short; the bound guards against a table that changes while it is read.
    std::iter::successors(Some(pid), parent).take(1_000).collect()
}

/// Can it no longer be told where a process belongs? Never where there is no `/proc`.
pub fn is_gone(pid: u32) -> bool {
    cfg!(target_os = "linux") && stat(pid).is_none()
}

/// When a process began, in the kernel's ticks: with the pid it names a process for good.
pub(crate) fn started_at(pid: u32) -> Option<u64> {
    stat(pid).map(|stat| stat.started)
}

/// Kills what carries our tag. Returns how many there were.
pub(crate) fn kill_tagged(prefix: &str) -> usize {
    let wanted = format!("{TAG}={prefix}");
    let mut killed = 0;
    for pid in processes() {
        let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { continue };
        let ours = environment.split(|byte| *byte == 0).any(|entry| entry.starts_with(wanted.as_bytes()));
        if ours && pid != std::process::id() {
            signal(pid, Signal::KILL);
            killed += 1;
        }
    }
    killed
}

/// The records of running shims: one small file each, so that a host that starts can end what an earlier one left.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    dir: PathBuf,
}

impl Records {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Notes a running shim. A failure is no reason not to run: the tag still tells.
    pub(crate) fn add(&self, pid: u32) {
        let _ = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir);
        if let Some(started) = started_at(pid) {
            let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(self.path(pid));
            let _ = file.and_then(|mut file| file.write_all(started.to_string().as_bytes()));
        }
    }

    pub(crate) fn remove(&self, pid: u32) {
        let _ = fs::remove_file(self.path(pid));
    }

    /// Kills every recorded process that is still the one that was recorded, and its group and descendants.
    pub(crate) fn sweep(&self) -> usize {
        let Ok(entries) = fs::read_dir(&self.dir) else { return 0 };
        entries.flatten().filter(|entry| sweep_one(&entry.path())).count()
    }

    fn path(&self, pid: u32) -> PathBuf {
        self.dir.join(pid.to_string())
    }
}

fn sweep_one(record: &Path) -> bool {
    let pid: Option<u32> = record.file_name().and_then(|name| name.to_str()?.parse().ok());
    let started: Option<u64> = fs::read_to_string(record).ok().and_then(|text| text.trim().parse().ok());
    let _ = fs::remove_file(record);
    let (Some(pid), Some(started)) = (pid, started) else { return false };
    if started_at(pid) != Some(started) {
        return false;
    }
    for below in descendants(pid) {
        signal(below, Signal::KILL);
    }
    signal(pid, Signal::KILL);
    true
}

struct Stat {
    parent: u32,
    started: u64,
}

/// `/proc/PID/stat`; the command in it is in brackets and may hold anything, so fields count from the last bracket.
fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    // After the command: state, then the parent; the start time is the 22nd field of the line, the 20th here.
    let parent = fields.nth(1)?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    Some(Stat { parent, started })
}

fn processes() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
