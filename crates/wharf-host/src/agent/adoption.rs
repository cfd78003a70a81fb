//! Taking over the agents that an earlier host has left to their keepers.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Signal;
use wharf_core::{Seq, SessionId};

use super::agent_log::{AgentLog, AgentLogWriter};
use super::agent_output::AgentOutput;
use super::agent_process::{AgentProcess, KeeperProcess, follow_keeper};
use super::agent_token::AgentTokens;
use super::keeper::protocol::{BUSY, HELLO, KEEPER, KeepOrder, LineReceiver, PROTOCOL_VERSION, STARTED};
use super::kept_files::{KeptFiles, file_position, file_size, read_range};
use super::ledger::{InFlight, Ledger};
use super::outbox::Outbox;
use super::process_records::{KeeperLimits, KeptRecord, LeftTree, ProcessRecords};
use super::process_table;
use super::stderr::StderrTail;
use super::turn_status::TurnStatus;
use crate::config::KeeperSettings;
use crate::frame::FrameReader;
use crate::ids::{Now, random_text};

/// How long a keeper may take to answer one call. It has nothing else to do, but its memory may have to come back from the disk.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a keeper that runs is asked again and again before its agent is given up.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a keeper may close the connection. It does so if this host was too slow to say hello, and for a wrong secret.
const MAX_REFUSALS: u32 = 3;
const ASK_INTERVAL: Duration = Duration::from_millis(10);
/// Keepers that are asked at once: one that does not answer must not hold up the others.
const MAX_ASKED_AT_ONCE: usize = 16;
const SECRET_CHARS: usize = 32;
/// A time that no agent lives to see, for `"never"`.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// A keeper that has answered.
#[derive(Debug)]
pub(crate) struct AnsweredKeeper {
    pub(crate) tree: LeftTree,
    control: UnixStream,
    files: KeptFiles,
    stderr: Vec<u8>,
    agent: u32,
    /// Reports of the keeper that have come already.
    reports: Vec<u8>,
    /// How long it had no host.
    pub(crate) absence: Duration,
    /// The version of the program that it runs.
    pub(crate) version: String,
}

/// An agent that was taken over.
#[derive(Debug)]
pub(crate) struct AdoptedAgent {
    pub(crate) process: AgentProcess,
    pub(crate) reader: FrameReader<AgentOutput>,
    pub(crate) outbox: Outbox,
    pub(crate) stderr: StderrTail,
    pub(crate) in_flight: InFlight,
    pub(crate) turn_status: TurnStatus,
    /// When the agent's first turn began, as far as it is known.
    pub(crate) first_turn_at: Option<Instant>,
}

/// The parts of the host that an agent is taken over with.
#[derive(Debug)]
pub(crate) struct AdoptionContext<'a> {
    pub(crate) records: &'a ProcessRecords,
    pub(crate) tokens: &'a std::sync::Arc<AgentTokens>,
    pub(crate) log: std::sync::Arc<AgentLog>,
    pub(crate) frame_limit: usize,
}

/// Asks the keepers of these trees for their agents. Trees whose keepers do not answer as they should are ended.
pub(crate) fn ask_keepers(trees: Vec<LeftTree>, records: &ProcessRecords) -> Vec<AnsweredKeeper> {
    let left = std::sync::Mutex::new(trees.into_iter());
    let ask = || {
        let mut answered = Vec::new();
        loop {
            let next = left.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
            let Some(tree) = next else { return answered };
            match ask_keeper(&tree, records) {
                Ok(keeper) => answered.push(keeper),
                Err(error) => {
                    let keeper = tree.keeper_pid();
                    tracing::warn!(keeper, session = tree.kept.session, %error, "an agent cannot be taken over and is ended");
                    records.end_left_tree(&tree);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..MAX_ASKED_AT_ONCE).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    })
}

fn ask_keeper(tree: &LeftTree, records: &ProcessRecords) -> io::Result<AnsweredKeeper> {
    // Versions before this one would be asked in their own words here; there is none yet.
    if tree.kept.protocol != PROTOCOL_VERSION {
        let message = format!("its keeper speaks version {} of the protocol", tree.kept.protocol);
        return Err(io::Error::other(message));
    }
    let (socket_dir, pid) = (records.socket_dir(tree.kept.protocol), tree.keeper_pid());
    let give_up_at = Instant::now() + ASK_TIMEOUT;
    let mut refusals = 0;
    loop {
        // A keeper that was stopped cannot answer, and nothing else would wake it.
        process_table::send_signal(pid, Signal::CONT);
        let control = at_long_path(&socket_dir, pid, connect_at_once);
        let error = match control.and_then(|control| greet_keeper(tree, control)) {
            Ok(Some(keeper)) => return Ok(keeper),
            Ok(None) => io::Error::other("its keeper has another host"),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => io::Error::other("its keeper does not answer"),
            Err(error) if is_refusal(&error) && refusals < MAX_REFUSALS => {
                refusals += 1;
                error
            }
            Err(error) => return Err(error),
        };
        if Instant::now() > give_up_at || !tree.keeper().is_alive() {
            return Err(error);
        }
        std::thread::sleep(ASK_INTERVAL);
    }
}

/// Returns true if the keeper has closed the connection.
fn is_refusal(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | BrokenPipe | ConnectionReset)
}

/// Connects to a socket of this machine. Fails with `WouldBlock` if its queue of callers is full, instead of waiting for ever.
fn connect_at_once(path: &str) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Says hello. Returns `None` if the keeper still has its last host.
fn greet_keeper(tree: &LeftTree, mut control: UnixStream) -> io::Result<Option<AnsweredKeeper>> {
    control.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    control.write_all(format!("{HELLO} {PROTOCOL_VERSION} {}\n", tree.kept.secret).as_bytes())?;
    let mut receiver = LineReceiver::default();
    let next_line = |receiver: &mut LineReceiver| loop {
        if let Some(line) = receiver.next_line() {
            return Ok(line);
        }
        if !receiver.receive(&control)? {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "its keeper refused this host"));
        }
    };
    let answer = next_line(&mut receiver)?;
    if answer == BUSY {
        return Ok(None);
    }
    let odd = || io::Error::other(format!("its keeper answered {answer:?}"));
    let mut words = answer.split(' ');
    if words.next() != Some(KEEPER) || words.next() != Some(&PROTOCOL_VERSION.to_string()) {
        return Err(odd());
    }
    let version = words.next().ok_or_else(odd)?.to_owned();
    let absence = Duration::from_millis(words.next().and_then(|text| text.parse().ok()).ok_or_else(odd)?);
    let started = next_line(&mut receiver)?;
    let agent = started.strip_prefix(STARTED).and_then(|pid| pid.trim().parse().ok()).ok_or_else(odd)?;
    let mut fds = std::mem::take(&mut receiver.files).into_iter();
    let files = KeptFiles::from_fds(&mut fds).ok_or_else(odd)?;
    let stderr = fds.next().ok_or_else(odd)?;
    let stderr = read_range(&stderr, 0, file_size(&stderr)?)?;
    control.set_read_timeout(None)?;
    let reports = receiver.into_rest();
    Ok(Some(AnsweredKeeper { tree: tree.clone(), control, files, stderr, agent, absence, version, reports }))
}

impl AnsweredKeeper {
    /// Takes the agent over. `head` is the last event of its session's log.
    pub(crate) fn adopt(self, head: Seq, context: &AdoptionContext<'_>) -> io::Result<AdoptedAgent> {
        let Self { tree, control, files, stderr, agent, reports, .. } = self;
        let (pid, session) = (tree.keeper_pid(), SessionId::new(tree.kept.session.as_str()));
        let KeptFiles { stdin, input, stdout, output, stderr: stderr_pipe, ledger } = files;
        let turn_status = TurnStatus::read(&ledger);
        let (ledger, in_flight) = Ledger::recover(ledger, head, file_size(&input)?)?;
        // A line that was cut off is none.
        rustix::fs::ftruncate(&input, in_flight.input_end)?;
        let moved = file_position(&output)?;
        if in_flight.read_offset > moved {
            return Err(io::Error::other("the log has more of the agent's output than the agent has written"));
        }
        let taken = file_position(&input)?;
        let reader = AgentOutput::new(stdout, output, in_flight.read_offset, moved)?;
        let reader = FrameReader::starting_at(reader, context.frame_limit, in_flight.read_offset);
        let outbox = Outbox::new(stdin, input, ledger, (taken, in_flight.input_end))?;
        let log = AgentLogWriter::new(std::sync::Arc::clone(&context.log));
        let stderr = StderrTail::follow_after(stderr_pipe, Some(log), &stderr)?;
        let process = KeeperProcess::adopt(pid)?;
        let since_first_turn = tree.time_since_first_turn(Now::millis());
        let first_turn_at = since_first_turn.and_then(|since| Instant::now().checked_sub(since));
        let token = tree.token().map(|digest| context.tokens.restore_token(digest, session, pid));
        context.records.adopt(tree);
        control.set_nonblocking(true)?;
        let control = tokio::net::UnixStream::from_std(control)?;
        let (process, _) = follow_keeper(pid, process, (control, reports), context.records.clone(), token);
        let process = process.with_pid(agent);
        Ok(AdoptedAgent { process, reader, outbox, stderr, in_flight, turn_status, first_turn_at })
    }
}

/// Lets the agent of a session outlive this host.
pub(crate) fn keep_agent(
    process: &AgentProcess,
    files: KeptFiles,
    (session, start): (&SessionId, u64),
    settings: &KeeperSettings,
    records: &ProcessRecords,
) -> io::Result<()> {
    let (pid, secret) = (process.keeper_pid(), random_text(SECRET_CHARS));
    let socket_dir = records.socket_dir(PROTOCOL_VERSION);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&socket_dir)?;
    let socket = socket_dir.join(pid.to_string());
    let _ = fs::remove_file(&socket);
    let listener: OwnedFd = at_long_path(&socket_dir, pid, |path| UnixListener::bind(path))?.into();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600))?;
    let order = KeepOrder {
        secret: secret.clone(),
        absence: settings.absence.to_std().unwrap_or(FOR_EVER),
        idle_absence: settings.idle_absence.to_std().unwrap_or(FOR_EVER),
        max_spool_bytes: settings.output.0 as u64,
        socket: socket.to_str().ok_or_else(|| io::Error::other("the state directory is not UTF-8"))?.to_owned(),
    };
    let (session, version) = (session.to_string(), env!("CARGO_PKG_VERSION").to_owned());
    let limits = Some(KeeperLimits::from_settings(settings));
    // The record comes first: a kept agent without a record would be known to no host.
    let kept = KeptRecord { session, start, protocol: PROTOCOL_VERSION, version, secret, limits };
    if let Err(error) = records.note_kept(pid, kept) {
        let _ = fs::remove_file(&socket);
        return Err(error);
    }
    process.keep(order, files, listener);
    Ok(())
}

/// Calls `open` with a path to the file `name` of the directory that is short enough for a socket, whatever the directory's own.
fn at_long_path<T>(dir: &Path, name: u32, open: impl FnOnce(&str) -> io::Result<T>) -> io::Result<T> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(dir, flags, Mode::empty())?;
    open(&format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()))
}
