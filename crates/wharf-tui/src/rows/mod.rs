//! The rows of one session as a reader holds them. `wharf chat` and `wharf output` use them too.

mod row_set;
mod row_size;
mod row_text;

pub use row_set::{OlderRows, RowEffect, RowPlace, RowSet, text_part};
pub(crate) use row_text::{diff_text, join_parts, last_line, row_text};
