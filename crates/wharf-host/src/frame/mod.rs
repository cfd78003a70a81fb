//! JSON-RPC frames as bytes: where one ends, what it is, and how to replace an id in it and nothing else.

pub mod content;
mod event_id;
mod lines;
mod make;
mod null_members;
mod scan;
mod splice;
#[cfg(test)]
mod tests;
mod wharf_meta;

pub use event_id::{IdHolder, PlacedEventId, find_event_id, place_event_id};
pub use lines::{FrameReader, Line};
pub use make::{prompt_request, user_message_chunk};
pub use null_members::without_null_members;
pub use scan::{Envelope, FrameKind, ScanError, Span, Text, peek, peek_update, scan, to_value};
pub use splice::{first_member, one_line, splice, with_id, with_session};
pub use wharf_meta::rename_wharf_meta;
