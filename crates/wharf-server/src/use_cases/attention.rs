//! The attention of sessions for the person that calls, and the marks of that person (chapter 14 of
//! the specification).

use std::collections::HashMap;
use std::sync::Arc;

use wharf_api::{
    AttentionInfo, AttentionState, ErrorCode, MuteArgs, MuteMark, SeenArgs, SeenMark, SessionInfo,
};
use wharf_host::core::{EventId, Seq, SessionId};
use wharf_host::{AttentionAsk, AttentionRaised, Descriptor, SessionHandle, SessionMarks};

use super::contract::{to_ask_type, to_keeper_info, to_session_info};
use super::events::unknown_event;
use super::faults::unknown_session;
use super::{Caller, open_session};
use crate::App;
use crate::auth::Identity;
use crate::fault::Fault;

/// Describes sessions as one caller sees them. The asks of children are as of its making or its
/// last [`AttentionView::refresh`].
#[derive(Debug)]
pub(crate) struct AttentionView {
    app: App,
    person: Option<Arc<str>>,
    /// The open asks of the visible sessions below each session.
    below: HashMap<SessionId, AsksBelow>,
}

/// Asks of the sessions that a session's agent started, and the session whose ask has waited
/// longest.
#[derive(Clone, Debug)]
struct AsksBelow {
    count: usize,
    first: AttentionAsk,
    via: String,
}

impl AttentionView {
    pub(crate) fn new(app: &App, identity: &Identity) -> Self {
        let person = app.tokens.person_of(identity);
        let mut view = Self { app: app.clone(), person, below: HashMap::new() };
        view.refresh(&app.visible_to(identity).descriptors());
        view
    }

    /// Takes the asks of the children from the sessions that the caller sees now.
    pub(crate) fn refresh(&mut self, visible: &[Arc<Descriptor>]) {
        self.below.clear();
        for child in visible {
            let Some(ask) = &child.attention.ask else { continue };
            for parent in child.lineage() {
                let own = AsksBelow {
                    count: child.attention.asks,
                    first: ask.clone(),
                    via: child.id.clone(),
                };
                self.below
                    .entry(parent.clone())
                    .and_modify(|known| {
                        let count = known.count + own.count;
                        if (&own.first.since, &own.via) < (&known.first.since, &known.via) {
                            *known = own.clone();
                        }
                        known.count = count;
                    })
                    .or_insert(own);
            }
        }
    }

    /// Returns the session with its attention.
    pub(crate) fn session_info(&self, known: &Descriptor) -> SessionInfo {
        let keeper = known
            .status
            .is_alive()
            .then(|| self.app.host.describe_keeper(&SessionId::new(known.id.as_str())));
        let keeper = keeper.flatten().map(|keeper| to_keeper_info(keeper, known.turn));
        SessionInfo {
            attention: Some(self.attention_of(known)),
            keeper,
            ..to_session_info(known)
        }
    }

    /// Returns the first state that holds (rule 14.2).
    pub(crate) fn attention_of(&self, known: &Descriptor) -> AttentionInfo {
        let id = SessionId::new(known.id.as_str());
        let marks = self
            .person
            .as_deref()
            .map(|person| self.app.host.marks(person, &id))
            .unwrap_or_default();
        let own = known.attention.ask.as_ref();
        let below = self.below.get(&id);
        let count = known.attention.asks + below.map_or(0, |below| below.count);
        let below = below.filter(|below| own.is_none_or(|own| below.first.since < own.since));
        let quiet = AttentionInfo {
            state: AttentionState::Quiet,
            since: known.attention.quiet_since.clone(),
            row: None,
            why: None,
            text: None,
            count,
            via: None,
            unread: false,
            seen: marks.seen.map(|seen| seen.to_string()),
            muted: marks.muted,
        };
        if let Some(ask) = below.map(|below| &below.first).or(own) {
            let via = below.map(|below| below.via.clone());
            let marks = via.as_ref().map_or(marks, |via| self.marks_of(via));
            return waiting_ask(ask, via, &marks, quiet);
        }
        let is_unseen =
            |raised: &&AttentionRaised| raised.row.is_none_or(|row| !marks.has_seen(row));
        if let Some(raised) = known.attention.raised.as_ref().filter(is_unseen) {
            let state =
                if raised.is_failure { AttentionState::Failed } else { AttentionState::Finished };
            let since = raised.since.clone();
            let row = raised.row.map(|row| row.to_string());
            let why = Some(raised.why.clone());
            let text = raised.text.clone();
            return AttentionInfo { state, since, row, why, text, unread: true, ..quiet };
        }
        match &known.attention.work {
            Some(work) => {
                let since = work.since.clone();
                let why = Some(work.why.clone());
                AttentionInfo { state: AttentionState::Working, since, why, ..quiet }
            }
            None => quiet,
        }
    }

    fn marks_of(&self, session: &str) -> SessionMarks {
        let marks = |person: &Arc<str>| self.app.host.marks(person, &SessionId::new(session));
        self.person.as_ref().map(marks).unwrap_or_default()
    }
}

fn waiting_ask(
    ask: &AttentionAsk,
    via: Option<String>,
    marks: &SessionMarks,
    quiet: AttentionInfo,
) -> AttentionInfo {
    AttentionInfo {
        state: AttentionState::NeedsAnswer,
        since: ask.since.clone(),
        row: Some(ask.row.to_string()),
        why: Some(to_ask_type(ask.kind).to_string()),
        text: ask.text.clone(),
        via,
        unread: !marks.has_seen(ask.row),
        ..quiet
    }
}

/// Returns one session as the caller sees it.
pub(crate) fn describe_session(app: &App, caller: &Caller, known: &Descriptor) -> SessionInfo {
    AttentionView::new(app, &caller.identity).session_info(known)
}

/// Raises the caller's mark: its person has seen the session up to this event.
pub(crate) async fn mark_seen(
    app: &App,
    caller: &Caller,
    id: &str,
    args: &SeenArgs,
) -> Result<SeenMark, Fault> {
    let person = require_person(app, caller)?;
    let handle = open_session(app, caller, id).await?;
    let event: EventId = args.up_to.parse().map_err(|_| unknown_event(&args.up_to))?;
    if !handle.holds_event(event).await.unwrap_or(false) {
        return Err(unknown_event(&args.up_to));
    }
    app.host.mark_seen(&person, handle.id(), event);
    let seen = app.host.marks(&person, handle.id()).seen.unwrap_or(event);
    Ok(SeenMark { ok: true, id: id.to_owned(), seen: seen.to_string() })
}

/// Mutes the session for the caller's person, or ends that.
pub(crate) fn set_muted(
    app: &App,
    caller: &Caller,
    id: &str,
    args: &MuteArgs,
) -> Result<MuteMark, Fault> {
    let person = require_person(app, caller)?;
    let session = SessionId::new(id);
    app.visible_to(&caller.identity)
        .descriptor(&session)
        .ok_or_else(|| unknown_session(id))?;
    app.host.set_muted(&person, &session, args.muted);
    Ok(MuteMark { ok: true, id: id.to_owned(), muted: args.muted })
}

fn require_person(app: &App, caller: &Caller) -> Result<Arc<str>, Fault> {
    let detail = "an agent is no person: it sees nothing in a person's stead";
    app.tokens
        .person_of(&caller.identity)
        .ok_or_else(|| Fault::new(ErrorCode::NOT_FOR_AGENTS, detail))
}

/// Notes that the caller's person has acted in the session: everything before the act counts as
/// seen. `before` is the session's last event before the act.
pub(crate) fn note_act(app: &App, caller: &Caller, handle: &SessionHandle, before: Seq) {
    if before == Seq::ZERO {
        return;
    }
    if let Some(person) = app.tokens.person_of(&caller.identity) {
        app.host.mark_seen(&person, handle.id(), app.host.event_id_of_now(before));
    }
}
