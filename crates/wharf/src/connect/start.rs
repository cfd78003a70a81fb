//! Starts a host in the background, independent of this program: the host has a session of its own,
//! is not a descendant of its starter, and has neither its directory nor most of its environment
//! (rule 12.14). Client verbs start processes here and in `child` alone.

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

use anyhow::{Context, ensure};
use rustix::process::Pid;
use wharf_config::{CONFIG_KEYS, Launchable, SettingValueKind};

use crate::log_file::{LOG_FILE_NAME, open_private};
use crate::output;

/// The hidden command that starts a host and ends, so that the host has no parent here.
pub(crate) const DETACH_COMMAND: &str = "__detach";

/// How much of the host's log is shown when a host does not start.
const LOG_TAIL_BYTES: u64 = 2_000;

/// Starts the host of one state directory.
#[derive(Debug)]
pub(crate) struct HostStarter {
    state_dir: PathBuf,
    /// The arguments of the host, from `serve` on.
    arguments: Vec<OsString>,
    /// The host that was started.
    pid: Option<Pid>,
    /// The end of the log before that.
    log_end: Option<LogEnd>,
}

/// Holds the end of the log at some time. The inode distinguishes the file from its successor.
#[derive(Clone, Copy, Debug)]
struct LogEnd {
    inode: u64,
    length: u64,
}

impl HostStarter {
    pub(crate) fn new(state_dir: PathBuf, config: Option<PathBuf>) -> Self {
        let mut arguments: Vec<OsString> =
            ["serve", "--json", "--started-as", "background"].map(Into::into).to_vec();
        arguments.extend(["--state-dir".into(), state_dir.clone().into_os_string()]);
        arguments.extend(["--log-file".into(), log_path(&state_dir).into_os_string()]);
        arguments.extend(
            config
                .into_iter()
                .flat_map(|config| ["--config".into(), config.into_os_string()]),
        );
        Self { state_dir, arguments, pid: None, log_end: None }
    }

    /// A host with the arguments that another one had.
    pub(crate) fn with_arguments(state_dir: PathBuf, arguments: Vec<String>) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self { state_dir, arguments, pid: None, log_end: None }
    }

    pub(crate) fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// Starts a host that outlives this program, and returns its pid. The host may not be listening
    /// yet.
    #[expect(
        clippy::disallowed_methods,
        reason = "all processes of this program are started from here"
    )]
    pub(crate) fn start_host(&mut self) -> anyhow::Result<u32> {
        let program = std::env::current_exe().context("finding this program")?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.state_dir)
            .with_context(|| format!("making {}", self.state_dir.display()))?;
        let path = log_path(&self.state_dir);
        let log = open_private(&path).with_context(|| format!("opening {}", path.display()))?;
        self.log_end = log
            .metadata()
            .ok()
            .map(|known| LogEnd { inode: known.ino(), length: known.len() });
        let mut command = Command::new(program);
        command.arg(DETACH_COMMAND).args(&self.arguments);
        command
            .env_clear()
            .envs(filter_environment(std::env::vars_os()))
            .current_dir(home_dir());
        command.stdin(Stdio::null()).stderr(log);
        let Output { stdout, .. } =
            command.output().context("starting a host in the background")?;
        let pid = String::from_utf8_lossy(&stdout).trim().parse().ok().and_then(Pid::from_raw);
        ensure!(
            pid.is_some(),
            "no host could be started in the background; {}",
            self.describe_log_tail()
        );
        self.pid = pid;
        Ok(pid.map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs()))
    }

    /// Returns true if the host that was started has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.pid.is_some_and(has_ended)
    }

    /// Returns the end of what this start wrote to the host's log, in words: it tells why the host
    /// did not start.
    pub(crate) fn describe_log_tail(&self) -> String {
        let path = log_path(&self.state_dir);
        match read_tail(&path, self.log_end) {
            Ok(text) if !text.trim().is_empty() => {
                format!("{} ends with:\n{}", path.display(), text.trim_end())
            }
            Ok(_) | Err(_) => format!("{} says nothing", path.display()),
        }
    }
}

/// Starts this program again with these arguments, in a new session, and returns while the new
/// process runs. Prints the pid. The output of the new process goes to the stderr of this one, and
/// its input is that of this one.
#[expect(
    clippy::disallowed_methods,
    reason = "all processes of this program are started from here"
)]
pub(crate) fn detach_host(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let spawned = std::env::current_exe().context("finding this program").and_then(|program| {
        rustix::process::setsid().context("making a session")?;
        let mut host = Command::new(program);
        host.args(arguments).stdout(std::io::stderr()).process_group(0);
        host.spawn().context("starting a host")
    });
    match spawned {
        Ok(host) => {
            output::print_line(&host.id().to_string());
            ExitCode::SUCCESS
        }
        Err(error) => {
            output::print_error(&error);
            ExitCode::FAILURE
        }
    }
}

/// Yields the variables that a host in the background keeps. Agents get others from the caller that
/// starts them.
fn filter_environment(
    all: impl Iterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (OsString, OsString)> {
    // The host runs in another directory.
    let paths: Vec<String> = CONFIG_KEYS
        .iter()
        .filter(|key| key.kind == SettingValueKind::Path)
        .map(wharf_config::ConfigKey::variable)
        .collect();
    all.filter(|(name, _)| name.to_str().is_some_and(is_kept))
        .map(move |(name, value)| {
            let absolute = paths
                .iter()
                .any(|path| name == path.as_str())
                .then(|| std::path::absolute(&value).ok());
            let value = absolute.flatten().map_or(value, PathBuf::into_os_string);
            (name, value)
        })
}

fn is_kept(name: &str) -> bool {
    const KEPT_NAMES: [&str; 10] = [
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "PATH",
        "LANG",
        "TZ",
        "TMPDIR",
        "DBUS_SESSION_BUS_ADDRESS",
        "SSH_AUTH_SOCK",
    ];
    const KEPT_PREFIXES: [&str; 4] = ["LC_", "XDG_", "SSL_CERT_", "WHARF_"];
    // A host that an agent starts gets neither the agent's identity nor the mark of its process
    // tree.
    let agents = [
        wharf_host::SESSION_VARIABLE,
        wharf_host::TOKEN_VARIABLE,
        wharf_host::agent::process_table::TAG_VARIABLE,
    ];
    // These variables choose the host that a verb talks to. They do not configure a host, and its
    // agents would inherit them.
    let is_choice = ["WHARF_URL", "WHARF_CONTEXT", "WHARF_CA"].contains(&name);
    let is_agents = agents.contains(&name) || is_choice;
    let is_named = KEPT_NAMES.contains(&name) || name == "NODE_EXTRA_CA_CERTS";
    let is_proxy = name.to_ascii_uppercase().ends_with("_PROXY");
    !is_agents
        && (is_named
            || is_proxy
            || KEPT_PREFIXES.iter().any(|beginning| name.starts_with(beginning)))
}

/// Returns the home directory, or the root if there is none.
fn home_dir() -> PathBuf {
    std::env::var_os("HOME")
        .map(PathBuf::from)
        .filter(|home| home.is_dir())
        .unwrap_or_else(|| PathBuf::from("/"))
}

/// Returns true if the process has ended, even if its parent has not reaped it yet.
fn has_ended(pid: Pid) -> bool {
    if let Ok(process) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
        let mut ended = [rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN)];
        return rustix::event::poll(&mut ended, Some(&rustix::event::Timespec::default()))
            .is_ok_and(|ready| ready > 0);
    }
    rustix::process::test_kill_process(pid).is_err()
}

/// Replaces this program by the agent, in the same terminal; returns only if that fails. Variables
/// in `keep_env` keep the values of this process.
#[expect(
    clippy::disallowed_methods,
    reason = "all processes of this program are started from here"
)]
pub(crate) fn become_agent(
    agent: &Launchable,
    arguments: &[String],
    keep_env: &[String],
) -> anyhow::Error {
    let Some((program, own)) = agent.command.split_first() else {
        return anyhow::anyhow!("the agent has no command");
    };
    let env = agent.env.iter().filter(|(name, _)| !keep_env.contains(name));
    let error = Command::new(program).args(own).args(arguments).envs(env).exec();
    anyhow::Error::from(error)
        .context(format!("running {program}; is it installed and on the PATH?"))
}

fn log_path(state_dir: &Path) -> PathBuf {
    state_dir.join(LOG_FILE_NAME)
}

/// Returns the last lines of the log after `since`, each whole; of a single line that is longer,
/// its end.
fn read_tail(path: &Path, since: Option<LogEnd>) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let known = file.metadata()?;
    // A log that was rotated meanwhile is all of this start.
    let since = since.filter(|since| since.inode == known.ino() && since.length <= known.len());
    let first = since.map_or(0, |since| since.length);
    let start = known.len().saturating_sub(LOG_TAIL_BYTES).max(first);
    if start == first {
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    // One byte more tells whether the tail begins with a whole line.
    file.seek(SeekFrom::Start(start.saturating_sub(1)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let whole = text
        .split_once('\n')
        .map(|(_, lines)| lines)
        .filter(|lines| !lines.trim().is_empty());
    Ok(whole.map_or_else(|| format!("…{text}"), ToOwned::to_owned))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;

    use super::*;

    #[test]
    fn host_in_the_background_keeps_only_variables_that_belong_to_the_user() {
        let kept = [
            "HOME",
            "PATH",
            "LANG",
            "LC_ALL",
            "TZ",
            "XDG_STATE_HOME",
            "HTTPS_PROXY",
            "no_proxy",
            "SSL_CERT_FILE",
            "NODE_EXTRA_CA_CERTS",
            "SSH_AUTH_SOCK",
            "WHARF_LOG",
        ];
        let dropped = [
            "ANTHROPIC_API_KEY",
            "LD_PRELOAD",
            "PWD",
            "TERM",
            "VIRTUAL_ENV",
            "WHARF_SESSION",
            "WHARF_TOKEN",
            "WHARF_AGENT_TAG",
            "WHARF_URL",
            "WHARF_CONTEXT",
            "WHARF_CA",
            "PROXY",
        ];
        let all = kept
            .iter()
            .chain(&dropped)
            .map(|name| (OsString::from(name), OsString::from("/x")));
        let names: Vec<OsString> = filter_environment(all).map(|(name, _)| name).collect();
        assert_eq!(names, kept);
    }

    #[test]
    fn tail_of_the_log_begins_with_a_whole_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host.log");
        let tail_of = |text: &str| {
            fs::write(&path, text).unwrap();
            read_tail(&path, None).unwrap()
        };
        let limit = usize::try_from(LOG_TAIL_BYTES).unwrap();
        let long = "x".repeat(limit);
        assert_eq!(tail_of("one\ntwo\n"), "one\ntwo\n");
        assert_eq!(tail_of(&format!("{long}\none\ntwo\n")), "one\ntwo\n");
        assert_eq!(
            tail_of(&format!("one\n{}\n", &long[1..])),
            format!("{}\n", &long[1..]),
            "it fits exactly"
        );
        assert_eq!(
            tail_of(&format!("{long}{long}\n")),
            format!("…{}\n", &long),
            "there is no whole line"
        );
    }

    #[test]
    fn tail_of_the_log_has_lines_of_this_start_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host.log");
        fs::write(&path, "error: of yesterday\n").unwrap();
        let known = fs::metadata(&path).unwrap();
        let end = Some(LogEnd { inode: known.ino(), length: known.len() });
        assert_eq!(read_tail(&path, end).unwrap(), "");
        fs::write(&path, "error: of yesterday\nerror: of today\n").unwrap();
        assert_eq!(read_tail(&path, end).unwrap(), "error: of today\n");
        let long = "x".repeat(usize::try_from(LOG_TAIL_BYTES).unwrap());
        fs::write(&path, format!("error: of yesterday\n{long}\nlast\n")).unwrap();
        assert_eq!(read_tail(&path, end).unwrap(), "last\n");
        fs::rename(&path, folder.path().join("host.log.1")).unwrap();
        fs::write(&path, "new\n").unwrap();
        assert_eq!(read_tail(&path, end).unwrap(), "new\n", "it was rotated");
    }

    #[test]
    fn relative_paths_in_variables_are_made_absolute() {
        let given =
            [("WHARF_TLS_CERT", "cert.pem"), ("WHARF_TLS_KEY", "/key.pem"), ("WHARF_LOG", "debug")];
        let given = given.into_iter().map(|(name, value)| (name.into(), value.into()));
        let values: Vec<OsString> = filter_environment(given).map(|(_, value)| value).collect();
        let cert = std::env::current_dir().unwrap().join("cert.pem").into_os_string();
        assert_eq!(values, [cert.as_os_str(), OsStr::new("/key.pem"), OsStr::new("debug")]);
    }
}
