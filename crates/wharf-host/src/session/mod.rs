//! One session at work: the task that owns it, the handle that callers hold, the cursor that
//! readers hold.

mod admission;
pub(crate) mod advertised_tools;
pub(crate) mod agent_calls;
mod agent_connection;
mod agent_services;
pub(crate) mod attached;
mod clients;
mod clock;
pub(crate) mod close_signal;
mod command;
mod context;
pub(crate) mod cursor;
pub(crate) mod handle;
mod journal;
pub(crate) mod live_output;
mod measure;
mod page_events;
mod pages;
mod pending;
mod restore;
pub(crate) mod shared;
mod startup;
mod tail;
mod task;
mod terminal_transcript;

pub use agent_connection::AgentDelete;
pub(crate) use command::{DeleteCondition, Started};
pub(crate) use context::FirstStart;
pub(crate) use restore::{LostBeginning, RestoreError, RestoredSession, restore};
pub(crate) use shared::{Rest, Shared};
pub(crate) use tail::TailBudget;
pub(crate) use task::SessionTask;
