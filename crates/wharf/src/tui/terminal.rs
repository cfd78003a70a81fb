//! The terminal: it is set up for a full-screen client and restored in every case, also after a panic.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use wharf_tui::ScreenFrame;

use super::painter::FramePainter;
use crate::output;

/// Alternate screen, bracketed paste, focus reports, the wheel as arrow keys (its setting is saved first), kitty's keys that
/// can be told apart, no cursor. A terminal ignores what it does not know; nothing is asked, so no reply can be missing.
const ENTER_SEQUENCE: &str = "\x1b[?1049h\x1b[?2004h\x1b[?1004h\x1b[?1007s\x1b[?1007h\x1b[>1u\x1b[?25l\x1b[2J";
/// Undoes all of it, in the reverse order.
const LEAVE_SEQUENCE: &str = "\x1b[<u\x1b[?1007r\x1b[?1004l\x1b[?2004l\x1b[0m\x1b[?25h\x1b[?1049l";

/// The terminal is set up.
static IS_ENTERED: AtomicBool = AtomicBool::new(false);

/// The terminal while the client has it. It is restored when this is dropped.
#[derive(Debug)]
pub(super) struct TerminalScreen {
    painter: FramePainter,
}

impl TerminalScreen {
    pub(super) fn enter() -> anyhow::Result<Self> {
        restore_at_panic();
        let mut screen = Self { painter: FramePainter::default() };
        screen.resume()?;
        Ok(screen)
    }

    /// Takes the terminal, also again after another program had it.
    pub(super) fn resume(&mut self) -> anyhow::Result<()> {
        enable_raw_mode().context("setting the terminal up")?;
        IS_ENTERED.store(true, Ordering::SeqCst);
        self.painter.forget();
        output::try_print_text(ENTER_SEQUENCE).context("setting the terminal up")
    }

    /// Gives the terminal back, for another program or for good.
    pub(super) fn release(&mut self) {
        restore_terminal();
    }

    /// Draws the cells that have changed.
    pub(super) fn draw(&mut self, frame: ScreenFrame) -> std::io::Result<()> {
        let bytes = self.painter.paint(frame);
        if bytes.is_empty() { Ok(()) } else { output::try_print_bytes(&bytes) }
    }

    /// Has the next frame drawn whole.
    pub(super) fn forget_cells(&mut self) {
        self.painter.forget();
    }

    /// Writes a control sequence of the client's own.
    pub(super) fn send_sequence(&mut self, sequence: &str) -> std::io::Result<()> {
        output::try_print_text(sequence)
    }
}

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        restore_terminal();
    }
}

fn restore_terminal() {
    if IS_ENTERED.swap(false, Ordering::SeqCst) {
        let _ = output::try_print_text(LEAVE_SEQUENCE);
        let _ = disable_raw_mode();
    }
}

/// Restores the terminal before a panic is reported, so that the report can be read.
fn restore_at_panic() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore_terminal();
            report(panic);
        }));
    });
}
