//! Styles by meaning: of the full screen, of printed text, and of lines of output.

mod output_line;
mod printed;
mod theme;

pub use output_line::paint_line;
pub use printed::{Screen, TextStyle};
pub use theme::{ColourUse, Theme};
