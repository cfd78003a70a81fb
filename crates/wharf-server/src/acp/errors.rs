//! JSON-RPC errors: the protocol's own, and the faults of the use cases.

use bytes::Bytes;
use serde_json::{Value, json};
use wharf_api::ErrorCode;
use wharf_host::core::{PromptEnd, Refusal};
use wharf_host::{CallError, CreateError, OpenError, StartFailure};
use wharf_json::ReadError;
use wharf_json::rpc::{self, code};

use crate::fault::{Fault, JsonRpcParts};
use crate::use_cases;

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
        Self::new(code::PARSE_ERROR, message)
    }

    pub(super) fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_REQUEST, message)
    }

    pub(super) fn unknown_method(method: &str) -> Self {
        Self::new(code::METHOD_NOT_FOUND, format!("no method {method:?} here"))
    }

    pub(super) fn params(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    pub(super) fn too_many_requests() -> Self {
        let message = "too many or too large requests of this connection are under way; wait for some of their answers";
        Fault::new(ErrorCode::TOO_MANY_REQUESTS, message).into()
    }

    /// Returns the error for work that ends because the client is gone. The client cannot get it
    /// any more.
    pub(super) fn client_gone() -> Self {
        Self::new(code::INTERNAL_ERROR, "the connection has ended")
    }

    pub(super) fn code(&self) -> i32 {
        self.code
    }

    /// Returns true if the error tells of a fault with this code.
    pub(super) fn tells(&self, code: ErrorCode) -> bool {
        self.data.as_ref().is_some_and(|data| data["reason"] == code.as_str())
    }

    /// The error as a response to the request `id` (JSON text).
    pub(super) fn frame(&self, id: &[u8]) -> Bytes {
        rpc::error_response(id, rpc::error(self.code, &self.message, self.data.clone()))
    }
}

/// The request's parameters cannot be used.
pub(super) fn unreadable_params(error: ReadError) -> RpcError {
    RpcError::params(format!("the parameters cannot be read: {error}"))
}

/// An agent's answer cannot be passed on.
pub(super) fn unreadable_answer(error: ReadError) -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, format!("the agent's answer cannot be read: {error}"))
}

pub(super) fn not_resumable(session: &str) -> RpcError {
    use_cases::fault_from_refusal(&Refusal::NotResumable, session).into()
}

/// On attach and detach (rule 4.6).
pub(super) fn attach_unknown(session: &str) -> RpcError {
    RpcError::with(
        ErrorCode::ATTACH_UNKNOWN_JSON_RPC,
        "Session not found",
        json!({ "sessionId": session }),
    )
}

/// On attach to a session that cannot be opened.
pub(super) fn attach_refused(error: &OpenError) -> RpcError {
    match error {
        OpenError::Unknown(id) => attach_unknown(id.as_str()),
        OpenError::Unreadable { id, .. } => {
            use_cases::fault_from_open_error(id.as_str(), error).into()
        }
    }
}

/// On detach from a session that exists.
pub(super) fn not_attached(session: &str) -> RpcError {
    Fault::new(ErrorCode::NOT_ATTACHED, "this connection is not attached to the session")
        .with_session(session)
        .into()
}

pub(super) fn in_use(session: &str, others: usize) -> RpcError {
    let message = format!(
        "{others} other clients use this session; pass _meta.wharf.force to delete it all the same"
    );
    Fault::new(ErrorCode::IN_USE, message).with_session(session).into()
}

pub(super) fn from_create(error: &CreateError) -> RpcError {
    use_cases::fault_from_create_error(error).into()
}

pub(super) fn from_start(failure: &StartFailure) -> RpcError {
    use_cases::start_failed(failure).into()
}

pub(super) fn from_call(error: &CallError, session: &str) -> RpcError {
    use_cases::fault_from_call_error(error, session).into()
}

/// The response to a prompt that the agent did not answer itself; `None` if it did.
pub(super) fn from_end(end: &PromptEnd, failure: Option<&str>, session: &str) -> Option<RpcError> {
    use_cases::fault_from_prompt_end(end, failure, session).map(Into::into)
}

impl From<Fault> for RpcError {
    fn from(fault: Fault) -> Self {
        let JsonRpcParts { code, message, data } = fault.to_json_rpc();
        Self::with(code, message, data)
    }
}
