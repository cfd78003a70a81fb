//! `session/close` and `session/delete`.

use serde_json::json;
use wharf_json::Json;

use super::open_session;
use crate::acp::connection::Connection;
use crate::acp::errors::{RpcError, in_use, unreadable_params};
use crate::acp::inbound::{ClientRequest, Outcome};
use crate::acp::outbound::Out;
use crate::use_cases;

/// Leaves the session. The last client, or a client that insists, ends it (rule 3.5).
pub(super) async fn close_session(connection: &Connection, request: ClientRequest<'_>) -> Outcome {
    let session = request.session()?;
    let handle = open_session(connection, request.envelope).await?;
    let attached = connection.attachments.get(&session);
    let caller = connection.caller_in(&session);
    use_cases::may_end(&connection.app, &caller, session.as_str()).await?;
    let others = handle.descriptor().clients.saturating_sub(usize::from(attached.is_some()));
    if others == 0 || is_forced(request.frame)? {
        use_cases::close_session(&connection.app, &caller, session.as_str()).await?;
    }
    connection.leave(&handle).await;
    Ok(Some(request.respond(&json!({}))))
}

/// Forgets the session. Unknown ids succeed; a session that others use needs `force`.
pub(super) async fn delete_session(connection: &Connection, request: ClientRequest<'_>) -> Outcome {
    let session = request.session()?;
    let attached = connection.attachments.get(&session);
    let caller = connection.caller_in(&session);
    use_cases::may_end(&connection.app, &caller, session.as_str()).await?;
    let mut answer = json!({});
    if let Some(known) = use_cases::find_session(&connection.app, &caller, session.as_str()) {
        let own = usize::from(attached.is_some());
        if known.clients > own && !is_forced(request.frame)? {
            return Err(in_use(session.as_str(), known.clients - own));
        }
        connection.attachments.remove(&session);
        connection.outbox.send(Out::Leave(session.clone())).await;
        let forgotten =
            use_cases::forget_session(&connection.app, &caller, session.as_str()).await?;
        if let Some(word) = forgotten.agent_delete {
            answer = json!({ "_meta": { "wharf": { "agentDelete": word } } });
        }
    }
    Ok(Some(request.respond(&answer)))
}

fn is_forced(frame: &[u8]) -> Result<bool, RpcError> {
    let force =
        Json::parse(frame).and_then(|frame| frame.seek(&["params", "_meta", "wharf", "force"]));
    Ok(force.map_err(unreadable_params)?.and_then(Json::bool) == Some(true))
}
