//! How things look: for a person on a terminal, plain for a program.

pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod times;

use std::io::IsTerminal;

use crate::global::ColourWhen;

/// Lines longer than this are nobody's terminal.
const MAX_WIDTH_COLUMNS: usize = 400;
/// Where a terminal does not say how wide it is.
const DEFAULT_WIDTH_COLUMNS: usize = 80;

/// Where stdout goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    /// Tables with headings and relative times; else plain columns.
    pub(crate) terminal: bool,
    pub(crate) colour: bool,
    pub(crate) width: usize,
}

/// What a piece of text is; few of them, so that colour says something.
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

    /// With colour where there is to be any.
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
