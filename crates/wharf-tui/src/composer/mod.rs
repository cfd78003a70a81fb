//! Text that is typed: the buffer with its cursor, and its lines on the screen.

mod buffer;
mod lines;

pub(crate) use buffer::TextBuffer;
pub(crate) use lines::{lay_out_editor, move_by_line};

/// Joins a text that comes back with the text that was typed since.
pub(crate) fn join_texts(first: &str, second: &str) -> String {
    match (first.is_empty(), second.is_empty()) {
        (true, _) => second.to_owned(),
        (_, true) => first.to_owned(),
        (false, false) => format!("{first}\n{second}"),
    }
}
