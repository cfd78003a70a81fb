//! Records running process trees in one small file per keeper, so that the next host can end the
//! trees that this host leaves.
//!
//! A tree belongs to a state directory (rule 12.17). The record names the directory by device,
//! inode and a random id, the system by its boot and pid namespace, the host, the keeper, the tag,
//! and every process that was seen below the keeper. A host ends a process on the strength of a
//! record only if the record names it by pid *and* start time, or if it descends from such a
//! process, or carries exactly the recorded tag.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use wharf_config::KeeperSettings;
use wharf_core::Millis;

use super::directory_identity::DirectoryIdentity;
use super::keeper::protocol::PROTOCOL_VERSION;
use super::process_table::{Process, ProcessTable, find_tagged, is_keeper, kill_until_gone};
use super::record_files::{
    LEFT_OUTPUT_EXTENSION, RecordFile, TAKEN_OUTPUT_EXTENSION, UNFINISHED_EXTENSION,
    UNFINISHED_OUTPUT_EXTENSION, find_left_outputs, keeper_of_output, read_record, read_records,
    settle_unfinished_records,
};

/// How long a host may take to die after it has given its lease back.
const DYING_HOST_TIMEOUT: Duration = Duration::from_secs(5);
const DYING_HOST_INTERVAL: Duration = Duration::from_millis(5);

/// The record of one tree, as it is on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TreeRecord {
    directory: DirectoryIdentity,
    system: String,
    host: Process,
    keeper: Process,
    tag: String,
    /// Everything below the keeper at the last look.
    seen: BTreeSet<Process>,
    /// The hash of the token that the tree was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// When the agent's first turn began, in milliseconds since 1970: processes that are younger
    /// are the agent's work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_turn_millis: Option<u64>,
    /// Set if the agent outlives its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kept: Option<KeptRecord>,
}

/// The limits of an agent without a host, as its keeper was given them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeeperLimits {
    /// How long the agent goes on in a turn; `None` for ever.
    pub absence_millis: Option<u64>,
    /// The same for an agent that is idle.
    pub idle_absence_millis: Option<u64>,
    /// The bytes of output that are kept; more holds the agent back.
    pub output_bytes: u64,
}

impl KeeperLimits {
    pub fn from_settings(settings: &KeeperSettings) -> Self {
        Self {
            absence_millis: settings.absence.to_millis().map(|limit| limit.0),
            idle_absence_millis: settings.idle_absence.to_millis().map(|limit| limit.0),
            output_bytes: settings.output.0 as u64,
        }
    }
}

/// The keeper of an agent that outlives the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeeperDescription {
    /// The version of the program that the keeper runs.
    pub version: String,
    /// `None` if they are not known.
    pub limits: Option<KeeperLimits>,
}

/// The part of a record that the next host needs to take an agent over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptRecord {
    pub(crate) session: String,
    /// The number of the agent's start.
    pub(crate) start: u64,
    /// The version of the keeper's protocol.
    pub(crate) protocol: u32,
    /// The version of the program that the keeper runs.
    pub(crate) version: String,
    pub(crate) secret: String,
    /// The first keepers had none in their records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limits: Option<KeeperLimits>,
}

/// The record of a tree that an earlier host has left to its keeper.
#[derive(Clone, Debug)]
pub(crate) struct LeftTree {
    record: TreeRecord,
    pub(crate) kept: KeptRecord,
}

impl LeftTree {
    pub(crate) fn keeper_pid(&self) -> u32 {
        self.record.keeper.pid
    }

    /// Returns the keeper's process.
    pub(crate) fn keeper(&self) -> Process {
        self.record.keeper
    }

    /// Returns true if both are of the same keeper.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.record.keeper == other.record.keeper && self.record.system == other.record.system
    }

    /// Returns how long ago the agent's first turn began.
    pub(crate) fn time_since_first_turn(&self, now: Millis) -> Option<Duration> {
        self.record
            .first_turn_millis
            .map(|at| Duration::from_millis(now.0.saturating_sub(at)))
    }

    pub(crate) fn token(&self) -> Option<blake3::Hash> {
        self.record.token.as_deref().and_then(|text| blake3::Hash::from_hex(text).ok())
    }
}

/// The trees that this host runs. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ProcessRecords {
    shared: Arc<RecordsState>,
}

#[derive(Debug)]
struct RecordsState {
    dir: PathBuf,
    directory: DirectoryIdentity,
    system: String,
    host: Process,
    running: Mutex<BTreeMap<u32, TreeRecord>>,
    /// Held from a change of `running` until the change is on disk: the files have the order of the
    /// changes.
    writing: Mutex<()>,
    /// How many run; told whenever that changes.
    count: watch::Sender<usize>,
    /// True once all trees are to end.
    ending: watch::Sender<bool>,
}

impl ProcessRecords {
    /// Records in `dir` for the state directory of this identity.
    pub(crate) fn new(dir: PathBuf, directory: DirectoryIdentity) -> Self {
        let shared = RecordsState {
            dir,
            directory,
            system: identify_system(),
            host: Process::current(),
            running: Mutex::default(),
            writing: Mutex::default(),
            count: watch::Sender::new(0),
            ending: watch::Sender::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Records a running keeper. If the record cannot be written, the agent runs all the same: this
    /// host still knows the tree.
    pub(crate) fn add(&self, keeper: u32, tag: &str, token: Option<blake3::Hash>) {
        let RecordsState { directory, system, host, .. } = &*self.shared;
        // Where there is no `/proc` there is nothing to find again either.
        let keeper = Process {
            pid: keeper,
            started: super::process_table::started_at(keeper).unwrap_or_default(),
        };
        let directory = directory.clone();
        let system = system.clone();
        let seen = BTreeSet::new();
        let tag = tag.to_owned();
        let token = token.map(|token| token.to_hex().to_string());
        let first_turn_millis = None;
        let kept = None;
        self.insert(TreeRecord {
            directory,
            system,
            host: *host,
            keeper,
            tag,
            seen,
            token,
            first_turn_millis,
            kept,
        });
    }

    fn insert(&self, record: TreeRecord) {
        {
            let _writing = self.lock_writing();
            self.write_or_report(&record);
            self.lock_running().insert(record.keeper.pid, record);
        }
        self.tell_count();
    }

    /// Changes the record of a running tree, and writes it if `change` returns true.
    fn change_record(
        &self,
        keeper: u32,
        change: impl FnOnce(&mut TreeRecord) -> bool,
    ) -> io::Result<()> {
        let _writing = self.lock_writing();
        let changed = self
            .lock_running()
            .get_mut(&keeper)
            .and_then(|record| change(record).then(|| record.clone()));
        changed.map_or(Ok(()), |record| self.write_record(&record))
    }

    /// Notes the facts that the next host needs to take the agent over. The host orders the keeper
    /// to keep the agent after this, and only if the note is on disk.
    pub(crate) fn note_kept(&self, keeper: u32, kept: KeptRecord) -> io::Result<()> {
        let noted = self.change_record(keeper, |record| {
            record.kept = Some(kept);
            true
        });
        if noted.is_err()
            && let Some(record) = self.lock_running().get_mut(&keeper)
        {
            record.kept = None;
        }
        noted
    }

    /// Notes when the agent's first turn began.
    pub(crate) fn note_first_turn(&self, keeper: u32, at: Millis) {
        let noted = self.change_record(keeper, |record| {
            let is_first = record.first_turn_millis.is_none();
            record.first_turn_millis.get_or_insert(at.0);
            is_first
        });
        report_unwritten(keeper, noted);
    }

    pub(crate) fn is_kept(&self, keeper: u32) -> bool {
        self.lock_running().get(&keeper).is_some_and(|record| record.kept.is_some())
    }

    /// Describes a keeper whose agent outlives this host.
    pub(crate) fn describe_keeper(&self, keeper: u32) -> Option<KeeperDescription> {
        let running = self.lock_running();
        let kept = running.get(&keeper)?.kept.as_ref()?;
        Some(KeeperDescription { version: kept.version.clone(), limits: kept.limits })
    }

    /// Returns how many agents outlive this host.
    pub(crate) fn count_kept(&self) -> usize {
        self.lock_running().values().filter(|record| record.kept.is_some()).count()
    }

    /// Makes a tree that this host has taken over its own.
    pub(crate) fn adopt(&self, tree: LeftTree) {
        self.insert(TreeRecord { host: self.shared.host, ..tree.record });
    }

    /// The directory of the keepers' sockets. Its name has the version of their protocol.
    pub(crate) fn socket_dir(&self, protocol: u32) -> PathBuf {
        self.shared.dir.join(format!("keepers-{protocol}"))
    }

    /// Forgets a tree that is gone.
    pub(crate) fn remove(&self, keeper: u32) {
        {
            let _writing = self.lock_writing();
            self.lock_running().remove(&keeper);
            self.remove_files(keeper);
        }
        self.tell_count();
    }

    /// Removes the record of a keeper, and its socket: a keeper that was killed leaves it behind.
    fn remove_files(&self, keeper: u32) {
        let _ = fs::remove_file(self.record_path(keeper));
        let _ = fs::remove_file(self.socket_dir(PROTOCOL_VERSION).join(keeper.to_string()));
    }

    /// The keepers that run.
    pub(crate) fn running_keepers(&self) -> Vec<Process> {
        self.lock_running().values().map(|record| record.keeper).collect()
    }

    /// Notes the processes below a keeper, as they are now.
    pub(crate) fn note_seen(&self, keeper: u32, seen: BTreeSet<Process>) {
        let noted = self.change_record(keeper, |record| {
            let before = std::mem::replace(&mut record.seen, seen);
            record.seen != before
        });
        report_unwritten(keeper, noted);
    }

    /// Notes the first process of a tree, which the keeper has just started.
    pub(crate) fn note_agent(&self, keeper: u32, agent: u32) {
        if let Some(started) = super::process_table::started_at(agent) {
            self.note_seen(keeper, BTreeSet::from([Process { pid: agent, started }]));
        }
    }

    /// Changes whenever a keeper comes or goes.
    pub(crate) fn watch_count(&self) -> watch::Receiver<usize> {
        self.shared.count.subscribe()
    }

    /// Asks all trees to end, now and in future. Returns when all are gone.
    pub(crate) async fn end_all(&self) {
        self.shared.ending.send_replace(true);
        let _ = self.watch_count().wait_for(|count| *count == 0).await;
    }

    /// Does the same for the trees that are not left to their keepers.
    pub(crate) async fn end_all_but_kept(&self) {
        self.shared.ending.send_replace(true);
        let is_done = || !self.lock_running().values().any(|record| record.kept.is_none());
        let _ = self.watch_count().wait_for(|_| is_done()).await;
    }

    /// True once all trees are to end.
    pub(crate) fn watch_ending(&self) -> watch::Receiver<bool> {
        self.shared.ending.subscribe()
    }

    /// Kills the remaining processes of a tree of this host whose keeper is gone. Returns how many
    /// there were.
    pub(crate) fn end_leftover_tree(&self, keeper: u32) -> usize {
        let record = self.lock_running().get(&keeper).cloned();
        record.map_or(0, |record| end_trees(&[record]))
    }

    /// Returns the trees that an earlier host on this state directory has left to their keepers,
    /// and kills the others. The caller holds the directory's lease.
    pub(crate) fn take_left_trees(&self) -> io::Result<Vec<LeftTree>> {
        settle_unfinished_records(&self.shared.dir, keeper_of)?;
        let mut left = Vec::new();
        let mut lost = Vec::new();
        let give_up_at = Instant::now() + DYING_HOST_TIMEOUT;
        for RecordFile { path, record } in read_records(&self.shared.dir, keeper_of)? {
            if self.has_living_host(&record, give_up_at) {
                tracing::warn!(record = %path.display(), "a host that has lost its lease still runs; its agents stay");
                continue;
            }
            let is_ours = self.is_ours(&record);
            match record.kept.clone().filter(|_| is_ours && record.keeper.is_alive()) {
                Some(kept) => left.push(LeftTree { record, kept }),
                None => {
                    self.remove_files(record.keeper.pid);
                    lost.extend(is_ours.then_some(record));
                }
            }
        }
        let strays = end_trees(&lost);
        if strays > 0 {
            tracing::info!(strays, "ended agent processes that an earlier host had left behind");
        }
        Ok(left)
    }

    /// Returns the directories with output that keepers have left.
    pub(super) fn list_left_outputs(&self) -> io::Result<Vec<PathBuf>> {
        find_left_outputs(&self.shared.dir, LEFT_OUTPUT_EXTENSION)
    }

    /// Returns the tree whose keeper has left the output in this directory; `None` if it is not of
    /// this state directory.
    pub(super) fn read_left_tree(&self, output: &Path) -> io::Result<Option<LeftTree>> {
        let record = read_record::<TreeRecord>(&output.join("record"))?;
        // Another boot or another numbering of processes makes no difference, since all processes
        // of the tree have ended.
        let is_ours = record.directory == self.shared.directory;
        let tree = record.kept.clone().filter(|_| is_ours).map(|kept| LeftTree { record, kept });
        if tree.is_none() {
            tracing::warn!(path = %output.display(), "output of an agent of another state directory is left alone");
        }
        Ok(tree)
    }

    /// Removes the output that keepers have begun to write and will not finish, and output that an
    /// earlier host had begun to remove.
    pub(crate) fn remove_unfinished_outputs(&self) -> io::Result<()> {
        for path in find_left_outputs(&self.shared.dir, UNFINISHED_OUTPUT_EXTENSION)? {
            if self.has_living_keeper(&path) {
                tracing::info!(path = %path.display(), "a keeper is writing the output of its agent");
                continue;
            }
            tracing::warn!(path = %path.display(), "a keeper ended while it wrote the output of its agent, which is lost");
            let _ = fs::remove_dir_all(path);
        }
        for path in find_left_outputs(&self.shared.dir, TAKEN_OUTPUT_EXTENSION)? {
            let _ = fs::remove_dir_all(path);
        }
        Ok(())
    }

    /// Returns true if the keeper that has begun to write this output lives. Its record is the
    /// first file that it writes.
    fn has_living_keeper(&self, half: &Path) -> bool {
        let Some(keeper) = keeper_of_output(half) else { return false };
        let records = [half.join("record"), self.record_path(keeper)];
        match records.iter().find_map(|path| read_record::<TreeRecord>(path).ok()) {
            Some(record) => record.system == self.shared.system && record.keeper.is_alive(),
            None => is_keeper(keeper),
        }
    }

    /// Kills a tree that an earlier host has left and that cannot be taken over.
    pub(crate) fn end_left_tree(&self, tree: &LeftTree) {
        end_trees(std::slice::from_ref(&tree.record));
        self.remove_files(tree.keeper_pid());
        let _ = fs::remove_file(
            self.socket_dir(tree.kept.protocol).join(tree.keeper_pid().to_string()),
        );
    }

    /// Returns true if the host of a record of this directory lives. A dying host has given its
    /// lease back already, so this waits for it until `give_up_at`.
    fn has_living_host(&self, record: &TreeRecord, give_up_at: Instant) -> bool {
        let is_of_here =
            record.directory == self.shared.directory && record.system == self.shared.system;
        while is_of_here && record.host.is_alive() {
            if Instant::now() > give_up_at {
                return true;
            }
            std::thread::sleep(DYING_HOST_INTERVAL);
        }
        false
    }

    /// Is this the record of a tree of this very directory whose host is dead? A record that was
    /// copied here with the directory is that of another, and a host that still runs cares for its
    /// own trees.
    fn is_ours(&self, record: &TreeRecord) -> bool {
        record.directory == self.shared.directory
            && record.system == self.shared.system
            && !record.host.is_alive()
    }

    fn write_or_report(&self, record: &TreeRecord) {
        report_unwritten(record.keeper.pid, self.write_record(record));
    }

    fn write_record(&self, record: &TreeRecord) -> io::Result<()> {
        let _ = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.shared.dir);
        let path = self.record_path(record.keeper.pid);
        let half = path.with_extension(UNFINISHED_EXTENSION);
        // Not synced: after a power loss there is nothing to sweep.
        let written = serde_json::to_vec(record).map_err(io::Error::from).and_then(|text| {
            let file = fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&half);
            file.and_then(|mut file| io::Write::write_all(&mut file, &text))
                .and_then(|()| fs::rename(&half, &path))
        });
        if written.is_err() {
            let _ = fs::remove_file(&half);
        }
        written
    }

    fn tell_count(&self) {
        let count = self.lock_running().len();
        self.shared.count.send_replace(count);
    }

    fn lock_writing(&self) -> MutexGuard<'_, ()> {
        self.shared.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_running(&self) -> MutexGuard<'_, BTreeMap<u32, TreeRecord>> {
        self.shared.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_path(&self, keeper: u32) -> PathBuf {
        self.shared.dir.join(keeper.to_string())
    }
}

/// Reports a record that could not be written. The tree goes on all the same, since this host still
/// knows it.
fn report_unwritten(keeper: u32, written: io::Result<()>) {
    if let Err(error) = written {
        tracing::debug!(%error, keeper, "a process tree could not be recorded");
    }
}

/// Reads the records of the kept agents whose keepers run, each with the keeper's pid. Changes
/// nothing.
pub(super) fn read_kept_records(dir: &Path) -> Vec<(u32, KeptRecord)> {
    let system = identify_system();
    let records = read_records::<TreeRecord>(dir, keeper_of)
        .unwrap_or_default()
        .into_iter()
        .map(|file| file.record);
    let living = records.filter(|record| record.system == system && record.keeper.is_alive());
    living.filter_map(|record| Some((record.keeper.pid, record.kept?))).collect()
}

/// Returns the keeper's pid, which is the name of the record's file.
fn keeper_of(record: &TreeRecord) -> u32 {
    record.keeper.pid
}

/// Kills everything that is left of these trees. Returns how many processes there were at first.
fn end_trees(records: &[TreeRecord]) -> usize {
    if records.is_empty() {
        0
    } else {
        kill_until_gone(|table| find_leftover_processes(records, table))
    }
}

/// The living processes of these trees.
fn find_leftover_processes(records: &[TreeRecord], table: &ProcessTable) -> HashSet<Process> {
    let mut left = HashSet::new();
    for record in records {
        let recorded = record.seen.iter().chain([&record.keeper]).copied();
        left.extend(recorded.filter(|process| table.contains_process(*process)));
        // Older than its keeper: not of this tree, whatever its environment says.
        left.extend(
            find_tagged(&record.tag, table)
                .filter(|process| process.started >= record.keeper.started),
        );
    }
    let roots: HashSet<u32> = left.iter().map(|process| process.pid).collect();
    left.extend(table.descendants_of(&roots));
    left.retain(|process| process.pid != std::process::id() && table.is_running(process.pid));
    left
}

/// Names this boot of the machine, and this process's numbering of processes: elsewhere a pid means
/// another process.
fn identify_system() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), namespace.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::random_text;

    fn records(root: &Path) -> ProcessRecords {
        ProcessRecords::new(root.join("run"), DirectoryIdentity::load_or_create(root).unwrap())
    }

    fn kept_record(start: u64) -> KeptRecord {
        let session = "sess_a".to_owned();
        let version = "0.1.0".to_owned();
        let secret = "secret".to_owned();
        KeptRecord {
            session,
            start,
            protocol: PROTOCOL_VERSION,
            version,
            secret,
            limits: None,
        }
    }

    #[test]
    fn sweep_takes_only_records_of_this_directory_this_system_and_a_dead_host() {
        let temp = tempfile::tempdir().unwrap();
        let records = records(temp.path());
        let gone = Process { pid: u32::MAX >> 1, started: 1 };
        let record = TreeRecord {
            directory: records.shared.directory.clone(),
            system: records.shared.system.clone(),
            host: gone,
            keeper: gone,
            tag: "x".to_owned(),
            seen: BTreeSet::new(),
            token: None,
            first_turn_millis: None,
            kept: None,
        };
        assert!(records.is_ours(&record));
        let living = Process::current();
        assert!(!records.is_ours(&TreeRecord { host: living, ..record.clone() }), "its host lives");
        let directory = DirectoryIdentity { inode: 1, ..record.directory.clone() };
        assert!(!records.is_ours(&TreeRecord { directory, ..record.clone() }), "another directory");
        assert!(
            !records.is_ours(&TreeRecord { system: "before".to_owned(), ..record.clone() }),
            "before a reboot"
        );
        // Another process has its number now.
        let reused = Process { started: living.started + 1, ..living };
        assert!(records.is_ours(&TreeRecord { host: reused, ..record }));
    }

    #[test]
    fn left_processes_are_found_by_start_time_and_not_by_number_alone() {
        let temp = tempfile::tempdir().unwrap();
        let records = records(temp.path());
        let parent = std::os::unix::process::parent_id();
        let started = super::super::process_table::started_at(parent).unwrap();
        let mut record = TreeRecord {
            directory: records.shared.directory.clone(),
            system: String::new(),
            host: Process::current(),
            keeper: Process { pid: u32::MAX >> 1, started: u64::MAX },
            tag: random_text(20),
            seen: BTreeSet::from([Process { pid: parent, started: started + 1 }]),
            token: None,
            first_turn_millis: None,
            kept: None,
        };
        assert_eq!(
            find_leftover_processes(&[record.clone()], &ProcessTable::read()),
            HashSet::new()
        );
        record.seen = BTreeSet::from([Process { pid: parent, started }]);
        assert!(
            find_leftover_processes(&[record], &ProcessTable::read())
                .contains(&Process { pid: parent, started })
        );
    }

    #[test]
    fn keeper_with_an_unfinished_second_record_is_taken_once() {
        let temp = tempfile::tempdir().unwrap();
        let records = records(temp.path());
        // A keeper that runs, and a host that does not.
        let keeper = Process::current();
        let host = Process { pid: u32::MAX >> 1, started: 1 };
        let record = TreeRecord {
            directory: records.shared.directory.clone(),
            system: records.shared.system.clone(),
            host,
            keeper,
            tag: random_text(20),
            seen: BTreeSet::new(),
            token: None,
            first_turn_millis: None,
            kept: Some(kept_record(1)),
        };
        records.write_record(&record).unwrap();
        let path = records.record_path(keeper.pid);
        let half = path.with_extension(UNFINISHED_EXTENSION);
        fs::copy(&path, &half).unwrap();
        assert_eq!(records.take_left_trees().unwrap().len(), 1, "two records of one keeper");
        assert!(path.exists() && !half.exists());
        // The host died before the first record of the tree was in place.
        fs::rename(&path, &half).unwrap();
        assert_eq!(records.take_left_trees().unwrap().len(), 1);
        assert!(path.exists() && !half.exists());
    }

    #[test]
    fn output_that_a_living_keeper_writes_stays_and_that_of_a_dead_one_is_removed() {
        let temp = tempfile::tempdir().unwrap();
        let records = records(temp.path());
        let living = Process::current();
        let dead = Process { pid: u32::MAX >> 1, started: 1 };
        // Another process has the number of the keeper by now.
        let reused = Process { started: living.started + 1, ..living };
        let begin_output = |keeper: Process, name: &str| {
            let half = temp.path().join("run").join(format!("{}.{name}", keeper.pid));
            fs::create_dir_all(&half).unwrap();
            let record = TreeRecord {
                directory: records.shared.directory.clone(),
                system: records.shared.system.clone(),
                host: dead,
                keeper,
                tag: random_text(20),
                seen: BTreeSet::new(),
                token: None,
                first_turn_millis: None,
                kept: Some(kept_record(1)),
            };
            fs::write(half.join("record"), serde_json::to_vec(&record).unwrap()).unwrap();
            half
        };
        let written = begin_output(living, "1.leaving");
        let others = [
            begin_output(dead, "2.leaving"),
            begin_output(reused, "3.leaving"),
            begin_output(living, "4.taken"),
        ];
        assert_eq!(records.list_left_outputs().unwrap().len(), 0);
        assert!(others.iter().all(|path| path.exists()), "a look removes nothing");
        records.remove_unfinished_outputs().unwrap();
        assert!(written.exists(), "its keeper lives");
        assert!(others.iter().all(|path| !path.exists()), "{others:?}");
    }

    #[test]
    fn directories_that_wharf_has_not_written_are_not_removed() {
        let temp = tempfile::tempdir().unwrap();
        let records = records(temp.path());
        let run = temp.path().join("run");
        let foreign =
            ["notes.leaving", "mine.taken", "71.leaving", "71.taken"].map(|name| run.join(name));
        for path in &foreign {
            fs::create_dir_all(path).unwrap();
            fs::write(path.join("file"), "mine").unwrap();
        }
        records.remove_unfinished_outputs().unwrap();
        let removed: Vec<&PathBuf> =
            foreign.iter().filter(|path| !path.join("file").exists()).collect();
        assert_eq!(removed, Vec::<&PathBuf>::new());
    }

    #[test]
    fn agent_is_not_kept_without_a_record_of_it() {
        let temp = tempfile::tempdir().unwrap();
        let records = records(temp.path());
        let keeper = std::process::id();
        records.add(keeper, "tag", None);
        // A directory in the place of the unfinished record: it cannot be written, as on a full
        // disk.
        fs::create_dir(records.record_path(keeper).with_extension(UNFINISHED_EXTENSION)).unwrap();
        assert!(records.note_kept(keeper, kept_record(1)).is_err());
        assert!(!records.is_kept(keeper));
    }

    #[test]
    fn changes_from_several_threads_leave_a_whole_and_current_record() {
        const CHANGES: u32 = 2_000;
        let temp = tempfile::tempdir().unwrap();
        let records = records(temp.path());
        let keeper = std::process::id();
        records.add(keeper, "tag", None);
        let path = records.record_path(keeper);
        let read = || serde_json::from_slice::<TreeRecord>(&fs::read(&path).unwrap());
        // The sizes differ, so that parts of two records would not make a whole one.
        let seen = |count: u32| {
            (0..count % 2 * 50)
                .map(|pid| Process { pid, started: u64::from(count) })
                .collect()
        };
        std::thread::scope(|scope| {
            scope.spawn(|| (1..CHANGES).for_each(|count| records.note_seen(keeper, seen(count))));
            scope.spawn(|| {
                (1..CHANGES)
                    .for_each(|start| records.note_kept(keeper, kept_record(start.into())).unwrap())
            });
            for _ in 0..CHANGES {
                assert!(read().is_ok(), "{}", fs::read_to_string(&path).unwrap());
            }
        });
        assert_eq!(read().unwrap(), *records.lock_running().get(&keeper).unwrap());
    }

    #[test]
    fn records_are_written_when_the_tree_changes_and_removed_with_it() {
        let temp = tempfile::tempdir().unwrap();
        let records = records(temp.path());
        let own = std::process::id();
        records.add(own, "tag", None);
        let path = temp.path().join("run").join(own.to_string());
        let before = fs::read(&path).unwrap();
        records.note_seen(own, BTreeSet::from([Process { pid: 7, started: 9 }]));
        assert_ne!(fs::read(&path).unwrap(), before);
        records.remove(own);
        records.note_seen(own, BTreeSet::new());
        assert!(!path.exists());
        assert_eq!(records.running_keepers(), []);
    }
}
