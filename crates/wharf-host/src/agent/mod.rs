//! Agent processes: started under a shim, greeted, given a session, and ended with everything they started.

mod adopted;
pub mod agent_token;
mod exit;
mod files;
pub mod initialize;
mod launch;
mod open_session;
mod outbox;
pub(crate) mod records;
pub mod shim;
mod stderr;
pub mod sweep;

pub use adopted::adopt;
pub(crate) use agent_token::{Badges, TokenIssuer};
pub(crate) use exit::{AgentExit, AgentProcess};
pub use files::raise_open_files;
pub(crate) use initialize::InitializedAgent;
pub(crate) use launch::Launch;
pub use launch::{SplitError, split_command};
pub(crate) use open_session::{Opened, Opening, open};
pub(crate) use outbox::Outbox;
pub(crate) use stderr::StderrTail;
