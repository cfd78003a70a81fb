//! Taking over the agents that an earlier host has left to their keepers.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Signal;
use wharf_config::KeeperSettings;
use wharf_core::{Seq, SessionId};

use super::agent_log::{AgentLog, AgentLogWriter};
use super::agent_output::AgentOutput;
use super::agent_process::{AgentProcess, KeeperProcess, follow_keeper};
use super::agent_token::{AgentTokens, TokenGuard};
use super::ended_agent::{EndedAgent, find_ended_agent, may_pass};
use super::keeper::protocol::{
    BUSY, EXITED, HELLO, KEEPER, KeepOrder, LACKED_HOST, LineReceiver, PROTOCOL_VERSION, SIGNALLED,
    STARTED,
};
use super::kept_files::{KeptFiles, file_position, file_size, read_range};
use super::ledger::{InFlight, Ledger};
use super::outbox::Outbox;
use super::process_records::{KeeperLimits, KeptRecord, LeftTree, ProcessRecords};
use super::process_table;
use super::stderr::StderrTail;
use super::turn_status::TurnStatus;
use crate::agent::lines::FrameReader;
use crate::ids::{Now, random_text};

/// How long a keeper may take to answer one call, and all keepers together while a host starts. A
/// keeper has nothing else to do, but its memory may have to come back from the disk.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// The least time for an answer, for a keeper that is asked after many silent ones.
const MIN_ANSWER_TIMEOUT: Duration = Duration::from_millis(250);
/// The pause before a keeper that did not answer in time is asked again.
const NEXT_ASK_AFTER: Duration = Duration::from_secs(1);
/// The longest pause before output that could not be read is looked at again.
pub(crate) const MAX_PAUSE: Duration = Duration::from_secs(30);
/// How often a keeper may close the connection. It does so if this host was too slow to say hello,
/// and for a wrong secret.
const MAX_REFUSALS: u32 = 3;
const ASK_INTERVAL: Duration = Duration::from_millis(10);
/// Keepers that are asked at once: those that do not answer must not hold up the others.
const MAX_ASKED_AT_ONCE: usize = 64;
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
    /// It has ended without a host: all that it will ever write is there.
    pub(crate) has_ended: bool,
}

/// The parts of the host that an agent is taken over with.
#[derive(Debug)]
pub(crate) struct AdoptionContext<'a> {
    pub(crate) records: &'a ProcessRecords,
    pub(crate) tokens: &'a Arc<AgentTokens>,
    pub(crate) log: Arc<AgentLog>,
    pub(crate) frame_limit: usize,
}

/// An agent that an earlier host has left.
#[derive(Debug)]
pub(crate) enum LeftAgent {
    Found(FoundAgent),
    /// Its keeper runs and has not answered yet.
    Silent(LeftTree),
    /// It has ended, and its output, which is on the disk, cannot be opened now.
    Unopened(LeftTree),
}

impl LeftAgent {
    pub(crate) fn tree(&self) -> &LeftTree {
        match self {
            Self::Found(agent) => agent.tree(),
            Self::Silent(tree) | Self::Unopened(tree) => tree,
        }
    }
}

/// An agent that can be taken over.
#[derive(Debug)]
pub(crate) enum FoundAgent {
    /// Its keeper has answered.
    Kept(Box<AnsweredKeeper>),
    /// It has ended, and its keeper has left its output on the disk.
    Ended(Box<EndedAgent>),
}

impl FoundAgent {
    pub(crate) fn tree(&self) -> &LeftTree {
        match self {
            Self::Kept(keeper) => &keeper.tree,
            Self::Ended(ended) => &ended.tree,
        }
    }

    /// Takes the agent over. `head` is the last event of its session's log; `token` is the agent's,
    /// if it counts already.
    pub(crate) fn adopt(
        self,
        head: Seq,
        context: &AdoptionContext<'_>,
        token: Option<TokenGuard>,
    ) -> io::Result<AdoptedAgent> {
        match self {
            Self::Kept(keeper) => keeper.adopt(head, context, token),
            Self::Ended(ended) => ended.adopt(head, context),
        }
    }
}

/// Why a keeper has not handed its agent over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// It runs, and may answer later.
    #[error("{0}")]
    Silent(&'static str),
    #[error(transparent)]
    Lost(#[from] io::Error),
}

/// Asks the keepers of these trees for their agents, for a short time. Trees whose keepers do not
/// answer as they should are ended.
pub(crate) fn ask_keepers(trees: Vec<LeftTree>, records: &ProcessRecords) -> Vec<LeftAgent> {
    let threads = trees.len().min(MAX_ASKED_AT_ONCE);
    let left = Mutex::new(trees.into_iter());
    let give_up_at = Instant::now() + ANSWER_TIMEOUT;
    let ask = || {
        let mut found = Vec::new();
        loop {
            let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(tree) = next else { return found };
            match ask_keeper(&tree, records, give_up_at) {
                Ok(keeper) => found.push(LeftAgent::Found(FoundAgent::Kept(Box::new(keeper)))),
                Err(AskError::Silent(why)) => {
                    let keeper = tree.keeper_pid();
                    tracing::warn!(keeper, session = tree.kept.session, "{why}; it is asked on");
                    found.push(LeftAgent::Silent(tree));
                }
                Err(AskError::Lost(error)) => {
                    let keeper = tree.keeper_pid();
                    tracing::warn!(keeper, session = tree.kept.session, %error, "an agent cannot be taken over and is ended");
                    records.end_left_tree(&tree);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(ask)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_default())
            .collect()
    })
}

/// Asks a keeper until it hands its agent over, or has left its output on the disk. Fails once it
/// can do neither any more.
pub(crate) async fn ask_until_answered(
    tree: LeftTree,
    presence: KeeperPresence,
    records: ProcessRecords,
) -> io::Result<FoundAgent> {
    let is_keeper_gone = presence.is_gone();
    let mut tries = presence.tries();
    loop {
        tokio::time::sleep(pause_after(tries)).await;
        // A keeper that runs is asked as often all the time: its agent waits for a host.
        tries += u32::from(is_keeper_gone);
        let asked = tree.clone();
        let its_records = records.clone();
        let asking = move || {
            let answer = if is_keeper_gone {
                Err(AskError::Lost(io::Error::other("the output that its keeper had left is gone")))
            } else {
                ask_keeper(&asked, &its_records, Instant::now() + ANSWER_TIMEOUT)
            };
            match answer {
                Ok(keeper) => Ok(FoundAgent::Kept(Box::new(keeper))),
                Err(AskError::Lost(error)) => match find_ended_agent(&asked, &its_records) {
                    Ok(Some(ended)) => Ok(FoundAgent::Ended(Box::new(ended))),
                    Ok(None) => Err(AskError::Lost(error)),
                    Err(error) if may_pass(&error) => {
                        Err(AskError::Silent("its output cannot be read yet"))
                    }
                    Err(error) => Err(AskError::Lost(error)),
                },
                Err(silent) => Err(silent),
            }
        };
        match tokio::task::spawn_blocking(asking).await.map_err(io::Error::other)? {
            Ok(found) => return Ok(found),
            Err(AskError::Silent(_)) => {}
            Err(AskError::Lost(error)) => return Err(error),
        }
    }
}

/// Returns the pause after this many tries.
fn pause_after(tries: u32) -> Duration {
    NEXT_ASK_AFTER.saturating_mul(1 << tries.min(8)).min(MAX_PAUSE)
}

fn ask_keeper(
    tree: &LeftTree,
    records: &ProcessRecords,
    give_up_at: Instant,
) -> Result<AnsweredKeeper, AskError> {
    // Versions before this one would be asked in their own words here; there is none yet.
    if tree.kept.protocol != PROTOCOL_VERSION {
        let message = format!("its keeper speaks version {} of the protocol", tree.kept.protocol);
        return Err(io::Error::other(message).into());
    }
    let socket_dir = records.socket_dir(tree.kept.protocol);
    let pid = tree.keeper_pid();
    let mut refusals = 0;
    loop {
        // A keeper that was stopped cannot answer, and nothing else would wake it.
        process_table::send_signal(pid, Signal::CONT);
        let timeout = give_up_at.saturating_duration_since(Instant::now()).max(MIN_ANSWER_TIMEOUT);
        let control = at_long_path(&socket_dir, pid, connect_at_once);
        let silence = match control.and_then(|control| greet_keeper(tree, control, timeout)) {
            Ok(Some(keeper)) => return Ok(keeper),
            Ok(None) => "a keeper has another host",
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => "a keeper does not answer",
            Err(error) if is_refusal(&error) && refusals < MAX_REFUSALS => {
                refusals += 1;
                "a keeper closes its connection"
            }
            Err(error) => return Err(error.into()),
        };
        if !tree.keeper().is_alive() {
            return Err(io::Error::other("its keeper has ended").into());
        }
        if Instant::now() > give_up_at {
            return Err(AskError::Silent(silence));
        }
        std::thread::sleep(ASK_INTERVAL);
    }
}

/// Returns true if the keeper has closed the connection.
fn is_refusal(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | BrokenPipe | ConnectionReset)
}

/// Connects to a socket of this machine. Fails with `WouldBlock` if its queue of callers is full,
/// instead of waiting for ever.
fn connect_at_once(path: &str) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Says hello. Returns `None` if the keeper still has its last host.
fn greet_keeper(
    tree: &LeftTree,
    mut control: UnixStream,
    timeout: Duration,
) -> io::Result<Option<AnsweredKeeper>> {
    control.set_read_timeout(Some(timeout))?;
    control.write_all(format!("{HELLO} {PROTOCOL_VERSION} {}\n", tree.kept.secret).as_bytes())?;
    let mut receiver = LineReceiver::default();
    let next_line = |receiver: &mut LineReceiver| loop {
        if let Some(line) = receiver.next_line() {
            return Ok(line);
        }
        if !receiver.receive(&control)? {
            return Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "its keeper refused this host",
            ));
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
    let absence =
        Duration::from_millis(words.next().and_then(|text| text.parse().ok()).ok_or_else(odd)?);
    let started = next_line(&mut receiver)?;
    let agent = started
        .strip_prefix(STARTED)
        .and_then(|pid| pid.trim().parse().ok())
        .ok_or_else(odd)?;
    let mut fds = std::mem::take(&mut receiver.files).into_iter();
    let files = KeptFiles::from_fds(&mut fds).ok_or_else(odd)?;
    let stderr = fds.next().ok_or_else(odd)?;
    let stderr = read_range(&stderr, 0, file_size(&stderr)?)?;
    control.set_read_timeout(None)?;
    let reports = receiver.into_rest();
    Ok(Some(AnsweredKeeper {
        tree: tree.clone(),
        control,
        files,
        stderr,
        agent,
        absence,
        version,
        reports,
    }))
}

impl AnsweredKeeper {
    fn adopt(
        self,
        head: Seq,
        context: &AdoptionContext<'_>,
        token: Option<TokenGuard>,
    ) -> io::Result<AdoptedAgent> {
        let Self { tree, control, files, stderr, agent, reports, .. } = self;
        let pid = tree.keeper_pid();
        let turn_status = TurnStatus::read(&files.ledger);
        let resumed = resume_files(files, &stderr, head, context, FilePlace::Memory)?;
        let process = KeeperProcess::adopt(pid)?;
        let first_turn_at = first_turn_of(&tree);
        let token = token.or_else(|| restore_token(&tree, context.tokens));
        context.records.adopt(tree);
        control.set_nonblocking(true)?;
        let control = tokio::net::UnixStream::from_std(control)?;
        let has_ended = tells_of_exit(&reports);
        let (process, _) =
            follow_keeper(pid, process, (control, reports), context.records.clone(), token);
        Ok(resumed.into_adopted(process.with_pid(agent), turn_status, first_turn_at, has_ended))
    }
}

/// Returns true if a keeper has told, with its answer, that the agent has ended or is being ended.
fn tells_of_exit(reports: &[u8]) -> bool {
    let mut lines = reports.split(|byte| *byte == b'\n');
    lines.any(|line| {
        [EXITED, SIGNALLED, LACKED_HOST]
            .iter()
            .any(|word| line.starts_with(word.as_bytes()))
    })
}

pub(super) fn first_turn_of(tree: &LeftTree) -> Option<Instant> {
    let since = tree.time_since_first_turn(Now::millis())?;
    Instant::now().checked_sub(since)
}

/// The files of an agent, at the places where the log says that an earlier host has stopped.
#[derive(Debug)]
pub(super) struct ResumedFiles {
    reader: FrameReader<AgentOutput>,
    outbox: Outbox,
    stderr: StderrTail,
    in_flight: InFlight,
}

/// The place of the files of an agent that is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilePlace {
    /// The files disappear with their last owner. The host releases the memory of output that is in
    /// the log.
    Memory,
    /// A keeper has left them there. They stay whole for the next host.
    Disk,
}

/// Goes on with the files of an agent.
pub(super) fn resume_files(
    files: KeptFiles,
    stderr: &[u8],
    head: Seq,
    context: &AdoptionContext<'_>,
    place: FilePlace,
) -> io::Result<ResumedFiles> {
    let KeptFiles { stdin, input, stdout, output, stderr: stderr_pipe, ledger } = files;
    let (ledger, in_flight) = Ledger::recover(ledger, head, file_size(&input)?)?;
    // A line that was cut off is none.
    rustix::fs::ftruncate(&input, in_flight.input_end)?;
    let moved = file_position(&output)?;
    if in_flight.read_offset > moved {
        return Err(io::Error::other(
            "the log has more of the agent's output than the agent has written",
        ));
    }
    let taken = file_position(&input)?;
    let mut reader = AgentOutput::new(stdout, output, in_flight.read_offset, moved)?;
    if place == FilePlace::Disk {
        reader = reader.keep_file();
        ledger.lock().keep_records();
    }
    let reader = FrameReader::starting_at(reader, context.frame_limit, in_flight.read_offset);
    let outbox = Outbox::new(stdin, input, ledger, (taken, in_flight.input_end))?;
    let log = AgentLogWriter::new(Arc::clone(&context.log));
    let stderr = StderrTail::follow_after(stderr_pipe, Some(log), stderr)?;
    Ok(ResumedFiles { reader, outbox, stderr, in_flight })
}

impl ResumedFiles {
    pub(super) fn into_adopted(
        self,
        process: AgentProcess,
        turn_status: TurnStatus,
        first_turn_at: Option<Instant>,
        has_ended: bool,
    ) -> AdoptedAgent {
        let Self { reader, outbox, stderr, in_flight } = self;
        AdoptedAgent {
            process,
            reader,
            outbox,
            stderr,
            in_flight,
            turn_status,
            first_turn_at,
            has_ended,
        }
    }
}

/// A keeper that runs and has not answered yet. Its tree and its agent's token count all the same.
/// Dropping this ends both; the processes stay.
#[derive(Debug)]
pub(crate) struct SilentKeeper {
    pub(crate) tree: LeftTree,
    pub(crate) token: Option<TokenGuard>,
    pub(crate) presence: KeeperPresence,
}

/// Whether a keeper that has not handed its agent over is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeeperPresence {
    Running,
    /// It has left the output of its agent on the disk and is gone. The output could not be taken
    /// in yet, this often.
    Gone {
        tries: u32,
    },
}

impl KeeperPresence {
    pub(crate) const fn is_gone(self) -> bool {
        matches!(self, Self::Gone { .. })
    }

    /// Returns how often the output could not be taken in.
    pub(crate) const fn tries(self) -> u32 {
        match self {
            Self::Running => 0,
            Self::Gone { tries } => tries,
        }
    }
}

impl SilentKeeper {
    /// Makes the tree of the keeper one of this host.
    pub(crate) fn new(tree: LeftTree, records: &ProcessRecords, tokens: &Arc<AgentTokens>) -> Self {
        let token = restore_token(&tree, tokens);
        records.adopt(tree.clone());
        Self { tree, token, presence: KeeperPresence::Running }
    }

    /// Returns a keeper that has left the output of its agent on the disk, which could not be taken
    /// in this often. The numbers of its processes mean nothing any more.
    pub(crate) fn of_left_output(tree: LeftTree, tries: u32) -> Self {
        Self { tree, token: None, presence: KeeperPresence::Gone { tries } }
    }

    /// Returns 0 for a keeper that is gone.
    pub(crate) fn keeper_pid(&self) -> u32 {
        if self.presence.is_gone() { 0 } else { self.tree.keeper_pid() }
    }

    /// Kills the tree, keeper included.
    pub(crate) fn end_tree(self, records: &ProcessRecords) {
        if self.presence.is_gone() {
            return;
        }
        records.end_left_tree(&self.tree);
        records.remove(self.tree.keeper_pid());
    }
}

/// Makes the token of an agent count again, if it has one.
fn restore_token(tree: &LeftTree, tokens: &Arc<AgentTokens>) -> Option<TokenGuard> {
    let session = SessionId::new(tree.kept.session.as_str());
    tree.token()
        .map(|digest| tokens.restore_token(digest, session, tree.keeper_pid()))
}

/// Lets the agent of a session outlive this host.
pub(crate) fn keep_agent(
    process: &AgentProcess,
    files: KeptFiles,
    (session, start): (&SessionId, u64),
    settings: &KeeperSettings,
    records: &ProcessRecords,
) -> io::Result<()> {
    let pid = process.keeper_pid();
    let secret = random_text(SECRET_CHARS);
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
        socket: socket
            .to_str()
            .ok_or_else(|| io::Error::other("the state directory is not UTF-8"))?
            .to_owned(),
    };
    let session = session.to_string();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let limits = Some(KeeperLimits::from_settings(settings));
    // The record comes first: a kept agent without a record would be known to no host.
    let kept = KeptRecord {
        session,
        start,
        protocol: PROTOCOL_VERSION,
        version,
        secret,
        limits,
    };
    if let Err(error) = records.note_kept(pid, kept) {
        let _ = fs::remove_file(&socket);
        return Err(error);
    }
    process.keep(order, files, listener);
    Ok(())
}

/// Calls `open` with a path to the file `name` of the directory that is short enough for a socket,
/// whatever the directory's own.
fn at_long_path<T>(
    dir: &Path,
    name: u32,
    open: impl FnOnce(&str) -> io::Result<T>,
) -> io::Result<T> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(dir, flags, Mode::empty())?;
    open(&format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()))
}
