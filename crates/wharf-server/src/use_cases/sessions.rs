//! Lists and describes the sessions that a caller sees, without waking them.

use std::sync::Arc;

use wharf_api::{AttentionState, SessionInfo, SessionPage, SessionQuery};
use wharf_host::core::{Millis, SessionId};
use wharf_host::{Descriptor, is_session_id, parse_timestamp};

use super::Caller;
use super::attention::{AttentionView, describe_session};
use super::contract::{to_session_status, to_turn_phase};
use super::faults::{fault_from_open_error, invalid_query};
use crate::App;
use crate::fault::Fault;

/// Sessions in one page if the caller names no limit.
const DEFAULT_PAGE_SESSIONS: usize = 100;
const MAX_PAGE_SESSIONS: usize = 1_000;

/// The times in a query.
struct QueryTimes {
    since: Option<Millis>,
    before: Option<Millis>,
}

impl QueryTimes {
    fn read(query: &SessionQuery) -> Result<Self, Fault> {
        let read = |name: &str, text: &Option<String>| {
            let wrong =
                |text| invalid_query(format!("{name}: {text:?} is not like 2026-08-01T09:30:00Z"));
            text.as_deref()
                .map(|text| parse_timestamp(text).ok_or_else(|| wrong(text)))
                .transpose()
        };
        Ok(Self {
            since: read("since", &query.since)?,
            before: read("before", &query.before)?,
        })
    }

    /// Returns true if the session was active since the one time and started before the other.
    fn cover(&self, known: &Descriptor) -> bool {
        let at = |text: &str| parse_timestamp(text).unwrap_or_default();
        let ends = [
            known.last_output_at.as_deref(),
            known.ended_at.as_deref(),
            Some(known.started_at.as_str()),
        ];
        let active_at = || ends.into_iter().flatten().map(at).max().unwrap_or_default();
        self.since.is_none_or(|since| active_at() >= since)
            && self.before.is_none_or(|before| at(&known.started_at) < before)
    }
}

/// Returns every session that the query selects, the newest first.
pub(super) fn select_sessions(
    app: &App,
    caller: &Caller,
    query: &SessionQuery,
) -> Result<(Vec<Arc<Descriptor>>, AttentionView), Fault> {
    let times = QueryTimes::read(query)?;
    let view = AttentionView::new(app, &caller.identity);
    let mut known = visible_sessions(app, caller);
    known.retain(|known| {
        let needs = |state: &AttentionState| view.attention_of(known).state == *state;
        matches_query(query, known)
            && times.cover(known)
            && query.attention.as_ref().is_none_or(needs)
    });
    // Ids begin with the time of their creation.
    known.sort_unstable_by(|a, b| b.id.cmp(&a.id));
    Ok((known, view))
}

/// Returns the number of sessions of a page, and refuses a cursor that no page had.
pub(super) fn page_limit(query: &SessionQuery) -> Result<usize, Fault> {
    let limit = query.limit.unwrap_or(DEFAULT_PAGE_SESSIONS);
    if limit == 0 || limit > MAX_PAGE_SESSIONS {
        let detail = format!("limit: {limit} is not between 1 and {MAX_PAGE_SESSIONS}");
        return Err(invalid_query(detail));
    }
    if let Some(cursor) = query.cursor.as_deref().filter(|cursor| !is_session_id(cursor)) {
        let shown: String = cursor.chars().take(80).collect();
        return Err(invalid_query(format!("cursor: {shown:?} is not the nextCursor of a page")));
    }
    Ok(limit)
}

/// Returns true if the query selects this session, as far as its descriptor says.
fn matches_query(query: &SessionQuery, known: &Descriptor) -> bool {
    let is = |wanted: &Option<String>, value: &str| {
        wanted.as_deref().is_none_or(|wanted| wanted == value)
    };
    is(&query.workspace, &known.workspace_slug)
        && is(&query.adapter, &known.adapter_slug)
        && query.label.as_ref().is_none_or(|label| known.label.as_ref() == Some(label))
        && query
            .status
            .as_ref()
            .is_none_or(|wanted| *wanted == to_session_status(known.status))
        && query.alive.is_none_or(|alive| known.status.is_alive() == alive)
        && query.turn.as_ref().is_none_or(|turn| *turn == to_turn_phase(known.turn))
        && query.archived.is_none_or(|archived| known.archived == archived)
        && query.cursor.as_ref().is_none_or(|cursor| known.id < *cursor)
}

/// Returns a page of the sessions that match the query, the newest first.
pub(crate) fn list_sessions(
    app: &App,
    caller: &Caller,
    query: &SessionQuery,
) -> Result<SessionPage, Fault> {
    let limit = page_limit(query)?;
    let (mut known, view) = select_sessions(app, caller, query)?;
    let more = known.len() > limit;
    known.truncate(limit);
    let next_cursor = known.last().filter(|_| more).map(|last| last.id.clone());
    Ok(SessionPage {
        sessions: known.iter().map(|known| view.session_info(known)).collect(),
        next_cursor,
    })
}

/// Returns every session that the caller sees.
pub(crate) fn visible_sessions(app: &App, caller: &Caller) -> Vec<Arc<Descriptor>> {
    app.visible_to(&caller.identity).descriptors()
}

/// Returns one session, if the caller sees it.
pub(crate) fn find_session(app: &App, caller: &Caller, id: &str) -> Option<Arc<Descriptor>> {
    app.visible_to(&caller.identity).descriptor(&SessionId::new(id))
}

/// Returns one session.
pub(crate) fn get_session(app: &App, caller: &Caller, id: &str) -> Result<SessionInfo, Fault> {
    let visible = app.visible_to(&caller.identity);
    let session = SessionId::new(id);
    let known = visible
        .descriptor(&session)
        .ok_or_else(|| fault_from_open_error(id, &visible.why_not_open(&session)))?;
    Ok(describe_session(app, caller, &known))
}
