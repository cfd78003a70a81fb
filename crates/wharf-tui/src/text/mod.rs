//! Text for a terminal: without control characters, with known widths, wrapped, and times in words.

mod amounts;
mod printable;
mod times;
mod wrap;

pub(crate) use amounts::{format_cost, format_count};
pub(crate) use printable::name_invisible;
pub use printable::{
    char_columns, display_width, format_size, shorten_path, to_printable, to_printable_line,
    to_printable_lines, to_printable_lines_after, truncate_to_columns,
};
pub use times::format_duration;
pub(crate) use times::{format_age, parse_millis, time_to_next_age};
pub(crate) use wrap::{expand_tabs, wrap_exactly, wrap_plain, wrap_spans};

/// Joins a text that comes back with the text that was typed since.
pub(crate) fn join_texts(first: &str, second: &str) -> String {
    match (first.is_empty(), second.is_empty()) {
        (true, _) => second.to_owned(),
        (_, true) => first.to_owned(),
        (false, false) => format!("{first}\n{second}"),
    }
}
