//! A session's transcript for a terminal: rows as lines, Markdown with styles, and rows that still
//! grow.
//!
//! Everything here is pure: it turns rows into text and prints nothing.

mod ask_lines;
mod diff_lines;
mod live;
mod markdown;
mod row_lines;
mod turn_end_lines;
mod word_wrap;

pub(crate) use ask_lines::{ask_choices, ask_subject};
pub(crate) use live::LiveText;
#[cfg(test)]
pub(crate) use row_lines::test_row;
pub(crate) use row_lines::{RowLook, render_row};
pub(crate) use turn_end_lines::describe_turn_numbers;
