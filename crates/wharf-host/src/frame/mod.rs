//! JSON-RPC frames as bytes: where one ends, what it is, and how to replace an id in it and nothing else.

pub mod content;
mod lines;
mod scan;
mod splice;
#[cfg(test)]
mod tests;

pub use lines::{FrameReader, Line};
pub use scan::{Envelope, FrameKind, ScanError, Span, Text, peek, peek_update, scan};
pub use splice::{one_line, splice, with_id, with_session};
