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
pub struct Theme {
    pub plain: Style,
    pub strong: Style,
    pub faint: Style,
    pub good: Style,
    pub busy: Style,
    pub wants: Style,
    pub bad: Style,
    pub code: Style,
    pub selected: Style,
}

impl Theme {
    pub fn new(colours: ColourUse) -> Self {
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
