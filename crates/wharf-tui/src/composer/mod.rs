//! Text that is typed: the buffer with its cursor, and its lines on the screen.

mod buffer;
mod lines;

pub(crate) use buffer::TextBuffer;
pub(crate) use lines::{lay_out_editor, move_by_line};
