//! Messages that Wharf does not look into: they are passed on to the agent of the session that they
//! name (rule 3.10).
//!
//! Other surfaces have no such path: their callers speak no ACP.

use std::sync::Arc;

use bytes::Bytes;
use wharf_acp::Envelope;
use wharf_host::core::{Refusal, SessionId};
use wharf_host::{CallError, Forward, PassedOn, SessionHandle, Taken, is_setting_method};

use super::controlled_session;
use crate::acp::connection::Connection;
use crate::acp::errors::{RpcError, from_call, from_start};
use crate::acp::inbound::{ClientRequest, Outcome};
use crate::acp::message_order::MessageTurn;
use crate::acp::pending_requests::ForwardedRequest;
use crate::client_span::spawn_in_span;
use crate::use_cases::note_act;

/// Passes a request on to the session's agent; the answer comes by the lane.
pub(super) async fn forward_request(
    connection: &Arc<Connection>,
    request: ClientRequest<'_>,
    turn: Option<MessageTurn>,
) -> Outcome {
    let handle = controlled_session(connection, request.envelope).await?;
    let session = handle.id().clone();
    if !handle.descriptor().status.is_alive() {
        match handle.wake_for(connection.client.id().clone()).await {
            // Someone else was faster.
            Ok(()) | Err(CallError::Refused(Refusal::AlreadyRunning)) => {}
            Err(error) => return Err(from_call(&error, session.as_str())),
        }
    }
    let before = handle.head();
    let taken = hand_over(connection, &handle, request).await?;
    if is_setting_method(&request.envelope.method) {
        note_act(&connection.app, &connection.client.caller(), &handle, before);
    }
    let is_beside = turn.is_some_and(|turn| turn.is_beside);
    match taken {
        Taken::Later(passed_on) if !is_beside => {
            let connection = Arc::clone(connection);
            let id = request.id.clone();
            spawn_in_span(async move {
                let outcome = wait_until_passed(&connection, passed_on, &id, &session).await;
                connection.answer(Some(session), &id, outcome).await;
            });
            Ok(None)
        }
        Taken::Now | Taken::Later(_) | Taken::Refused => {
            settle_taken(connection, taken, request.id, &session).await
        }
    }
}

pub(super) async fn forward_notification(
    connection: &Connection,
    frame: &Bytes,
    envelope: &Envelope<'_>,
) {
    if let Ok(handle) = controlled_session(connection, envelope).await {
        let forward = Forward {
            client: connection.client.id().clone(),
            frame: frame.clone(),
            request: None,
        };
        let _ = handle.forward(forward).await;
    }
}

/// Hands a request to the agent of an attached session.
pub(super) async fn pass_on(
    connection: &Connection,
    handle: &SessionHandle,
    request: ClientRequest<'_>,
) -> Outcome {
    let taken = hand_over(connection, handle, request).await?;
    settle_taken(connection, taken, request.id, handle.id()).await
}

async fn settle_taken(
    connection: &Connection,
    taken: Taken,
    id: &Bytes,
    session: &SessionId,
) -> Outcome {
    match taken {
        Taken::Now => Ok(None),
        Taken::Refused => {
            connection.requests.settle_forward(id);
            Err(RpcError::too_many_requests())
        }
        Taken::Later(passed_on) => wait_until_passed(connection, passed_on, id, session).await,
    }
}

async fn hand_over(
    connection: &Connection,
    handle: &SessionHandle,
    request: ClientRequest<'_>,
) -> Result<Taken, RpcError> {
    let session = handle.id().clone();
    let method = request.envelope.method.as_ref();
    let tells_options = method == "session/set_config_option";
    let login = (method == "authenticate").then(|| request.frame.clone());
    let forwarded = ForwardedRequest { session: session.clone(), tells_options, login };
    connection.requests.forward(request.id.clone(), forwarded);
    let client = connection.client.id().clone();
    let frame = request.frame.clone();
    let forward = Forward { client, frame, request: Some(request.id.clone()) };
    handle.forward(forward).await.map_err(|error| {
        connection.requests.settle_forward(request.id);
        from_call(&error, session.as_str())
    })
}

/// Waits until a request was passed on to an agent that starts. If it does not start, that is the
/// answer.
async fn wait_until_passed(
    connection: &Connection,
    passed_on: PassedOn,
    id: &Bytes,
    session: &SessionId,
) -> Outcome {
    let error = match passed_on.await {
        Ok(Ok(())) => return Ok(None),
        Ok(Err(failure)) => from_start(&failure),
        Err(_) => from_call(&CallError::Gone, session.as_str()),
    };
    connection.requests.settle_forward(id);
    Err(error)
}
