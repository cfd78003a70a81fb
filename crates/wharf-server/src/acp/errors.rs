//! Refusals and failures as JSON-RPC errors. The one place that maps them.

use bytes::Bytes;
use serde_json::{Value, json};
use wharf_host::core::{PromptEnd, Refusal};
use wharf_host::{AdapterError, CallError, CreateError, OpenError, StartFailure};
use wharf_json::ReadError;

/// A JSON-RPC error.
#[derive(Debug)]
pub(super) struct RpcError {
    code: i32,
    message: String,
    data: Option<Value>,
}

impl RpcError {
    pub(super) fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(super) fn with(code: i32, message: impl Into<String>, data: Value) -> Self {
        Self { code, message: message.into(), data: Some(data) }
    }

    pub(super) fn parse(message: impl Into<String>) -> Self {
        Self::new(-32700, message)
    }

    pub(super) fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(-32600, message)
    }

    pub(super) fn unknown_method(method: &str) -> Self {
        Self::new(-32601, format!("no method {method:?} here"))
    }

    pub(super) fn params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    pub(super) fn unknown_session(id: &str) -> Self {
        Self::with(-32002, format!("no session {id:?}"), json!({ "sessionId": id }))
    }

    pub(super) fn too_many_requests() -> Self {
        let message = "too many or too large requests of this connection are under way; wait for some of their answers";
        Self::with(-32603, message, json!({ "reason": "too_many_requests" }))
    }

    /// The client is gone and cannot be told.
    pub(super) fn client_gone() -> Self {
        Self::new(-32603, "the connection has ended")
    }

    pub(super) fn code(&self) -> i32 {
        self.code
    }

    /// For methods that concern more than the caller's token covers.
    pub(super) fn host_only(method: &str) -> Self {
        let message = format!("{method} concerns the whole host, and this token covers a part of it");
        Self::with(-32011, message, json!({ "reason": "host_only" }))
    }

    /// Did an agent not start?
    pub(super) fn is_failed_start(&self) -> bool {
        self.data.as_ref().is_some_and(|data| data["reason"] == "start_failed")
    }

    /// The error as a response to the request `id` (JSON text).
    pub(super) fn frame(&self, id: &[u8]) -> Bytes {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        let id = String::from_utf8_lossy(id);
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).into()
    }
}

/// The request's parameters cannot be used.
pub(super) fn unreadable_params(error: ReadError) -> RpcError {
    RpcError::params(format!("the parameters cannot be read: {error}"))
}

/// An agent's answer cannot be passed on.
pub(super) fn unreadable_answer(error: ReadError) -> RpcError {
    RpcError::new(-32603, format!("the agent's answer cannot be read: {error}"))
}

/// For methods that an observer may not use.
pub(super) fn observer(session: &str) -> RpcError {
    from_refusal(&Refusal::Observer, session)
}

pub(super) fn not_resumable(session: &str) -> RpcError {
    from_refusal(&Refusal::NotResumable, session)
}

/// On attach and detach (rule 4.6).
pub(super) fn attach_unknown(session: &str) -> RpcError {
    RpcError::with(-32001, "Session not found", json!({ "sessionId": session }))
}

/// On attach to a session that cannot be opened.
pub(super) fn attach_refused(error: &OpenError) -> RpcError {
    match error {
        OpenError::Unknown(id) => attach_unknown(id.as_str()),
        OpenError::Unreadable { .. } => from_open(error),
    }
}

/// On detach from a session that exists.
pub(super) fn not_attached(session: &str) -> RpcError {
    let data = json!({ "sessionId": session, "reason": "not_attached" });
    RpcError::with(-32001, "this connection is not attached to the session", data)
}

pub(super) fn in_use(session: &str, others: usize) -> RpcError {
    let message = format!("{others} other clients use this session; pass _meta.wharf.force to delete it all the same");
    RpcError::with(-32603, message, json!({ "sessionId": session, "reason": "in_use" }))
}

pub(super) fn from_open(error: &OpenError) -> RpcError {
    match error {
        OpenError::Unknown(id) => RpcError::unknown_session(id.as_str()),
        OpenError::Unreadable { id, .. } => {
            let data = json!({ "sessionId": id.as_str(), "reason": "unreadable_session" });
            RpcError::with(-32603, error.to_string(), data)
        }
    }
}

pub(super) fn from_create(error: &CreateError) -> RpcError {
    match error {
        CreateError::Adapter(AdapterError::NotInstalled { install, .. }) => {
            RpcError::with(-32603, error.to_string(), json!({ "reason": "adapter_not_installed", "install": install }))
        }
        CreateError::Sandbox(_) => RpcError::with(-32603, error.to_string(), json!({ "reason": "sandbox" })),
        CreateError::CwdNotAllowed { .. } => {
            RpcError::with(-32602, error.to_string(), json!({ "reason": "cwd_not_allowed" }))
        }
        CreateError::Adapter(_) | CreateError::Workspace(_) | CreateError::Cwd { .. } | CreateError::Label { .. } => {
            RpcError::params(error.to_string())
        }
        CreateError::Delegation(refusal) => {
            RpcError::with(-32602, error.to_string(), json!({ "reason": refusal.code() }))
        }
        CreateError::KeyReused { .. } => RpcError::params(error.to_string()),
        CreateError::TooMany { .. } => {
            RpcError::with(-32603, error.to_string(), json!({ "reason": "too_many_sessions" }))
        }
        CreateError::TooFast { retry_after, .. } => {
            let data = json!({ "reason": "too_many_spawns", "retryAfter": retry_after.as_secs() + 1 });
            RpcError::with(-32603, error.to_string(), data)
        }
        CreateError::StorageFull => RpcError::with(-32603, error.to_string(), json!({ "reason": "storage_full" })),
        CreateError::Storage(_) => RpcError::new(-32603, error.to_string()),
        CreateError::Start { session, failure } => {
            RpcError::with(-32603, failure.message.clone(), json!({ "sessionId": session, "reason": "start_failed" }))
        }
    }
}

pub(super) fn from_start(failure: &StartFailure) -> RpcError {
    let mut data = json!({ "reason": "start_failed" });
    if let Some(error) = failure.agent_error() {
        data["agentError"] = error;
    }
    RpcError::with(-32603, failure.message.clone(), data)
}

pub(super) fn from_call(error: &CallError, session: &str) -> RpcError {
    let (code, message, reason) = match error {
        CallError::Refused(refusal) => return from_refusal(refusal, session),
        CallError::StorageFull => (-32603, error.to_string(), "storage_full"),
        CallError::Storage(_) => (-32603, error.to_string(), "storage"),
        CallError::NotWritten { .. } => (-32603, error.to_string(), "not_written"),
        CallError::LogFull { .. } => (-32603, error.to_string(), "log_full"),
        CallError::TooMany { .. } => (-32603, error.to_string(), "too_many_sessions"),
        CallError::Left => (-32603, error.to_string(), "left"),
        CallError::Gone => (-32603, error.to_string(), "gone"),
    };
    RpcError::with(code, message, json!({ "sessionId": session, "reason": reason }))
}

fn from_refusal(refusal: &Refusal, session: &str) -> RpcError {
    let (code, message, reason) = match refusal {
        Refusal::NotResumable => (
            -32603,
            "the session has ended and its agent cannot be brought back; start a new one".to_owned(),
            "not_resumable",
        ),
        Refusal::Killed => {
            (-32603, format!("the session was killed; to bring it back: wharf resume {session}"), "killed")
        }
        Refusal::Observer => (-32011, "this client only observes".to_owned(), "observer"),
        Refusal::TurnInProgress => {
            (-32603, "a turn is running; queue the prompt or wait".to_owned(), "turn_in_progress")
        }
        Refusal::QueueFull { limit } => {
            (-32603, format!("{limit} prompts are waiting already (limits.queue); wait or remove one"), "queue_full")
        }
        Refusal::UnknownPrompt(prompt) => (-32602, format!("no waiting prompt {prompt}"), "unknown_prompt"),
        Refusal::PromptIdTaken(prompt) => (-32602, format!("the prompt id {prompt} is taken"), "prompt_id_taken"),
        Refusal::KeyReused(prompt) => (
            -32602,
            format!("the idempotency key was used for prompt {prompt}, which says something else; send another key"),
            "idempotency_key_reused",
        ),
        Refusal::AlreadyStarted(prompt) => (-32602, format!("prompt {prompt} has started already"), "already_started"),
        Refusal::UnknownAsk(ask) => (-32602, format!("no open request {ask}"), "unknown_ask"),
        Refusal::AlreadyAnswered(ask) => (-32602, format!("request {ask} has been answered"), "already_answered"),
        Refusal::InvalidOption { offered } => {
            (-32602, format!("none of the offered options: {}", offered.join(", ")), "invalid_option")
        }
        Refusal::AlreadyRunning => (-32602, "the session is running already".to_owned(), "already_running"),
    };
    RpcError::with(code, message, json!({ "sessionId": session, "reason": reason }))
}

/// The response to a prompt that the agent did not answer itself; `None` if it did.
pub(super) fn from_end(end: &PromptEnd, session: &str) -> Option<RpcError> {
    let (message, reason) = match end {
        PromptEnd::Answered { .. } | PromptEnd::Failed { .. } | PromptEnd::Cancelled => return None,
        PromptEnd::Removed { .. } => ("the prompt was taken out of the queue", "removed"),
        PromptEnd::AgentExited => ("the agent went away before it finished this prompt", "agent_exited"),
        PromptEnd::StartFailed => ("the agent could not be started for this prompt", "start_failed"),
        PromptEnd::SessionEnded => ("the session was ended before this prompt was finished", "session_ended"),
        PromptEnd::HostShutdown => ("the host was stopped before this prompt was finished", "host_shutdown"),
        PromptEnd::HostRestarted => ("the host was restarted before this prompt was finished", "host_restarted"),
    };
    Some(RpcError::with(-32603, message, json!({ "sessionId": session, "reason": reason })))
}
