//! ACP frames as bytes: finds their kind and ids, and changes a part without touching another byte.
//! `wharf_json::rpc` makes frames.
//!
//! This is a separate crate because crates on both sides of the host open frames: the session's
//! task, the surfaces and the bridge, and the fold of rows, which must not depend on the host. It
//! has no runtime and no IO.

pub mod content;
mod event_id;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod make;
mod null_members;
mod scan;
mod splice;
#[cfg(test)]
mod tests;
mod update;
mod wharf_meta;

pub use event_id::{IdHolder, PlacedEventId, find_event_id, place_event_id};
pub use make::{prompt_request, user_message_chunk};
pub use null_members::without_null_members;
pub use scan::{
    Envelope, FrameKind, ScanError, ScannedText, Span, peek, read_line, scan, to_value,
};
pub use splice::{first_member, one_line, splice, with_id, with_session};
pub use update::{AgentUpdate, ChunkMembers, ChunkUpdate, Payload, ToolUpdate};
pub use wharf_meta::{rename_wharf_meta, wrap_odd_meta};
