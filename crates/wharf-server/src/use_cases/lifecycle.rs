//! The end of a turn, the end of a session, its return, and its being forgotten.

use wharf_api::{Forgotten, Interrupted, Killed, ResumeArgs, SessionInfo};
use wharf_host::core::{EndReason, Refusal, SessionId};
use wharf_host::{AgentDelete, CallError, ReturnTerms};

use super::contract::to_session_info;
use super::faults::{fault_from_failed_call, invalid_params, start_failed, unreadable_session};
use super::{Caller, open_session};
use crate::App;
use crate::fault::Fault;

/// Ends the session; its history stays. One that is dead already is left so.
pub(crate) async fn kill_session(app: &App, who: &Caller, id: &str) -> Result<Killed, Fault> {
    who.may_work_in(app, id)?;
    who.may_change_as_attached(app, id).await?;
    let handle = open_session(app, who, id).await?;
    handle.kill(EndReason::User).await.map_err(|error| fault_from_failed_call(app, handle.id(), &error))?;
    Ok(Killed { ok: true, id: id.to_owned() })
}

/// Ends the session for a client that has closed it.
pub(crate) async fn close_session(app: &App, who: &Caller, id: &str) -> Result<(), Fault> {
    may_end(app, who, id).await?;
    let handle = open_session(app, who, id).await?;
    handle.kill(EndReason::Closed).await.map_err(|error| fault_from_failed_call(app, handle.id(), &error))
}

/// Refuses a caller that may not end or delete the session.
pub(crate) async fn may_end(app: &App, who: &Caller, id: &str) -> Result<(), Fault> {
    who.may_change()?;
    who.may_change_as_attached(app, id).await
}

/// Ends the session if need be and deletes its history.
pub(crate) async fn forget_session(app: &App, who: &Caller, id: &str) -> Result<Forgotten, Fault> {
    may_end(app, who, id).await?;
    let sight = app.visible_to(&who.identity);
    let agent = sight.forget_session(&SessionId::new(id)).await.map_err(|error| unreadable_session(id, &error))?;
    let agent_delete = agent.and_then(agent_delete_word).map(ToOwned::to_owned);
    Ok(Forgotten { ok: agent.is_some(), id: id.to_owned(), agent_delete })
}

/// The word for an agent's own copy that may be left of a deleted session.
const fn agent_delete_word(agent: AgentDelete) -> Option<&'static str> {
    match agent {
        AgentDelete::Failed => Some(Forgotten::AGENT_DELETE_FAILED),
        AgentDelete::Done | AgentDelete::NotNeeded => None,
    }
}

/// Ends the running turn, whoever began it. What waits in the queue stays there.
pub(crate) async fn interrupt_turn(app: &App, who: &Caller, id: &str) -> Result<Interrupted, Fault> {
    who.may_work_in(app, id)?;
    let handle = open_session(app, who, id).await?;
    let done =
        handle.interrupt(who.sender()).await.map_err(|error| fault_from_failed_call(app, handle.id(), &error))?;
    Ok(Interrupted { ok: true, id: id.to_owned(), was_busy: done.was_busy })
}

/// Brings an ended session back, also one that a user killed, and waits until it runs.
pub(crate) async fn resume_session(app: &App, who: &Caller, id: &str, args: ResumeArgs) -> Result<SessionInfo, Fault> {
    who.may_change()?;
    who.may_change_as_attached(app, id).await?;
    let ResumeArgs { session_mode, accept_agent_settings } = args;
    if session_mode.as_deref() == Some("") {
        return Err(invalid_params("sessionMode: is empty"));
    }
    let handle = open_session(app, who, id).await?;
    let terms = ReturnTerms { session_mode, accept_agent_settings: accept_agent_settings.unwrap_or(false) };
    match handle.resume_on(terms).await {
        Ok(()) | Err(CallError::Refused(Refusal::AlreadyRunning)) => {}
        Err(error) => return Err(fault_from_failed_call(app, handle.id(), &error)),
    }
    handle.up().await.map_err(|failure| start_failed(&failure).with_session(id))?;
    Ok(to_session_info(&handle.descriptor()))
}
