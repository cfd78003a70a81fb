//! Conversions from errors of the host to faults, for every surface.

use axum::http::StatusCode;
use wharf_api::ErrorCode;
use wharf_config::{AdapterError, WorkspaceError};
use wharf_host::core::{FailureText, PromptEnd, Refusal, SessionId};
use wharf_host::{
    CallError, CreateError, DelegationError, LabelInUse, OpenError, SandboxError, StartFailure,
};

use crate::App;
use crate::fault::Fault;

pub(crate) fn unknown_session(id: &str) -> Fault {
    let shown: String = id.chars().take(100).collect();
    let detail = format!(
        "no session {shown:?}; GET /sessions, session/list and `wharf sessions` list those there are"
    );
    Fault::new(ErrorCode::UNKNOWN_SESSION, detail).with_session(&shown)
}

/// Returns the fault for a session that cannot be opened.
pub(crate) fn fault_from_open_error(id: &str, error: &OpenError) -> Fault {
    match error {
        OpenError::Unknown(_) => unknown_session(id),
        OpenError::Unreadable { .. } => unreadable_session(id, error),
    }
}

pub(crate) fn unreadable_session(id: &str, error: &dyn std::fmt::Display) -> Fault {
    tracing::error!(session = id, %error, "a session cannot be read");
    let detail = "the session's log cannot be read; the host's own log says why";
    Fault::new(ErrorCode::UNREADABLE_SESSION, detail).with_session(id)
}

/// Returns the fault for a wrong value in a request's body or in a tool's arguments.
pub(super) fn invalid_params(detail: impl Into<String>) -> Fault {
    Fault::new(ErrorCode::INVALID_PARAMS, detail).with_legacy_code("invalid_body")
}

/// Returns the fault for a wrong value in a query.
pub(super) fn invalid_query(detail: impl Into<String>) -> Fault {
    Fault::new(ErrorCode::INVALID_PARAMS, detail).with_legacy_code("invalid_query")
}

/// Returns the fault for an agent that could not be started. An agent that is not installed has the
/// same code wherever it is named.
pub(crate) fn start_failed(failure: &StartFailure) -> Fault {
    if let Some(error) = &failure.adapter_error {
        return fault_from_adapter_error(error);
    }
    let fault = Fault::new(ErrorCode::START_FAILED, failure.message.as_str())
        .with_legacy_code("spawn_failed");
    fault.with_members(|body| {
        body.stderr = Some(failure.stderr.clone());
        body.agent_error = failure.agent_error();
        body.exit_code = failure.exit_code;
    })
}

pub(crate) fn fault_from_create_error(error: &CreateError) -> Fault {
    let fault = |code| Fault::new(code, error.to_string());
    match error {
        CreateError::Adapter(error) => fault_from_adapter_error(error),
        CreateError::Workspace(error) => fault_from_workspace_error(error),
        CreateError::Sandbox(SandboxError::Unsupported(_)) => {
            fault(ErrorCode::SANDBOX_NOT_SUPPORTED)
        }
        CreateError::Sandbox(_) => fault(ErrorCode::SANDBOX_IMPOSSIBLE),
        CreateError::Cwd { .. } => fault(ErrorCode::INVALID_CWD),
        CreateError::CwdNotAllowed { .. } => fault(ErrorCode::CWD_NOT_ALLOWED),
        CreateError::Delegation(error) => Fault::new(delegation_code(error), error.to_string()),
        CreateError::Label { .. } => fault(ErrorCode::LABEL_TOO_LONG),
        CreateError::LabelInUse(error) => fault_from_label_in_use(error),
        CreateError::KeyReused { session } => {
            fault(ErrorCode::IDEMPOTENCY_KEY_REUSED).with_session(session.as_str())
        }
        CreateError::TooMany { .. } => fault(ErrorCode::TOO_MANY_SESSIONS),
        CreateError::TooFast { retry_after, .. } => {
            fault(ErrorCode::TOO_MANY_SPAWNS).with_retry_after(retry_after.as_secs() + 1)
        }
        CreateError::StorageFull => fault(ErrorCode::STORAGE_FULL),
        CreateError::NoFileDescriptors => fault(ErrorCode::UNAVAILABLE),
        CreateError::Storage(_) => {
            tracing::error!(%error, "a session cannot be made");
            let detail = "the session's log cannot be made; the host's own log says why";
            Fault::new(ErrorCode::UNAVAILABLE, detail)
        }
        CreateError::Start { session, failure } => start_failed(failure).with_session(session),
    }
}

/// Returns the fault for a label that another session has, which it names.
pub(super) fn fault_from_label_in_use(error: &LabelInUse) -> Fault {
    let detail =
        format!("{error}; prompt that session, use another label, or take this one (onLabel)");
    Fault::new(ErrorCode::LABEL_IN_USE, detail).with_session(&error.holder)
}

/// Returns the code of AIP-46 for a refused delegation.
const fn delegation_code(error: &DelegationError) -> ErrorCode {
    match error {
        DelegationError::Adapter { .. }
        | DelegationError::Choice(_)
        | DelegationError::Ended(_) => ErrorCode::DELEGATION_DENIED,
        DelegationError::Outside { .. } => ErrorCode::CWD_OUTSIDE_PARENT,
        DelegationError::TooDeep { .. } => ErrorCode::MAX_DEPTH_EXCEEDED,
        DelegationError::TooMany { .. } => ErrorCode::CHILD_QUOTA_EXCEEDED,
    }
}

fn fault_from_adapter_error(error: &AdapterError) -> Fault {
    let fault = |code| Fault::new(code, error.to_string());
    match error {
        AdapterError::Unknown { .. } => fault(ErrorCode::UNKNOWN_ADAPTER),
        AdapterError::UnknownMode { .. } => fault(ErrorCode::UNKNOWN_MODE),
        AdapterError::Option { .. } => fault(ErrorCode::INVALID_OPTION),
        AdapterError::Protocol { .. } => fault(ErrorCode::PROTOCOL_NOT_SUPPORTED),
        AdapterError::NotInstalled { install, .. } => fault(ErrorCode::ADAPTER_NOT_INSTALLED)
            .with_members(|body| body.install.clone_from(install)),
        AdapterError::Manifest(_) => fault(ErrorCode::INVALID_MANIFEST),
    }
}

pub(crate) fn fault_from_workspace_error(error: &WorkspaceError) -> Fault {
    let code = match error {
        WorkspaceError::Damaged { .. }
        | WorkspaceError::Version { .. }
        | WorkspaceError::Unreadable { .. }
        | WorkspaceError::Hidden => ErrorCode::REGISTRY_DAMAGED,
        WorkspaceError::Unwritable { .. } => ErrorCode::REGISTRY_UNWRITABLE,
        WorkspaceError::Slug(_) | WorkspaceError::Reserved(_) => ErrorCode::INVALID_SLUG,
        WorkspaceError::Label => ErrorCode::LABEL_TOO_LONG,
        WorkspaceError::Path { .. } => ErrorCode::INVALID_PATH,
        WorkspaceError::Unknown { .. } => ErrorCode::UNKNOWN_WORKSPACE,
        WorkspaceError::Exists { .. } => ErrorCode::WORKSPACE_EXISTS,
        WorkspaceError::InUse { .. } => ErrorCode::WORKSPACE_IN_USE,
        WorkspaceError::Purge { .. } => ErrorCode::UNAVAILABLE,
    };
    Fault::new(code, error.to_string())
}

/// Returns the fault for a request whose path names the workspace: an unknown one has the status
/// 404.
pub(super) fn fault_from_named_workspace_error(error: &WorkspaceError) -> Fault {
    let fault = fault_from_workspace_error(error);
    if matches!(error, WorkspaceError::Unknown { .. }) {
        fault.with_status(StatusCode::NOT_FOUND)
    } else {
        fault
    }
}

/// Returns the fault for a failed call on a session. A session that was forgotten meanwhile is
/// unknown.
pub(super) fn fault_from_failed_call(app: &App, id: &SessionId, error: &CallError) -> Fault {
    if matches!(error, CallError::Gone) && app.host.descriptor(id).is_none() {
        return unknown_session(id.as_str());
    }
    fault_from_call_error(error, id.as_str())
}

/// Returns the fault for a failed call of a caller that is attached to the session.
pub(crate) fn fault_from_call_error(error: &CallError, id: &str) -> Fault {
    let fault = |code| Fault::new(code, error.to_string());
    let fault = match error {
        CallError::Refused(refusal) => fault_from_refusal(refusal, id),
        CallError::StorageFull => {
            let detail = "the disk is full: nothing was done; free some space, then try again";
            Fault::new(ErrorCode::STORAGE_FULL, detail)
        }
        CallError::NotWritten { .. } => fault(ErrorCode::NOT_WRITTEN),
        CallError::LogFull { .. } => fault(ErrorCode::LOG_FULL),
        CallError::TooMany { .. } => fault(ErrorCode::TOO_MANY_SESSIONS),
        CallError::Left => fault(ErrorCode::LEFT),
        CallError::Gone | CallError::Storage(_) => {
            tracing::warn!(session = id, %error, "a call did not go through");
            let detail = "the session is not available: the host is stopping, or the session's log cannot be written";
            Fault::new(ErrorCode::UNAVAILABLE, detail)
        }
    };
    fault.with_session(id)
}

pub(crate) fn fault_from_refusal(refusal: &Refusal, id: &str) -> Fault {
    let fault = match refusal {
        Refusal::NotResumable => Fault::new(
            ErrorCode::NOT_RESUMABLE,
            "the session has ended and its agent cannot be brought back; start a new one",
        ),
        Refusal::Killed => Fault::new(
            ErrorCode::KILLED,
            format!(
                "the session was killed; to bring it back: wharf resume {id}, or POST /sessions/{id}/resume"
            ),
        ),
        Refusal::Observer => {
            Fault::new(ErrorCode::OBSERVER, "this client is an observer; connect as a controller")
        }
        Refusal::TurnInProgress => Fault::new(
            ErrorCode::TURN_IN_PROGRESS,
            "a turn is running or prompts wait; send `queue: true` to wait in line, `interrupt: true` to end the turn",
        ),
        Refusal::QueueFull { limit } => Fault::new(
            ErrorCode::QUEUE_FULL,
            format!("{limit} prompts are waiting already (limits.queue); wait, or remove one"),
        ),
        Refusal::UnknownPrompt(prompt) => Fault::new(
            ErrorCode::UNKNOWN_PROMPT,
            format!("no waiting prompt {prompt}; it may have run already"),
        ),
        Refusal::PromptIdTaken(prompt) => {
            Fault::new(ErrorCode::PROMPT_ID_TAKEN, format!("the prompt id {prompt} is taken"))
        }
        Refusal::KeyReused(prompt) => Fault::new(
            ErrorCode::IDEMPOTENCY_KEY_REUSED,
            format!(
                "the idempotency key was used for prompt {prompt}, which has other content; send another key"
            ),
        ),
        Refusal::AlreadyStarted(prompt) => Fault::new(
            ErrorCode::ALREADY_STARTED,
            format!("prompt {prompt} has started; interrupt the turn instead"),
        ),
        Refusal::CannotSteer => Fault::new(
            ErrorCode::CANNOT_STEER,
            "the agent takes no prompt while it works on another one; send without `steer` to interrupt its turn",
        ),
        Refusal::UnknownAsk(ask) => Fault::new(
            ErrorCode::UNKNOWN_ASK,
            format!("no ask {ask}; GET /sessions/{id}/asks and `wharf asks` list the open ones"),
        ),
        Refusal::AlreadyAnswered(ask) => {
            Fault::new(ErrorCode::ALREADY_ANSWERED, format!("ask {ask} has had its answer"))
        }
        Refusal::InvalidOption { offered } => {
            let names: Vec<String> = offered.iter().map(ToString::to_string).collect();
            let detail = format!("not one of the offered options: {}", names.join(", "));
            let fault = Fault::new(ErrorCode::OPTION_NOT_OFFERED, detail)
                .with_legacy_code("invalid_option");
            fault.with_members(|body| body.offered = Some(names))
        }
        Refusal::AlreadyRunning => {
            Fault::new(ErrorCode::ALREADY_RUNNING, "the session is running already")
        }
    };
    fault.with_session(id)
}

/// Returns the fault for a prompt that ended without an answer of the agent; `None` if the agent
/// answered.
pub(crate) fn fault_from_prompt_end(
    end: &PromptEnd,
    failure: Option<&str>,
    session: &str,
) -> Option<Fault> {
    let (code, detail) = match end {
        PromptEnd::Answered { .. } | PromptEnd::Failed { .. } | PromptEnd::Cancelled => {
            return None;
        }
        PromptEnd::Removed { .. } => (ErrorCode::REMOVED, "the prompt was taken out of the queue"),
        PromptEnd::AgentExited => {
            (ErrorCode::AGENT_EXITED, "the agent exited before it finished this prompt")
        }
        PromptEnd::StartFailed => {
            (ErrorCode::START_FAILED, "the agent could not be started for this prompt")
        }
        PromptEnd::SessionEnded => {
            (ErrorCode::SESSION_ENDED, "the session was ended before this prompt was finished")
        }
        PromptEnd::HostShutdown => {
            (ErrorCode::HOST_SHUTDOWN, "the host was stopped before this prompt was finished")
        }
        PromptEnd::HostRestarted => {
            (ErrorCode::HOST_RESTARTED, "the host was restarted before this prompt was finished")
        }
    };
    let FailureText { reason, stderr } = FailureText::parse(failure.unwrap_or_default());
    let detail = if reason.is_empty() { detail.to_owned() } else { format!("{detail}: {reason}") };
    let fault = Fault::new(code, detail).with_session(session);
    Some(fault.with_members(|body| body.stderr = (!stderr.is_empty()).then(|| stderr.to_owned())))
}
