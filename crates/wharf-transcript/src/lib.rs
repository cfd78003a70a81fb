//! The transcript: a session's log as rows that people read (rules 13.1 to 13.3).
//!
//! [`Fold`] takes the events of a log one by one and keeps the rows in a [`RowStore`]. It does no
//! IO, reads no clock and knows no connection: the same events give the same rows, wherever reading
//! began and however the rows are stored.
//!
//! Invariants: a row never moves and never disappears; its revision is the seq of the last event
//! that changed it; no row has more than [`MAX_ROW_BYTES`] as JSON; text is redacted before it
//! reaches a row, unless secrets are asked for.
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests read what they wrote themselves")
)]

mod asks;
mod content;
mod diff;
mod export;
mod file_changes;
mod fold;
mod limits;
pub mod lines;
mod loss_digest;
mod memory_rows;
mod messages;
mod notices;
mod paths;
mod plain_text;
mod plans;
mod prompts;
pub mod redact;
mod row_size;
mod row_store;
pub mod search;
mod text_filter;
mod text_rules;
mod text_stream;
mod text_tail;
mod timestamp;
mod tool_content;
mod tool_counts;
mod tool_output;
mod tool_streams;
mod tool_summary;
mod tools;
mod turn_end;
mod turn_files;
mod turns;
mod usage;
mod value_filter;

pub use content::sniff_image_type;
pub use export::{ExportFormat, ExportHead};
pub use file_changes::{FileChangeKind, RowFileChange, list_file_changes, may_have_more_changes};
pub use fold::{Fold, RowChange};
pub use limits::MAX_ROW_BYTES;
pub use loss_digest::LossDigest;
pub use memory_rows::MemoryRows;
pub use plain_text::{join_lines, strip_control_characters};
pub use row_store::{Blob, RowKey, RowNumber, RowStore};
pub use text_rules::{Secrets, show_in_one_line, show_unfinished_end};
pub use timestamp::{format_timestamp, format_timestamp_in_seconds, parse_timestamp};
pub use tool_content::read_command;
pub use wharf_api::FOLD_NUMBER;

#[cfg(test)]
pub(crate) mod tests;
