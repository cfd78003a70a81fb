//! `session/attach` and `session/detach`: joining a live session with as much of its past as one wants (§4).

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use wharf_host::core::{Attachment, ChosenId, Epoch, Joined, Member, Role, Sender, Seq, SessionId, TurnState};
use wharf_host::frame::{self, Envelope};
use wharf_host::{Attendance, ByteBudget, Cursor, ReturnTerms, Serves, SessionHandle};

use super::amux;
use super::connection::Connection;
use super::errors::{RpcError, attach_refused, attach_unknown, not_attached, unreadable_params};
use super::event_id;
use super::history::History;
use super::history_limit::HistoryTurn;
use super::inbound::{Outcome, named, result};
use super::order::Turn;
use super::out_frame::OutFrame;
use super::outbound::Join;
use super::sessions::Arrival;
use super::updates::who;
use super::view::{TurnSeen, View, Wishes};
use crate::use_cases::shown_name;

/// The policy of an exact reconnect.
const AFTER_EVENT: &str = "after_event";
/// A history over this is streamed instead of put into the answer (rule 4.3).
const INLINE: usize = 4 << 20;

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
    /// The updates of rule 4.5. Who attaches gets them, unless it declines.
    multi_client_updates: Option<bool>,
    /// It served files and terminals on a connection that was lost.
    serves: bool,
}

impl AttachParams {
    /// Has the log to be looked through for the answer?
    fn wants_history(&self) -> bool {
        match self.history_policy.as_deref() {
            Some("pending_only" | "none" | AFTER_EVENT) => false,
            Some("after_message") => true,
            Some(_) | None => self.history_delivery.as_deref() != Some("stream"),
        }
    }
}

/// Which part of the past a newcomer gets.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Policy {
    Full,
    PendingOnly,
    Nothing,
    /// What came after this event of the log.
    After {
        name: &'static str,
        seq: Seq,
    },
}

impl Policy {
    const fn name(&self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::PendingOnly => "pending_only",
            Self::Nothing => "none",
            Self::After { name, .. } => name,
        }
    }
}

impl Connection {
    pub(super) async fn attach_session(
        &self,
        frame: &Bytes,
        envelope: &Envelope<'_>,
        id: &Bytes,
        turn: Option<Turn>,
    ) -> Outcome {
        let handle = match self.meant(envelope).await? {
            Some(handle) => handle,
            None => {
                let session = named(envelope)?;
                self.sight().open(&session).await.map_err(|error| attach_refused(&error))?
            }
        };
        let session = handle.id().clone();
        let params = frame::peek::<AttachRequest>(frame).map_err(unreadable_params)?.params.unwrap_or_default();
        // A client may ask for less than its token allows; other words are labels (rule 4.8).
        let role = if params.role.as_deref() == Some("observer") { Role::Observer } else { self.role() };
        let asked = params.meta.as_ref().and_then(|meta| meta.wharf).unwrap_or_default();
        let sender = self.named_sender(&session, &params)?;
        let terms = super::sessions::return_terms(frame)?;
        let arrival = self.present(handle, (role, sender), (asked.serves, terms), turn).await?;
        let Arrival { handle, joined, showing } = arrival;
        let turn = if params.wants_history() { Some(self.begin_history().await?) } else { None };
        let policy = self.while_connected(policy(&handle, &joined, &params)).await?;
        let others: Vec<Value> = joined.others.iter().map(listed).collect();
        let mut answer = json!({
            "sessionId": session.as_str(),
            "clientId": self.sender_in(&session).shown_id(),
            "historyPolicy": policy.name(),
            "connectedClients": others,
        });
        let building = self.put_history(&handle, &joined, &policy, &params, &mut answer);
        let stream = self.while_connected(building).await?;
        let wishes = Wishes { role, multi: asked.multi_client_updates.unwrap_or(true), ..self.wishes() };
        let (from, seen) = match stream {
            Some(from) => (from, TurnSeen::None),
            None => (joined.head, turn_seen(joined.turn)),
        };
        // An exact reconnect sees what it missed as it would have seen it live: only asks from before are asked again.
        let history = if let Policy::After { name: AFTER_EVENT, seq } = policy { seq } else { joined.head };
        let view =
            View::new(session, wishes, Arc::clone(&self.ledger), history, seen).with_queue(&joined.queued, joined.head);
        let asked = joined.open_asks.into_iter().filter(|ask| ask.id.0 <= history.0).collect();
        let answer = self.placed(&handle, from, result(id, &answer)).await;
        let answer = self.reserved(answer, turn).await?;
        let (answer, asks) = (Some((Seq::ZERO, answer)), (history, asked));
        let only_news = stream.is_none();
        let cursor = handle.cursor(from);
        self.join_in_turn(Join { cursor, view, answer, asks, hold: None, only_news }, showing).await;
        Ok(None)
    }

    /// The answer with its bytes counted. It waits for room as readers do; few can wait here, since each keeps its place
    /// for building.
    async fn reserved(&self, answer: Bytes, turn: Option<HistoryTurn>) -> Result<OutFrame, RpcError> {
        if answer.len() <= ByteBudget::UNCOUNTED_BYTES {
            return Ok(answer.into());
        }
        let permit = self.while_connected(self.app.host.buffers().reserve_out(answer.len())).await?;
        let turn = turn.map(HistoryTurn::built);
        Ok(OutFrame::from(answer).counted_by(Some(Arc::new(permit))).in_turn(turn))
    }

    /// The client under the id and the name that it attaches with, if it gives any.
    fn named_sender(&self, session: &SessionId, params: &AttachParams) -> Result<Sender, RpcError> {
        let mut sender = self.sender_in(session);
        if let Some(id) = &params.client_id {
            let chosen = ChosenId::parse(id).map_err(|error| RpcError::params(format!("`clientId`: {error}")))?;
            sender.chosen = Some(chosen);
        }
        if let Some(info) = &params.client_info {
            sender.name = info.name.as_deref().and_then(shown_name).or(sender.name);
            sender.version = info.version.as_deref().and_then(shown_name).or(sender.version);
        }
        Ok(sender)
    }

    /// Attaches, and brings a cold session's agent back for a controller.
    async fn present(
        &self,
        handle: SessionHandle,
        (role, sender): (Role, Sender),
        (served, terms): (bool, ReturnTerms),
        turn: Option<Turn>,
    ) -> Result<Arrival, RpcError> {
        let serves = if served && role == Role::Controller { Serves::Again } else { Serves::No };
        let attendance = Attendance { serves, ..self.attendance(false) };
        let attachment = Attachment { role, sender, needs_agent: true, ..self.attachment(handle.id(), true) };
        let asleep = Attachment { wake: false, ..attachment.clone() };
        self.wake_on_terms(&handle, terms, asleep, attendance.clone()).await?;
        let arrival = self.arrive(handle, attachment, attendance, turn).await?;
        if role == Role::Controller {
            self.is_started(&arrival).await?;
        }
        Ok(arrival)
    }

    /// Puts the history into the answer, or says from where it is streamed.
    async fn put_history(
        &self,
        handle: &SessionHandle,
        joined: &Joined,
        policy: &Policy,
        params: &AttachParams,
        answer: &mut Value,
    ) -> Option<Seq> {
        // An amux client gets its history as the frames that it would have got.
        let raw = self.bound.as_ref().filter(|_| self.binds(handle.id()));
        let from = match policy {
            Policy::Nothing => return None,
            Policy::Full => Seq::ZERO,
            Policy::PendingOnly => {
                answer["history"] = match raw {
                    Some(_) => amux::pending(&joined.open_asks).into(),
                    None => History::pending_only(handle.cursor(Seq::ZERO), &joined.open_asks).await.into(),
                };
                return None;
            }
            // The exact reconnect: the very frames that were missed.
            Policy::After { name: AFTER_EVENT, seq } => {
                answer["historyDelivery"] = "stream".into();
                return Some(*seq);
            }
            Policy::After { seq, .. } => *seq,
        };
        let inline = params.history_delivery.as_deref() != Some("stream");
        let most = self.app.host.config().limits.history.0;
        let limit = if params.history_delivery.as_deref() == Some("response") { most } else { INLINE.min(most) };
        if inline {
            let cursor = handle.cursor(from);
            let history = match raw {
                Some(bound) => {
                    let looks_on = Wishes { role: Role::Observer, multi: true, event_ids: false, ..self.wishes() };
                    let view = View::new(handle.id().clone(), looks_on, Arc::default(), joined.head, TurnSeen::None);
                    amux::read(cursor, joined.head, limit, view, bound.name()).await
                }
                None => History::read(cursor, joined.head, limit).await,
            };
            if let Ok(history) = history {
                answer["history"] = history.into();
                return None;
            }
        }
        answer["historyDelivery"] = "stream".into();
        Some(from)
    }

    pub(super) async fn detach_session(&self, envelope: &Envelope<'_>, id: &Bytes) -> Outcome {
        if let Some(bound) = &self.bound
            && self.is_bound_to(envelope)
        {
            return self.detach_bound(bound, id).await;
        }
        let session = named(envelope)?;
        let Some(attached) = self.attached(&session) else {
            let known = self.sight().descriptor(&session).is_some();
            return Err(if known { not_attached(session.as_str()) } else { attach_unknown(session.as_str()) });
        };
        self.leave(&attached.handle).await;
        Ok(Some(result(id, &json!({ "sessionId": session.as_str(), "status": "detached" }))))
    }
}

/// The policy as it can be followed: an unknown word, message or event means everything, and the answer says so.
async fn policy(handle: &SessionHandle, joined: &Joined, params: &AttachParams) -> Policy {
    match params.history_policy.as_deref() {
        Some("pending_only") => Policy::PendingOnly,
        Some("none") => Policy::Nothing,
        Some("after_message") => {
            let wanted = params.after_message_id.as_deref().unwrap_or_default();
            let found = History::after_message(handle.cursor(Seq::ZERO), joined.head, wanted).await;
            found.map_or(Policy::Full, |seq| Policy::After { name: "after_message", seq })
        }
        Some(AFTER_EVENT) => {
            let wanted = params.after_event_id.as_deref().and_then(event_id::parse);
            match wanted {
                Some((epoch, seq)) if holds(handle, joined.head, epoch, seq).await => {
                    Policy::After { name: AFTER_EVENT, seq }
                }
                Some(_) | None => Policy::Full,
            }
        }
        Some(_) | None => Policy::Full,
    }
}

/// Is that event in the log under that id? One that power loss cut may have been replaced by another (rule 1.5).
pub(super) async fn holds(handle: &SessionHandle, head: Seq, epoch: Epoch, seq: Seq) -> bool {
    if seq == Seq::ZERO || seq > head {
        return false;
    }
    let mut cursor: Cursor = handle.cursor(Seq(seq.0 - 1));
    let Ok(batch) = cursor.next().await else { return false };
    batch.entries().first().is_some_and(|entry| entry.seq == seq && entry.epoch == epoch)
}

pub(super) fn turn_seen(turn: TurnState) -> TurnSeen {
    match turn {
        TurnState::Idle => TurnSeen::None,
        TurnState::Running | TurnState::AwaitingInput => TurnSeen::Other,
    }
}

fn listed(member: &Member) -> Value {
    let mut client = who(&member.sender);
    client["role"] = match member.role {
        Role::Controller => "controller".into(),
        Role::Observer => "observer".into(),
    };
    client
}
