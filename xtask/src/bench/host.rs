//! Runs the real binary for a measurement and observes it from outside.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::process::command;

/// Only a host that hangs takes so long, also on a machine with much other work. Tests hold the
/// host to the times that it promises.
const START_LIMIT: Duration = Duration::from_secs(120);
const STOP_LIMIT: Duration = Duration::from_secs(120);

pub(crate) struct Host {
    child: Child,
    dir: PathBuf,
    /// True to keep the directory when this host ends, for the next one.
    keeps: bool,
    pub(crate) authority: String,
    pub(crate) token: String,
}

impl Host {
    /// Starts `wharf serve` with an empty state directory `dir`, which is deleted at the end.
    pub(crate) fn start(wharf: &Path, agent: &Path, dir: &Path) -> Result<Self> {
        Self::start_with(wharf, &quote_path(agent), dir)
    }

    /// Starts it with an agent that takes arguments: `agent` is its command line.
    pub(crate) fn start_with(wharf: &Path, agent: &str, dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
        let stderr =
            fs::File::create(dir.join("stderr")).context("making a file for the host's stderr")?;
        let mut serve = command(wharf);
        // Settings that a developer has for hosts of their own would change what is tested and
        // measured.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"WHARF_") {
                serve.env_remove(name);
            }
        }
        let child = serve
            .args(["serve", "--listen", "127.0.0.1:0", "--json", "--state-dir"])
            .arg(dir.join("state"))
            .args(["--agent-cmd", agent])
            .env("XDG_CONFIG_HOME", dir.join("config"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .with_context(|| format!("starting {}", wharf.display()))?;
        let dir = dir.to_path_buf();
        let mut host = Self {
            child,
            dir,
            keeps: false,
            authority: String::new(),
            token: String::new(),
        };
        host.await_listening()
            .with_context(|| format!("waiting for the host; it says: {}", host.stderr_tail()))?;
        Ok(host)
    }

    fn await_listening(&mut self) -> Result<()> {
        let stdout = self.child.stdout.take().context("taking the host's stdout")?;
        let (sender, receiver) = sync_channel(1);
        thread::spawn(move || {
            let mut line = String::new();
            let result = BufReader::new(stdout).read_line(&mut line).map(|_| line);
            // The receiver may have timed out already.
            let _ = sender.send(result);
        });
        let line = receiver.recv_timeout(START_LIMIT).context("no line within 30 s")??;
        let said: Value =
            serde_json::from_str(&line).with_context(|| format!("reading {line:?}"))?;
        let url = said["url"].as_str().context("the line has no url")?;
        self.authority = url
            .strip_prefix("http://")
            .context("the url is not http")?
            .trim_end_matches('/')
            .to_owned();
        let token_file = said["tokenFile"].as_str().context("the line has no tokenFile")?;
        self.token = fs::read_to_string(token_file).context("reading the token")?.trim().to_owned();
        Ok(())
    }

    /// Stops the host and keeps its directory for the next one.
    pub(super) fn stop_and_keep(mut self) -> Result<()> {
        self.keeps = true;
        self.stop()
    }

    /// Kills the host, as a crash would, and keeps its directory and its agents for the next one.
    pub(super) fn kill_and_keep(mut self) -> Result<()> {
        self.keeps = true;
        self.child.kill().context("killing the host")?;
        self.child.wait().context("waiting for the killed host")?;
        Ok(())
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.dir.join("state")
    }

    /// Returns the number of bytes of a session's log.
    pub(super) fn logged(&self, session: &str) -> Result<u64> {
        let folder = self.state_dir().join("workspaces/default/sessions").join(session).join("log");
        let mut bytes = 0;
        for file in
            fs::read_dir(&folder).with_context(|| format!("listing {}", folder.display()))?
        {
            bytes += file?.metadata()?.len();
        }
        Ok(bytes)
    }

    /// Returns the CPU time of all threads so far. The agent and the keeper are other processes and
    /// do not count.
    pub(super) fn cpu(&self) -> Result<Duration> {
        process_cpu(self.child.id())
    }

    /// Returns the bytes that the host has read so far: from files, also those in the page cache,
    /// and from sockets.
    pub(super) fn bytes_read(&self) -> Result<u64> {
        let io = fs::read_to_string(format!("/proc/{}/io", self.child.id()))
            .context("reading the host's counters")?;
        status_field(&io, "rchar:")
    }

    /// Returns the resident memory in KiB: the current value and the peak.
    pub(super) fn memory(&self) -> Result<Memory> {
        process_memory(self.child.id())
    }

    /// Sends SIGINT, as an operator at a terminal would, and waits for the exit. The agents end
    /// with the host.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.interrupt()
    }

    fn interrupt(&mut self) -> Result<()> {
        let pid = self.child.id().to_string();
        command("sh")
            .args(["-c", "kill -INT \"$0\"", &pid])
            .status()
            .context("sending SIGINT")?;
        let began = Instant::now();
        while began.elapsed() < STOP_LIMIT {
            if let Some(status) = self.child.try_wait()? {
                if !status.success() {
                    bail!("the host ended with {status}: {}", self.stderr_tail());
                }
                return Ok(());
            }
            thread::sleep(Duration::from_millis(10));
        }
        bail!("the host did not end within {STOP_LIMIT:?} of SIGINT")
    }

    fn stderr_tail(&self) -> String {
        let text = fs::read_to_string(self.dir.join("stderr")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // After `stop` this has no effect; after an error it cleans up. Killed at once, the host
        // would leave its agents.
        if matches!(self.child.try_wait(), Ok(None)) && !self.keeps {
            let _ = self.interrupt();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !self.keeps {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) now: u64,
    pub(super) peak: u64,
}

/// Returns the CPU time of all threads of a process so far.
pub(super) fn process_cpu(pid: u32) -> Result<Duration> {
    let mut nanos = 0;
    for task in
        fs::read_dir(format!("/proc/{pid}/task")).context("listing the threads of a process")?
    {
        // The time of a thread that ends meanwhile is lost, but the long-lived threads do the work.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        nanos += text
            .split(' ')
            .next()
            .unwrap_or_default()
            .parse::<u64>()
            .context("reading schedstat")?;
    }
    Ok(Duration::from_nanos(nanos))
}

/// Returns the resident memory of a process in KiB.
pub(super) fn process_memory(pid: u32) -> Result<Memory> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .context("reading the status of a process")?;
    Ok(Memory {
        now: status_field(&status, "VmRSS:")?,
        peak: status_field(&status, "VmHWM:")?,
    })
}

fn status_field(status: &str, name: &str) -> Result<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .with_context(|| format!("no {name}"))?;
    line.trim()
        .trim_end_matches("kB")
        .trim()
        .parse()
        .with_context(|| format!("reading {name}"))
}

/// Returns a path as one word of a command line.
pub(crate) fn quote_path(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_file_is_read_by_name() {
        let status = "Name:\tx\nVmHWM:\t    9000 kB\nVmRSS:\t    8192 kB\n";
        assert_eq!(status_field(status, "VmRSS:").unwrap(), 8_192);
        assert!(status_field(status, "VmSwap:").is_err());
    }

    #[test]
    fn a_path_with_a_blank_or_a_quote_stays_one_word() {
        assert_eq!(quote_path(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
