//! The reader for JSON of other programs: frames of agents and clients.
//!
//! This is a separate crate because it is the only place that may parse a frame: `clippy.toml`
//! forbids `serde_json::from_*` everywhere else, and every other crate, the core included, may
//! depend on this one. It does not know ACP. JSON-RPC is in [`rpc`], the one place that writes
//! frames.
//!
//! Legal JSON is never treated as absent. Real frames hold numbers beyond `f64` (`1e400`), lone
//! surrogate escapes (`"\ud83d"`) and nesting of any depth, and `serde_json` refuses the whole
//! value for any of them. Here:
//! - a [`Json`] is a borrowed view of text that was checked once to be JSON, without recursion;
//!   only the members that a caller asks for are read;
//! - a lone surrogate reads as U+FFFD, and [`CutPair`] joins a pair that was cut in two;
//! - keys follow the same rules as values;
//! - a member that is `null` is absent;
//! - a member that a caller asks for and that stands there twice, or is of another type, is a
//!   [`ReadError`], never a default;
//! - [`Json::to_value`] never fails: see there for how numbers and nesting beyond its limits are
//!   spelled;
//! - [`set`], [`remove`], [`rename`] and [`wrap`] change the members of one name and no other byte.
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests read what they wrote themselves")
)]

mod deserialize;
mod edit;
mod error;
mod exact;
mod json;
mod number;
mod open_value;
mod own;
pub mod rpc;
mod text;
mod value;
mod walk;

pub use deserialize::{read, read_bytes};
pub use edit::{remove, rename, set, wrap};
pub use error::ReadError;
pub use exact::check_exact;
pub use json::{Json, Kind};
pub use open_value::{NestedMembers, OpenValue};
pub use own::read_own;
pub use text::{CutPair, TextChunk};
pub use value::MAX_VALUE_DEPTH;

/// Removes the byte order mark that some programs put before their first line. JSON text never
/// begins with one.
pub fn strip_bom(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}
