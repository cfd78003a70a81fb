//! Agent processes: started under a keeper, initialized, given a session, and ended with everything
//! that they started.

pub(crate) mod adoption;
pub(crate) mod agent_log;
mod agent_output;
mod agent_process;
pub mod agent_token;
pub(crate) mod directory_identity;
pub(crate) mod ended_agent;
pub mod initialize;
pub mod keeper;
mod keeper_report;
mod keeper_scope;
pub(crate) mod kept_files;
mod launch;
pub(crate) mod ledger;
mod left_output;
pub(crate) mod lines;
mod open_files_limit;
mod open_session;
mod orphans;
mod outbox;
pub(crate) mod process_records;
pub mod process_table;
mod record_files;
mod stderr;
pub(crate) mod turn_status;

pub(crate) use agent_output::AgentOutput;
pub(crate) use agent_process::{AgentExit, AgentProcess};
pub(crate) use agent_token::{AgentTokens, TokenIssuer};
pub(crate) use initialize::InitializedAgent;
pub use keeper_report::{KeeperReport, check_keeper_support, inspect_keepers};
pub(crate) use launch::Launch;
pub use launch::{SplitError, split_command};
pub use open_files_limit::raise_open_files;
pub(crate) use open_session::{OpenedAgent, SessionOpening, open_session};
pub use orphans::adopt_orphans;
pub(crate) use outbox::Outbox;
pub use process_records::{KeeperDescription, KeeperLimits};
pub(crate) use stderr::StderrTail;
