//! Starting one agent process under its keeper.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::FdFlags;
use tokio::net::UnixStream;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use wharf_config::{CONFIG_KEYS, KeeperScope, WEBHOOK_SECRET_VARIABLE};

use super::agent_log::{AgentLog, AgentLogWriter};
use super::agent_output::AgentOutput;
use super::agent_process::{AgentProcess, KeeperProcess, follow_keeper};
use super::agent_token::{self, TokenGuard, TokenIssuer};
use super::keeper_scope::scope_command;
use super::kept_files::{KeptFiles, create_file};
use super::ledger::Ledger;
use super::orphans::{self, RegisteredKeeper};
use super::process_records::ProcessRecords;
use super::process_table::{KEEPER_VERB, TAG_VARIABLE};
use super::stderr::StderrTail;
use super::{open_files_limit, outbox::Outbox};
use crate::agent::lines::FrameReader;
use crate::sandbox::{CARRIED_PREFIX, SandboxProfile};

/// All that is needed to start an agent.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// This program, which holds the keeper.
    pub(crate) program: PathBuf,
    pub(crate) command: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: PathBuf,
    pub(crate) sandbox: Option<SandboxProfile>,
    pub(crate) tag: String,
    /// Issues the agent's token; `None` for a start that belongs to no session.
    pub(crate) token_issuer: Option<TokenIssuer>,
    /// The log of the session that gets its stderr; `None` for a start that belongs to no session.
    pub(crate) log: Option<Arc<AgentLog>>,
    pub(crate) records: ProcessRecords,
    /// The agent may outlive the host once its session is open.
    pub(crate) is_kept: bool,
    /// Where the keeper of an agent that may outlive the host runs.
    pub(crate) scope: KeeperScope,
    pub(crate) frame_limit: usize,
    /// For `initialize`, and again for `session/new`.
    pub(crate) timeout: Option<Duration>,
}

/// A started process and its pipes.
#[derive(Debug)]
pub(crate) struct LaunchedAgent {
    pub(crate) process: AgentProcess,
    pub(crate) reader: FrameReader<AgentOutput>,
    pub(crate) outbox: Outbox,
    pub(crate) stderr: StderrTail,
    /// The files for the keeper, if the agent is to outlive the host.
    pub(crate) files: Option<KeptFiles>,
}

/// A keeper that takes longer over starting a command is stuck. Long for a machine that has much to
/// do.
const KEEPER_START_TIMEOUT: Duration = Duration::from_secs(60);

type Pipes = (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>);

impl Launch {
    /// Starts the agent. The error names the command.
    pub(crate) async fn run(&self) -> Result<LaunchedAgent, String> {
        let failed = |error: io::Error| format!("cannot start `{}`: {error}", self.program_name());
        let (files, ends) = create_files().map_err(failed)?;
        let (_, process) = self.start_under_keeper(|| copy_ends(&ends)).await?;
        drop(ends);
        self.connect(process, files).map_err(failed)
    }

    fn connect(&self, process: AgentProcess, files: KeptFiles) -> io::Result<LaunchedAgent> {
        let kept = if self.is_kept { Some(files.try_clone()?) } else { None };
        let KeptFiles { stdin, input, stdout, output, stderr, ledger } = files;
        let ledger = Ledger::create(ledger)?;
        Ok(LaunchedAgent {
            process,
            reader: FrameReader::new(AgentOutput::new(stdout, output, 0, 0)?, self.frame_limit),
            outbox: Outbox::new(stdin, input, ledger, (0, 0))?,
            stderr: StderrTail::follow_stderr(stderr, self.log.clone().map(AgentLogWriter::new))?,
            files: kept,
        })
    }

    /// Starts a command and returns its pipes as they are.
    pub(crate) async fn run_piped(
        &self,
    ) -> Result<(AgentProcess, ChildStdin, ChildStdout, StderrTail), String> {
        let (pipes, process) = self
            .start_under_keeper(|| Ok([Stdio::piped(), Stdio::piped(), Stdio::piped()]))
            .await?;
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(format!("cannot start `{}`: a pipe is missing", self.program_name()));
        };
        let log = self.log.clone().map(AgentLogWriter::new);
        let stderr = stderr
            .into_owned_fd()
            .and_then(|stderr| StderrTail::follow_stderr(stderr, log))
            .map_err(|error| {
                format!(
                    "cannot start `{}`: its stderr cannot be read: {error}",
                    self.program_name()
                )
            })?;
        Ok((process, stdin, stdout, stderr))
    }

    /// Starts a command that reads nothing; whatever it writes goes to `output`, in the order
    /// written.
    pub(crate) async fn run_into(&self, output: OwnedFd) -> Result<AgentProcess, String> {
        let stdio = || Ok([Stdio::null(), output.try_clone()?.into(), output.try_clone()?.into()]);
        let (_, process) = self.start_under_keeper(stdio).await?;
        Ok(process)
    }

    /// Refuses a working directory that is not there.
    pub(crate) fn check_cwd(&self) -> Result<(), String> {
        if self.cwd.is_dir() {
            return Ok(());
        }
        Err(format!(
            "the directory {} does not exist; create it or choose another cwd",
            self.cwd.display()
        ))
    }

    fn program_name(&self) -> &str {
        self.command.first().map_or("", String::as_str)
    }

    /// Starts the command, in a scope of systemd if that is set and possible. `stdio` is called for
    /// each attempt.
    async fn start_under_keeper(
        &self,
        stdio: impl Fn() -> io::Result<[Stdio; 3]>,
    ) -> Result<(Pipes, AgentProcess), String> {
        self.check_cwd()?;
        let next_stdio =
            || stdio().map_err(|e| format!("cannot start `{}`: {e}", self.program_name()));
        if self.is_kept && self.scope != KeeperScope::None {
            let started = match scope_command(self.scope) {
                Ok(scope) => self.start_keeper(&scope, next_stdio()?).await,
                Err(error) => Err(KeeperStartFault::NoKeeper(error.to_string())),
            };
            match started {
                Err(KeeperStartFault::NoKeeper(error)) => {
                    let message = "a keeper cannot be started in a scope of systemd, and runs in the host's control group";
                    tracing::warn!(error, "{message}");
                }
                started => return started.map_err(KeeperStartFault::into_message),
            }
        }
        self.start_keeper(&[], next_stdio()?)
            .await
            .map_err(KeeperStartFault::into_message)
    }

    async fn start_keeper(
        &self,
        scope: &[OsString],
        stdio: [Stdio; 3],
    ) -> Result<(Pipes, AgentProcess), KeeperStartFault> {
        let name = self.program_name();
        let no_socket = |e| {
            KeeperStartFault::Other(format!("cannot make a socket for the keeper of `{name}`: {e}"))
        };
        let (ours, theirs) = StdUnixStream::pair().map_err(no_socket)?;
        let (guard, token) = self.token_issuer.as_ref().map(TokenIssuer::issue_token).unzip();
        let child = self.spawn_keeper(scope, &theirs, stdio, token.as_deref());
        let no_child =
            |e| KeeperStartFault::NoKeeper(format!("cannot start the keeper of `{name}`: {e}"));
        let mut child = child.map_err(no_child)?;
        drop(theirs);
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let pid = child.id().unwrap_or_default();
        let process =
            KeeperProcess::Child { child: Box::new(child), registration: RegisteredKeeper(pid) };
        if let Some(guard) = &guard {
            guard.set_root(pid);
        }
        let control = to_async_stream(ours).map_err(no_socket)?;
        self.records.add(pid, &self.tag, guard.as_ref().map(TokenGuard::digest));
        // From here on the tree is followed: if this future is dropped, the tree is ended.
        let (process, started) =
            follow_keeper(pid, process, (control, Vec::new()), self.records.clone(), guard);
        match tokio::time::timeout(KEEPER_START_TIMEOUT, started).await {
            Ok(Ok(Ok(pid))) => Ok((pipes, process.with_pid(pid))),
            Ok(Ok(Err(why))) => Err(KeeperStartFault::Other(format!(
                "cannot run `{name}`: {why}; is it installed and on the PATH?"
            ))),
            Ok(Err(_)) => Err(KeeperStartFault::NoKeeper(format!(
                "the keeper of `{name}` ended before it started anything"
            ))),
            Err(_) => {
                let message = format!(
                    "the keeper of `{name}` did not start it within {KEEPER_START_TIMEOUT:?}"
                );
                Err(KeeperStartFault::Other(message))
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "one of the two places that start processes")]
    fn spawn_keeper(
        &self,
        scope: &[OsString],
        control: &StdUnixStream,
        stdio: [Stdio; 3],
        token: Option<&str>,
    ) -> io::Result<tokio::process::Child> {
        // `systemd-run --scope` becomes the keeper by `exec`: its pid and its open files are the
        // keeper's.
        let program = scope.iter().cloned().chain([self.program.clone().into()]);
        let verb = [KEEPER_VERB.into(), control.as_raw_fd().to_string().into(), "--".into()];
        let mut args: Vec<OsString> = program.chain(verb).collect();
        match &self.sandbox {
            Some(profile) => args.extend(profile.wrap(&self.program, &self.command)),
            None => args.extend(self.command.iter().map(OsString::from)),
        }
        let [stdin, stdout, stderr] = stdio;
        let mut command = Command::new(args.remove(0));
        command.args(args);
        match &self.sandbox {
            Some(_) => command.envs(
                self.env.iter().map(|(name, value)| (format!("{CARRIED_PREFIX}{name}"), value)),
            ),
            None => command.envs(&self.env),
        };
        command.env(TAG_VARIABLE, &self.tag).current_dir(&self.cwd);
        command.envs(
            open_files_limit::original_limit()
                .map(|before| (open_files_limit::LIMIT_VARIABLE, before)),
        );
        // The host sets these last, so that neither a caller nor an adapter, nor an agent that runs
        // this host, can say who the agent is.
        command
            .env_remove(agent_token::SESSION_VARIABLE)
            .env_remove(agent_token::TOKEN_VARIABLE);
        remove_secret_settings(&mut command);
        if let (Some(issuer), Some(token)) = (&self.token_issuer, token) {
            command
                .env(agent_token::SESSION_VARIABLE, issuer.session.as_str())
                .env(agent_token::TOKEN_VARIABLE, token);
        }
        command.stdin(stdin).stdout(stdout).stderr(stderr);
        // Its own group: a Ctrl-C at the terminal, or its end, is for the host. Not its own
        // session: the kernel would give it a share of the processor apart from the host's, and a
        // flood would come in many small pieces.
        command.process_group(0);
        // Only this keeper may inherit its end. In another one's hands it would stay open after the
        // keeper's end, which would then not be noticed for as long as the other one lives.
        let mut keepers = orphans::lock_keepers();
        rustix::io::fcntl_setfd(control, FdFlags::empty())?;
        let child = command.spawn();
        keepers.extend(child.as_ref().ok().and_then(tokio::process::Child::id));
        rustix::io::fcntl_setfd(control, FdFlags::CLOEXEC)?;
        child
    }
}

/// Why an agent was not started.
#[derive(Debug)]
enum KeeperStartFault {
    /// The keeper could not be started, or ended before it started the agent: the agent has not
    /// run.
    NoKeeper(String),
    Other(String),
}

impl KeeperStartFault {
    fn into_message(self) -> String {
        match self {
            Self::NoKeeper(message) | Self::Other(message) => message,
        }
    }
}

fn copy_ends(ends: &[OwnedFd; 3]) -> io::Result<[Stdio; 3]> {
    let [stdin, stdout, stderr] = ends;
    Ok([stdin.try_clone()?.into(), stdout.try_clone()?.into(), stderr.try_clone()?.into()])
}

/// Creates the files of an agent. The others are its own ends of the pipes: stdin, stdout and
/// stderr.
fn create_files() -> io::Result<(KeptFiles, [OwnedFd; 3])> {
    let ((own_stdin, stdin), (stdout, own_stdout)) = (io::pipe()?, io::pipe()?);
    let (stderr, own_stderr) = io::pipe()?;
    let files = KeptFiles {
        stdin: stdin.into(),
        input: create_file("wharf-input")?,
        stdout: stdout.into(),
        output: create_file("wharf-output")?,
        stderr: stderr.into(),
        ledger: create_file("wharf-ledger")?,
    };
    Ok((files, [own_stdin.into(), own_stdout.into(), own_stderr.into()]))
}

/// Removes the variables of the host's own environment that may hold secrets of its settings.
fn remove_secret_settings(command: &mut Command) {
    command.env_remove(WEBHOOK_SECRET_VARIABLE);
    for key in CONFIG_KEYS.iter().filter(|key| key.secret) {
        command.env_remove(key.variable());
    }
}

fn to_async_stream(stream: StdUnixStream) -> io::Result<UnixStream> {
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// Splits a command line as a shell would, without running one.
pub fn split_command(line: &str) -> Result<Vec<String>, SplitError> {
    shell_words::split(line).map_err(|_| SplitError)
}

/// The line opens a quote and does not close it.
#[derive(Debug, thiserror::Error)]
#[error("a quote is not closed")]
pub struct SplitError;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "this command is never run")]
    fn variables_of_secret_settings_are_removed() {
        let mut command = Command::new("true");
        remove_secret_settings(&mut command);
        let removed: BTreeSet<&str> = command
            .as_std()
            .get_envs()
            .filter(|(_, value)| value.is_none())
            .filter_map(|(name, _)| name.to_str())
            .collect();
        let expected = ["WHARF_AGENTS", "WHARF_NOTIFY_WEBHOOK", "WHARF_NOTIFY_WEBHOOK_SECRET"];
        assert_eq!(removed, BTreeSet::from(expected));
    }
}
