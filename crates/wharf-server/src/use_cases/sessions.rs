//! Which sessions there are. Nothing is woken by asking.

use std::sync::Arc;

use wharf_api::{SessionInfo, SessionPage, SessionQuery};
use wharf_host::Descriptor;
use wharf_host::core::SessionId;

use super::Caller;
use super::contract::{to_session_info, to_session_status};
use super::faults::{fault_from_open_error, invalid_query};
use crate::App;
use crate::fault::Fault;

/// Sessions in one page, unless the caller says otherwise.
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

/// A page of the sessions that fit.
pub(crate) fn list_sessions(app: &App, who: &Caller, query: &SessionQuery) -> Result<SessionPage, Fault> {
    let limit = query.limit.unwrap_or(DEFAULT_PAGE_SESSIONS);
    if limit == 0 || limit > MAX_PAGE_SESSIONS {
        let detail = format!("limit: {limit} is not between 1 and {MAX_PAGE_SESSIONS}");
        return Err(invalid_query(detail));
    }
    let mut known: Vec<Arc<Descriptor>> = app.visible_to(&who.identity).descriptors();
    known.retain(|known| matches_query(query, known));
    // Ids begin with their time.
    known.sort_unstable_by(|a, b| b.id.cmp(&a.id));
    let more = known.len() > limit;
    known.truncate(limit);
    let next_cursor = known.last().filter(|_| more).map(|last| last.id.clone());
    Ok(SessionPage { sessions: known.iter().map(|known| to_session_info(known)).collect(), next_cursor })
}

/// One session.
pub(crate) fn get_session(app: &App, who: &Caller, id: &str) -> Result<SessionInfo, Fault> {
    let (sight, session) = (app.visible_to(&who.identity), SessionId::new(id));
    let known = sight.descriptor(&session).ok_or_else(|| fault_from_open_error(id, &sight.why_not_open(&session)))?;
    Ok(to_session_info(&known))
}
