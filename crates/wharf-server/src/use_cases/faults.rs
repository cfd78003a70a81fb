//! Refusals and failures of the host as problems. The one place that maps them.

use axum::http::StatusCode;
use wharf_host::core::{Refusal, SessionId};
use wharf_host::{
    AdapterError, CallError, CreateError, DelegationError, OpenError, SandboxError, StartFailure, WorkspaceError,
};

use crate::App;
use crate::problem::Problem;

pub(crate) fn unknown_session(id: &str) -> Problem {
    let shown: String = id.chars().take(100).collect();
    let detail = format!("no session {shown:?}; GET /sessions lists those there are");
    Problem::new(StatusCode::NOT_FOUND, "unknown_session", detail).with("sessionId", shown)
}

/// A session that cannot be opened.
pub(super) fn from_open(id: &str, error: &OpenError) -> Problem {
    match error {
        OpenError::Unknown(_) => unknown_session(id),
        OpenError::Unreadable { .. } => unreadable(id, error),
    }
}

pub(crate) fn unreadable(id: &str, error: &dyn std::fmt::Display) -> Problem {
    tracing::error!(session = id, %error, "a session cannot be read");
    let detail = "the session's log cannot be read; the host's own log says why";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unreadable_session", detail).with("sessionId", id)
}

pub(super) fn invalid(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_body", detail)
}

/// The agent could not be started.
pub(super) fn spawn_failed(session: &str, failure: &StartFailure) -> Problem {
    let (message, stderr) = match failure.message.split_once("\nstderr: ") {
        Some((message, stderr)) => (message, stderr),
        None => (failure.message.as_str(), ""),
    };
    let problem = Problem::new(StatusCode::BAD_GATEWAY, "spawn_failed", message).with("sessionId", session);
    let mut problem = problem.with("stderr", stderr);
    if let Some(error) = failure.agent_error() {
        problem = problem.with("agentError", error);
    }
    match failure.exit_code {
        Some(code) => problem.with("exitCode", code),
        None => problem,
    }
}

pub(super) fn from_create(error: &CreateError) -> Problem {
    let (status, code) = match error {
        CreateError::Adapter(error) => return from_adapter(error),
        CreateError::Workspace(error) => return from_workspace(error),
        CreateError::Sandbox(SandboxError::Unsupported(_)) => (StatusCode::NOT_IMPLEMENTED, "sandbox_not_supported"),
        CreateError::Sandbox(_) => (StatusCode::UNPROCESSABLE_ENTITY, "sandbox_impossible"),
        CreateError::Cwd { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_cwd"),
        CreateError::CwdNotAllowed { .. } => (StatusCode::FORBIDDEN, "cwd_not_allowed"),
        CreateError::Delegation(error @ DelegationError::TooMany { .. }) => {
            (StatusCode::TOO_MANY_REQUESTS, error.code())
        }
        CreateError::Delegation(error) => (StatusCode::FORBIDDEN, error.code()),
        CreateError::Label { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "label_too_long"),
        CreateError::KeyReused { session } => {
            let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused", error.to_string());
            return problem.with("sessionId", session.as_str());
        }
        CreateError::TooMany { .. } => (StatusCode::TOO_MANY_REQUESTS, "too_many_sessions"),
        CreateError::TooFast { retry_after, .. } => {
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_spawns", error.to_string());
            return problem.retry_after(retry_after.as_secs() + 1);
        }
        CreateError::StorageFull => (StatusCode::INSUFFICIENT_STORAGE, "storage_full"),
        CreateError::Storage(_) => {
            tracing::error!(%error, "a session cannot be made");
            let detail = "the session's log cannot be made; the host's own log says why";
            return Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail);
        }
        CreateError::Start { session, failure } => return spawn_failed(session, failure),
    };
    Problem::new(status, code, error.to_string())
}

fn from_adapter(error: &AdapterError) -> Problem {
    let unfit = StatusCode::UNPROCESSABLE_ENTITY;
    let (status, code) = match error {
        AdapterError::Unknown { .. } => (unfit, "unknown_adapter"),
        AdapterError::UnknownMode { .. } => (unfit, "unknown_mode"),
        AdapterError::Option { .. } => (unfit, "invalid_option"),
        AdapterError::Protocol { .. } => (StatusCode::NOT_IMPLEMENTED, "protocol_not_supported"),
        AdapterError::NotInstalled { .. } => (StatusCode::NOT_IMPLEMENTED, "adapter_not_installed"),
        AdapterError::Manifest(_) => (unfit, "invalid_manifest"),
    };
    let problem = Problem::new(status, code, error.to_string());
    match error {
        AdapterError::NotInstalled { install: Some(install), .. } => problem.with("install", install.as_str()),
        AdapterError::NotInstalled { install: None, .. }
        | AdapterError::Unknown { .. }
        | AdapterError::UnknownMode { .. }
        | AdapterError::Option { .. }
        | AdapterError::Protocol { .. }
        | AdapterError::Manifest(_) => problem,
    }
}

pub(crate) fn from_workspace(error: &WorkspaceError) -> Problem {
    let (status, code) = match error {
        WorkspaceError::Damaged { .. }
        | WorkspaceError::Version { .. }
        | WorkspaceError::Unreadable { .. }
        | WorkspaceError::Hidden => (StatusCode::INTERNAL_SERVER_ERROR, "registry_damaged"),
        WorkspaceError::Unwritable { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "registry_unwritable"),
        WorkspaceError::Slug(_) | WorkspaceError::Reserved(_) => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_slug"),
        WorkspaceError::Label => (StatusCode::UNPROCESSABLE_ENTITY, "label_too_long"),
        WorkspaceError::Path { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_path"),
        WorkspaceError::Unknown { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "unknown_workspace"),
        WorkspaceError::Exists { .. } => (StatusCode::CONFLICT, "workspace_exists"),
        WorkspaceError::InUse { .. } => (StatusCode::CONFLICT, "workspace_in_use"),
        WorkspaceError::Purge { .. } => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
    };
    Problem::new(status, code, error.to_string())
}

pub(super) fn from_call(app: &App, id: &SessionId, error: &CallError) -> Problem {
    let problem = match error {
        CallError::Refused(refusal) => from_refusal(refusal, id),
        CallError::StorageFull => {
            let detail = "the disk is full: nothing was done; free some space, then try again";
            Problem::new(StatusCode::INSUFFICIENT_STORAGE, "storage_full", detail)
        }
        CallError::NotWritten { .. } => {
            Problem::new(StatusCode::INSUFFICIENT_STORAGE, "not_written", error.to_string())
        }
        CallError::LogFull { .. } => Problem::new(StatusCode::INSUFFICIENT_STORAGE, "log_full", error.to_string()),
        CallError::TooMany { .. } => {
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_sessions", error.to_string())
        }
        CallError::Gone if app.host.descriptor(id).is_none() => return unknown_session(id.as_str()),
        CallError::Gone | CallError::Left | CallError::Storage(_) => {
            tracing::warn!(session = %id, %error, "a call did not go through");
            let detail = "the session cannot take this now: the host is stopping, or its log cannot be written";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
        }
    };
    problem.with("sessionId", id.as_str())
}

fn from_refusal(refusal: &Refusal, id: &SessionId) -> Problem {
    let conflict = |code, detail: &str| Problem::new(StatusCode::CONFLICT, code, detail);
    match refusal {
        Refusal::NotResumable => {
            conflict("not_resumable", "the session has ended and its agent cannot be brought back; start a new one")
        }
        Refusal::Killed => conflict(
            "killed",
            &format!("the session was killed; to bring it back: wharf resume {id}, or POST /sessions/{id}/resume"),
        ),
        Refusal::Observer => Problem::new(StatusCode::FORBIDDEN, "observer", "this client only observes"),
        Refusal::TurnInProgress => conflict(
            "turn_in_progress",
            "a turn is running or prompts wait; send `queue: true` to wait in line, `interrupt: true` to end the turn",
        ),
        Refusal::QueueFull { limit } => Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "queue_full",
            format!("{limit} prompts are waiting already (limits.queue); wait, or remove one"),
        ),
        Refusal::UnknownPrompt(prompt) => Problem::new(
            StatusCode::NOT_FOUND,
            "unknown_prompt",
            format!("no waiting prompt {prompt}; it may have run already"),
        ),
        Refusal::PromptIdTaken(prompt) => conflict("prompt_id_taken", &format!("the prompt id {prompt} is taken")),
        Refusal::KeyReused(prompt) => Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "idempotency_key_reused",
            format!("the idempotency key was used for prompt {prompt}, which says something else; send another key"),
        ),
        Refusal::AlreadyStarted(prompt) => {
            conflict("already_started", &format!("prompt {prompt} has started; interrupt the turn instead"))
        }
        Refusal::UnknownAsk(ask) => {
            Problem::new(StatusCode::NOT_FOUND, "unknown_ask", format!("the agent did not ask anything under {ask}"))
        }
        Refusal::AlreadyAnswered(ask) => conflict("already_answered", &format!("ask {ask} has had its answer")),
        Refusal::InvalidOption { offered } => {
            let names: Vec<&str> = offered.iter().map(AsRef::as_ref).collect();
            let detail = format!("not one of the offered options: {}", names.join(", "));
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_option", detail).with("offered", names)
        }
        Refusal::AlreadyRunning => conflict("already_running", "the session is running already"),
    }
}
