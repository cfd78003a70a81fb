//! An engine in memory that fails on request, for tests of its callers.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::contract::check_append;
use crate::{
    AppendError, Engine, Head, Log, LogId, LogRecord, LogStat, Mended, OnSynced, RecordPage,
    StoreError,
};

/// The failures of an engine. A handle: clones share the settings, which can be changed at any
/// time.
#[derive(Clone, Debug, Default)]
pub struct Hostility(Arc<Mutex<FailureSettings>>);

#[derive(Default)]
struct FailureSettings {
    full: usize,
    reserve: usize,
    read_only: bool,
    broken: usize,
    stale_at: Option<u64>,
    sync_failures: usize,
    hold_syncs: bool,
    /// Holds only the syncs of the log with this name.
    hold_only: Option<String>,
    held: Vec<HeldSync>,
}

type HeldSync = (Arc<MemoryLog>, OnSynced);

impl Hostility {
    /// Makes the next `times` appends fail for lack of space.
    pub fn fill_appends(&self, times: usize) {
        self.failure_settings().full = times;
    }

    /// Lets this many appends from the reserve succeed while appends fail for lack of space.
    pub fn keep_reserve(&self, times: usize) {
        self.failure_settings().reserve = times;
    }

    /// Makes the file system read-only or writable.
    pub fn set_read_only(&self, read_only: bool) {
        self.failure_settings().read_only = read_only;
    }

    /// Makes the next `times` appends fail with an I/O error. They leave nothing in the log.
    pub fn break_appends(&self, times: usize) {
        self.failure_settings().broken = times;
    }

    /// Simulates a newer host: appends in an epoch below `epoch` are stale from now on.
    pub fn take_over(&self, epoch: u64) {
        self.failure_settings().stale_at = Some(epoch);
    }

    /// Makes the next `times` syncs fail. As with files, such a log accepts no more records.
    pub fn break_syncs(&self, times: usize) {
        self.failure_settings().sync_failures = times;
    }

    /// Holds the answers of syncs until they are released.
    pub fn hold_syncs(&self) {
        self.failure_settings().hold_syncs = true;
    }

    /// Holds the answers of this log's syncs until they are released; others are answered.
    pub fn hold_syncs_of(&self, name: &str) {
        let mut knobs = self.failure_settings();
        knobs.hold_syncs = true;
        knobs.hold_only = Some(name.to_owned());
    }

    /// Answers the held syncs in their order of arrival and holds no more.
    pub fn release_syncs(&self) {
        let held = {
            let mut knobs = self.failure_settings();
            knobs.hold_syncs = false;
            knobs.hold_only = None;
            std::mem::take(&mut knobs.held)
        };
        for (log, done) in held {
            log.finish_sync(done);
        }
    }

    /// Returns the number of held syncs.
    pub fn held_syncs(&self) -> usize {
        self.failure_settings().held.len()
    }

    fn failure_settings(&self) -> MutexGuard<'_, FailureSettings> {
        lock_mutex(&self.0)
    }
}

#[derive(Debug)]
pub struct MemoryEngine {
    hostility: Hostility,
    logs: Mutex<BTreeMap<LogId, Arc<MemoryLog>>>,
}

#[derive(Debug)]
struct MemoryLog {
    me: std::sync::Weak<Self>,
    id: LogId,
    hostility: Hostility,
    state: Mutex<MemoryLogState>,
}

#[derive(Debug, Default)]
struct MemoryLogState {
    head: Head,
    records: Vec<LogRecord>,
    synced: usize,
    removed: bool,
    broken: bool,
}

impl MemoryEngine {
    pub fn new(hostility: Hostility) -> Arc<Self> {
        Arc::new(Self { hostility, logs: Mutex::default() })
    }

    /// Drops everything that was not synced, as a power cut would. Open handles continue with the
    /// rest.
    pub fn lose_power(&self) {
        for log in lock_mutex(&self.logs).values() {
            let mut state = lock_mutex(&log.state);
            let synced = state.synced;
            state.records.truncate(synced);
            state.head = state.records.iter().fold(Head::default(), grown_head);
        }
    }
}

impl Engine for MemoryEngine {
    fn create(&self, id: &LogId) -> Result<Arc<dyn Log>, StoreError> {
        let mut logs = lock_mutex(&self.logs);
        if logs.contains_key(id) {
            return Err(StoreError::Exists(id.clone()));
        }
        let log = Arc::new_cyclic(|me| MemoryLog {
            me: me.clone(),
            id: id.clone(),
            hostility: self.hostility.clone(),
            state: Mutex::default(),
        });
        logs.insert(id.clone(), Arc::clone(&log));
        Ok(log)
    }

    fn open(&self, id: &LogId) -> Result<Arc<dyn Log>, StoreError> {
        let log = lock_mutex(&self.logs)
            .get(id)
            .cloned()
            .ok_or_else(|| StoreError::NotFound(id.clone()))?;
        // As with files, a log whose sync failed works again once it is opened again.
        lock_mutex(&log.state).broken = false;
        Ok(log)
    }

    fn list(&self) -> Result<Vec<LogStat>, StoreError> {
        let logs = lock_mutex(&self.logs);
        Ok(logs
            .values()
            .map(|log| LogStat { id: log.id.clone(), bytes: log.head().bytes })
            .collect())
    }

    fn remove(&self, id: &LogId) -> Result<(), StoreError> {
        if let Some(log) = lock_mutex(&self.logs).remove(id) {
            lock_mutex(&log.state).removed = true;
        }
        Ok(())
    }

    fn probe(&self) -> Result<(), StoreError> {
        let knobs = self.hostility.failure_settings();
        let kind = if knobs.full > 0 {
            io::ErrorKind::StorageFull
        } else if knobs.read_only {
            io::ErrorKind::ReadOnlyFilesystem
        } else if knobs.broken > 0 || knobs.sync_failures > 0 {
            io::ErrorKind::Other
        } else {
            return Ok(());
        };
        Err(StoreError::Io { what: "writing".to_owned(), source: kind.into() })
    }
}

impl MemoryLog {
    fn lock_present(&self) -> Result<MutexGuard<'_, MemoryLogState>, StoreError> {
        let state = lock_mutex(&self.state);
        if state.removed { Err(StoreError::NotFound(self.id.clone())) } else { Ok(state) }
    }

    fn append_records(
        &self,
        epoch: u64,
        expected: u64,
        bodies: &[Bytes],
        from_reserve: bool,
    ) -> Result<Head, AppendError> {
        let mut state = self.lock_present()?;
        if state.broken {
            return Err(self.io_error("appending", "its sync failed").into());
        }
        check_append(state.head, epoch, expected, bodies)?;
        self.check_failures(epoch, from_reserve)?;
        for body in bodies {
            let record = LogRecord { seq: state.head.seq + 1, epoch, body: body.clone() };
            state.head = grown_head(state.head, &record);
            state.records.push(record);
        }
        Ok(state.head)
    }

    /// Applies the configured failures to an append that is otherwise valid.
    fn check_failures(&self, epoch: u64, from_reserve: bool) -> Result<(), AppendError> {
        let mut knobs = self.hostility.failure_settings();
        if let Some(current) = knobs.stale_at.filter(|&current| epoch < current) {
            return Err(AppendError::StaleEpoch { ours: epoch, current });
        }
        if knobs.read_only {
            return Err(AppendError::ReadOnly(self.id.clone()));
        }
        let reserved = from_reserve && knobs.full > 0 && take_one(&mut knobs.reserve);
        if !reserved && take_one(&mut knobs.full) {
            return Err(AppendError::Full(self.id.clone()));
        }
        if take_one(&mut knobs.broken) {
            return Err(self.io_error("appending", "told to fail").into());
        }
        Ok(())
    }

    fn finish_sync(&self, done: OnSynced) {
        let result = self.lock_present().and_then(|mut state| {
            if state.broken || take_one(&mut self.hostility.failure_settings().sync_failures) {
                state.broken = true;
                return Err(self.io_error("syncing", "told to fail"));
            }
            state.synced = state.records.len();
            Ok(state.head.seq)
        });
        done(result);
    }

    fn io_error(&self, doing: &str, why: &str) -> StoreError {
        StoreError::Io {
            what: format!("{doing} {}", self.id),
            source: io::Error::other(why),
        }
    }
}

impl Log for MemoryLog {
    fn head(&self) -> Head {
        lock_mutex(&self.state).head
    }

    fn mended(&self) -> Mended {
        Mended::default()
    }

    fn append(&self, epoch: u64, expected: u64, bodies: &[Bytes]) -> Result<Head, AppendError> {
        self.append_records(epoch, expected, bodies, false)
    }

    fn append_from_reserve(
        &self,
        epoch: u64,
        expected: u64,
        bodies: &[Bytes],
    ) -> Result<Head, AppendError> {
        self.append_records(epoch, expected, bodies, true)
    }

    fn sync(&self, done: OnSynced) {
        let mut knobs = self.hostility.failure_settings();
        let meant = knobs.hold_only.as_ref().is_none_or(|name| name == self.id.name());
        match self.me.upgrade().filter(|_| knobs.hold_syncs && meant) {
            Some(me) => knobs.held.push((me, done)),
            None => {
                drop(knobs);
                self.finish_sync(done);
            }
        }
    }

    fn read(&self, from: u64, max_bytes: usize) -> Result<RecordPage, StoreError> {
        let state = self.lock_present()?;
        let start = usize::try_from(from.saturating_sub(1))
            .unwrap_or(usize::MAX)
            .min(state.records.len());
        let mut page = RecordPage::default();
        let mut taken = 0;
        for record in &state.records[start..] {
            taken += record.body.len();
            if taken > max_bytes && !page.records.is_empty() {
                break;
            }
            page.records.push(record.clone());
        }
        Ok(page)
    }
}

fn grown_head(head: Head, record: &LogRecord) -> Head {
    Head {
        seq: record.seq,
        epoch: record.epoch,
        bytes: head.bytes + record.body.len() as u64 + 1,
    }
}

/// Counts down. Returns true while the count was above zero.
fn take_one(left: &mut usize) -> bool {
    let some = *left > 0;
    *left = left.saturating_sub(1);
    some
}

fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for FailureSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Knobs").field("held", &self.held.len()).finish_non_exhaustive()
    }
}
