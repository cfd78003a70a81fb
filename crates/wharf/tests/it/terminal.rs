//! A terminal for tests: a command runs in it, the test types and reads.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use wharf_testkit::WAIT_LIMIT;
use wharf_testkit::host::TestHost;
use wharf_testkit::processes::wait_exit;

use crate::cli::command_for_host;
use crate::program::{ChildGuard, terminal_command};

/// A `wharf` command in a terminal of 80 columns. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct TestTerminal {
    child: ChildGuard,
    keys: Option<ChildStdin>,
    pieces: Receiver<String>,
    /// Everything that was shown, and how much of it the test has read.
    shown: String,
    read: usize,
}

impl TestTerminal {
    /// Runs `wharf` with these arguments for this host.
    pub(crate) fn run_wharf(host: &TestHost, arguments: &[&str]) -> Result<Self> {
        Self::run_program(host, &crate::wharf_binary(), arguments)
    }

    /// Runs this program, which is a copy of `wharf`, with these arguments for this host.
    pub(crate) fn run_program(host: &TestHost, program: &Path, arguments: &[&str]) -> Result<Self> {
        let plain = command_for_host(host, arguments);
        let words = std::iter::once(program.as_os_str()).chain(plain.get_args());
        let quoted: Vec<String> =
            words.map(|word| format!("'{}'", word.to_string_lossy())).collect();
        let mut command = terminal_command(&format!("exec {}", quoted.join(" ")));
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
            .current_dir(host.directory())
            .env("TERM", "xterm")
            .env_remove("NO_COLOR");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = ChildGuard(command.spawn()?);
        let keys = child.0.stdin.take();
        let mut output = child.0.stdout.take().context("no stdout")?;
        let (sender, pieces) = sync_channel(1_000);
        std::thread::spawn(move || {
            let mut held = Vec::new();
            let mut block = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut block) {
                held.extend_from_slice(&block[..count]);
                let whole =
                    std::str::from_utf8(&held).map_or_else(|error| error.valid_up_to(), str::len);
                let rest = held.split_off(whole);
                let piece =
                    String::from_utf8_lossy(&std::mem::replace(&mut held, rest)).into_owned();
                if sender.send(piece).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, keys, pieces, shown: String::new(), read: 0 })
    }

    /// Types keys; a line ends with `\r`, Ctrl-C is `\x03`.
    pub(crate) fn press(&mut self, keys: &str) -> Result<()> {
        let input = self.keys.as_mut().context("the terminal is closed")?;
        input.write_all(keys.as_bytes())?;
        Ok(input.flush()?)
    }

    /// Waits until the text is shown and returns what was shown before it.
    pub(crate) fn expect(&mut self, text: &str) -> Result<String> {
        let give_up_at = Instant::now() + WAIT_LIMIT;
        loop {
            if let Some(at) = self.shown[self.read..].find(text) {
                let before = self.shown[self.read..self.read + at].to_owned();
                self.read += at + text.len();
                return Ok(before);
            }
            match self.pieces.recv_timeout(give_up_at.saturating_duration_since(Instant::now())) {
                Ok(piece) => self.shown.push_str(&piece),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    bail!(
                        "{text:?} is not shown; after what was read: {:?}",
                        &self.shown[self.read..]
                    )
                }
            }
        }
    }

    /// Waits until the command has ended. Returns its exit code and everything that was shown.
    pub(crate) fn finish(mut self) -> Result<(Option<i32>, String)> {
        let status = wait_exit(&mut self.child.0, WAIT_LIMIT)?;
        let status = status.with_context(|| format!("it goes on: {:?}", self.shown))?;
        while let Ok(piece) = self.pieces.recv_timeout(WAIT_LIMIT) {
            self.shown.push_str(&piece);
        }
        Ok((status.code(), std::mem::take(&mut self.shown)))
    }

    /// Returns everything that was shown so far.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }
}
