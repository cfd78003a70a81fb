//! The time without a host: the agent's output goes into its output file, the end of its stderr is
//! kept, and limits count.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::super::kept_files::{
    KeptFiles, MIN_RELEASED_BYTES, create_file, held_bytes, move_bytes, write_at,
};
use super::super::left_output::{AgentRemains, write_output};
use super::super::turn_status::TurnStatus;
use super::protocol::{KEEPER, KeepOrder, PROTOCOL_VERSION, send_with_files};

/// The end of stderr that is kept for the next host.
const MAX_STDERR_BYTES: usize = 64 << 10;
const STDERR_READ_BYTES: usize = 4 << 10;
/// The bytes of one move: as many as a pipe holds.
const MOVE_BYTES: usize = 64 << 10;
/// The most that a pipe can hold, unless the system's limit was raised.
const MAX_PIPE_BYTES: usize = 1 << 20;

/// How often a keeper tries to write the output of its agent to a disk that has no space.
const SAVE_INTERVAL: Duration = Duration::from_secs(60);
/// How long it tries.
const MAX_SAVE_TIME: Duration = Duration::from_secs(24 * 3_600);

/// How often a keeper without a host looks whether its socket is still there.
const SOCKET_CHECK_INTERVAL: Duration = Duration::from_secs(600);

/// An agent that outlives its host.
#[derive(Debug)]
pub(super) struct KeptAgent {
    pub(super) order: KeepOrder,
    pub(super) files: KeptFiles,
    pub(super) listener: UnixListener,
}

impl KeptAgent {
    /// Takes the order with the files that came with it. Returns `None` if files are missing.
    pub(super) fn new(order: KeepOrder, files: Vec<OwnedFd>) -> Option<Self> {
        let mut fds = files.into_iter();
        let files = KeptFiles::from_fds(&mut fds)?;
        let listener = UnixListener::from(fds.next()?);
        listener.set_nonblocking(true).ok()?;
        Some(Self { order, files, listener })
    }

    /// Lets the agent see the end of its stdin. The next host gets a pipe without a reader.
    pub(super) fn close_stdin(&mut self) {
        if let Ok((_, unread)) = io::pipe() {
            self.files.stdin = unread.into();
        }
    }

    /// Returns false if the socket was removed, as with its state directory: no host will call any
    /// more.
    fn has_socket(&self) -> bool {
        !matches!(std::fs::symlink_metadata(&self.order.socket), Err(error) if error.kind() == io::ErrorKind::NotFound)
    }

    fn move_output(&self) -> io::Result<usize> {
        move_bytes(&self.files.stdout, &self.files.output, MOVE_BYTES)
    }

    /// Writes the files of the agent to the disk, beside the record of its tree.
    fn save_output(&self, remains: &AgentRemains<'_>) -> io::Result<()> {
        write_output(&self.record_path().ok_or(io::ErrorKind::NotFound)?, &self.files, remains)
    }

    /// The socket is in a directory beside the records, and has the name of the record.
    fn record_path(&self) -> Option<PathBuf> {
        let records = Path::new(&self.order.socket).ancestors().nth(2)?;
        Some(records.join(std::process::id().to_string()))
    }

    /// Returns false if the record of the tree was removed, or all records: no host will ask for
    /// the agent any more.
    fn has_record(&self) -> bool {
        let Some(record) = self.record_path() else { return false };
        !matches!(std::fs::symlink_metadata(record), Err(error) if error.kind() == io::ErrorKind::NotFound)
    }

    pub(super) fn remove_socket(&self) {
        let _ = std::fs::remove_file(&self.order.socket);
    }
}

#[derive(Debug)]
pub(super) struct Absence {
    since: Instant,
    /// When the agent is ended for want of a host, or because its turn has lasted too long.
    limit: Instant,
    next_socket_check: Instant,
    is_over: bool,
    /// When the output is written to the disk, once the agent has ended for want of a host.
    next_save: Instant,
    is_settled: bool,
    /// False once the agent has closed its stdout or stderr.
    reads_stdout: bool,
    pub(super) reads_stderr: bool,
    spooled_bytes: u64,
    stderr: VecDeque<u8>,
}

impl Absence {
    pub(super) fn begin(kept: &KeptAgent) -> Self {
        let since = Instant::now();
        let turn = TurnStatus::read(&kept.files.ledger);
        let absence = if turn.is_running { kept.order.absence } else { kept.order.idle_absence };
        let left = turn.time_left().map_or(absence, |left| absence.min(left));
        Self {
            since,
            // Instants stand still while the machine sleeps: a closed laptop costs no time.
            limit: since + left,
            next_socket_check: since,
            is_over: false,
            next_save: since,
            is_settled: false,
            reads_stdout: true,
            reads_stderr: true,
            // Output that an earlier absence has left takes its share.
            spooled_bytes: held_bytes(&kept.files.output).saturating_sub(MIN_RELEASED_BYTES),
            stderr: VecDeque::new(),
        }
    }

    /// Returns true once the keeper does not keep anything for a host any more.
    pub(super) const fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Returns the next time at which a limit may be reached.
    pub(super) fn next_limit(&self) -> Option<Instant> {
        (!self.is_over).then_some(self.limit.min(self.next_socket_check))
    }

    /// Returns when the output of the agent, which has ended, is to be written to the disk.
    pub(super) fn next_save(&self) -> Option<Instant> {
        (self.is_over && !self.is_settled).then_some(self.next_save)
    }

    /// Writes the output of the agent, which has ended, to the disk for the next host. If that
    /// fails, as on a full disk, the keeper tries again later; a host that comes before then takes
    /// the output from the keeper. `exit` is unset if the keeper has ended the agent.
    pub(super) fn save(&mut self, kept: &KeptAgent, exit: Option<ExitStatus>, now: Instant) {
        self.drain(kept);
        let stderr: Vec<u8> = self.stderr.iter().copied().collect();
        let saved = kept.save_output(&AgentRemains { stderr: &stderr, exit });
        self.note_saved(&saved, kept, now);
    }

    fn note_saved(&mut self, saved: &io::Result<()>, kept: &KeptAgent, now: Instant) {
        self.next_save = now + SAVE_INTERVAL;
        // A part of the output that is missing was removed by another process: it is written once
        // more.
        let is_in_vain = matches!(saved, Err(error) if error.kind() == io::ErrorKind::NotFound)
            && !kept.has_record();
        self.is_settled = saved.is_ok() || is_in_vain || now >= self.limit + MAX_SAVE_TIME;
    }

    /// Takes the last of the output and of stderr, which is no more than the pipes hold.
    fn drain(&mut self, kept: &KeptAgent) {
        let moves = if self.reads_stdout { MAX_PIPE_BYTES / MOVE_BYTES } else { 0 };
        for _ in 0..moves {
            if !matches!(kept.move_output(), Ok(1..)) {
                break;
            }
        }
        for _ in 0..MAX_PIPE_BYTES / STDERR_READ_BYTES {
            if !self.reads_stderr || !has_input(&kept.files.stderr) || !self.take_stderr(kept) {
                break;
            }
        }
    }

    /// Keeps the end of what the agent has written to stderr. Returns true if there may be more.
    fn take_stderr(&mut self, kept: &KeptAgent) -> bool {
        let mut chunk = [0; STDERR_READ_BYTES];
        match rustix::io::read(&kept.files.stderr, &mut chunk) {
            Ok(read @ 1..) => {
                self.stderr.extend(&chunk[..read]);
                let over = self.stderr.len().saturating_sub(MAX_STDERR_BYTES);
                self.stderr.drain(..over);
                true
            }
            Err(rustix::io::Errno::INTR) => true,
            Err(rustix::io::Errno::AGAIN) => false,
            Ok(0) | Err(_) => {
                self.reads_stderr = false;
                false
            }
        }
    }

    /// Returns true at the first call after the limit, or after a host has become impossible.
    pub(super) fn is_limit_reached(&mut self, kept: &KeptAgent, now: Instant) -> bool {
        if self.next_socket_check <= now {
            self.next_socket_check = now + SOCKET_CHECK_INTERVAL;
            if !kept.has_socket() {
                self.limit = now;
            }
        }
        let is_first = !self.is_over && self.limit <= now;
        self.is_over |= is_first;
        is_first
    }

    pub(super) fn has_room(&self, kept: &KeptAgent) -> bool {
        self.reads_stdout && self.spooled_bytes < kept.order.max_spool_bytes
    }

    /// Keeps what the agent has written.
    pub(super) fn spool(&mut self, kept: &mut KeptAgent, stdout: bool, stderr: bool) {
        if stdout && self.has_room(kept) {
            match kept.move_output() {
                Ok(0) => self.reads_stdout = false,
                Ok(moved) => self.spooled_bytes += moved as u64,
                Err(error) => self.reads_stdout &= error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        if stderr {
            self.take_stderr(kept);
        }
    }

    /// Hands the agent over to the next host, and sends all reports about the agent with it, so
    /// that the host learns everything at once.
    pub(super) fn greet(
        &self,
        kept: &KeptAgent,
        host: &UnixStream,
        reports: &str,
    ) -> io::Result<()> {
        let stderr = create_file("wharf-stderr")?;
        let (front, back) = self.stderr.as_slices();
        write_at(&stderr, front, 0)?;
        write_at(&stderr, back, front.len() as u64)?;
        let program = env!("CARGO_PKG_VERSION");
        let absent = self.since.elapsed().as_millis();
        let line = format!("{KEEPER} {PROTOCOL_VERSION} {program} {absent}\n{reports}");
        let files: Vec<_> = kept.files.as_fds().into_iter().chain([stderr.as_fd()]).collect();
        send_with_files(host, &line, &files)
    }
}

/// Returns true if a read of the file would not wait.
fn has_input(file: &OwnedFd) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&at_once))
        .is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::super::super::ledger::Ledger;
    use super::*;
    use crate::monotonic::monotonic_millis;

    /// Returns a kept agent whose socket is in this directory.
    fn keep_agent_in(directory: &std::path::Path) -> KeptAgent {
        let socket = directory.join("1").to_str().unwrap().to_owned();
        let listener = UnixListener::bind(&socket).unwrap();
        let hour = Duration::from_secs(3_600);
        let order = KeepOrder {
            secret: "s".to_owned(),
            absence: hour,
            idle_absence: hour,
            max_spool_bytes: 1,
            socket,
        };
        let mut files: Vec<OwnedFd> =
            (0..KeptFiles::COUNT).map(|_| create_file("test").unwrap()).collect();
        files.push(listener.into());
        KeptAgent::new(order, files).unwrap()
    }

    #[test]
    fn sleep_of_the_machine_does_not_bring_the_deadline_of_a_turn_nearer() {
        let temp = tempfile::tempdir().unwrap();
        let kept = keep_agent_in(temp.path());
        // The session's time is that of 1970: as if the machine had slept since then.
        let clock_lead_ms = 1_000;
        let minute = Duration::from_secs(60);
        let deadline_ms = monotonic_millis() + clock_lead_ms + 60_000;
        let ledger = Ledger::create(kept.files.ledger.try_clone().unwrap()).unwrap();
        ledger
            .lock()
            .set_turn_status(TurnStatus { is_running: true, deadline_ms, clock_lead_ms })
            .unwrap();
        let mut absence = Absence::begin(&kept);
        let begin = absence.since;
        assert!(!absence.is_limit_reached(&kept, begin + minute / 6));
        assert!(absence.is_limit_reached(&kept, begin + minute));
    }

    #[test]
    fn agent_ends_if_the_socket_is_gone_and_no_host_can_call() {
        let temp = tempfile::tempdir().unwrap();
        let kept = keep_agent_in(temp.path());
        let mut absence = Absence::begin(&kept);
        let begin = absence.since;
        assert!(!absence.is_limit_reached(&kept, begin));
        assert_eq!(absence.next_limit(), Some(begin + SOCKET_CHECK_INTERVAL));
        kept.remove_socket();
        assert!(
            !absence.is_limit_reached(&kept, begin + SOCKET_CHECK_INTERVAL / 2),
            "it is not looked at all the time"
        );
        assert!(absence.is_limit_reached(&kept, begin + SOCKET_CHECK_INTERVAL));
        assert!(absence.next_save().is_some());
    }

    #[test]
    fn output_whose_directory_was_removed_is_written_again_while_the_tree_has_its_record() {
        let temp = tempfile::tempdir().unwrap();
        let sockets = temp.path().join("keepers-1");
        std::fs::create_dir(&sockets).unwrap();
        let record = temp.path().join(std::process::id().to_string());
        std::fs::write(&record, "the record").unwrap();
        let kept = keep_agent_in(&sockets);
        let mut absence = Absence::begin(&kept);
        (absence.is_over, absence.reads_stderr) = (true, false);
        let now = absence.since;
        absence.note_saved(&Err(io::ErrorKind::NotFound.into()), &kept, now);
        assert_eq!(absence.next_save(), Some(now + SAVE_INTERVAL), "it was given up");
        absence.save(&kept, None, now);
        assert!(absence.is_settled());
        let mut absence = Absence::begin(&kept);
        (absence.is_over, absence.reads_stderr) = (true, false);
        std::fs::remove_file(&record).unwrap();
        absence.save(&kept, None, now);
        assert!(absence.is_settled(), "no host would ask for it");
    }

    #[test]
    fn last_words_on_stderr_are_taken_before_the_output_is_written() {
        let temp = tempfile::tempdir().unwrap();
        let sockets = temp.path().join("keepers-1");
        std::fs::create_dir(&sockets).unwrap();
        std::fs::write(temp.path().join(std::process::id().to_string()), "the record").unwrap();
        let mut kept = keep_agent_in(&sockets);
        let (reader, mut writer) = io::pipe().unwrap();
        std::io::Write::write_all(&mut writer, &[b'x'; 9_000]).unwrap();
        drop(writer);
        kept.files.stderr = reader.into();
        let mut absence = Absence::begin(&kept);
        absence.save(&kept, None, absence.since);
        let left = std::fs::read_dir(temp.path())
            .unwrap()
            .flatten()
            .find(|entry| entry.path().is_dir() && entry.path() != sockets);
        assert_eq!(std::fs::read(left.unwrap().path().join("stderr")).unwrap(), [b'x'; 9_000]);
    }
}
