//! The official Rust SDK, unmodified, on either side of the real host: as a client over each
//! transport that it has, with `wharf acp` over stdio, and as the agent behind it.

#![expect(clippy::wildcard_enum_match_arm, reason = "the SDK's enums are non-exhaustive")]

mod agent;
mod editor;
mod http;
mod scenario;
mod stdio;
mod ws;
