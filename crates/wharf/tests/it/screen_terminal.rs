//! A terminal with a screen for tests of the full-screen client: the client runs on a
//! pseudo-terminal, and an emulator reads what it writes.

use std::io::{Read, Write};
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use wharf_testkit::WAIT_LIMIT;
use wharf_testkit::host::TestHost;
use wharf_testkit::processes::{list_descendants, wait_exit};

use crate::cli::command_for_host;
use crate::program::{ChildGuard, shell_command, terminal_command};

/// A `wharf` command on a terminal of a given size. It ends when this is dropped.
pub(crate) struct ScreenTerminal {
    child: ChildGuard,
    keys: Option<ChildStdin>,
    pieces: Receiver<Vec<u8>>,
    emulator: vt100::Parser,
}

impl ScreenTerminal {
    /// Runs `wharf` with these arguments for this host, in the host's directory.
    pub(crate) fn run_wharf(host: &TestHost, size: (u16, u16), arguments: &[&str]) -> Result<Self> {
        Self::run_line(host, size, arguments, |wharf| format!("exec {wharf}"))
    }

    /// Runs `wharf` such that it may start a host.
    pub(crate) fn run_starting_wharf(
        host: &TestHost,
        size: (u16, u16),
        arguments: &[&str],
    ) -> Result<Self> {
        Self::run_line(host, size, arguments, |wharf| {
            format!("exec {}", wharf.replace("'--no-start'", ""))
        })
    }

    /// Runs a line of a shell that `to_line` makes of the command `wharf`.
    pub(crate) fn run_line(
        host: &TestHost,
        (rows, columns): (u16, u16),
        arguments: &[&str],
        to_line: impl Fn(&str) -> String,
    ) -> Result<Self> {
        let plain = command_for_host(host, arguments);
        let words = std::iter::once(plain.get_program()).chain(plain.get_args());
        let quoted: Vec<String> =
            words.map(|word| format!("'{}'", word.to_string_lossy())).collect();
        let line = format!("stty rows {rows} cols {columns}; {}", to_line(&quoted.join(" ")));
        let mut command = terminal_command(&line);
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
            .current_dir(host.directory())
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .env_remove("TMUX")
            .env("EDITOR", "true")
            .env("PAGER", "true");
        // A host that the client starts takes a free port.
        command.env("WHARF_LISTEN", "127.0.0.1:0");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = ChildGuard(command.spawn()?);
        let keys = child.0.stdin.take();
        let mut output = child.0.stdout.take().context("no stdout")?;
        let (sender, pieces) = sync_channel(1_000);
        std::thread::spawn(move || {
            let mut block = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut block) {
                if sender.send(block[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            child,
            keys,
            pieces,
            emulator: vt100::Parser::new(rows, columns, 0),
        })
    }

    /// Types keys as a terminal sends them: Enter is `\r`, Ctrl-D is `\x04`.
    pub(crate) fn press(&mut self, keys: &str) -> Result<()> {
        let input = self.keys.as_mut().context("the terminal is closed")?;
        input.write_all(keys.as_bytes())?;
        Ok(input.flush()?)
    }

    /// Waits until the screen fits, and returns its text.
    pub(crate) fn wait_for(&mut self, what: &str, fits: impl Fn(&str) -> bool) -> Result<String> {
        let give_up_at = Instant::now() + WAIT_LIMIT;
        loop {
            let text = self.text();
            if fits(&text) {
                return Ok(text);
            }
            match self.pieces.recv_timeout(give_up_at.saturating_duration_since(Instant::now())) {
                Ok(piece) => self.emulator.process(&piece),
                Err(_) => bail!("{what} does not come; the screen:\n{text}"),
            }
        }
    }

    /// Waits until the text is on the screen.
    pub(crate) fn wait_for_text(&mut self, text: &str) -> Result<String> {
        self.wait_for(&format!("{text:?}"), |screen| screen.contains(text))
    }

    /// Presses the keys again and again until the screen fits: an ask ignores keys for a moment
    /// after it has appeared.
    pub(crate) fn press_until(
        &mut self,
        keys: &str,
        what: &str,
        fits: impl Fn(&str) -> bool,
    ) -> Result<()> {
        const PRESS_INTERVAL: Duration = Duration::from_millis(100);
        let give_up_at = Instant::now() + WAIT_LIMIT;
        while !fits(&self.text()) {
            ensure!(
                Instant::now() < give_up_at,
                "{what} does not come; the screen:\n{}",
                self.text()
            );
            self.press(keys)?;
            let press_at = Instant::now() + PRESS_INTERVAL;
            while let Ok(piece) =
                self.pieces.recv_timeout(press_at.saturating_duration_since(Instant::now()))
            {
                self.emulator.process(&piece);
            }
        }
        Ok(())
    }

    /// Returns the pid of the client.
    pub(crate) fn client_pid(&self) -> Result<u32> {
        list_descendants(self.child.0.id())
            .last()
            .copied()
            .context("the client does not run")
    }

    /// Gives the terminal another size.
    pub(crate) fn resize(&mut self, (rows, columns): (u16, u16)) -> Result<()> {
        let terminal = std::fs::read_link(format!("/proc/{}/fd/0", self.client_pid()?))?;
        let line = format!("stty rows {rows} cols {columns} < {}", terminal.display());
        self.emulator.screen_mut().set_size(rows, columns);
        ensure!(shell_command(&line).status()?.success(), "{line}");
        Ok(())
    }

    /// Returns the text of the screen.
    pub(crate) fn text(&self) -> String {
        self.emulator.screen().contents()
    }

    /// Returns true while the client's own screen is shown.
    pub(crate) fn is_alternate_screen(&self) -> bool {
        self.emulator.screen().alternate_screen()
    }

    /// Waits until the command has ended. Returns its exit code and the text of the screen that it
    /// left.
    pub(crate) fn finish(&mut self) -> Result<(Option<i32>, String)> {
        let status = wait_exit(&mut self.child.0, WAIT_LIMIT)?;
        let status = status.with_context(|| format!("it goes on:\n{}", self.text()))?;
        while let Ok(piece) = self.pieces.recv_timeout(WAIT_LIMIT) {
            self.emulator.process(&piece);
        }
        Ok((status.code(), self.text()))
    }
}
