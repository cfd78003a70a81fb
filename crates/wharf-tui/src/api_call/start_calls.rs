//! Requests of the form for a new session.

use wharf_api::SpawnArgs;

use super::{ApiCall, join_path};

/// Lists the agents that can be started.
pub(crate) fn list_adapters() -> ApiCall {
    ApiCall::get(join_path(&["adapters"]))
}

/// Lists directories and workspaces in which a session can be started.
pub(crate) fn list_places() -> ApiCall {
    ApiCall::get(join_path(&["places"]))
}

/// Starts a session. The answer comes before the agent is up. The agent gets these variables of the
/// person's environment.
pub(crate) fn spawn_session(args: &SpawnArgs, variables: Vec<String>, key: &str) -> ApiCall {
    let call = ApiCall::post(join_path(&["sessions", "agent"]), args);
    let forwarded_variables = Some(variables);
    ApiCall {
        idempotency_key: Some(key.to_owned()),
        respond_async: true,
        forwarded_variables,
        ..call
    }
}

/// Reads the host's version and its state.
pub(crate) fn describe_host() -> ApiCall {
    ApiCall::get(join_path(&["host"]))
}
