//! One session at work: the task that owns it, the handle that callers hold, the cursor that readers hold.

mod bounds;
mod clock;
pub(crate) mod close_signal;
mod command;
mod commit;
pub(crate) mod cursor;
pub(crate) mod handle;
mod hear;
mod in_force;
mod link;
mod measure;
mod pages;
mod pause;
mod pending;
mod relay;
mod restore;
mod screens;
pub(crate) mod shared;
mod tail;
mod task;
mod voice;

pub(crate) use command::Started;
pub use link::AgentDelete;
pub(crate) use restore::{RestoreError, restore};
pub(crate) use shared::Shared;
pub(crate) use tail::TailBudget;
pub(crate) use task::{SessionTask, Surroundings};
