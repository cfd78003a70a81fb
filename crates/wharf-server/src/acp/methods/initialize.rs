//! Requests without a session: `initialize`, logins, and anything else that goes to the agent of a
//! connection.
//!
//! They are no use cases of other surfaces: the agent's own answer is passed to the client as it
//! came.

use wharf_host::core::{Role, Status};
use wharf_host::{Forward, InitializeResponse, SessionHandle, new_client_id};

use super::forward::pass_on;
use crate::acp::answers;
use crate::acp::attachments::AttachedSession;
use crate::acp::client_info::ClientInfo;
use crate::acp::connection::Connection;
use crate::acp::errors::{RpcError, from_start, unreadable_answer};
use crate::acp::inbound::{ClientRequest, Outcome};
use crate::acp::unbound_agent::UnboundAnswer;

const MAX_LOGIN_BYTES: usize = 1 << 20;

/// Answers what the agent says of itself, with what Wharf adds.
pub(in crate::acp) async fn initialize(
    connection: &Connection,
    request: ClientRequest<'_>,
) -> Outcome {
    let client = &connection.client;
    client.introduce(ClientInfo::of(request.frame)?);
    let info = client.info();
    let known = || connection.agent.known_response();
    let response = match client.role() {
        // Observers start nothing, not even for this (rule 4.8).
        Role::Observer => known().unwrap_or_else(InitializeResponse::without_agent),
        Role::Controller if info.returns => {
            known().unwrap_or_else(InitializeResponse::without_agent)
        }
        Role::Controller => match known().filter(|_| info.joins) {
            Some(known) => known,
            None => connection
                .agent
                .introduce(client)
                .await
                .map_err(|failure| from_start(&failure))?,
        },
    };
    let answer = answers::initialize(&response.frame, request.id, info.terminal_auth);
    Ok(Some(answer.map_err(unreadable_answer)?))
}

/// Logs in; this connection's later agents are logged in the same way.
pub(super) async fn authenticate(connection: &Connection, request: ClientRequest<'_>) -> Outcome {
    if request.frame.len() > MAX_LOGIN_BYTES {
        return Err(RpcError::params(format!("a login may have {MAX_LOGIN_BYTES} bytes")));
    }
    let outcome = ask_agent(connection, request).await;
    if let Ok(Some(answer)) = &outcome
        && wharf_acp::scan(answer)
            .is_ok_and(|envelope| envelope.kind == wharf_acp::FrameKind::Result)
    {
        connection.requests.add_login(request.frame.clone());
    }
    outcome
}

/// Logs out: passes the request on to every agent of the adapter.
pub(super) async fn log_out(connection: &Connection, request: ClientRequest<'_>) -> Outcome {
    let caller = connection.client.caller();
    caller.may_change()?;
    // It takes the agent's account from every session of the machine.
    caller.may_see_host()?;
    connection.requests.clear_logins();
    // The session that answers the client's own request is not told twice.
    let own = if connection.agent.is_waiting().await { None } else { own_session(connection) };
    let others = connection.app.host.running(connection.agent.adapter()).into_iter();
    for handle in others.filter(|handle| own.as_ref().is_none_or(|own| own.id() != handle.id())) {
        // Asked in no client's name: the client's own request is answered by the connection's own
        // agent.
        let client = new_client_id();
        let id = Some(request.id.clone());
        let _ = handle
            .tell_agent(Forward { client, frame: request.frame.clone(), request: id })
            .await;
    }
    ask_agent(connection, request).await
}

/// Asks the agent process of the connection: the agent that waits for its session, or else the
/// agent of a session. Starts an agent if there is neither (rule 12.15).
pub(super) async fn ask_agent(connection: &Connection, request: ClientRequest<'_>) -> Outcome {
    connection.client.caller().may_change()?;
    let asked = connection
        .agent
        .ask(&connection.client, request.frame, || own_session(connection))
        .await;
    match asked.map_err(|failure| from_start(&failure))? {
        UnboundAnswer::Session(handle) => pass_on(connection, &handle, request).await,
        UnboundAnswer::Frame(answer) => Ok(wharf_acp::scan(&answer)
            .ok()
            .map(|envelope| wharf_acp::with_id(&answer, &envelope, request.id))),
    }
}

/// Returns the newest session that this client controls and whose agent is one of the connection's
/// adapter.
fn own_session(connection: &Connection) -> Option<SessionHandle> {
    let fits = |attached: &AttachedSession| {
        let known = attached.handle.descriptor();
        let is_own = known.adapter_slug == **connection.agent.adapter();
        attached.role == Role::Controller && known.status == Status::Running && is_own
    };
    let own = connection
        .attachments
        .all()
        .into_iter()
        .filter(fits)
        .map(|attached| attached.handle);
    // Ids sort by age.
    own.max_by(|a, b| a.id().as_str().cmp(b.id().as_str()))
}
