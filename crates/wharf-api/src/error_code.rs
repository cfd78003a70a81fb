//! Lists the error codes: every refusal and failure that a client can receive, on every surface.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// JSON-RPC: the text is not JSON.
const RPC_PARSE_ERROR: i32 = -32700;
/// JSON-RPC: the message is not a valid request.
const RPC_INVALID_REQUEST: i32 = -32600;
/// JSON-RPC: the method does not exist.
const RPC_METHOD_NOT_FOUND: i32 = -32601;
/// JSON-RPC: the parameters are not valid.
const RPC_INVALID_PARAMS: i32 = -32602;
/// JSON-RPC: the request failed.
const RPC_INTERNAL_ERROR: i32 = -32603;
/// ACP: the resource does not exist.
const RPC_NOT_FOUND: i32 = -32002;
/// RFD 533: the client is not attached to the session.
const RPC_NOT_ATTACHED: i32 = -32001;
/// RFD 533: the client's role does not allow it.
const RPC_FORBIDDEN: i32 = -32011;

/// A word for programs that stays the same, with the numbers that HTTP and JSON-RPC have for it. In
/// problem+json it is `code`, in a JSON-RPC error `data.reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode {
    word: &'static str,
    status: u16,
    json_rpc: i32,
}

macro_rules! error_codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $word:literal, $status:literal, $json_rpc:expr;)+) => {
        impl ErrorCode {
            $($(#[doc = $doc])+ pub const $name: Self = Self { word: $word, status: $status, json_rpc: $json_rpc };)+

            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];
        }
    };
}

// The caller, and what its token covers.
error_codes! {
    /// The token is missing, unknown, revoked or expired.
    UNAUTHORIZED = "unauthorized", 401, RPC_INTERNAL_ERROR;
    /// Many wrong tokens or codes came from this address.
    TOO_MANY_FAILED_LOGINS = "too_many_failed_logins", 429, RPC_INTERNAL_ERROR;
    /// The host cannot check tokens at the moment.
    TOKENS_UNREADABLE = "tokens_unreadable", 503, RPC_INTERNAL_ERROR;
    /// The caller only observes.
    OBSERVER = "observer", 403, RPC_FORBIDDEN;
    /// Only an admin may do this.
    ADMIN_ONLY = "admin_only", 403, RPC_FORBIDDEN;
    /// It concerns the whole host, and the token covers a part of it.
    HOST_ONLY = "host_only", 403, RPC_FORBIDDEN;
    /// A login would be more than its asker.
    BEYOND_OWN_RIGHTS = "beyond_own_rights", 403, RPC_FORBIDDEN;
    /// Too many login codes wait to be used.
    TOO_MANY_CODES = "too_many_codes", 429, RPC_INTERNAL_ERROR;
    /// There is no such login, or none that the caller may see.
    UNKNOWN_LOGIN = "unknown_login", 404, RPC_INVALID_PARAMS;
    /// This is not for agents.
    NOT_FOR_AGENTS = "not_for_agents", 403, RPC_FORBIDDEN;
    /// The process belongs to an agent that has no session.
    AGENT_PROCESS = "agent_process", 403, RPC_FORBIDDEN;
    /// The system does not say which process is calling.
    UNKNOWN_PROCESS = "unknown_process", 403, RPC_FORBIDDEN;
    /// The socket is for the user who runs the host.
    ANOTHER_USER = "another_user", 403, RPC_FORBIDDEN;
    /// The operator does not let this agent do that to another session.
    DELEGATION_DENIED = "delegation_denied", 403, RPC_INVALID_PARAMS;
    /// A child's directory is outside of its parent's.
    CWD_OUTSIDE_PARENT = "cwd_outside_parent", 403, RPC_INVALID_PARAMS;
    /// The child would be deeper than is allowed.
    MAX_DEPTH_EXCEEDED = "max_depth_exceeded", 403, RPC_INVALID_PARAMS;
    /// The session has as many children as it may have.
    CHILD_QUOTA_EXCEEDED = "child_quota_exceeded", 429, RPC_INVALID_PARAMS;

    // The request.
    /// The `Host` header does not name this host.
    FOREIGN_AUTHORITY = "foreign_authority", 403, RPC_INVALID_REQUEST;
    /// A page of another origin sent it.
    FOREIGN_ORIGIN = "foreign_origin", 403, RPC_INVALID_REQUEST;
    /// The `Host` header is missing.
    NO_AUTHORITY = "no_authority", 400, RPC_INVALID_REQUEST;
    /// A header that must be unique is there twice.
    DOUBLED_HEADER = "doubled_header", 400, RPC_INVALID_REQUEST;
    /// No route has this path.
    UNKNOWN_ROUTE = "unknown_route", 404, RPC_INVALID_REQUEST;
    /// The route does not take this method.
    METHOD_NOT_ALLOWED = "method_not_allowed", 405, RPC_INVALID_REQUEST;
    /// The answer is an event stream, which the caller does not accept.
    NOT_ACCEPTABLE = "not_acceptable", 406, RPC_INVALID_REQUEST;
    /// The body is not said to be JSON.
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type", 415, RPC_INVALID_REQUEST;
    /// The connection has to be upgraded.
    UPGRADE_REQUIRED = "upgrade_required", 426, RPC_INVALID_REQUEST;
    /// The body or message is over the limit.
    BODY_TOO_LARGE = "body_too_large", 413, RPC_INVALID_REQUEST;
    /// The body did not come to its end, or not in time (408).
    CUT_OFF = "cut_off", 400, RPC_INVALID_REQUEST;
    /// The text is not JSON.
    MALFORMED_JSON = "malformed_json", 400, RPC_PARSE_ERROR;
    /// Batches of messages are not taken.
    BATCH = "batch", 501, RPC_INVALID_REQUEST;
    /// A member of the body, of the query or of a tool's arguments is missing, unknown or of the
    /// wrong kind.
    INVALID_PARAMS = "invalid_params", 422, RPC_INVALID_PARAMS;
    /// The query has a name that the route does not know.
    UNKNOWN_PARAMETER = "unknown_parameter", 400, RPC_INVALID_PARAMS;
    /// The id that the client gives itself cannot be used.
    INVALID_CLIENT_ID = "invalid_client_id", 400, RPC_INVALID_PARAMS;
    /// The idempotency key cannot be used.
    INVALID_IDEMPOTENCY_KEY = "invalid_idempotency_key", 422, RPC_INVALID_PARAMS;
    /// The idempotency key was used for something else.
    IDEMPOTENCY_KEY_REUSED = "idempotency_key_reused", 422, RPC_INVALID_PARAMS;
    /// The call was cancelled by its caller.
    CANCELLED = "cancelled", 408, RPC_INTERNAL_ERROR;

    // Limits of the host.
    /// Too many connections are open: of the token, or in all (503).
    TOO_MANY_CONNECTIONS = "too_many_connections", 429, RPC_INTERNAL_ERROR;
    /// Too many event streams and waits are open.
    TOO_MANY_STREAMS = "too_many_streams", 429, RPC_INTERNAL_ERROR;
    /// Too many requests of this connection are under way.
    TOO_MANY_REQUESTS = "too_many_requests", 429, RPC_INTERNAL_ERROR;
    /// All clients together are sending too much at once.
    TOO_MANY_BODIES = "too_many_bodies", 503, RPC_INTERNAL_ERROR;
    /// Too many large answers wait to be read by their clients.
    TOO_MANY_ANSWERS = "too_many_answers", 503, RPC_INTERNAL_ERROR;
    /// Too many answers of this connection wait to be read.
    ANSWERS_UNREAD = "answers_unread", 429, RPC_INTERNAL_ERROR;

    // The host and its storage.
    /// The host or the session cannot take this now.
    UNAVAILABLE = "unavailable", 503, RPC_INTERNAL_ERROR;
    /// The answer cannot be made.
    INTERNAL = "internal", 500, RPC_INTERNAL_ERROR;
    /// The configuration file cannot be used; the settings stay as they are.
    INVALID_SETTINGS = "invalid_settings", 409, RPC_INTERNAL_ERROR;
    /// The host is on its way out.
    STOPPING = "stopping", 503, RPC_INTERNAL_ERROR;
    /// The disk is full.
    STORAGE_FULL = "storage_full", 507, RPC_INTERNAL_ERROR;
    /// The state directory was deleted or moved.
    STORAGE_GONE = "storage_gone", 503, RPC_INTERNAL_ERROR;
    /// The state directory cannot be read or written.
    STORAGE_FAILED = "storage_failed", 503, RPC_INTERNAL_ERROR;
    /// It was done, but the log cannot say so.
    NOT_WRITTEN = "not_written", 507, RPC_INTERNAL_ERROR;
    /// The session's log is as long as it may be.
    LOG_FULL = "log_full", 507, RPC_INTERNAL_ERROR;

    // Workspaces.
    /// The registry of workspaces cannot be read.
    REGISTRY_DAMAGED = "registry_damaged", 500, RPC_INVALID_PARAMS;
    /// The registry of workspaces cannot be written.
    REGISTRY_UNWRITABLE = "registry_unwritable", 500, RPC_INVALID_PARAMS;
    /// The name of a workspace cannot be used.
    INVALID_SLUG = "invalid_slug", 422, RPC_INVALID_PARAMS;
    /// The directory of a workspace cannot be used.
    INVALID_PATH = "invalid_path", 422, RPC_INVALID_PARAMS;
    /// No workspace is registered under this name (404 where the request is about that workspace).
    UNKNOWN_WORKSPACE = "unknown_workspace", 422, RPC_INVALID_PARAMS;
    /// The name is taken.
    WORKSPACE_EXISTS = "workspace_exists", 409, RPC_INVALID_PARAMS;
    /// The workspace has running sessions.
    WORKSPACE_IN_USE = "workspace_in_use", 409, RPC_INVALID_PARAMS;
    /// Tokens are for this workspace alone.
    WORKSPACE_HAS_TOKENS = "workspace_has_tokens", 409, RPC_INVALID_PARAMS;

    // The start of an agent.
    /// There is no such adapter.
    UNKNOWN_ADAPTER = "unknown_adapter", 422, RPC_INVALID_PARAMS;
    /// The adapter's manifest cannot be used.
    INVALID_MANIFEST = "invalid_manifest", 422, RPC_INVALID_PARAMS;
    /// The adapter's agent does not speak ACP.
    PROTOCOL_NOT_SUPPORTED = "protocol_not_supported", 501, RPC_INVALID_PARAMS;
    /// The agent's program is not installed.
    ADAPTER_NOT_INSTALLED = "adapter_not_installed", 501, RPC_INTERNAL_ERROR;
    /// The adapter has no such mode.
    UNKNOWN_MODE = "unknown_mode", 422, RPC_INVALID_PARAMS;
    /// The adapter does not have this option, or the option does not take this value.
    INVALID_OPTION = "invalid_option", 422, RPC_INVALID_PARAMS;
    /// The directory cannot be used.
    INVALID_CWD = "invalid_cwd", 422, RPC_INVALID_PARAMS;
    /// The caller may not use this directory.
    CWD_NOT_ALLOWED = "cwd_not_allowed", 403, RPC_INVALID_PARAMS;
    /// The label is too long.
    LABEL_TOO_LONG = "label_too_long", 422, RPC_INVALID_PARAMS;
    /// This system has no sandbox.
    SANDBOX_NOT_SUPPORTED = "sandbox_not_supported", 501, RPC_INTERNAL_ERROR;
    /// The sandbox that is set cannot be had.
    SANDBOX_IMPOSSIBLE = "sandbox_impossible", 422, RPC_INTERNAL_ERROR;
    /// As many sessions run as may.
    TOO_MANY_SESSIONS = "too_many_sessions", 429, RPC_INTERNAL_ERROR;
    /// Sessions are started too fast.
    TOO_MANY_SPAWNS = "too_many_spawns", 429, RPC_INTERNAL_ERROR;
    /// The agent could not be started.
    START_FAILED = "start_failed", 502, RPC_INTERNAL_ERROR;

    // A session.
    /// There is no such session.
    UNKNOWN_SESSION = "unknown_session", 404, RPC_NOT_FOUND;
    /// The session's log cannot be read.
    UNREADABLE_SESSION = "unreadable_session", 503, RPC_INTERNAL_ERROR;
    /// The session has ended and cannot come back.
    NOT_RESUMABLE = "not_resumable", 409, RPC_INTERNAL_ERROR;
    /// A user killed the session.
    KILLED = "killed", 409, RPC_INTERNAL_ERROR;
    /// The session is running already.
    ALREADY_RUNNING = "already_running", 409, RPC_INVALID_PARAMS;
    /// The agent cannot copy a session.
    FORK_NOT_SUPPORTED = "fork_not_supported", 501, RPC_METHOD_NOT_FOUND;
    /// Another session has the label.
    LABEL_IN_USE = "label_in_use", 409, RPC_INTERNAL_ERROR;
    /// The session's agent has never started: there is nothing to copy.
    NOT_FORKABLE = "not_forkable", 409, RPC_INTERNAL_ERROR;
    /// Other clients use the session.
    IN_USE = "in_use", 409, RPC_INTERNAL_ERROR;
    /// The agent does not have this setting, or does not offer this value for it.
    SETTING_NOT_OFFERED = "setting_not_offered", 422, RPC_INVALID_PARAMS;
    /// The agent refused a request that Wharf passed on.
    AGENT_REFUSED = "agent_refused", 422, RPC_INTERNAL_ERROR;
    /// The agent did not answer in time.
    AGENT_TIMEOUT = "agent_timeout", 504, RPC_INTERNAL_ERROR;
    /// The log does not hold this event.
    UNKNOWN_EVENT = "unknown_event", 409, RPC_INVALID_PARAMS;
    /// The transcript has no such row.
    UNKNOWN_ROW = "unknown_row", 404, RPC_INVALID_PARAMS;
    /// No row of the transcript refers to these bytes.
    UNKNOWN_BLOB = "unknown_blob", 404, RPC_INVALID_PARAMS;
    /// The cursor was made by other rules for rows.
    FOLD_CHANGED = "fold_changed", 409, RPC_INVALID_PARAMS;
    /// The agent did not ask this.
    UNKNOWN_ASK = "unknown_ask", 404, RPC_INVALID_PARAMS;
    /// The ask does not offer this option.
    OPTION_NOT_OFFERED = "option_not_offered", 422, RPC_INVALID_PARAMS;
    /// The ask has had its answer.
    ALREADY_ANSWERED = "already_answered", 409, RPC_INVALID_PARAMS;

    // Prompts.
    /// A turn runs, or prompts wait.
    TURN_IN_PROGRESS = "turn_in_progress", 409, RPC_INTERNAL_ERROR;
    /// As many prompts wait as may.
    QUEUE_FULL = "queue_full", 429, RPC_INTERNAL_ERROR;
    /// No such prompt waits.
    UNKNOWN_PROMPT = "unknown_prompt", 404, RPC_INVALID_PARAMS;
    /// The agent takes no content of this kind.
    CONTENT_NOT_ACCEPTED = "content_not_accepted", 422, RPC_INVALID_PARAMS;
    /// The session has no such upload.
    UNKNOWN_UPLOAD = "unknown_upload", 422, RPC_INVALID_PARAMS;
    /// The session has as many uploads as it may have.
    TOO_MANY_UPLOADS = "too_many_uploads", 429, RPC_INVALID_PARAMS;
    /// The prompt's id is taken.
    PROMPT_ID_TAKEN = "prompt_id_taken", 409, RPC_INVALID_PARAMS;
    /// The prompt's turn has started.
    ALREADY_STARTED = "already_started", 409, RPC_INVALID_PARAMS;
    /// The agent takes no prompt while it works on another one.
    CANNOT_STEER = "cannot_steer", 409, RPC_INVALID_PARAMS;
    /// The prompt was taken out of the queue.
    REMOVED = "removed", 409, RPC_INTERNAL_ERROR;
    /// The agent went away before it finished the prompt.
    AGENT_EXITED = "agent_exited", 502, RPC_INTERNAL_ERROR;
    /// The session was ended before the prompt was finished.
    SESSION_ENDED = "session_ended", 409, RPC_INTERNAL_ERROR;
    /// The host was stopped before the prompt was finished.
    HOST_SHUTDOWN = "host_shutdown", 503, RPC_INTERNAL_ERROR;
    /// The host was restarted before the prompt was finished.
    HOST_RESTARTED = "host_restarted", 503, RPC_INTERNAL_ERROR;

    // Connections of ACP.
    /// The header `Acp-Connection-Id` is missing.
    CONNECTION_ID_MISSING = "connection_id_missing", 400, RPC_INVALID_REQUEST;
    /// There is no such connection.
    UNKNOWN_CONNECTION = "unknown_connection", 404, RPC_INVALID_REQUEST;
    /// The header and the message name different sessions.
    SESSION_MISMATCH = "session_mismatch", 400, RPC_INVALID_REQUEST;
    /// The connection is not attached to the session.
    NOT_ATTACHED = "not_attached", 409, RPC_NOT_ATTACHED;
    /// The client detached before its request reached the agent.
    LEFT = "left", 409, RPC_INTERNAL_ERROR;

    // Clients.
    /// A code of a newer host.
    OTHER = "other", 500, RPC_INTERNAL_ERROR;
}

impl ErrorCode {
    /// The JSON-RPC number of `session/attach` and `session/detach` for a session that does not
    /// exist.
    pub const ATTACH_UNKNOWN_JSON_RPC: i32 = RPC_NOT_ATTACHED;

    /// Returns the word.
    pub const fn as_str(self) -> &'static str {
        self.word
    }

    /// Returns the HTTP status that goes with it unless a place says otherwise.
    pub const fn status(self) -> u16 {
        self.status
    }

    /// Returns the number of a JSON-RPC error.
    pub const fn json_rpc(self) -> i32 {
        self.json_rpc
    }

    /// Returns the code of this word, or [`Self::OTHER`] if this version does not know it.
    pub fn from_word(word: &str) -> Self {
        Self::ALL.iter().copied().find(|code| code.word == word).unwrap_or(Self::OTHER)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word)
    }
}

impl Default for ErrorCode {
    fn default() -> Self {
        Self::OTHER
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word)
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from_word(&Cow::<'de, str>::deserialize(deserializer)?))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_unique_and_written_alike() {
        let words: BTreeSet<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(words.len(), ErrorCode::ALL.len(), "a word stands twice");
        for code in ErrorCode::ALL {
            assert!(
                code.word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'),
                "{code}"
            );
            assert!((400..600).contains(&code.status), "{code}");
            assert_eq!(ErrorCode::from_word(code.word), *code);
        }
    }

    #[test]
    fn code_of_a_newer_host_reads_as_other() {
        let read = |json: &str| serde_json::from_str::<ErrorCode>(json).unwrap();
        assert_eq!((read("\"killed\""), read("\"novel\"")), (ErrorCode::KILLED, ErrorCode::OTHER));
    }

    #[test]
    fn every_code_is_documented() {
        let pages = [
            include_str!("../../../docs/protocol/rest.md"),
            include_str!("../../../docs/protocol/acp.md"),
            include_str!("../../../docs/protocol/mcp.md"),
        ];
        for code in ErrorCode::ALL.iter().filter(|code| **code != ErrorCode::OTHER) {
            let word = format!("`{code}`");
            assert!(
                pages.iter().any(|page| page.contains(&word)),
                "{word} is not in docs/protocol"
            );
        }
    }
}
