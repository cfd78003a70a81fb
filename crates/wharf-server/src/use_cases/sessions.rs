//! The sessions that a caller sees. Nothing is woken by asking.

use std::sync::Arc;

use wharf_api::{SessionInfo, SessionPage, SessionQuery};
use wharf_host::core::SessionId;
use wharf_host::{Descriptor, is_session_id};

use super::Caller;
use super::contract::{to_session_info, to_session_status};
use super::faults::{fault_from_open_error, invalid_query};
use crate::App;
use crate::fault::Fault;

/// Sessions in one page if the caller names no limit.
const DEFAULT_PAGE_SESSIONS: usize = 100;
const MAX_PAGE_SESSIONS: usize = 1_000;

/// Returns true if the query selects this session.
fn matches_query(query: &SessionQuery, known: &Descriptor) -> bool {
    let is = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
    is(&query.workspace, &known.workspace_slug)
        && is(&query.adapter, &known.adapter_slug)
        && query.label.as_ref().is_none_or(|label| known.label.as_ref() == Some(label))
        && query.status.as_ref().is_none_or(|wanted| *wanted == to_session_status(known.status))
        && query.alive.is_none_or(|alive| known.status.is_alive() == alive)
        && query.cursor.as_ref().is_none_or(|cursor| known.id < *cursor)
}

/// Returns a page of the sessions that match the query, the newest first.
pub(crate) fn list_sessions(app: &App, caller: &Caller, query: &SessionQuery) -> Result<SessionPage, Fault> {
    let limit = query.limit.unwrap_or(DEFAULT_PAGE_SESSIONS);
    if limit == 0 || limit > MAX_PAGE_SESSIONS {
        let detail = format!("limit: {limit} is not between 1 and {MAX_PAGE_SESSIONS}");
        return Err(invalid_query(detail));
    }
    if let Some(cursor) = query.cursor.as_deref().filter(|cursor| !is_session_id(cursor)) {
        let shown: String = cursor.chars().take(80).collect();
        return Err(invalid_query(format!("cursor: {shown:?} is not the nextCursor of a page")));
    }
    let mut known = visible_sessions(app, caller);
    known.retain(|known| matches_query(query, known));
    // Ids begin with the time of their creation.
    known.sort_unstable_by(|a, b| b.id.cmp(&a.id));
    let more = known.len() > limit;
    known.truncate(limit);
    let next_cursor = known.last().filter(|_| more).map(|last| last.id.clone());
    Ok(SessionPage { sessions: known.iter().map(|known| to_session_info(known)).collect(), next_cursor })
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
    let (visible, session) = (app.visible_to(&caller.identity), SessionId::new(id));
    let known =
        visible.descriptor(&session).ok_or_else(|| fault_from_open_error(id, &visible.why_not_open(&session)))?;
    Ok(to_session_info(&known))
}
