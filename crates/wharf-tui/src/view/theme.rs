//! Styles by meaning, in the terminal's own sixteen colours, so that they fit light and dark ones.

use ratatui_core::style::{Color, Modifier, Style};

/// Whether colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColourUse {
    /// The terminal's sixteen colours.
    #[default]
    Ansi,
    /// Bold, dim and reverse only.
    None,
}

/// The styles. State is never told by colour alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Theme {
    pub(crate) plain: Style,
    pub(crate) strong: Style,
    pub(crate) faint: Style,
    pub(crate) good: Style,
    pub(crate) busy: Style,
    pub(crate) wants: Style,
    pub(crate) bad: Style,
    pub(crate) code: Style,
    pub(crate) selected: Style,
}

impl Theme {
    pub(crate) fn new(colours: ColourUse) -> Self {
        let colour = |colour: Color| match colours {
            ColourUse::Ansi => Style::new().fg(colour),
            ColourUse::None => Style::new(),
        };
        Self {
            plain: Style::new(),
            strong: Style::new().add_modifier(Modifier::BOLD),
            faint: Style::new().add_modifier(Modifier::DIM),
            good: colour(Color::Green),
            busy: colour(Color::Cyan),
            wants: colour(Color::Yellow).add_modifier(Modifier::BOLD),
            bad: colour(Color::Red),
            code: colour(Color::Cyan),
            selected: Style::new().add_modifier(Modifier::REVERSED),
        }
    }
}
