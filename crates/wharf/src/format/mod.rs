//! Formats output: tables and colours for a person on a terminal, plain text for a program.

pub(crate) mod table;
pub(crate) mod times;

use std::io::IsTerminal;

use wharf_render::style::Screen;

use crate::global::ColourWhen;

/// The widest lines that are printed, even if the terminal is wider.
const MAX_WIDTH_COLUMNS: usize = 400;
/// The width of a terminal that does not tell its width.
const DEFAULT_WIDTH_COLUMNS: usize = 80;
/// The height of a terminal that does not tell its height.
const DEFAULT_HEIGHT_LINES: usize = 24;

/// Returns the properties of stdout.
pub(crate) fn stdout_screen(when: ColourWhen) -> Screen {
    let terminal = std::io::stdout().is_terminal();
    Screen {
        terminal,
        colour: wants_colour(when, terminal),
        width: terminal_size().0,
    }
}

/// Returns true if text has colours; `terminal` tells whether it goes to a terminal.
pub(crate) fn wants_colour(when: ColourWhen, terminal: bool) -> bool {
    let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    match when {
        ColourWhen::Always => true,
        ColourWhen::Never => false,
        ColourWhen::Auto => terminal && !forbidden && !dumb,
    }
}

/// Returns the width and height of the terminal in characters, as they are now.
pub(crate) fn terminal_size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok();
    let told = |number: Option<u16>| number.map(usize::from).filter(|number| *number > 0);
    let width = told(size.map(|size| size.ws_col))
        .unwrap_or(DEFAULT_WIDTH_COLUMNS)
        .min(MAX_WIDTH_COLUMNS);
    (width, told(size.map(|size| size.ws_row)).unwrap_or(DEFAULT_HEIGHT_LINES))
}
