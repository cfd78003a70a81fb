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
        }
    }
}

impl Screen {
    pub(crate) fn of_stdout(when: ColourWhen) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let colour = match when {
            ColourWhen::Always => true,
            ColourWhen::Never => false,
            ColourWhen::Auto => terminal && !forbidden && !dumb,
        };
        Self { terminal, colour, width: terminal_width() }
    }

    /// Returns the text in the colour of the style, if colours are used.
    pub(crate) fn paint(self, style: TextStyle, text: &str) -> String {
        match style.ansi_code() {
            Some(code) if self.colour && !text.is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            Some(_) | None => text.to_owned(),
        }
    }
}

fn terminal_width() -> usize {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).map(|size| usize::from(size.ws_col));
    size.ok().filter(|width| *width > 0).unwrap_or(DEFAULT_WIDTH_COLUMNS).min(MAX_WIDTH_COLUMNS)
}

#[cfg(test)]
impl Screen {
    pub(crate) const PIPE: Self = Self { terminal: false, colour: false, width: 80 };
    pub(crate) const TERMINAL: Self = Self { terminal: true, colour: false, width: 80 };
}
