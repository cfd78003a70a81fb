//! Formats output: tables and colours for a person on a terminal, plain text for a program.

pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod times;

use std::io::IsTerminal;

use crate::global::ColourWhen;

/// The widest lines that are printed, even if the terminal is wider.
const MAX_WIDTH_COLUMNS: usize = 400;
/// The width of a terminal that does not tell its width.
const DEFAULT_WIDTH_COLUMNS: usize = 80;
/// The height of a terminal that does not tell its height.
const DEFAULT_HEIGHT_LINES: usize = 24;

/// The properties of stdout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    /// True for tables with headings and relative times, false for plain columns.
    pub(crate) terminal: bool,
    pub(crate) colour: bool,
    pub(crate) width: usize,
}

/// The style of a text. There are few, so that colour has a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextStyle {
    Plain,
    Strong,
    Faint,
    Good,
    Busy,
    Wants,
    Bad,
    Italic,
    Code,
}

impl TextStyle {
    const fn ansi_code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Strong => Some("1"),
            Self::Faint => Some("2"),
            Self::Good => Some("32"),
            Self::Busy => Some("36"),
            Self::Wants => Some("1;33"),
            Self::Bad => Some("31"),
            Self::Italic => Some("3"),
            Self::Code => Some("36"),
        }
    }
}

impl Screen {
    pub(crate) fn of_stdout(when: ColourWhen) -> Self {
        let terminal = std::io::stdout().is_terminal();
        Self {
            terminal,
            colour: wants_colour(when, terminal),
            width: terminal_width(),
        }
    }

    /// Returns the text in the colour of the style, if colours are used.
    pub(crate) fn paint(self, style: TextStyle, text: &str) -> String {
        match style.ansi_code() {
            Some(code) if self.colour && !text.is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            Some(_) | None => text.to_owned(),
        }
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

fn terminal_width() -> usize {
    terminal_size().0
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

impl Screen {
    pub(crate) const PIPE: Self = Self { terminal: false, colour: false, width: 80 };
    #[cfg(test)]
    pub(crate) const TERMINAL: Self = Self { terminal: true, colour: false, width: 80 };
}
