//! The application layer: each use case checks who calls, acts on the host and says what came of it, in the types of the
//! contract. Every surface calls these functions and only translates.

mod adapters;
mod asks;
mod caller;
mod contract;
mod events;
mod faults;
mod host;
mod life;
mod list;
mod output;
mod prompt;
mod queue;
mod spawn;
mod workspaces;

use wharf_host::SessionHandle;
use wharf_host::core::SessionId;

use crate::App;
use crate::fault::Fault;
pub(crate) use adapters::list_adapters;
pub(crate) use asks::{answer, asks};
pub(crate) use caller::{Caller, shown_name};
pub(crate) use contract::{ask_type, end_cause, open_ask, session_info, status, storage_pause};
pub(crate) use events::{events, unknown_event};
pub(crate) use faults::{
    from_call_error, from_create, from_open, from_prompt_end, from_refusal, start_failed, unreadable,
};
pub(crate) use host::{check_readiness, describe_host, list_processes, stop_host};
pub(crate) use life::{forget, interrupt, kill, left_with_agent, resume};
pub(crate) use list::{get, list};
pub(crate) use output::output;
pub(crate) use prompt::{checked_key, prompt};
pub(crate) use queue::{change_queued, prompt_text, queue, remove_queued};
pub(crate) use spawn::spawn;
pub(crate) use workspaces::{activate_workspace, add_workspace, find_workspace, list_workspaces, remove_workspace};

/// Returns the session's handle; its agent is not woken.
pub(crate) async fn open(app: &App, who: &Caller, id: &str) -> Result<SessionHandle, Fault> {
    app.seen_by(&who.identity).open(&SessionId::new(id)).await.map_err(|error| from_open(id, &error))
}
