//! Agent processes: started under a shim, greeted, given a session, and ended with everything they started.

mod adopted;
pub mod badge;
mod exit;
mod files;
pub mod introduction;
mod launch;
mod opening;
mod outbox;
pub(crate) mod records;
pub mod shim;
mod stderr;
pub mod sweep;

pub use adopted::adopt;
pub(crate) use badge::{Badges, Wearer};
pub(crate) use exit::{AgentExit, AgentProcess};
pub use files::raise_open_files;
pub(crate) use introduction::Greeted;
pub(crate) use launch::Launch;
pub use launch::{SplitError, split_command};
pub(crate) use opening::{Opened, Opening, open};
pub(crate) use outbox::Outbox;
pub(crate) use stderr::StderrTail;
