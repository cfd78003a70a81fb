//! Styles of printed text, as escape sequences.

/// The properties of the place that text is printed to.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// True for tables with headings and relative times, false for plain columns.
    pub terminal: bool,
    pub colour: bool,
    pub width: usize,
}

/// The style of a text. There are few, so that colour has a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextStyle {
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
    /// A pipe or a file.
    pub const PIPE: Self = Self { terminal: false, colour: false, width: 80 };
    /// A terminal without colours.
    pub const TERMINAL: Self = Self { terminal: true, colour: false, width: 80 };

    /// Returns the text in the colour of the style, if colours are used.
    pub fn paint(self, style: TextStyle, text: &str) -> String {
        match style.ansi_code() {
            Some(code) if self.colour && !text.is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            Some(_) | None => text.to_owned(),
        }
    }
}
