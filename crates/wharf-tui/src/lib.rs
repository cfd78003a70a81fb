//! The pure core of the full-screen terminal client.
//!
//! [`update`] applies one input to the state and returns its effects; [`view`] draws the state. The
//! shell (`wharf`, `tui`) reads keys and streams, carries effects out and writes frames to the
//! terminal.
//!
//! It is *not* a place for IO: the crate reads no clock, has no randomness and starts no runtime.
//! Each input carries the time, and everything about sessions comes over the public interface of
//! the host.
//!
//! Invariants:
//! - The same state gives the same picture. The cache of laid-out rows changes only how fast the
//!   picture comes.
//! - No text of an agent, a client or a host controls the terminal: the layout makes it printable,
//!   and the canvas lets no control character through.
//! - Every key is in the table of `keymap`, and nowhere else.
//! - Keys that approve something act only in the focused ask, and an ask that arrives never takes
//!   the focus.
//! - No update waits: an update that needs the host returns a call, and its answer is a later
//!   input.
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests read what they wrote themselves")
)]

mod api_call;
mod composer;
mod effect;
mod failures;
mod input;
pub mod keymap;
mod layout;
mod model;
mod moment;
pub mod rows;
mod session_words;
mod update;
mod view;

pub use api_call::{ApiCall, ApiMethod, percent_encode};
pub use effect::{DraftKey, TuiEffect};
pub use failures::{FailureKind, login_command};
pub use input::{
    ApiFailure, CallId, CopyPlace, HostReady, ProgramEnd, ScreenSize, StreamId, StreamInput,
    TuiInput,
};
pub use model::{TuiOptions, TuiState};
pub use moment::Moment;
pub use session_words::{display_name, is_asleep};
pub use update::update;
pub use view::{ScreenFrame, view};
