//! `session/attach` and `session/detach`: a client joins a live session with as much of its past as
//! it wants (§4).

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use wharf_host::core::{Attachment, ChosenId, Member, Role, Sender, Seq, SessionId, TurnState};
use wharf_host::{Attendance, ByteBudget, ReturnTerms, Serves, SessionHandle};

use super::enter::{
    Arrival, arrive, placed_answer, read_return_terms, wait_for_start, wake_on_terms,
};
use crate::acp::connection::Connection;
use crate::acp::errors::{
    RpcError, attach_refused, attach_unknown, not_attached, unreadable_params,
};
use crate::acp::inbound::{ClientRequest, Outcome};
use crate::acp::message_order::MessageTurn;
use crate::acp::out_frame::OutFrame;
use crate::acp::outbound::Join;
use crate::acp::past::{HistoryTurn, PastPolicy, PastWish, put_history};
use crate::acp::updates::who;
use crate::acp::view::{TurnSeen, View, Wishes};
use crate::use_cases::shown_name;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AttachParams {
    history_policy: Option<String>,
    after_message_id: Option<String>,
    after_event_id: Option<String>,
    history_delivery: Option<String>,
    role: Option<String>,
    client_id: Option<String>,
    client_info: Option<AttachInfo>,
    #[serde(rename = "_meta")]
    meta: Option<AttachMeta>,
}

/// The client's name and version, for this session.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AttachInfo {
    name: Option<String>,
    version: Option<String>,
}

#[derive(Deserialize)]
struct AttachRequest {
    params: Option<AttachParams>,
}

#[derive(Default, Deserialize)]
struct AttachMeta {
    #[serde(default)]
    wharf: Option<AttachWishes>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AttachWishes {
    /// The updates of rule 4.5. A client that attaches gets them, unless it declines.
    multi_client_updates: Option<bool>,
    /// It served files and terminals on a connection that was lost.
    serves: bool,
}

impl AttachParams {
    fn past(&self) -> PastWish<'_> {
        PastWish {
            policy: self.history_policy.as_deref(),
            after_message: self.after_message_id.as_deref(),
            after_event: self.after_event_id.as_deref(),
            delivery: self.history_delivery.as_deref(),
        }
    }
}

/// Attaches to the session that the request names.
pub(super) async fn attach_session(
    connection: &Connection,
    request: ClientRequest<'_>,
    turn: Option<MessageTurn>,
) -> Outcome {
    let session = request.session()?;
    let handle = connection
        .sight()
        .open(&session)
        .await
        .map_err(|error| attach_refused(&error))?;
    attach_to(connection, handle, request, turn).await
}

/// Attaches to a session, with the part of its past that the request asks for.
pub(in crate::acp) async fn attach_to(
    connection: &Connection,
    handle: SessionHandle,
    request: ClientRequest<'_>,
    turn: Option<MessageTurn>,
) -> Outcome {
    let session = handle.id().clone();
    let params = wharf_acp::peek::<AttachRequest>(request.frame)
        .map_err(unreadable_params)?
        .params
        .unwrap_or_default();
    // A client may ask for less than its token allows; other words are labels (rule 4.8).
    let role = if params.role.as_deref() == Some("observer") {
        Role::Observer
    } else {
        connection.client.role()
    };
    let asked = params.meta.as_ref().and_then(|meta| meta.wharf).unwrap_or_default();
    let sender = named_sender(connection, &session, &params)?;
    let terms = read_return_terms(request.frame)?;
    let arrival =
        present_client(connection, handle, (role, sender), (asked.serves, terms), turn).await?;
    let Arrival { handle, joined, showing } = arrival;
    let gone = &connection.attachments;
    let past = params.past();
    let turn = if past.needs_log() { Some(connection.histories.begin(gone).await?) } else { None };
    let policy = gone.while_connected(past.choose_policy(&handle, joined.head)).await?;
    let others: Vec<Value> = joined.others.iter().map(list_member).collect();
    let mut answer = json!({
        "sessionId": session.as_str(),
        "clientId": connection.sender_in(&session).shown_id(),
        "historyPolicy": policy.name(),
        "connectedClients": others,
    });
    let building = put_history(connection, &handle, &joined, policy, past, &mut answer);
    let stream = gone.while_connected(building).await?;
    let wishes = Wishes {
        role,
        multi: asked.multi_client_updates.unwrap_or(true),
        ..connection.client.wishes()
    };
    let (from, seen) = match stream {
        Some(from) => (from, TurnSeen::None),
        None => (joined.head, turn_seen(joined.turn)),
    };
    // An exact reconnect shows the client the events that it missed as if they were live, so only
    // asks from before them are asked again.
    let history = if let PastPolicy::AfterEvent(seq) = policy { seq } else { joined.head };
    let view = View::new(session, wishes, Arc::clone(&connection.requests), history, seen)
        .with_queue(&joined.queued, joined.head);
    let asked = joined.open_asks.into_iter().filter(|ask| ask.id.0 <= history.0).collect();
    let answer = placed_answer(connection, &handle, from, request.respond(&answer)).await;
    let answer = reserve_answer(connection, answer, turn).await?;
    let answer = Some((Seq::ZERO, answer));
    let asks = (history, asked);
    let cursor = handle.cursor(from);
    let only_news = stream.is_none();
    connection
        .subscribe_in_turn(Join { cursor, view, answer, asks, hold: None, only_news }, showing)
        .await;
    Ok(None)
}

/// Returns the answer with its bytes counted. It waits for room as readers do; few can wait here,
/// since each keeps its place for building.
async fn reserve_answer(
    connection: &Connection,
    answer: Bytes,
    turn: Option<HistoryTurn>,
) -> Result<OutFrame, RpcError> {
    if answer.len() <= ByteBudget::UNCOUNTED_BYTES {
        return Ok(answer.into());
    }
    let reserving = connection.app.host.buffers().reserve_out(answer.len());
    let permit = connection.attachments.while_connected(reserving).await?;
    let turn = turn.map(HistoryTurn::built);
    Ok(OutFrame::from(answer).counted_by(Some(Arc::new(permit))).in_turn(turn))
}

/// Returns the client under the id and the name that it attaches with, if it gives any.
fn named_sender(
    connection: &Connection,
    session: &SessionId,
    params: &AttachParams,
) -> Result<Sender, RpcError> {
    let mut sender = connection.sender_in(session);
    if let Some(id) = &params.client_id {
        let chosen = ChosenId::parse(id)
            .map_err(|error| RpcError::params(format!("`clientId`: {error}")))?;
        sender.chosen = Some(chosen);
    }
    if let Some(info) = &params.client_info {
        sender.name = info.name.as_deref().and_then(shown_name).or(sender.name);
        sender.version = info.version.as_deref().and_then(shown_name).or(sender.version);
    }
    Ok(sender)
}

/// Attaches, and brings a cold session's agent back for a controller.
async fn present_client(
    connection: &Connection,
    handle: SessionHandle,
    (role, sender): (Role, Sender),
    (served, terms): (bool, ReturnTerms),
    turn: Option<MessageTurn>,
) -> Result<Arrival, RpcError> {
    let serves = if served && role == Role::Controller { Serves::Again } else { Serves::No };
    let attendance = Attendance { serves, ..connection.attendance(false) };
    let attachment = Attachment {
        role,
        sender,
        needs_agent: true,
        ..connection.attachment(handle.id(), true)
    };
    let asleep = Attachment { wake: false, ..attachment.clone() };
    wake_on_terms(connection, &handle, terms, asleep, attendance.clone()).await?;
    let arrival = arrive(connection, handle, attachment, attendance, turn).await?;
    if role == Role::Controller {
        wait_for_start(connection, &arrival).await?;
    }
    Ok(arrival)
}

/// Detaches from the session that the request names.
pub(super) async fn detach_session(connection: &Connection, request: ClientRequest<'_>) -> Outcome {
    let session = request.session()?;
    let Some(attached) = connection.attachments.get(&session) else {
        let known = connection.sight().descriptor(&session).is_some();
        return Err(if known {
            not_attached(session.as_str())
        } else {
            attach_unknown(session.as_str())
        });
    };
    connection.leave(&attached.handle).await;
    Ok(Some(request.respond(&json!({ "sessionId": session.as_str(), "status": "detached" }))))
}

pub(in crate::acp) fn turn_seen(turn: TurnState) -> TurnSeen {
    match turn {
        TurnState::Idle => TurnSeen::None,
        TurnState::Running | TurnState::AwaitingInput => TurnSeen::Other,
    }
}

fn list_member(member: &Member) -> Value {
    let mut client = who(&member.sender);
    client["role"] = match member.role {
        Role::Controller => "controller".into(),
        Role::Observer => "observer".into(),
    };
    client
}
