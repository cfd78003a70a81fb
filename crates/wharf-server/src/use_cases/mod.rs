//! The application layer: each use case checks the caller's rights, acts on the host and returns
//! the outcome in the types of the contract. Every surface calls these functions and only
//! translates.

mod adapters;
mod agent_log;
mod asks;
mod attention;
mod caller;
mod changed_files;
mod clients;
mod contract;
mod describe;
mod events;
mod export;
mod faults;
mod files;
mod fork;
mod host;
mod lifecycle;
mod logins;
mod notify;
mod output;
mod places;
mod prompt;
mod push;
mod queue;
mod rows;
mod search;
mod sessions;
mod settings;
mod shortened_settings;
mod spawn;
mod transcript_state;
mod turn_failure;
mod turns;
mod uploads;
mod usage;
mod workspaces;

use wharf_host::SessionHandle;
use wharf_host::core::SessionId;

use crate::App;
use crate::fault::Fault;
pub(crate) use adapters::*;
pub(crate) use agent_log::*;
pub(crate) use asks::*;
pub(crate) use attention::*;
pub(crate) use caller::*;
pub(crate) use changed_files::*;
pub(crate) use clients::*;
pub(crate) use contract::*;
pub(crate) use describe::*;
pub(crate) use events::*;
pub(crate) use export::*;
pub(crate) use faults::*;
pub(crate) use files::*;
pub(crate) use fork::*;
pub(crate) use host::*;
pub(crate) use lifecycle::*;
pub(crate) use logins::*;
pub(crate) use notify::*;
pub(crate) use output::*;
pub(crate) use places::*;
pub(crate) use prompt::*;
pub(crate) use push::*;
pub(crate) use queue::*;
pub(crate) use rows::*;
pub(crate) use search::*;
pub(crate) use sessions::*;
pub(crate) use settings::*;
pub(crate) use spawn::*;
pub(crate) use transcript_state::*;
pub(crate) use turn_failure::*;
pub(crate) use turns::*;
pub(crate) use uploads::*;
pub(crate) use usage::*;
pub(crate) use workspaces::*;

/// Returns the session's handle, without waking its agent.
pub(crate) async fn open_session(
    app: &App,
    caller: &Caller,
    id: &str,
) -> Result<SessionHandle, Fault> {
    app.visible_to(&caller.identity)
        .open(&SessionId::new(id))
        .await
        .map_err(|error| fault_from_open_error(id, &error))
}
