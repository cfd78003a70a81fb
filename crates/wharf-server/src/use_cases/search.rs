//! Search over the transcripts of the sessions that a caller sees (rule 13.11).

use std::collections::HashMap;
use std::sync::Arc;

use wharf_api::{ErrorCode, FOLD_NUMBER, SearchArgs, SearchHit, SearchPage, SessionQuery};
use wharf_host::core::parse_digits;
use wharf_host::{Descriptor, TranscriptFailure, TranscriptHit, TranscriptSearch};
use wharf_transcript::search::{SEARCHED_KINDS, SearchQuery};
use wharf_transcript::show_in_one_line;

use super::Caller;
use super::faults::invalid_query;
use super::rows::{parse_kinds, shorten};
use super::sessions::{get_session, select_sessions};
use crate::App;
use crate::fault::Fault;

const DEFAULT_PAGE_HITS: usize = 30;
const MAX_PAGE_HITS: usize = 100;

/// Returns the rows that match, the newest first, of the sessions that the caller sees and the
/// query selects.
pub(crate) async fn search_rows(
    app: &App,
    caller: &Caller,
    args: &SearchArgs,
) -> Result<SearchPage, Fault> {
    let search = parse_search(args)?;
    let sessions = select_searched_sessions(app, caller, args)?;
    let found = app
        .host
        .search(search, &sessions)
        .await
        .map_err(|failure| search_fault(&failure))?;
    let known: HashMap<&str, &Arc<Descriptor>> =
        sessions.iter().map(|known| (known.id.as_str(), known)).collect();
    let hits = found.hits.into_iter();
    let hits = hits
        .filter_map(|hit| known.get(hit.session.as_str()).map(|known| to_search_hit(known, hit)));
    Ok(SearchPage {
        fold: FOLD_NUMBER,
        hits: hits.collect(),
        next_cursor: found.next.map(|place| format!("f{FOLD_NUMBER}.{place}")),
        pending: found.pending as u64,
    })
}

/// Returns the sessions whose rows are searched: those of `GET /sessions` with the same filters.
fn select_searched_sessions(
    app: &App,
    caller: &Caller,
    args: &SearchArgs,
) -> Result<Vec<Arc<Descriptor>>, Fault> {
    let SearchArgs { workspace, adapter, label, archived, .. } = args.clone();
    let query = SessionQuery {
        workspace,
        adapter,
        label,
        archived,
        ..SessionQuery::default()
    };
    let mut sessions = select_sessions(app, caller, &query)?.0;
    if let Some(id) = &args.session {
        // A session that is not visible is refused like a session that does not exist.
        get_session(app, caller, id)?;
        sessions.retain(|known| known.id == *id);
    }
    Ok(sessions)
}

fn parse_search(args: &SearchArgs) -> Result<TranscriptSearch, Fault> {
    let query = SearchQuery::parse(args.q.as_deref().unwrap_or_default());
    let query = query.map_err(|error| invalid_query(format!("q: {error}")))?;
    let limit = args.limit.unwrap_or(DEFAULT_PAGE_HITS);
    if limit == 0 || limit > MAX_PAGE_HITS {
        return Err(invalid_query(format!("limit: {limit} is not between 1 and {MAX_PAGE_HITS}")));
    }
    let kinds = parse_kinds(args.kinds.as_deref())?;
    if let Some(kind) = kinds.iter().find(|kind| !SEARCHED_KINDS.contains(&kind.as_str())) {
        return Err(invalid_query(format!(
            "kinds: {kind:?} is not searched; {} are",
            SEARCHED_KINDS.join(", ")
        )));
    }
    let before = args
        .cursor
        .as_deref()
        .filter(|cursor| !cursor.is_empty())
        .map(parse_search_cursor)
        .transpose()?;
    Ok(TranscriptSearch { query, kinds, before, limit })
}

/// Returns the place in the index that a cursor names.
fn parse_search_cursor(cursor: &str) -> Result<u64, Fault> {
    let malformed =
        || invalid_query(format!("cursor: {:?} is not the nextCursor of a page", shorten(cursor)));
    let (fold, place) = cursor
        .strip_prefix('f')
        .and_then(|rest| rest.split_once('.'))
        .ok_or_else(malformed)?;
    let fold: u32 = parse_digits(fold).ok_or_else(malformed)?;
    let place = parse_digits(place).ok_or_else(malformed)?;
    if fold != FOLD_NUMBER {
        let detail = format!(
            "cursor: it is of fold {fold}, the rows are of fold {FOLD_NUMBER}; search afresh"
        );
        return Err(Fault::new(ErrorCode::FOLD_CHANGED, detail));
    }
    Ok(place)
}

fn to_search_hit(known: &Descriptor, hit: TranscriptHit) -> SearchHit {
    let kind = hit.row.body.kind().to_owned();
    SearchHit {
        session: known.id.clone(),
        title: known.title.as_deref().map(show_in_one_line),
        workspace_slug: known.workspace_slug.clone(),
        row: hit.row.id,
        kind,
        at: hit.row.at,
        turn: hit.row.turn,
        summary: hit.row.summary,
        snippet: hit.snippet,
    }
}

fn search_fault(failure: &TranscriptFailure) -> Fault {
    tracing::error!(error = %failure, "the transcripts cannot be searched");
    Fault::new(
        ErrorCode::UNAVAILABLE,
        "the transcripts cannot be searched; the host's own log says why",
    )
}
