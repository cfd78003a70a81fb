//! The contract of REST, server-sent events and MCP: the types of every request, answer, event and
//! error.
//!
//! It is *not* where anything is done: the server fills these types in and serialises them, clients
//! deserialise them, and the OpenAPI document and the schemas of MCP tools are made from them. The
//! list of invisible characters, which all front-ends share, is here too.
//!
//! Invariant: it depends on serde and the schema derives only. A client of an older version reads
//! the answers of a newer host: members that it does not know are ignored, and words that it does
//! not know are kept as `Other`.
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests read what they wrote themselves")
)]

#[macro_use]
mod word;

mod adapter;
mod agent_log;
mod ask;
mod attention;
mod changed_file;
mod client;
mod content;
mod error_code;
mod event_log;
mod file;
mod host;
mod host_settings;
mod invisible;
mod login;
pub mod mcp;
mod notify;
mod place;
mod problem;
mod prompt;
mod push;
mod queue;
mod row;
mod row_page;
mod row_tool;
mod search;
mod session;
mod settings;
mod spawn;
mod stream;
mod turn;
mod upload;
mod usage;
mod workspace;

pub use adapter::*;
pub use agent_log::*;
pub use ask::*;
pub use attention::*;
pub use changed_file::*;
pub use client::*;
pub use content::*;
pub use error_code::*;
pub use event_log::*;
pub use file::*;
pub use host::*;
pub use host_settings::*;
pub use invisible::*;
pub use login::*;
pub use notify::*;
pub use place::*;
pub use problem::*;
pub use prompt::*;
pub use push::*;
pub use queue::*;
pub use row::*;
pub use row_page::*;
pub use row_tool::*;
pub use search::*;
pub use session::*;
pub use settings::*;
pub use spawn::*;
pub use stream::*;
pub use turn::*;
pub use upload::*;
pub use usage::*;
pub use workspace::*;
