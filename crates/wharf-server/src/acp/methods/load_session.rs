//! `session/load` and `session/resume`: a client comes to a session that is there, with its past or
//! without.

use bytes::Bytes;
use wharf_host::core::{Refusal, Role, Seq};
use wharf_host::{CallError, Renewal};

use super::attach::turn_seen;
use super::enter::{
    Arrival, enter_session, leave_unshown, placed_answer, read_return_terms, wake_on_terms,
};
use super::open_session;
use crate::acp::answers;
use crate::acp::connection::Connection;
use crate::acp::errors::{RpcError, from_call, from_create, not_resumable, unreadable_answer};
use crate::acp::inbound::{ClientRequest, Outcome};
use crate::acp::message_order::MessageTurn;
use crate::acp::outbound::Join;
use crate::acp::view::TurnSeen;

/// Replays the log as updates, then answers, then goes on live. A live agent is not disturbed (rule
/// 3.5).
pub(super) async fn load_session(
    connection: &Connection,
    request: ClientRequest<'_>,
    turn: Option<MessageTurn>,
) -> Outcome {
    // Also of a session that a user killed: its history can be read.
    let arrival = enter(connection, request, false, turn).await?;
    let answer = loaded_answer(connection, &arrival, request.id).await?;
    let Arrival { handle, joined, showing } = arrival;
    let view = connection.view_of(&handle, &joined, TurnSeen::None);
    let answer = Some((joined.head, connection.outbox.count(answer)));
    let asks = (joined.head, joined.open_asks);
    let cursor = handle.cursor(Seq::ZERO);
    let hold = connection.app.host.config().ready_timeout.to_std();
    connection
        .subscribe_in_turn(Join { cursor, view, answer, asks, hold, only_news: false }, showing)
        .await;
    Ok(None)
}

/// Joins without a replay. The latest state follows the answer.
pub(super) async fn resume_session(
    connection: &Connection,
    request: ClientRequest<'_>,
    turn: Option<MessageTurn>,
) -> Outcome {
    let arrival = enter(connection, request, true, turn).await?;
    let known = arrival.handle.descriptor();
    if !known.status.is_alive() && !known.resumable && connection.client.role() == Role::Controller
    {
        leave_unshown(connection, &arrival).await;
        return Err(not_resumable(arrival.handle.id().as_str()));
    }
    let answer = loaded_answer(connection, &arrival, request.id).await?;
    let Arrival { handle, joined, showing } = arrival;
    let view = connection.view_of(&handle, &joined, turn_seen(joined.turn));
    let latest = answers::latest(&joined.latest);
    let answer = Some((joined.head, connection.outbox.count(answer)));
    let asks = (joined.head, joined.open_asks);
    let cursor = handle.cursor(joined.head);
    let hold = connection.app.host.config().ready_timeout.to_std();
    connection
        .subscribe_in_turn(Join { cursor, view, answer, asks, hold, only_news: true }, showing)
        .await;
    for frame in latest {
        connection.outbox.send_after(handle.id(), frame, joined.head).await;
    }
    Ok(None)
}

/// Returns the answer to a load or resume. If it cannot be made the client leaves: it was not shown
/// the session.
async fn loaded_answer(
    connection: &Connection,
    arrival: &Arrival,
    id: &Bytes,
) -> Result<Bytes, RpcError> {
    match answers::loaded(&arrival.joined, &arrival.handle.descriptor(), id) {
        Ok(answer) => {
            Ok(placed_answer(connection, &arrival.handle, arrival.joined.head, answer).await)
        }
        Err(error) => {
            leave_unshown(connection, arrival).await;
            Err(unreadable_answer(error))
        }
    }
}

/// Attaches to a session; a cold one's agent is brought back for a controller (rule 2.6). A
/// controller that needs the agent is refused if a user killed the session (rule 12.16).
async fn enter(
    connection: &Connection,
    request: ClientRequest<'_>,
    needs_agent: bool,
    turn: Option<MessageTurn>,
) -> Result<Arrival, RpcError> {
    let session = request.session()?;
    let sight = connection.sight();
    if connection.client.role() == Role::Controller {
        if needs_agent && sight.descriptor(&session).is_some_and(|known| known.is_killed()) {
            return Err(from_call(&CallError::Refused(Refusal::Killed), session.as_str()));
        }
        let env = connection.client.env();
        let directory_scope = connection.client.identity().directory_scope();
        let renewal = Renewal { frame: request.frame, env: &env, directory_scope };
        sight.renew_session(&session, &renewal).map_err(|error| from_create(&error))?;
    }
    let handle = open_session(connection, request.envelope).await?;
    let terms = read_return_terms(request.frame)?;
    let attachment = connection.attachment(handle.id(), false);
    wake_on_terms(connection, &handle, terms, attachment, connection.attendance(true)).await?;
    enter_session(connection, handle, needs_agent, turn).await
}
