//! amux around ACP (§9): a WebSocket that is bound to a session by name, with amux's own frames
//! besides ACP's.
//!
//! [`connect`] wraps a connection. On the way in, `AmuxMethods` handles amux's requests and the ACP
//! methods to which the binding matters, and passes all others on. On the way out, the binding
//! extends the view of its session by amux's frames.

mod binding;
mod connection;
mod frames;
mod history;
mod note;
mod query;
mod requests;
mod rooms;

pub(super) use connection::connect;

pub(super) use query::{Query, Refused, not_for_agents};
pub(crate) use rooms::Rooms;

/// The methods of amux begin with this.
pub(super) const METHOD_PREFIX: &str = "amux/";
