//! Text for a terminal: without control characters, with known widths, wrapped, and times in words.

mod amounts;
mod printable;
mod times;
mod wrap;

pub use amounts::{format_cost, format_count};
pub use printable::{
    char_columns, display_width, format_size, name_invisible, quote, shorten_path, to_printable,
    to_printable_line, to_printable_lines, to_printable_lines_after, truncate_to_columns,
};
pub use times::{
    TimeZone, format_age, format_ago, format_duration, format_millis_ago, parse_millis,
    time_to_next_age,
};
pub use wrap::{expand_tabs, wrap_exactly, wrap_plain, wrap_spans};
