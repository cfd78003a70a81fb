//! The full-screen client on a pseudo-terminal: keys go in, and the bytes that come out are
//! searched, not shown.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::host::{Host, Memory, process_cpu, process_memory, quote_path};
use crate::process::command;

const SCREEN_ROWS: u16 = 40;
const SCREEN_COLUMNS: u16 = 120;
/// The time that anything may take to appear on the screen.
const SHOW_LIMIT: Duration = Duration::from_secs(30);
/// Every frame begins with this sequence.
const FRAME_START: &[u8] = b"\x1b[?2026h";
/// Bytes of earlier output that are kept, so that a text is found that came in two pieces.
const KEPT_BYTES: usize = 256;

/// A running client. It ends when this is dropped.
pub(super) struct ScreenClient {
    script: Child,
    client: u32,
    keys: ChildStdin,
    pieces: Receiver<(Instant, Vec<u8>)>,
    /// The newest output, from the last key on.
    seen: Vec<u8>,
    frames: u64,
}

impl ScreenClient {
    /// Starts `wharf` with these arguments for a host.
    pub(super) fn start(wharf: &Path, host: &Host, arguments: &str) -> Result<Self> {
        let (wharf, state) = (quote_path(wharf), quote_path(&host.state_dir()));
        let line = format!(
            "stty rows {SCREEN_ROWS} cols {SCREEN_COLUMNS}; exec {wharf} --state-dir {state} --no-start {arguments}"
        );
        let mut script = command("script")
            .args(["-qefc", &line, "/dev/null"])
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("starting script, which makes the pseudo-terminal (Debian: bsdutils)")?;
        let keys = script.stdin.take().context("taking the terminal's input")?;
        let mut output = script.stdout.take().context("taking the terminal's output")?;
        let (sender, pieces) = sync_channel(10_000);
        thread::spawn(move || {
            let mut block = vec![0; 64 * 1024];
            while let Ok(count @ 1..) = output.read(&mut block) {
                if sender.send((Instant::now(), block[..count].to_vec())).is_err() {
                    break;
                }
            }
        });
        let mut client = Self { script, client: 0, keys, pieces, seen: Vec::new(), frames: 0 };
        client.wait_for("Sessions")?;
        let script = client.script.id();
        let children = fs::read_to_string(format!("/proc/{script}/task/{script}/children"))
            .context("finding the client")?;
        client.client =
            children.split_whitespace().next().context("the client is gone")?.parse()?;
        Ok(client)
    }

    /// Presses keys. Earlier output does not count any more.
    pub(super) fn press(&mut self, keys: &str) -> Result<Instant> {
        while let Ok((_, piece)) = self.pieces.try_recv() {
            self.take_piece(&piece);
        }
        self.seen.clear();
        let at = Instant::now();
        self.keys.write_all(keys.as_bytes()).context("pressing a key")?;
        self.keys.flush().context("pressing a key")?;
        Ok(at)
    }

    /// Waits until a text has been drawn in one piece since the last key, and returns the instant
    /// at which its bytes came.
    pub(super) fn wait_for(&mut self, text: &str) -> Result<Instant> {
        let give_up_at = Instant::now() + SHOW_LIMIT;
        let mut came_at = Instant::now();
        while memchr::memmem::find(&self.seen, text.as_bytes()).is_none() {
            self.forget_old_bytes(text.len());
            match self.pieces.recv_timeout(give_up_at.saturating_duration_since(Instant::now())) {
                Ok((at, piece)) => {
                    came_at = at;
                    self.take_piece(&piece);
                }
                Err(_) => bail!(
                    "{text:?} is not drawn; the last bytes are {:?}",
                    String::from_utf8_lossy(&self.seen)
                ),
            }
        }
        Ok(came_at)
    }

    /// Reads the output for so long, and returns how many frames were drawn.
    pub(super) fn count_frames(&mut self, time: Duration) -> Result<u64> {
        let (before, until) = (self.frames, Instant::now() + time);
        loop {
            match self.pieces.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok((_, piece)) => {
                    self.take_piece(&piece);
                    self.forget_old_bytes(0);
                }
                Err(RecvTimeoutError::Timeout) => return Ok(self.frames - before),
                Err(RecvTimeoutError::Disconnected) => bail!("the client has ended"),
            }
        }
    }

    fn take_piece(&mut self, piece: &[u8]) {
        // A mark that is cut in two between pieces is counted with the second one.
        let from = self.seen.len().saturating_sub(FRAME_START.len() - 1);
        self.seen.extend_from_slice(piece);
        self.frames += memchr::memmem::find_iter(&self.seen[from..], FRAME_START).count() as u64;
    }

    fn forget_old_bytes(&mut self, text_bytes: usize) {
        let kept = KEPT_BYTES.max(text_bytes);
        if self.seen.len() > 2 * kept {
            self.seen.drain(..self.seen.len() - kept);
        }
    }

    pub(super) fn cpu(&self) -> Result<Duration> {
        process_cpu(self.client)
    }

    pub(super) fn memory(&self) -> Result<Memory> {
        process_memory(self.client)
    }

    /// Returns how often a thread of the client has gone to sleep so far: it was awake as often.
    pub(super) fn count_sleeps(&self) -> Result<u64> {
        let mut sleeps = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.client))
            .context("listing the client's threads")?
        {
            let status = fs::read_to_string(task?.path().join("status"))
                .context("reading a thread's status")?;
            let line =
                status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            sleeps += line.context("no count of switches")?.trim().parse::<u64>()?;
        }
        Ok(sleeps)
    }
}

impl Drop for ScreenClient {
    fn drop(&mut self) {
        // The end of the terminal ends the client.
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}
