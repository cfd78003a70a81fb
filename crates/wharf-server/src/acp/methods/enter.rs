//! How a client comes to a session: by a method that says so, or by a message that only names the
//! session.
//!
//! Attaching is ACP's own path and no use case of other surfaces: only a connection has a lane, a
//! view and a client that serves files and terminals. Whether the session is there for the caller
//! is decided as for every surface.

use bytes::Bytes;
use wharf_host::core::{Attachment, Joined, Refusal, Role, Seq, Status, TurnState};
use wharf_host::{AgentReport, Attendance, CallError, ReturnTerms, SessionHandle};
use wharf_json::Json;

use crate::acp::attachments::AttachedSession;
use crate::acp::connection::Connection;
use crate::acp::errors::{RpcError, from_call, from_start};
use crate::acp::event_id::{answer_with_event_id, event_id_at};
use crate::acp::message_order::MessageTurn;
use crate::acp::outbound::{Join, Out};
use crate::acp::view::TurnSeen;

/// A client that has come to a session and is not shown it yet.
#[derive(Debug)]
pub(in crate::acp) struct Arrival {
    pub(in crate::acp) handle: SessionHandle,
    /// The session as it was when the client came: what happened since is shown as news.
    pub(in crate::acp) joined: Joined,
    /// Its turn to be shown the session.
    pub(in crate::acp) showing: MessageTurn,
}

/// Attaches without an answer. Events after `after` are shown as they would have been live; without
/// it, only new ones.
pub(in crate::acp) async fn enter_quietly(
    connection: &Connection,
    handle: SessionHandle,
    after: Option<Seq>,
) -> Result<(Join, AttachedSession), RpcError> {
    let attachment = connection.attachment(handle.id(), false);
    let attendance = connection.attendance(false);
    let joined = connection.attach(&handle, attachment, attendance).await;
    let joined = joined.map_err(|error| from_call(&error, handle.id().as_str()))?;
    let is_idle = joined.turn == TurnState::Idle || after.is_some();
    let turn = if is_idle { TurnSeen::None } else { TurnSeen::Other };
    let view = connection.view_of(&handle, &joined, turn);
    let cursor = handle.cursor(after.unwrap_or(joined.head));
    let asks = (joined.head, joined.open_asks);
    let join = Join {
        cursor,
        view,
        answer: None,
        asks,
        hold: None,
        only_news: after.is_none(),
    };
    let sender = connection.sender_in(handle.id());
    Ok((join, AttachedSession { handle, role: connection.client.role(), sender }))
}

/// Attaches; a cold session's agent is brought back for a controller. Returns when the agent runs.
pub(in crate::acp) async fn enter_session(
    connection: &Connection,
    handle: SessionHandle,
    needs_agent: bool,
    turn: Option<MessageTurn>,
) -> Result<Arrival, RpcError> {
    let attachment = Attachment { needs_agent, ..connection.attachment(handle.id(), true) };
    let mut arrival =
        arrive(connection, handle, attachment, connection.attendance(true), turn).await?;
    if wait_for_start(connection, &arrival).await? {
        // The agent's statement about itself now that it is up. The client is shown all that
        // happened since it came.
        let report = arrival.handle.agent_report().await;
        let report = report.map_err(|error| from_call(&error, arrival.handle.id().as_str()))?;
        let AgentReport { answer, answer_at, settings, latest, .. } = report;
        arrival.joined = Joined { answer, answer_at, settings, latest, ..arrival.joined };
    }
    Ok(arrival)
}

/// Attaches, and has a cold session brought back if the attachment says so. From here on the next
/// message of the client about this session is accepted.
pub(super) async fn arrive(
    connection: &Connection,
    handle: SessionHandle,
    attachment: Attachment,
    attendance: Attendance,
    turn: Option<MessageTurn>,
) -> Result<Arrival, RpcError> {
    let joined = connection.attach(&handle, attachment, attendance).await;
    let joined = joined.map_err(|error| from_call(&error, handle.id().as_str()))?;
    let showing = connection.attachments.enter_showing(handle.id());
    drop(turn);
    Ok(Arrival { handle, joined, showing })
}

/// Waits for an agent that is starting. Returns true if it was and runs now; if it could not be
/// started the client leaves.
pub(super) async fn wait_for_start(
    connection: &Connection,
    arrival: &Arrival,
) -> Result<bool, RpcError> {
    if arrival.handle.descriptor().status != Status::Starting {
        return Ok(false);
    }
    match arrival.handle.up().await {
        Ok(()) => Ok(true),
        Err(failure) => {
            leave_unshown(connection, arrival).await;
            Err(from_start(&failure))
        }
    }
}

/// Brings a cold session back with other settings than those that were in force, if a controller
/// asks for that in `_meta.wharf` (rule 12.12). Nothing changes for a session that has its agent.
pub(super) async fn wake_on_terms(
    connection: &Connection,
    handle: &SessionHandle,
    terms: ReturnTerms,
    attachment: Attachment,
    attendance: Attendance,
) -> Result<(), RpcError> {
    let is_observer = attachment.role == Role::Observer;
    if terms == ReturnTerms::default() || is_observer || handle.descriptor().status.is_alive() {
        return Ok(());
    }
    let fail = |error: &CallError| from_call(error, handle.id().as_str());
    let client = attachment.sender.client.clone();
    connection
        .attach(handle, attachment, attendance)
        .await
        .map_err(|error| fail(&error))?;
    match handle.wake_on(client, terms).await {
        Ok(()) | Err(CallError::Refused(Refusal::AlreadyRunning)) => Ok(()),
        Err(error) => {
            connection.leave(handle).await;
            Err(fail(&error))
        }
    }
}

/// Leaves a session that was not shown yet. Prompts that were sent meanwhile are answered all the
/// same.
pub(super) async fn leave_unshown(connection: &Connection, arrival: &Arrival) {
    let Arrival { handle, joined, .. } = arrival;
    let mut turn = connection.order.enter(handle.id(), None);
    turn.come().await;
    let view = connection.plain_view(handle, joined.head, TurnSeen::None);
    let cursor = handle.cursor(joined.head);
    let asks = (joined.head, Vec::new());
    let join = Join {
        cursor,
        view,
        answer: None,
        asks,
        hold: None,
        only_news: true,
    };
    connection.outbox.send(Out::Implied(Box::new(join))).await;
    connection.leave(handle).await;
}

/// Returns an answer that tells up to an event, as this client understands it; with the event's id
/// for a client that wants to come back there (rules 1.5, 3.11).
pub(in crate::acp) async fn placed_answer(
    connection: &Connection,
    handle: &SessionHandle,
    seq: Seq,
    answer: Bytes,
) -> Bytes {
    let info = connection.client.info();
    let answer = info.understood().answer(&answer);
    let id = if info.event_ids { event_id_at(handle, seq).await } else { None };
    id.map_or_else(|| answer.clone(), |id| answer_with_event_id(&answer, id))
}

/// Reads the settings that a request asks for besides those in force.
pub(super) fn read_return_terms(frame: &[u8]) -> Result<ReturnTerms, RpcError> {
    let wrong = |error: &dyn std::fmt::Display| RpcError::params(format!("_meta.wharf: {error}"));
    let own = Json::parse(frame).and_then(|frame| frame.seek(&["params", "_meta", "wharf"]));
    let Some(own) = own.map_err(|error| wrong(&error))?.filter(|own| own.is_object()) else {
        return Ok(ReturnTerms::default());
    };
    let session_mode = own.text_at(&["sessionMode"]).map_err(|error| wrong(&error))?;
    if session_mode.as_deref() == Some("") {
        return Err(wrong(&"`sessionMode` is empty"));
    }
    let accept = own.bool_at(&["acceptAgentSettings"]).map_err(|error| wrong(&error))?;
    Ok(ReturnTerms {
        session_mode: session_mode.map(Into::into),
        accept_agent_settings: accept.unwrap_or(false),
    })
}
