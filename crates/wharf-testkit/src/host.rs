//! Runs the real `wharf` binary in a temporary directory on a free port.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use tempfile::TempDir;

use crate::small_disk::SmallDisk;
use crate::{WAIT_LIMIT, processes, program};

/// The options of a host.
#[derive(Debug, Default, Clone)]
pub struct HostOptions {
    /// The binary, if it is not the usual one.
    pub binary: Option<PathBuf>,
    /// The content of `config.toml`, which is passed with `--config`.
    pub config: Option<String>,
    /// Further arguments of `wharf serve`.
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// The size of a disk for the state directory alone, in the form of `mount`.
    pub disk: Option<String>,
    /// The address to listen on, if it is not a free port of 127.0.0.1.
    pub listen: Option<String>,
}

impl HostOptions {
    /// Returns options for a host whose default agent is the scripted one with these flags.
    pub fn with_scripted_agent(flags: &[&str]) -> Result<Self> {
        let agent = program::find_scripted_agent()?;
        let mut command = vec![agent.to_str().context("the agent's path is not UTF-8")?.to_owned()];
        command.extend(flags.iter().map(|flag| (*flag).to_owned()));
        Ok(Self::default()
            .with_agent("scripted", &command)
            .with_setting("default_agent", "scripted"))
    }

    /// Adds `[agents.NAME]` with this command.
    #[must_use]
    pub fn with_agent(mut self, name: &str, command: &[String]) -> Self {
        // A JSON array of strings is a TOML array of strings.
        let section = format!("\n[agents.{name}]\ncommand = {}\n", Value::from(command.to_vec()));
        self.config.get_or_insert_default().push_str(&section);
        self
    }

    /// Adds a top-level setting with a string value. It goes before all sections.
    #[must_use]
    pub fn with_setting(mut self, key: &str, value: &str) -> Self {
        self.config
            .get_or_insert_default()
            .insert_str(0, &format!("{key} = {}\n", Value::from(value)));
        self
    }

    #[must_use]
    pub fn with_argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    #[must_use]
    pub fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Keeps the state on a disk of its own.
    #[must_use]
    pub fn with_disk(mut self, size: &str) -> Self {
        self.disk = Some(size.to_owned());
        self
    }

    /// Has the agents end with the host, as `keeper.enabled = false` does. The reason says why the
    /// test needs that.
    #[must_use]
    pub fn without_keepers(self, _reason: &str) -> Self {
        self.with_variable("WHARF_KEEPER_ENABLED", "false")
    }

    /// Starts the host and waits until it accepts connections.
    pub fn start_host(self) -> Result<TestHost> {
        TestHost::start(self)
    }
}

/// A running host. Dropping it kills the host and its agents, kept ones included, and deletes the
/// directory.
#[derive(Debug)]
pub struct TestHost {
    options: HostOptions,
    /// Dropped before the directory in which it is mounted.
    disk: Option<SmallDisk>,
    directory: TempDir,
    running: RunningHost,
    starts: u32,
}

#[derive(Debug)]
struct RunningHost {
    child: Child,
    exited: Option<ExitStatus>,
    /// The one line that the host prints when it listens.
    listening: Value,
    token: String,
}

impl TestHost {
    pub fn start(options: HostOptions) -> Result<Self> {
        let directory =
            TempDir::with_prefix("wharf-test-").context("making a directory for the host")?;
        let disk = options
            .disk
            .as_ref()
            .map(|size| SmallDisk::mount(&state_dir(directory.path()), size))
            .transpose()?;
        let running = launch_host(&options, directory.path(), 1)?;
        Ok(Self { options, disk, directory, running, starts: 1 })
    }

    /// Starts the host again on the same state; kills it first if it still runs.
    pub fn restart(&mut self) -> Result<()> {
        self.kill()?;
        self.starts += 1;
        self.running = launch_host(&self.options, self.directory.path(), self.starts)?;
        Ok(())
    }

    pub fn disk(&self) -> Option<&SmallDisk> {
        self.disk.as_ref()
    }

    /// Changes the options for the next restart.
    pub fn options_mut(&mut self) -> &mut HostOptions {
        &mut self.options
    }

    /// Sends SIGKILL and waits until the host is gone.
    pub fn kill(&mut self) -> Result<()> {
        if self.running.exited.is_none() {
            self.running.child.kill().context("killing the host")?;
            self.running.exited = Some(self.running.child.wait()?);
        }
        Ok(())
    }

    /// Sends SIGTERM and waits for the exit.
    pub fn terminate(&mut self) -> Result<ExitStatus> {
        processes::send_sigterm(self.pid());
        self.wait_exit(WAIT_LIMIT)
    }

    /// Waits for the host to end by itself.
    pub fn wait_exit(&mut self, limit: Duration) -> Result<ExitStatus> {
        if let Some(status) = self.running.exited {
            return Ok(status);
        }
        let status = processes::wait_exit(&mut self.running.child, limit)?;
        let status =
            status.with_context(|| format!("the host did not exit\n{}", self.stderr_tail()))?;
        self.running.exited = Some(status);
        Ok(status)
    }

    pub fn pid(&self) -> u32 {
        self.running.child.id()
    }

    /// Returns `http://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        self.running.listening["url"].as_str().unwrap_or_default()
    }

    /// Returns `ws://127.0.0.1:PORT/acp`.
    pub fn ws_url(&self) -> String {
        format!("{}/acp", self.url().replacen("http", "ws", 1))
    }

    /// Returns the path of the unix socket.
    pub fn socket_path(&self) -> PathBuf {
        PathBuf::from(self.running.listening["socket"].as_str().unwrap_or_default())
    }

    pub fn token(&self) -> &str {
        &self.running.token
    }

    /// Returns the whole line that announced the address.
    pub fn listening_line(&self) -> &Value {
        &self.running.listening
    }

    pub fn state_dir(&self) -> PathBuf {
        state_dir(self.directory.path())
    }

    /// Returns the temporary directory around the state directory, for files of the test.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the resident memory in KiB.
    pub fn rss_kib(&self) -> Option<u64> {
        processes::rss_kib(self.pid())
    }

    /// Returns the CPU time used so far.
    pub fn cpu_time(&self) -> Option<Duration> {
        processes::cpu_time(self.pid())
    }

    /// Returns the stderr of the running host.
    pub fn read_stderr(&self) -> String {
        let bytes =
            fs::read(log_path(self.directory.path(), "stderr", self.starts)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the stdout of the running host.
    pub fn read_stdout(&self) -> String {
        fs::read_to_string(log_path(self.directory.path(), "stdout", self.starts))
            .unwrap_or_default()
    }

    fn stderr_tail(&self) -> String {
        describe_stderr(&self.read_stderr())
    }
}

impl Drop for TestHost {
    fn drop(&mut self) {
        let _ = self.kill();
        let left = processes::kill_marked(self.directory.path(), WAIT_LIMIT);
        if let Err(left) = &left {
            let _ =
                writeln!(std::io::stderr(), "processes of the host that cannot be ended: {left:?}");
        }
        if thread::panicking() {
            let _ = writeln!(std::io::stderr(), "{}", self.stderr_tail());
        }
    }
}

fn state_dir(directory: &Path) -> PathBuf {
    directory.join("state")
}

fn log_path(directory: &Path, stream: &str, start: u32) -> PathBuf {
    directory.join(format!("{stream}.{start}.log"))
}

fn describe_stderr(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().rev().take(30).collect();
    let lines: Vec<&str> = lines.into_iter().rev().collect();
    format!("the host's stderr ends with:\n{}", lines.join("\n"))
}

fn launch_host(options: &HostOptions, directory: &Path, start: u32) -> Result<RunningHost> {
    let binary = options.binary.clone().map_or_else(program::find_wharf, Ok)?;
    let mut command = program::new_command(&binary);
    let listen = options.listen.as_deref().unwrap_or("127.0.0.1:0");
    command
        .args(["serve", "--listen", listen, "--json", "--state-dir"])
        .arg(state_dir(directory));
    if let Some(config) = &options.config {
        let path = directory.join("config.toml");
        fs::write(&path, config).context("writing the host's configuration")?;
        command.arg("--config").arg(path);
    }
    isolate_environment(&mut command, directory);
    command.args(&options.arguments).envs(options.environment.iter().cloned());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(log_path(directory, "stderr", start))?);
    let mut child = command.spawn().with_context(|| format!("starting {}", binary.display()))?;
    let first_line = follow_stdout(&mut child, log_path(directory, "stdout", start))?;
    match read_listening_line(&first_line) {
        Ok((listening, token)) => Ok(RunningHost { child, exited: None, listening, token }),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            // It may have taken agents over.
            let _ = processes::kill_marked(directory, WAIT_LIMIT);
            let stderr =
                fs::read_to_string(log_path(directory, "stderr", start)).unwrap_or_default();
            Err(error.context(describe_stderr(&stderr)))
        }
    }
}

/// Separates the test from the developer's own settings and sessions.
fn isolate_environment(command: &mut Command, directory: &Path) {
    let ours = std::env::vars_os()
        .map(|(name, _)| name)
        .filter(|name| name.as_encoded_bytes().starts_with(b"WHARF_"));
    for name in ours.filter(|name| name != "WHARF_LOG") {
        command.env_remove(name);
    }
    command.env("WHARF_DEMO_STATE", directory.join("demo"));
    processes::mark_command(command, directory);
}

/// Copies stdout to a file; the first line is sent on the channel too.
fn follow_stdout(child: &mut Child, log: PathBuf) -> Result<Receiver<String>> {
    let stdout = child.stdout.take().context("taking the host's stdout")?;
    let mut log = File::create(log)?;
    let (sender, first_line) = sync_channel(1);
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = writeln!(log, "{line}");
            let _ = sender.try_send(line);
        }
    });
    Ok(first_line)
}

fn read_listening_line(first_line: &Receiver<String>) -> Result<(Value, String)> {
    let line = first_line
        .recv_timeout(WAIT_LIMIT)
        .map_err(|_| anyhow!("the host did not say that it listens"))?;
    let listening: Value =
        serde_json::from_str(&line).with_context(|| format!("the host said: {line}"))?;
    if listening["event"] != "listening" {
        bail!("the host said: {line}");
    }
    let token_file = listening["tokenFile"].as_str().context("no tokenFile in the host's line")?;
    let token = fs::read_to_string(token_file).with_context(|| format!("reading {token_file}"))?;
    Ok((listening, token.trim().to_owned()))
}
