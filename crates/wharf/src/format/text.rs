//! Text from agents and hosts for a terminal. The full-screen client shows it in the same way.

pub(crate) use wharf_tui::text::{
    char_columns, display_width, format_size, shorten_path, to_printable, to_printable_line,
    to_printable_lines, to_printable_lines_after, truncate_to_columns,
};

/// Returns the text in quotes for a message, without control characters and with names for
/// invisible ones.
pub(crate) fn quote(text: &str) -> String {
    format!("\"{}\"", to_printable(text))
}
