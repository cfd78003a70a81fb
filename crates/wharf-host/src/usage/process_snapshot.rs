//! One sample of the process table: memory and CPU time of each tree of processes. Linux only;
//! elsewhere it is empty.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::Read;
use std::time::{Duration, Instant};

use crate::agent::process_table::Process;

/// The kernel counts CPU time for programs in hundredths of a second on every Linux that Rust
/// supports.
const TICK_MILLIS: u64 = 10;

/// Memory, CPU time and number of the processes of one tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TreeUsage {
    pub(super) memory: u64,
    /// CPU time of the living and of those that they have waited for.
    pub(super) cpu_millis: u64,
    pub(super) processes: u64,
    /// The latest moment at which the youngest of them can have been started; `None` if that is not
    /// known.
    pub(super) youngest_since: Option<Instant>,
}

/// Every process with its parent, read once for all trees.
#[derive(Debug, Default)]
pub(super) struct ProcessSnapshot {
    ticks: HashMap<u32, u64>,
    started: HashMap<u32, u64>,
    children: HashMap<u32, Vec<u32>>,
    /// Ticks between the boot and this sample, and its time.
    taken_at: Option<(u64, Instant)>,
}

impl ProcessSnapshot {
    /// Reads `/proc` once.
    pub(super) fn read_proc() -> Self {
        let mut seen = Self::default();
        let mut buffer = [0; 1024];
        let Ok(entries) = fs::read_dir("/proc") else { return seen };
        seen.taken_at = read_proc_file("/proc/uptime", &mut buffer)
            .and_then(parse_uptime)
            .map(|ticks| (ticks, Instant::now()));
        for pid in entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        {
            let stat = read_proc_file(&format!("/proc/{pid}/stat"), &mut buffer);
            if let Some(UsageStat { parent, ticks, started }) = stat.and_then(parse_stat) {
                seen.ticks.insert(pid, ticks);
                seen.started.insert(pid, started);
                seen.children.entry(parent).or_default().push(pid);
            }
        }
        seen
    }

    /// Measures `root` and all its descendants. Returns `None` if it is gone, even if another
    /// process has its number now. A process that lost its own parent is below the keeper, which
    /// adopts it.
    pub(super) fn measure_tree(&self, root: Process) -> Option<TreeUsage> {
        let mut tree = TreeUsage::default();
        let mut buffer = [0; 4096];
        let mut last_started = 0;
        for pid in self.tree_pids(root)? {
            tree.processes += 1;
            last_started = last_started.max(self.started.get(&pid).copied().unwrap_or_default());
            tree.cpu_millis += self.ticks.get(&pid).copied().unwrap_or_default() * TICK_MILLIS;
            tree.memory += own_memory(pid, &mut buffer);
        }
        tree.youngest_since = self.taken_at.and_then(|(ticks, taken_at)| {
            // Both times are cut to a tick, so the process may have started up to one tick later.
            let age_ticks = ticks.saturating_sub(last_started + 1);
            taken_at.checked_sub(Duration::from_millis(age_ticks * TICK_MILLIS))
        });
        Some(tree)
    }

    /// Returns the descendants of `root`, without `root`; `None` if it is gone.
    pub(super) fn descendants_of(&self, root: Process) -> Option<BTreeSet<Process>> {
        let below = self.tree_pids(root)?.into_iter().skip(1);
        Some(
            below
                .filter_map(|pid| Some(Process { pid, started: *self.started.get(&pid)? }))
                .collect(),
        )
    }

    fn tree_pids(&self, root: Process) -> Option<Vec<u32>> {
        self.started.get(&root.pid).filter(|started| **started == root.started)?;
        let mut members = Vec::new();
        let mut next = vec![root.pid];
        while let Some(pid) = next.pop() {
            members.push(pid);
            next.extend(self.children.get(&pid).into_iter().flatten());
            // A table that changes while it is read could go in circles.
            if members.len() > self.ticks.len() {
                break;
            }
        }
        Some(members)
    }
}

/// Returns the memory that the process frees when it ends: without pages of files, which others
/// share or the kernel can drop.
fn own_memory(pid: u32, buffer: &mut [u8]) -> u64 {
    let status = read_proc_file(&format!("/proc/{pid}/status"), buffer).unwrap_or_default();
    let kib = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name))?;
        value.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    };
    (kib("RssAnon:").unwrap_or_default() + kib("RssShmem:").unwrap_or_default()) * 1024
}

/// Returns this program's own resident memory and CPU time, for its metrics.
pub(crate) fn own_usage() -> Option<(u64, u64)> {
    let mut buffer = [0; 4096];
    let status = read_proc_file("/proc/self/status", &mut buffer)?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = resident.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    let [user, system, ..] = parse_times(read_proc_file("/proc/self/stat", &mut buffer)?)?;
    Some((kib * 1024, (user + system) * TICK_MILLIS))
}

fn read_proc_file<'a>(path: &str, buffer: &'a mut [u8]) -> Option<&'a str> {
    let length = File::open(path).ok()?.read(buffer).ok()?;
    let text = buffer.get_mut(..length)?;
    // The name of a command may hold any bytes; the fields that are read are plain ASCII.
    text.iter_mut().filter(|byte| !byte.is_ascii()).for_each(|byte| *byte = b'?');
    std::str::from_utf8(text).ok()
}

/// The fields of `/proc/PID/stat` that count here.
#[derive(Debug, PartialEq, Eq)]
struct UsageStat {
    parent: u32,
    /// CPU time.
    ticks: u64,
    /// Ticks between the boot and the start.
    started: u64,
}

/// The seconds since the boot with two decimals, as ticks.
fn parse_uptime(text: &str) -> Option<u64> {
    let (seconds, hundredths) = text.split_ascii_whitespace().next()?.split_once('.')?;
    Some(seconds.parse::<u64>().ok()? * 100 + hundredths.get(..2)?.parse::<u64>().ok()?)
}

/// The command is in brackets and may hold anything: fields count from the last one.
fn parse_stat(text: &str) -> Option<UsageStat> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(1);
    let parent = fields.next()?.parse().ok()?;
    // The 22nd field of the line.
    let started = fields.nth(17)?.parse().ok()?;
    Some(UsageStat { parent, ticks: parse_times(text)?.into_iter().sum(), started })
}

/// User and system time, and the same of children that were waited for: the 14th to 17th field.
fn parse_times(text: &str) -> Option<[u64; 4]> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse().ok();
    Some([next()?, next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_of_a_command_with_brackets_and_blanks_is_parsed() {
        let line = "7 (a) b (c) S 3 7 7 0 -1 4194560 1 0 0 0 11 22 33 44 20 0 1 0 555 0 0";
        assert_eq!(parse_stat(line), Some(UsageStat { parent: 3, ticks: 110, started: 555 }));
        assert_eq!(parse_stat("7 (a S 3"), None);
        assert_eq!(parse_uptime("350735.47 234388.90\n"), Some(35_073_547));
        assert_eq!(parse_uptime("350735"), None);
    }

    #[test]
    fn this_process_is_in_the_table() {
        let seen = ProcessSnapshot::read_proc();
        let parent = std::os::unix::process::parent_id();
        let own = Process::current();
        let tree = seen.measure_tree(own).unwrap();
        assert!(tree.processes >= 1 && tree.memory > 100_000, "{tree:?}");
        assert!(tree.youngest_since.unwrap().elapsed() < Duration::from_secs(3_600), "{tree:?}");
        assert_eq!(
            seen.measure_tree(Process { started: own.started + 1, ..own }),
            None,
            "another process of that number"
        );
        assert_eq!(seen.measure_tree(Process { pid: u32::MAX, ..own }), None);
        assert_eq!(
            seen.started.get(&parent).copied(),
            crate::agent::process_table::started_at(parent)
        );
        assert!(own_usage().unwrap().0 > tree.memory / 2);
    }
}
