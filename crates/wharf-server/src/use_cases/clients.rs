//! The clients that are attached to a session (rule 17.5).

use wharf_api::{AttachedClientInfo, ClientList, ClientRole, ClientTransport};
use wharf_host::core::Role;
use wharf_host::{AttachedClient, SessionHandle, Transport, format_timestamp};

use super::faults::fault_from_failed_call;
use super::{Caller, open_session};
use crate::App;
use crate::fault::Fault;

/// Lists the attached clients in the order in which they came.
pub(crate) async fn list_clients(
    app: &App,
    caller: &Caller,
    id: &str,
) -> Result<ClientList, Fault> {
    let handle = open_session(app, caller, id).await?;
    Ok(ClientList { clients: read_clients(app, &handle).await? })
}

/// Returns the attached clients of a session.
pub(crate) async fn read_clients(
    app: &App,
    handle: &SessionHandle,
) -> Result<Vec<AttachedClientInfo>, Fault> {
    let clients = handle
        .clients()
        .await
        .map_err(|error| fault_from_failed_call(app, handle.id(), &error))?;
    Ok(clients.iter().map(|client| to_client_info(app, client)).collect())
}

fn to_client_info(app: &App, client: &AttachedClient) -> AttachedClientInfo {
    let sender = &client.member.sender;
    let is_agent = sender.parent.is_some();
    AttachedClientInfo {
        client_id: sender.shown_id().to_owned(),
        name: sender.name.as_deref().map(ToOwned::to_owned),
        version: sender.version.as_deref().map(ToOwned::to_owned),
        role: match client.member.role {
            Role::Controller => ClientRole::Controller,
            Role::Observer => ClientRole::Observer,
        },
        person: (!is_agent).then(|| app.tokens.person_name(sender.token.as_deref())),
        since: format_timestamp(client.since),
        transport: client.transport.map(|transport| match transport {
            Transport::WebSocket => ClientTransport::WebSocket,
            Transport::Http => ClientTransport::Http,
            Transport::Amux => ClientTransport::Amux,
        }),
        connections: client.connections,
    }
}
