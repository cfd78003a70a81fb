//! The terminals of one agent start: commands under a keeper of their own, with their output and
//! their end.
//!
//! A terminal here is a pipe, not a tty. Everything a command started ends with it, so that an exit
//! means that the output is complete.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::FileType;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use wharf_transcript::Secrets;

use super::output::{ShownEnd, TerminalBuffer};
use super::{Roots, ServiceError};
use crate::agent::{AgentExit, AgentProcess, Launch};
use crate::limits::{CountLimit, CountPermit};

/// How many terminals one session can have, including released terminals that are still ending:
/// many more than agents use, few enough to hold all their output.
const MAX_TERMINALS: usize = 64;
/// Output kept if the agent does not say, and the most it may ask for: escaped as JSON it still
/// fits a frame.
const DEFAULT_OUTPUT_BYTES: usize = 1 << 20;
const MAX_OUTPUT_BYTES: usize = 4 << 20;
/// One read; and how often a pipe is read after the end. A pipe holds 1 MiB at most.
const READ_CHUNK_BYTES: usize = 16 << 10;
const MAX_LAST_READS: usize = (1 << 20) / READ_CHUNK_BYTES;

/// The command of a new terminal.
#[derive(Clone, Debug, Default)]
pub(crate) struct TerminalSpec {
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    /// The session's cwd, if none.
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) output_limit: Option<u64>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TerminalOutput {
    pub(crate) output: String,
    pub(crate) truncated: bool,
    pub(crate) exit: Option<AgentExit>,
}

/// All terminals of one agent start. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Terminals {
    launch: Launch,
    roots: Arc<Roots>,
    /// The file system outside of the roots, for commands that run there.
    everywhere: Roots,
    limit: CountLimit,
    /// `None` when closed.
    open: Mutex<Option<HashMap<String, Terminal>>>,
}

#[derive(Debug)]
struct Terminal {
    keeper: u32,
    /// A message, or dropping the sender, ends the command.
    end: mpsc::Sender<()>,
    exit: watch::Receiver<Option<AgentExit>>,
    output: Arc<Mutex<TerminalBuffer>>,
    shown_end: Arc<ShownEnd>,
    /// Held here and by the task that follows the command: it is free when the terminal neither
    /// runs nor is kept.
    _permit: Arc<CountPermit>,
}

impl Terminals {
    /// `launch` is the agent's: terminals have its sandbox, environment and tag. `agent` is its
    /// pid.
    pub(crate) fn new(launch: Launch, roots: Arc<Roots>, agent: u32) -> Self {
        let limit = CountLimit::new(MAX_TERMINALS);
        let everywhere = Roots::whole_file_system(agent).with_sandbox(launch.sandbox.clone());
        Self {
            launch,
            roots,
            everywhere,
            limit,
            open: Mutex::new(Some(HashMap::new())),
        }
    }

    /// Starts a command and returns the terminal's id.
    pub(crate) async fn create(&self, spec: TerminalSpec) -> Result<String, ServiceError> {
        let permit = Arc::new(self.limit.try_acquire().ok_or(ServiceError::Full(MAX_TERMINALS))?);
        let id = format!("term_{}", crate::ids::random_text(16));
        let limit = spec.output_limit.map_or(DEFAULT_OUTPUT_BYTES, |limit| {
            usize::try_from(limit).unwrap_or(MAX_OUTPUT_BYTES)
        });
        let launch = self.launch(&id, spec)?;
        let (pipe, write) = std::io::pipe()
            .and_then(|(read, write)| Ok((pipe::Receiver::from_owned_fd(read.into())?, write)))
            .map_err(|error| {
                ServiceError::Failed(format!("cannot make a pipe for the terminal: {error}"))
            })?;
        let process = launch.run_into(write.into()).await.map_err(ServiceError::Failed)?;
        let (end, ends) = mpsc::channel(1);
        let (report, exit) = watch::channel(None);
        let output = Arc::new(Mutex::new(TerminalBuffer::new(limit.min(MAX_OUTPUT_BYTES))));
        let terminal = Terminal {
            keeper: process.keeper_pid(),
            end,
            exit,
            output: Arc::clone(&output),
            shown_end: Arc::default(),
            _permit: Arc::clone(&permit),
        };
        tokio::spawn(async move {
            let exit = follow_command(process, pipe, &output, ends).await;
            report.send_replace(Some(exit));
            drop(permit);
        });
        match &mut *lock(&self.open) {
            Some(open) => open.insert(id.clone(), terminal),
            None => {
                return Err(ServiceError::Failed(
                    "the agent is ending; no terminal is started".to_owned(),
                ));
            }
        };
        Ok(id)
    }

    /// Returns the output so far, and the exit if the command has ended.
    pub(crate) fn output(&self, id: &str) -> Result<TerminalOutput, ServiceError> {
        self.with_terminal(id, |terminal| {
            // The exit first: once it is known, the output is complete.
            let exit = terminal.exit.borrow().clone();
            let (output, truncated) = lock(&terminal.output).text(exit.is_some());
            TerminalOutput { output, truncated, exit }
        })
    }

    /// Returns the output alone, for clients that cannot show a terminal.
    pub(crate) fn output_text(&self, id: &str) -> Option<String> {
        self.output(id).ok().map(|shown| shown.output)
    }

    /// Returns the end of the output as `show` makes it of the last `max_bytes` bytes: once for all
    /// readers, until more comes.
    pub(crate) fn show_end(
        &self,
        id: &str,
        max_bytes: usize,
        secrets: Secrets,
        show: impl FnOnce(&str) -> String,
    ) -> Option<Arc<str>> {
        let parts =
            |terminal: &Terminal| (Arc::clone(&terminal.shown_end), Arc::clone(&terminal.output));
        let (shown_end, output) = self.with_terminal(id, parts).ok()?;
        Some(shown_end.show(&output, max_bytes, secrets, show))
    }

    /// Returns how many bytes a running command has written; `None` if it has ended or there is no
    /// such terminal.
    pub(crate) fn running_bytes(&self, id: &str) -> Option<u64> {
        let bytes = |terminal: &Terminal| {
            terminal.exit.borrow().is_none().then(|| lock(&terminal.output).total())
        };
        self.with_terminal(id, bytes).ok().flatten()
    }

    /// Waits until the command and everything that it started has ended. Returns even if the
    /// terminal is released meanwhile.
    pub(crate) async fn wait_for_exit(&self, id: &str) -> Result<AgentExit, ServiceError> {
        let mut exit = self.with_terminal(id, |terminal| terminal.exit.clone())?;
        let exit = exit.wait_for(Option::is_some).await.map(|exit| exit.clone());
        Ok(exit.ok().flatten().unwrap_or_default())
    }

    /// Ends the command; its output stays. Returns at once.
    pub(crate) fn kill(&self, id: &str) -> Result<(), ServiceError> {
        self.with_terminal(id, |terminal| {
            // Full: it was asked before.
            let _ = terminal.end.try_send(());
        })
    }

    /// Ends the command and forgets the terminal. Returns at once.
    pub(crate) fn release(&self, id: &str) -> Result<(), ServiceError> {
        let gone = lock(&self.open).as_mut().and_then(|open| open.remove(id));
        gone.map(drop).ok_or_else(|| ServiceError::NoTerminal(id.to_owned()))
    }

    /// Ends all, for good: calls that are still under way may hold on to this value.
    pub(crate) fn close(&self) {
        lock(&self.open).take();
    }

    /// Returns the roots of the process trees.
    pub(crate) fn keeper_pids(&self) -> Vec<u32> {
        lock(&self.open)
            .iter()
            .flat_map(HashMap::values)
            .map(|terminal| terminal.keeper)
            .collect()
    }

    fn with_terminal<T>(
        &self,
        id: &str,
        then: impl FnOnce(&Terminal) -> T,
    ) -> Result<T, ServiceError> {
        let open = lock(&self.open);
        let terminal = open.as_ref().and_then(|open| open.get(id));
        terminal.map(then).ok_or_else(|| ServiceError::NoTerminal(id.to_owned()))
    }

    fn launch(&self, id: &str, spec: TerminalSpec) -> Result<Launch, ServiceError> {
        if spec.command.is_empty() {
            return Err(ServiceError::Params("the command is empty".to_owned()));
        }
        let bad = |(name, _): &&(String, String)| name.is_empty() || name.contains(['=', '\0']);
        if let Some((name, _)) = spec.env.iter().find(bad) {
            return Err(ServiceError::Params(format!("{name:?} cannot be the name of a variable")));
        }
        let mut launch = self.launch.clone();
        launch.cwd = self.find_directory(spec.cwd.as_deref().unwrap_or(self.roots.cwd()))?;
        launch.command = build_command(&launch.cwd, spec.command, spec.args);
        launch.env.extend(spec.env);
        // A tag that begins with the agent's: a search for the agent's processes finds its
        // terminals, not the reverse.
        launch.tag = format!("{}.{id}", launch.tag);
        Ok(launch)
    }

    fn find_directory(&self, path: &Path) -> Result<PathBuf, ServiceError> {
        // A command outside of the session's directories may do there what its sandbox allows, as
        // the agent could.
        let place = match self.roots.find(path, false) {
            Err(ServiceError::Outside { .. }) => self.everywhere.find(path, false)?,
            found => found?,
        };
        let stat = place.stat().map_err(|error| ServiceError::from_io("enter", path, error))?;
        let is_dir = FileType::from_raw_mode(stat.st_mode).is_dir();
        is_dir
            .then_some(place.path)
            .ok_or_else(|| ServiceError::unfit(path, "is not a directory"))
    }
}

/// Returns the argv to run. Many agents put a whole shell line into `command` (and write it for
/// bash), because editors give it to a shell.
fn build_command(cwd: &Path, command: String, args: Vec<String>) -> Vec<String> {
    let plain = |c: char| c.is_alphanumeric() || "/._-+@%,:".contains(c);
    if args.is_empty() && !command.chars().all(plain) && !cwd.join(&command).is_file() {
        let shell = ["/bin/bash", "/usr/bin/bash"]
            .into_iter()
            .find(|shell| Path::new(shell).is_file());
        return vec![shell.unwrap_or("/bin/sh").to_owned(), "-c".to_owned(), command];
    }
    std::iter::once(command).chain(args).collect()
}

/// Reads the output until the command and everything that it started has ended.
async fn follow_command(
    mut process: AgentProcess,
    mut pipe: pipe::Receiver,
    output: &Mutex<TerminalBuffer>,
    mut ends: mpsc::Receiver<()>,
) -> AgentExit {
    let mut chunk = vec![0_u8; READ_CHUNK_BYTES];
    let mut reading = true;
    let mut ending = false;
    let exit = loop {
        tokio::select! {
            read = pipe.read(&mut chunk), if reading => match read {
                Ok(read @ 1..) => lock(output).push(&chunk[..read]),
                Ok(0) | Err(_) => reading = false,
            },
            // `None`: released.
            _ = ends.recv(), if !ending => {
                ending = true;
                process.request_end();
            }
            exit = process.wait_for_exit() => break exit,
        }
    };
    // All processes that could write are gone, and their output is in the pipe. These reads do not
    // go on to the end of the stream, since a process outside of the tree may have been handed the
    // other end.
    for _ in 0..MAX_LAST_READS {
        match rustix::io::read(&pipe, &mut chunk[..]) {
            Ok(read @ 1..) => lock(output).push(&chunk[..read]),
            Ok(0) | Err(_) => break,
        }
    }
    exit
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
