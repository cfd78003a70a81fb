//! Interrupting a turn, and killing, closing, resuming and forgetting a session.

use std::sync::Arc;

use wharf_api::{Finished, Forgotten, InterruptArgs, Interrupted, Killed, ResumeArgs, SessionInfo};
use wharf_host::core::{CancelScope, EndReason, PromptId, Refusal, SessionId};
use wharf_host::{AgentDelete, CallError, ReturnTerms, SessionHandle};

use super::attention::{describe_session, note_act};
use super::faults::{fault_from_failed_call, invalid_params, start_failed, unreadable_session};
use super::{Caller, open_session};
use crate::App;
use crate::fault::Fault;

/// Ends the session; its history stays. A session that has ended already stays as it is. Returns
/// when its processes are gone.
pub(crate) async fn kill_session(app: &App, caller: &Caller, id: &str) -> Result<Killed, Fault> {
    let roots = app.host.processes_of(&SessionId::new(id));
    end_session(app, caller, id, EndReason::User).await?;
    app.host.wait_for_trees(&roots).await;
    Ok(Killed { ok: true, id: id.to_owned() })
}

/// Ends a session whose work is done. Unlike after a kill, the next prompt brings it back.
pub(crate) async fn finish_session(
    app: &App,
    caller: &Caller,
    id: &str,
) -> Result<Finished, Fault> {
    end_session(app, caller, id, EndReason::Finished).await?;
    Ok(Finished { ok: true, id: id.to_owned() })
}

async fn end_session(app: &App, caller: &Caller, id: &str, reason: EndReason) -> Result<(), Fault> {
    caller.may_work_in(app, id)?;
    caller.may_change_as_attached(app, id).await?;
    let handle = open_session(app, caller, id).await?;
    handle
        .kill(reason)
        .await
        .map_err(|error| fault_from_failed_call(app, handle.id(), &error))
}

/// Ends the session for a client that has closed it.
pub(crate) async fn close_session(app: &App, caller: &Caller, id: &str) -> Result<(), Fault> {
    may_end(app, caller, id).await?;
    let handle = open_session(app, caller, id).await?;
    handle
        .kill(EndReason::Closed)
        .await
        .map_err(|error| fault_from_failed_call(app, handle.id(), &error))
}

/// Refuses a caller that may not end or delete the session.
pub(crate) async fn may_end(app: &App, caller: &Caller, id: &str) -> Result<(), Fault> {
    caller.may_change()?;
    caller.may_change_as_attached(app, id).await
}

/// Ends the session if need be and deletes its history.
pub(crate) async fn forget_session(
    app: &App,
    caller: &Caller,
    id: &str,
) -> Result<Forgotten, Fault> {
    may_end(app, caller, id).await?;
    let visible = app.visible_to(&caller.identity);
    let agent = visible
        .forget_session(&SessionId::new(id))
        .await
        .map_err(|error| unreadable_session(id, &error))?;
    let agent_delete = agent.and_then(agent_delete_word).map(ToOwned::to_owned);
    Ok(Forgotten { ok: agent.is_some(), id: id.to_owned(), agent_delete })
}

/// Returns the word for an agent whose own copy of the deleted session may remain.
const fn agent_delete_word(agent: AgentDelete) -> Option<&'static str> {
    match agent {
        AgentDelete::Failed => Some(Forgotten::AGENT_DELETE_FAILED),
        AgentDelete::Done | AgentDelete::NotNeeded => None,
    }
}

/// Ends the running turn, regardless of which client began it. Waiting prompts stay in the queue. A
/// forced interrupt does not wait for the agent.
pub(crate) async fn interrupt_turn(
    app: &App,
    caller: &Caller,
    id: &str,
    args: InterruptArgs,
) -> Result<Interrupted, Fault> {
    caller.may_work_in(app, id)?;
    let handle = open_session(app, caller, id).await?;
    let before = handle.head();
    let done = handle.interrupt(caller.sender(), args.force.unwrap_or(false)).await;
    let done = done.map_err(|error| fault_from_failed_call(app, handle.id(), &error))?;
    note_act(app, caller, &handle, before);
    Ok(Interrupted { ok: true, id: id.to_owned(), was_busy: done.was_busy })
}

/// Ends the caller's own prompts, or the turn that it sees as far as `scope` allows. Returns true
/// if another client's turn was left alone, since a turn of the caller's own ended just before.
pub(crate) async fn cancel_turn(
    app: &App,
    caller: &Caller,
    handle: &SessionHandle,
    scope: CancelScope,
) -> Result<bool, Fault> {
    caller.may_work_in(app, handle.id().as_str())?;
    let before = handle.head();
    let done = handle
        .cancel(caller.sender(), scope)
        .await
        .map_err(|error| fault_from_failed_call(app, handle.id(), &error))?;
    note_act(app, caller, handle, before);
    Ok(done.crossed)
}

/// Takes one prompt back: out of the queue, or by cancelling its turn. The caller bounds the
/// reason's length.
pub(crate) async fn cancel_prompt(
    app: &App,
    caller: &Caller,
    handle: &SessionHandle,
    prompt: PromptId,
    reason: Option<Arc<str>>,
) -> Result<(), Fault> {
    caller.may_work_in(app, handle.id().as_str())?;
    let before = handle.head();
    let done = handle.cancel_prompt_because(prompt, caller.sender(), reason).await;
    done.map_err(|error| fault_from_failed_call(app, handle.id(), &error))?;
    note_act(app, caller, handle, before);
    Ok(())
}

/// Brings an ended session back, also a session that a user killed, and waits until it runs.
pub(crate) async fn resume_session(
    app: &App,
    caller: &Caller,
    id: &str,
    args: ResumeArgs,
) -> Result<SessionInfo, Fault> {
    caller.may_change()?;
    caller.may_change_as_attached(app, id).await?;
    let ResumeArgs { session_mode, accept_agent_settings } = args;
    if session_mode.as_deref() == Some("") {
        return Err(invalid_params("sessionMode: is empty"));
    }
    let handle = open_session(app, caller, id).await?;
    let terms = ReturnTerms {
        session_mode,
        accept_agent_settings: accept_agent_settings.unwrap_or(false),
    };
    match handle.resume_on(terms).await {
        Ok(()) | Err(CallError::Refused(Refusal::AlreadyRunning)) => {}
        Err(error) => return Err(fault_from_failed_call(app, handle.id(), &error)),
    }
    handle.up().await.map_err(|failure| start_failed(&failure).with_session(id))?;
    Ok(describe_session(app, caller, &handle.descriptor()))
}
