//! The end of a turn, the end of a session, its return, and its being forgotten.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wharf_host::core::{EndReason, Refusal, SessionId};
use wharf_host::{AgentDelete, CallError, ReturnTerms};

use super::faults::{from_call, invalid, spawn_failed, unreadable};
use super::{Caller, Session, open};
use crate::App;
use crate::problem::Problem;

/// The session is dead.
#[derive(Debug, Serialize, ToSchema, JsonSchema)]
pub(crate) struct Killed {
    pub(crate) ok: bool,
    pub(crate) id: String,
}

/// `ok` is false if there was no such session.
#[derive(Debug, Serialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Forgotten {
    pub(crate) ok: bool,
    pub(crate) id: String,
    /// `failed`: the agent did not delete its own copy, which may be left. Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) agent_delete: Option<&'static str>,
}

/// The running turn was asked to end.
#[derive(Debug, Serialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Interrupted {
    pub(crate) ok: bool,
    pub(crate) id: String,
    /// Was there one?
    pub(crate) was_busy: bool,
}

/// Ends the session; its history stays. One that is dead already is left so.
pub(crate) async fn kill(app: &App, who: &Caller, id: &str) -> Result<Killed, Problem> {
    who.may_work_in(app, id)?;
    who.may_change_as_attached(app, id).await?;
    let handle = open(app, who, id).await?;
    handle.kill(EndReason::User).await.map_err(|error| from_call(app, handle.id(), &error))?;
    Ok(Killed { ok: true, id: id.to_owned() })
}

/// Ends the session if need be and deletes its history.
pub(crate) async fn forget(app: &App, who: &Caller, id: &str) -> Result<Forgotten, Problem> {
    who.may_change()?;
    who.may_change_as_attached(app, id).await?;
    let sight = app.seen_by(&who.identity);
    let agent = sight.forget(&SessionId::new(id)).await.map_err(|error| unreadable(id, &error))?;
    let agent_delete = agent.and_then(left_with_agent);
    Ok(Forgotten { ok: agent.is_some(), id: id.to_owned(), agent_delete })
}

/// The word for an agent's own copy that may be left of a deleted session.
pub(crate) const fn left_with_agent(agent: AgentDelete) -> Option<&'static str> {
    match agent {
        AgentDelete::Failed => Some("failed"),
        AgentDelete::Done | AgentDelete::NotNeeded => None,
    }
}

/// Ends the running turn, whoever began it. What waits in the queue stays there.
pub(crate) async fn interrupt(app: &App, who: &Caller, id: &str) -> Result<Interrupted, Problem> {
    who.may_work_in(app, id)?;
    let handle = open(app, who, id).await?;
    let done = handle.interrupt(who.sender()).await.map_err(|error| from_call(app, handle.id(), &error))?;
    Ok(Interrupted { ok: true, id: id.to_owned(), was_busy: done.was_busy })
}

/// The settings that a session comes back with, besides those that were in force.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResumeArgs {
    /// This mode instead of the one that was in force.
    #[schema(min_length = 1)]
    pub(crate) session_mode: Option<String>,
    /// Take the settings that the agent has, instead of setting those that were in force.
    pub(crate) accept_agent_settings: Option<bool>,
}

/// Brings an ended session back, also one that a user killed, and waits until it runs.
pub(crate) async fn resume(app: &App, who: &Caller, id: &str, args: ResumeArgs) -> Result<Session, Problem> {
    who.may_change()?;
    who.may_change_as_attached(app, id).await?;
    let ResumeArgs { session_mode, accept_agent_settings } = args;
    if session_mode.as_deref() == Some("") {
        return Err(invalid("sessionMode: is empty"));
    }
    let handle = open(app, who, id).await?;
    let terms = ReturnTerms { session_mode, accept_agent_settings: accept_agent_settings.unwrap_or(false) };
    match handle.resume_on(terms).await {
        Ok(()) | Err(CallError::Refused(Refusal::AlreadyRunning)) => {}
        Err(error) => return Err(from_call(app, handle.id(), &error)),
    }
    handle.up().await.map_err(|failure| spawn_failed(id, &failure))?;
    Ok(Session::from(&*handle.descriptor()))
}
