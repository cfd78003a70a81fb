//! A session's life as a client sees it: new, load, resume, list, status, close, delete.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use wharf_host::core::{Attachment, Joined, Raw, Refusal, Role, Seq, Status};
use wharf_host::frame::{self, Envelope};
use wharf_host::{
    AgentReport, Attendance, CallError, CreateError, Created, Descriptor, NewSessionRequest, Renewal, ReturnTerms,
    SessionHandle, TurnWord,
};
use wharf_json::Json;

use super::answers;
use super::connection::Connection;
use super::errors::{
    RpcError, from_call, from_create, from_start, in_use, not_resumable, unreadable_answer, unreadable_params,
};
use super::event_id::{answer_with_event_id, event_id_at};
use super::inbound::{Outcome, named, result};
use super::order::Turn;
use super::outbound::{Join, Out};
use super::prompts::Request;
use super::view::{TurnSeen, View};
use crate::use_cases;

/// Sessions in one page of a list.
const PAGE: usize = 100;

/// A client that has come to a session and is not shown it yet.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) handle: SessionHandle,
    /// The session as it was when the client came: what happened since is shown as news.
    pub(super) joined: Joined,
    /// Its turn to be shown the session.
    pub(super) showing: Turn,
}

impl Connection {
    pub(super) async fn new_session(&self, frame: &Bytes, id: &Bytes) -> Outcome {
        match &self.bound {
            Some(bound) => self.bound_new(bound, frame, id).await,
            None => self.begin_session(frame, id, None).await,
        }
    }

    /// Starts a session and its agent.
    pub(super) async fn create_session(
        &self,
        frame: &Bytes,
        name: Option<Arc<str>>,
    ) -> Result<Result<Created, CreateError>, RpcError> {
        self.caller().may_change()?;
        let request: Request<NewParams<'_>> = frame::peek(frame)
            .map_err(|error| RpcError::params(format!("session/new needs `cwd`, an absolute path: {error}")))?;
        let raw = Raw::new(frame.clone()).ok_or_else(|| RpcError::params("not one line of UTF-8"))?;
        let agent = request.params.meta.map(|meta| meta.seek(&["wharf", "agent"])).transpose();
        let agent = agent.map_err(unreadable_params)?.flatten().and_then(Json::text).map(Cow::into_owned);
        let cwd = PathBuf::from(request.params.cwd);
        self.last_cwd.lock().unwrap_or_else(PoisonError::into_inner).replace(cwd.clone());
        // The agent that waits is of the connection's adapter; another one's must be started.
        let spare = if agent.is_none() { self.spare.lock().await.take() } else { None };
        let spare = spare.filter(|spare| spare.can_serve(&cwd));
        let prelude = if agent.is_none() { self.ledger.logins() } else { Vec::new() };
        let created = self.app.host.create(NewSessionRequest {
            adapter: agent.unwrap_or_else(|| self.agent.to_string()),
            cwd,
            bucket: None,
            label: None,
            name,
            sender: Some(self.sender()),
            frame: raw,
            capabilities: self.told(),
            spare,
            prelude,
            mode: None,
            options: BTreeMap::new(),
            env: self.env(),
            ground: self.identity.ground(),
            key: None,
            lineage: Vec::new(),
            caller_waits: true,
        });
        Ok(created.await)
    }

    /// Starts a session, joins it and answers.
    pub(super) async fn begin_session(&self, frame: &Bytes, id: &Bytes, name: Option<Arc<str>>) -> Outcome {
        let created = match self.create_session(frame, name).await? {
            Ok(created) => created,
            Err(error) => return self.refused_start(&error, id).await,
        };
        let handle = created.handle;
        let come = self.come_to(&handle, self.attachment(handle.id(), false), self.attendance(true)).await;
        come.map_err(|error| from_call(&error, handle.id().as_str()))?;
        let answer = answers::new_session(&created.answer, handle.id().as_str(), id).map_err(unreadable_answer)?;
        let answer = self.placed(&handle, created.seq, answer).await;
        // History ends where the agent came up: nothing was asked before that, and everything after it is news.
        let view = View::new(handle.id().clone(), self.wishes(), Arc::clone(&self.ledger), created.seq, TurnSeen::None);
        let (answer, asks) = (Some((created.seq, self.counted(answer))), (created.seq, Vec::new()));
        self.join(Join { cursor: handle.cursor(created.seq), view, answer, asks, hold: self.hold(), only_news: false })
            .await;
        Ok(None)
    }

    /// Replays the log as updates, then answers, then goes on live. A live agent is not disturbed (rule 3.5).
    pub(super) async fn load_session(
        &self,
        frame: &Bytes,
        envelope: &Envelope<'_>,
        id: &Bytes,
        turn: Option<Turn>,
    ) -> Outcome {
        // Also of a session that a user killed: its history can be read.
        let arrival = self.enter(frame, envelope, false, turn).await?;
        let answer = self.loaded_answer(&arrival, id).await?;
        let Arrival { handle, joined, showing } = arrival;
        let answer = self.placed(&handle, joined.head, answer).await;
        let view = View::new(handle.id().clone(), self.wishes(), Arc::clone(&self.ledger), joined.head, TurnSeen::None)
            .with_queue(&joined.queued, joined.head);
        let (answer, asks) = (Some((joined.head, self.counted(answer))), (joined.head, joined.open_asks));
        let cursor = handle.cursor(Seq::ZERO);
        self.join_in_turn(Join { cursor, view, answer, asks, hold: self.hold(), only_news: false }, showing).await;
        Ok(None)
    }

    /// Returns the answer to a load or resume. If it cannot be made the client leaves: it was not shown the session.
    async fn loaded_answer(&self, arrival: &Arrival, id: &Bytes) -> Result<Bytes, RpcError> {
        match answers::loaded(&arrival.joined, &arrival.handle.descriptor(), id) {
            Ok(answer) => Ok(answer),
            Err(error) => {
                self.leave_unshown(arrival).await;
                Err(unreadable_answer(error))
            }
        }
    }

    /// Joins without a replay. The latest state follows the answer.
    pub(super) async fn resume_session(
        &self,
        frame: &Bytes,
        envelope: &Envelope<'_>,
        id: &Bytes,
        turn: Option<Turn>,
    ) -> Outcome {
        let arrival = self.enter(frame, envelope, true, turn).await?;
        let known = arrival.handle.descriptor();
        if !known.status.is_alive() && !known.resumable && self.role() == Role::Controller {
            self.leave_unshown(&arrival).await;
            return Err(not_resumable(arrival.handle.id().as_str()));
        }
        let answer = self.loaded_answer(&arrival, id).await?;
        let Arrival { handle, joined, showing } = arrival;
        let answer = self.placed(&handle, joined.head, answer).await;
        let turn = super::attach::turn_seen(joined.turn);
        let view = View::new(handle.id().clone(), self.wishes(), Arc::clone(&self.ledger), joined.head, turn)
            .with_queue(&joined.queued, joined.head);
        let latest = answers::latest(&joined.latest);
        let (answer, asks) = (Some((joined.head, self.counted(answer))), (joined.head, joined.open_asks));
        let cursor = handle.cursor(joined.head);
        self.join_in_turn(Join { cursor, view, answer, asks, hold: self.hold(), only_news: true }, showing).await;
        for frame in latest {
            self.lane_frame(&handle, frame, joined.head).await;
        }
        Ok(None)
    }

    /// Attaches to a session; a cold one's agent is brought back for a controller (rule 2.6). A controller that needs the
    /// agent is refused if a user killed the session (rule 12.16).
    pub(super) async fn enter(
        &self,
        frame: &Bytes,
        envelope: &Envelope<'_>,
        needs_agent: bool,
        turn: Option<Turn>,
    ) -> Result<Arrival, RpcError> {
        let session = named(envelope)?;
        if self.role() == Role::Controller {
            if needs_agent && self.sight().descriptor(&session).is_some_and(|known| known.is_killed()) {
                let killed = CallError::Refused(Refusal::Killed);
                return Err(from_call(&killed, session.as_str()));
            }
            let renewal = Renewal { frame, env: &self.env(), ground: self.identity.ground() };
            self.sight().renew_session(&session, &renewal).map_err(|error| from_create(&error))?;
        }
        let handle = self.open(envelope).await?;
        let attachment = self.attachment(handle.id(), false);
        self.wake_on_terms(&handle, return_terms(frame)?, attachment, self.attendance(true)).await?;
        self.enter_session(handle, needs_agent, turn).await
    }

    /// Brings a cold session back with other settings than those that were in force, if a controller asks for that in
    /// `_meta.wharf` (rule 12.12). Nothing changes for a session that has its agent.
    pub(super) async fn wake_on_terms(
        &self,
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
        self.come_to(handle, attachment, attendance).await.map_err(|error| fail(&error))?;
        match handle.wake_on(client, terms).await {
            Ok(()) | Err(CallError::Refused(Refusal::AlreadyRunning)) => Ok(()),
            Err(error) => {
                self.leave(handle).await;
                Err(fail(&error))
            }
        }
    }

    pub(super) async fn enter_session(
        &self,
        handle: SessionHandle,
        needs_agent: bool,
        turn: Option<Turn>,
    ) -> Result<Arrival, RpcError> {
        let attachment = Attachment { needs_agent, ..self.attachment(handle.id(), true) };
        let attendance = self.attendance(true);
        let mut arrival = self.arrive(handle, attachment, attendance, turn).await?;
        if self.is_started(&arrival).await? {
            // The agent's statement about itself now that it is up. The client is shown all that happened since it came.
            let report = arrival.handle.agent_report().await;
            let report = report.map_err(|error| from_call(&error, arrival.handle.id().as_str()))?;
            let AgentReport { answer, answer_at, settings, latest } = report;
            arrival.joined = Joined { answer, answer_at, settings, latest, ..arrival.joined };
        }
        Ok(arrival)
    }

    /// Attaches, and has a cold session brought back if the attachment says so. From here on the next message of the client
    /// about this session is accepted.
    pub(super) async fn arrive(
        &self,
        handle: SessionHandle,
        attachment: Attachment,
        attendance: Attendance,
        turn: Option<Turn>,
    ) -> Result<Arrival, RpcError> {
        let come = self.come_to(&handle, attachment, attendance).await;
        let joined = come.map_err(|error| from_call(&error, handle.id().as_str()))?;
        let showing = self.joins.enter(handle.id(), None);
        drop(turn);
        Ok(Arrival { handle, joined, showing })
    }

    /// Waits if the agent is starting: returns true if it was and runs now. If it could not be started the client leaves.
    pub(super) async fn is_started(&self, arrival: &Arrival) -> Result<bool, RpcError> {
        if arrival.handle.descriptor().status != Status::Starting {
            return Ok(false);
        }
        match arrival.handle.up().await {
            Ok(()) => Ok(true),
            Err(failure) => {
                self.leave_unshown(arrival).await;
                Err(from_start(&failure))
            }
        }
    }

    /// Leaves a session that was not shown yet. Prompts that were sent meanwhile are answered all the same.
    async fn leave_unshown(&self, arrival: &Arrival) {
        let Arrival { handle, joined, .. } = arrival;
        let mut turn = self.order.enter(handle.id(), None);
        turn.come().await;
        let wishes = self.wishes();
        let view = View::new(handle.id().clone(), wishes, Arc::clone(&self.ledger), joined.head, TurnSeen::None);
        let (cursor, asks) = (handle.cursor(joined.head), (joined.head, Vec::new()));
        let join = Join { cursor, view, answer: None, asks, hold: None, only_news: true };
        let _ = self.out.send(Out::Implied(Box::new(join))).await;
        self.leave(handle).await;
    }

    /// Has a session shown, after those to which the client came before.
    pub(super) async fn join_in_turn(&self, join: Join, mut showing: Turn) {
        showing.come().await;
        self.join(join).await;
    }

    /// An answer that tells up to an event, as this client understands it; with the event's id for one that wants to come
    /// back there (rules 1.5, 3.11).
    pub(super) async fn placed(&self, handle: &SessionHandle, seq: Seq, answer: Bytes) -> Bytes {
        let info = self.info();
        let answer = info.understood().answer(&answer);
        let id = if info.event_ids { event_id_at(handle, seq).await } else { None };
        id.map_or_else(|| answer.clone(), |id| answer_with_event_id(&answer, &id))
    }

    pub(super) async fn leave(&self, handle: &SessionHandle) {
        let _moving = self.moving.lock().await;
        self.note_left(handle.id());
        let _ = handle.detach(self.sender()).await;
        let _ = self.out.send(Out::Leave(handle.id().clone())).await;
    }

    /// How long a client that does not say `session/ready` is waited for.
    pub(super) fn hold(&self) -> Option<std::time::Duration> {
        self.app.host.config().ready_timeout.std()
    }

    /// Sends a frame in its order with the session's log.
    pub(super) async fn lane_frame(&self, handle: &SessionHandle, frame: Bytes, after: Seq) {
        let direct = wharf_host::Direct::Frame(frame);
        let message = wharf_host::LaneMessage { session: handle.id().clone(), after, direct, permit: None };
        let _ = self.lane.send(message).await;
    }

    /// Sessions of this connection's agent, the newest first; all with `_meta.wharf.all`.
    pub(super) fn list_sessions(&self, frame: &Bytes, id: &Bytes) -> Outcome {
        let params = frame::peek::<ListRequest<'_>>(frame).map_err(unreadable_params)?.params.unwrap_or_default();
        let all = params.meta.map(|meta| meta.seek(&["wharf", "all"])).transpose().map_err(unreadable_params)?;
        let all = all.flatten().and_then(Json::bool) == Some(true);
        let mut found = self.sight().descriptors();
        if !all {
            found.retain(|known| known.adapter_slug == *self.agent);
        }
        Ok(Some(result(id, &list_page(found, params.cwd.as_deref(), params.cursor.as_deref()))))
    }

    /// Is the session live? Answered from the registry: nothing is woken, nothing appended (rules 5.1, 5.2).
    pub(super) fn session_status(&self, envelope: &Envelope<'_>, id: &Bytes) -> Outcome {
        let known = self.sight().descriptor(&named(envelope)?);
        let answer = match known {
            Some(known) if known.status.is_alive() => {
                let mut own = json!({ "turn": turn_word(known.turn), "clients": known.clients, "resumable": false });
                add_resources(&mut own, &known);
                if let Some(why) = known.paused {
                    own["paused"] = serde_json::to_value(why).unwrap_or_default();
                }
                json!({ "status": "live", "_meta": { "wharf": own } })
            }
            Some(known) => json!({
                "status": "not_found",
                "_meta": { "wharf": { "turn": "idle", "clients": known.clients, "resumable": known.resumable } },
            }),
            None => json!({ "status": "not_found", "_meta": { "wharf": { "resumable": false } } }),
        };
        Ok(Some(result(id, &answer)))
    }

    /// One of several clients only leaves; the last one, or one that insists, ends the session (rule 3.5).
    pub(super) async fn close_session(&self, frame: &Bytes, envelope: &Envelope<'_>, id: &Bytes) -> Outcome {
        let session = named(envelope)?;
        let handle = self.open(envelope).await?;
        let attached = self.attached(&session);
        let caller = self.caller_in(&session);
        use_cases::may_end(&self.app, &caller, session.as_str()).await?;
        let others = handle.descriptor().clients.saturating_sub(usize::from(attached.is_some()));
        if others == 0 || forced(frame)? {
            use_cases::close_session(&self.app, &caller, session.as_str()).await?;
        }
        self.leave(&handle).await;
        Ok(Some(result(id, &json!({}))))
    }

    /// Forgets the session. Unknown ids succeed; one that others use needs `force`.
    pub(super) async fn delete_session(&self, frame: &Bytes, envelope: &Envelope<'_>, id: &Bytes) -> Outcome {
        let session = named(envelope)?;
        let attached = self.attached(&session);
        let caller = self.caller_in(&session);
        use_cases::may_end(&self.app, &caller, session.as_str()).await?;
        let mut answer = json!({});
        if let Some(known) = self.sight().descriptor(&session) {
            let own = usize::from(attached.is_some());
            if known.clients > own && !forced(frame)? {
                return Err(in_use(session.as_str(), known.clients - own));
            }
            self.note_left(&session);
            let _ = self.out.send(Out::Leave(session.clone())).await;
            let forgotten = use_cases::forget_session(&self.app, &caller, session.as_str()).await?;
            if let Some(word) = forgotten.agent_delete {
                answer = json!({ "_meta": { "wharf": { "agentDelete": word } } });
            }
        }
        Ok(Some(result(id, &answer)))
    }

    /// The agent's own error goes to the client as it came: it may be asking for a login. Such a session never was.
    async fn refused_start(&self, error: &CreateError, id: &Bytes) -> Outcome {
        if let CreateError::Start { failure, session } = error
            && let Some(answer) = &failure.answer
            && let Ok(envelope) = frame::scan(answer)
        {
            let _ = self.app.host.forget(&wharf_host::core::SessionId::new(session.as_str())).await;
            return Ok(Some(frame::with_id(answer, &envelope, id)));
        }
        Err(from_create(error))
    }
}

/// Returns one page of these sessions as `session/list` has it, the newest first.
pub(super) fn list_page(mut found: Vec<Arc<Descriptor>>, cwd: Option<&str>, cursor: Option<&str>) -> Value {
    found.retain(|known| cwd.is_none_or(|cwd| known.cwd == cwd));
    // Ids sort by age, so the last id of a page says where the next one begins, whatever comes or goes.
    found.sort_by(|a, b| b.id.cmp(&a.id));
    if let Some(cursor) = cursor {
        found.retain(|known| *known.id < *cursor);
    }
    let next = (found.len() > PAGE).then(|| found[PAGE - 1].id.clone());
    let sessions: Vec<Value> = found.iter().take(PAGE).map(|known| listed(known)).collect();
    let mut answer = json!({ "sessions": sessions });
    if let Some(next) = next {
        answer["nextCursor"] = next.into();
    }
    answer
}

fn listed(known: &Descriptor) -> Value {
    let mut own = json!({
        "agent": known.adapter_slug, "status": known.status, "turn": turn_word(known.turn),
        "clients": known.clients, "queued": known.queued, "resumable": known.resumable, "label": known.label,
    });
    if let Some(reason) = known.end_reason {
        own["endReason"] = json!(reason);
    }
    add_resources(&mut own, known);
    if let Some(parent) = &known.parent_session_id {
        own["parentSessionId"] = parent.as_str().into();
        own["depth"] = known.depth.into();
    }
    json!({
        "sessionId": known.id,
        "cwd": known.cwd,
        "title": known.title,
        "updatedAt": known.last_output_at.as_ref().unwrap_or(&known.started_at),
        "_meta": { "wharf": own },
    })
}

/// What its processes use, where that is known.
fn add_resources(own: &mut Value, known: &Descriptor) {
    if let Some(resources) = &known.resources {
        own["resources"] = json!(resources);
    }
}

fn turn_word(turn: TurnWord) -> &'static str {
    match turn {
        TurnWord::Idle => "idle",
        TurnWord::Running => "running",
        TurnWord::AwaitingInput => "awaiting_input",
    }
}

/// The settings that a request asks for besides those in force.
pub(super) fn return_terms(frame: &[u8]) -> Result<ReturnTerms, RpcError> {
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
    Ok(ReturnTerms { session_mode: session_mode.map(Into::into), accept_agent_settings: accept.unwrap_or(false) })
}

fn forced(frame: &[u8]) -> Result<bool, RpcError> {
    let force = Json::parse(frame).and_then(|frame| frame.seek(&["params", "_meta", "wharf", "force"]));
    Ok(force.map_err(unreadable_params)?.and_then(Json::bool) == Some(true))
}

#[derive(Deserialize)]
struct NewParams<'a> {
    cwd: String,
    #[serde(rename = "_meta", borrow)]
    meta: Option<Json<'a>>,
}

#[derive(Deserialize)]
struct ListRequest<'a> {
    #[serde(borrow)]
    params: Option<ListParams<'a>>,
}

#[derive(Default, Deserialize)]
struct ListParams<'a> {
    cwd: Option<String>,
    cursor: Option<String>,
    #[serde(rename = "_meta", borrow)]
    meta: Option<Json<'a>>,
}
