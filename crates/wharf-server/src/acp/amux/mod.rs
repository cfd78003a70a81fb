//! amux clients: a WebSocket that is bound to a session by name, with amux's own frames besides ACP's (§9).
//! A connection without a [`Bound`] never comes here.

mod bound;
mod ending;
mod frames;
mod history;
mod note;
mod query;
mod requests;
mod rooms;

pub(super) use bound::{Bound, Refused, admit, not_for_agents, read_query};
pub(super) use frames::{Before, Frames};
pub(super) use history::{pending, read};
pub(crate) use rooms::Rooms;
pub(super) use rooms::Seat;
