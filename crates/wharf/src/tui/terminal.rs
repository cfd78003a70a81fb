//! The terminal: it is set up for a full-screen client and restored in every case, also after a
//! panic.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};

use anyhow::Context;
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{QueueSelector, tcflush};
use wharf_tui::ScreenFrame;

use super::screen_writer::ScreenWriter;

/// Switches to the alternate screen, with bracketed paste, focus reports, the wheel as arrow keys
/// (after saving its setting), kitty's unambiguous keys and a hidden cursor. A terminal ignores
/// sequences that it does not know; the client asks it nothing, so that no reply can be missing.
const ENTER_SEQUENCE: &str =
    "\x1b[?1049h\x1b[?2004h\x1b[?1004h\x1b[?1007s\x1b[?1007h\x1b[>1u\x1b[?25l\x1b[2J";
/// Undoes all of it, in the reverse order.
const LEAVE_SEQUENCE: &str = "\x1b[<u\x1b[?1007r\x1b[?1004l\x1b[?2004l\x1b[0m\x1b[?25h\x1b[?1049l";
/// Ends a sequence and a synchronised update that were cut off.
const CANCEL_SEQUENCE: &str = "\x18\x1b[?2026l";

/// The terminal while the client has it. It is restored when this is dropped.
#[derive(Debug)]
pub(super) struct TerminalScreen {
    hold: TerminalHold,
}

impl TerminalScreen {
    pub(super) fn enter() -> anyhow::Result<Self> {
        let writer =
            ScreenWriter::start(write_to_terminal).context("starting the thread of the screen")?;
        let hold = TerminalHold { writer, is_entered: Arc::default() };
        restore_at_panic(hold.clone());
        let mut screen = Self { hold };
        screen.resume()?;
        Ok(screen)
    }

    /// Takes the terminal, also again after another program had it.
    pub(super) fn resume(&mut self) -> anyhow::Result<()> {
        enable_raw_mode().context("setting the terminal up")?;
        self.hold.is_entered.store(true, Ordering::SeqCst);
        self.hold.writer.forget_cells();
        self.hold
            .writer
            .send_sequence(ENTER_SEQUENCE)
            .context("setting the terminal up")
    }

    /// Gives the terminal back, for another program or for good.
    pub(super) fn release(&mut self) {
        self.hold.restore();
    }

    /// Has the cells drawn that have changed.
    pub(super) fn draw(&mut self, frame: ScreenFrame) -> std::io::Result<()> {
        self.hold.writer.show(frame)
    }

    /// Has the next frame drawn whole.
    pub(super) fn forget_cells(&mut self) {
        self.hold.writer.forget_cells();
    }

    /// Has a control sequence of the client's own written.
    pub(super) fn send_sequence(&mut self, sequence: &str) -> std::io::Result<()> {
        self.hold.writer.send_sequence(sequence)
    }
}

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        self.hold.restore();
    }
}

/// The terminal as long as the client has it, for the client and for the report of a panic.
#[derive(Clone, Debug)]
struct TerminalHold {
    writer: ScreenWriter,
    /// The terminal is set up.
    is_entered: Arc<AtomicBool>,
}

impl TerminalHold {
    fn restore(&self) {
        if !self.is_entered.swap(false, Ordering::SeqCst) {
            return;
        }
        if self.writer.stop_writing() {
            let _ = write_to_terminal(LEAVE_SEQUENCE.as_bytes());
        } else {
            // The terminal takes no bytes: those that wait for it make room for the last ones.
            let _ = tcflush(std::io::stdout(), QueueSelector::OFlush);
            self.writer.stop_writing();
            let _ = write_to_terminal(format!("{CANCEL_SEQUENCE}{LEAVE_SEQUENCE}").as_bytes());
        }
        let _ = disable_raw_mode();
    }
}

/// Writes past the buffer of the standard library, whose lock a thread that waits for the terminal
/// would hold.
fn write_to_terminal(bytes: &[u8]) -> std::io::Result<()> {
    let terminal = std::io::stdout();
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::write(&terminal, rest) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                poll(&mut [PollFd::new(&terminal, PollFlags::OUT)], None)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Restores the terminal before a panic is reported, so that the report can be read.
fn restore_at_panic(hold: TerminalHold) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            hold.restore();
            report(panic);
        }));
    });
}
