//! The transcript of a session as rows: pages, whole rows, texts and blobs (chapter 13).

use wharf_api::{
    ErrorCode, FOLD_NUMBER, RowBody, RowHead, RowPage, RowQuery, RowTextPage, RowTextQuery,
    StreamBeat, TranscriptRow, TranscriptState,
};
use wharf_host::core::{EventId, SessionId};
use wharf_host::{
    MAX_PAGE_ROWS, Now, PageAnchor, PageRequest, RowBlob, RowSlice, SessionTranscript,
    TranscriptFailure, TurnPlace, UnknownAnchor, format_timestamp,
};

use super::attention::AttentionView;
use super::faults::{invalid_query, unknown_session, unreadable_session};
use super::transcript_state::{FoldedState, MarkedState, read_state};
use super::{Caller, open_session};
use crate::App;
use crate::fault::Fault;

const DEFAULT_PAGE_ROWS: usize = 60;

/// Reads a page of rows.
pub(crate) async fn read_rows(
    app: &App,
    caller: &Caller,
    id: &str,
    query: &RowQuery,
) -> Result<RowPage, Fault> {
    read_page(app, caller, id, query, parse_row_query(query)?).await
}

/// Reads a page of rows for a reader who begins with the newest ones, also of a turn.
pub(crate) async fn read_rows_from_end(
    app: &App,
    caller: &Caller,
    id: &str,
    query: &RowQuery,
) -> Result<RowPage, Fault> {
    let mut request = parse_row_query(query)?;
    if let PageAnchor::Turn { place: place @ TurnPlace::Start, .. } = &mut request.anchor {
        *place = TurnPlace::End;
    }
    read_page(app, caller, id, query, request).await
}

async fn read_page(
    app: &App,
    caller: &Caller,
    id: &str,
    query: &RowQuery,
    request: PageRequest,
) -> Result<RowPage, Fault> {
    let is_newest = request.anchor == PageAnchor::End;
    let transcript = open_transcript(app, caller, id).await?;
    let page = transcript
        .page(request)
        .await
        .map_err(|failure| transcript_fault(app, id, &failure))?;
    let slice = page.map_err(|unknown| unknown_anchor(unknown, query))?;
    let mut state = None;
    if is_newest {
        let view = AttentionView::new(app, &caller.identity);
        state = Some(slice_state(app, &view, &transcript, &slice).await?.state);
    }
    Ok(to_row_page(id, slice, state))
}

/// Reads the newest page with the state of the session, for the beginning of a stream. Returns the
/// state with its marks, too.
pub(crate) async fn read_newest_rows(
    app: &App,
    view: &AttentionView,
    transcript: &SessionTranscript,
) -> Result<(RowPage, MarkedState), Fault> {
    let id = transcript.handle().id().as_str();
    let request = PageRequest {
        anchor: PageAnchor::End,
        limit: DEFAULT_PAGE_ROWS,
        kinds: Vec::new(),
    };
    let page = transcript
        .page(request)
        .await
        .map_err(|failure| transcript_fault(app, id, &failure))?;
    let slice = page.map_err(|unknown| unknown_anchor(unknown, &RowQuery::default()))?;
    let marked = slice_state(app, view, transcript, &slice).await?;
    Ok((to_row_page(id, slice, Some(marked.state.clone())), marked))
}

/// Returns the session beside a page of its newest rows.
async fn slice_state(
    app: &App,
    view: &AttentionView,
    transcript: &SessionTranscript,
    slice: &RowSlice,
) -> Result<MarkedState, Fault> {
    let folded = FoldedState { asks: slice.open_asks.clone(), plan: slice.plan.clone() };
    read_state(app, view, transcript, folded, None, true).await
}

/// Reads one row with its texts whole.
pub(crate) async fn get_row(
    app: &App,
    caller: &Caller,
    id: &str,
    row: &str,
) -> Result<TranscriptRow, Fault> {
    let transcript = open_transcript(app, caller, id).await?;
    let found = transcript
        .row(row)
        .await
        .map_err(|failure| transcript_fault(app, id, &failure))?;
    found.ok_or_else(|| unknown_row(row))
}

/// Reads a page of the text of a row's part.
pub(crate) async fn read_row_text(
    app: &App,
    caller: &Caller,
    id: &str,
    row: &str,
    query: &RowTextQuery,
) -> Result<RowTextPage, Fault> {
    let part = query.part.as_deref().unwrap_or("0");
    let offset = query.offset.unwrap_or_default();
    let transcript = open_transcript(app, caller, id).await?;
    let found = transcript
        .text(row, part, offset)
        .await
        .map_err(|failure| transcript_fault(app, id, &failure))?;
    let slice = found.ok_or_else(|| {
        let row = shorten(row);
        let part = shorten(part);
        Fault::new(ErrorCode::UNKNOWN_ROW, format!("no row {row:?} with a text {part:?}"))
    })?;
    let end = slice.offset + slice.text.len() as u64;
    let next = (end < slice.total).then_some(end);
    let row = row.to_owned();
    let part = part.to_owned();
    Ok(RowTextPage {
        row,
        part,
        offset: slice.offset,
        bytes: slice.total,
        text: slice.text,
        next,
    })
}

/// Reads bytes that rows refer to.
pub(crate) async fn get_blob(
    app: &App,
    caller: &Caller,
    id: &str,
    name: &str,
) -> Result<RowBlob, Fault> {
    let transcript = open_transcript(app, caller, id).await?;
    let found = transcript
        .blob(name)
        .await
        .map_err(|failure| transcript_fault(app, id, &failure))?;
    found.ok_or_else(|| {
        let detail = format!("no row of this session refers to {:?}", shorten(name));
        Fault::new(ErrorCode::UNKNOWN_BLOB, detail)
    })
}

/// Returns the transcript of a session, without waking its agent.
pub(crate) async fn open_transcript(
    app: &App,
    caller: &Caller,
    id: &str,
) -> Result<SessionTranscript, Fault> {
    Ok(app.host.transcript(open_session(app, caller, id).await?))
}

/// Returns a sign of life for a reader that has this position.
pub(crate) fn stream_beat(as_of: Option<EventId>) -> StreamBeat {
    StreamBeat {
        as_of: show_position(as_of),
        now: format_timestamp(Now::millis()),
    }
}

fn to_row_page(session: &str, slice: RowSlice, state: Option<TranscriptState>) -> RowPage {
    RowPage {
        fold: FOLD_NUMBER,
        session: session.to_owned(),
        as_of: show_position(slice.as_of),
        before: slice.before.map(|id| to_cursor(&id)),
        after: slice.after.map(|id| to_cursor(&id)),
        mid_turn: slice.is_mid_turn,
        turn_head: slice.turn_head.map(|row| RowHead { id: row.id, summary: row.summary }),
        rows: slice.rows,
        state,
    }
}

/// Returns a position as clients name it.
pub(crate) fn show_position(position: Option<EventId>) -> String {
    position.map_or_else(|| "0-0".to_owned(), |position| position.to_string())
}

/// Returns the cursor of a row, or of a position in a stream.
pub(crate) fn to_cursor(id: &str) -> String {
    format!("f{FOLD_NUMBER}.{id}")
}

/// Returns the row or position of a cursor.
pub(crate) fn parse_cursor(name: &str, cursor: &str) -> Result<String, Fault> {
    let malformed = || {
        let shown = shorten(cursor);
        invalid_query(format!(
            "{name}: {shown:?} is no cursor; take `before` or `after` of a page as it is"
        ))
    };
    let (fold, id) = cursor
        .strip_prefix('f')
        .and_then(|rest| rest.split_once('.'))
        .ok_or_else(malformed)?;
    let fold: u32 = wharf_host::core::parse_digits(fold).ok_or_else(malformed)?;
    if !is_row_id(id) {
        return Err(malformed());
    }
    if fold != FOLD_NUMBER {
        let detail = format!(
            "{name}: the cursor is of fold {fold}, the rows are of fold {FOLD_NUMBER}; load them afresh"
        );
        return Err(Fault::new(ErrorCode::FOLD_CHANGED, detail));
    }
    Ok(id.to_owned())
}

/// Returns true if the text has the form of a row id.
fn is_row_id(id: &str) -> bool {
    let (event, n) = id.split_once('.').unwrap_or((id, "1"));
    event.parse::<EventId>().is_ok() && wharf_host::core::parse_digits::<u32>(n).is_some()
}

fn parse_row_query(query: &RowQuery) -> Result<PageRequest, Fault> {
    let limit = query.limit.unwrap_or(DEFAULT_PAGE_ROWS);
    if limit == 0 || limit > MAX_PAGE_ROWS {
        return Err(invalid_query(format!("limit: {limit} is not between 1 and {MAX_PAGE_ROWS}")));
    }
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let before = given(&query.before);
    let after = given(&query.after);
    let around = given(&query.around);
    let anchor = match (before, after, around, given(&query.turn)) {
        (None, None, None, None) => PageAnchor::End,
        (Some(before), None, None, None) => PageAnchor::Before(parse_cursor("before", &before)?),
        (None, Some(after), None, None) => PageAnchor::After(parse_cursor("after", &after)?),
        (None, None, Some(around), None) if is_row_id(&around) => PageAnchor::Around(around),
        (None, None, Some(around), None) => PageAnchor::Around(parse_cursor("around", &around)?),
        (None, None, None, Some(prompt)) => PageAnchor::Turn { prompt, place: TurnPlace::Start },
        (Some(before), None, None, Some(prompt)) => PageAnchor::Turn {
            prompt,
            place: TurnPlace::Before(parse_cursor("before", &before)?),
        },
        (None, Some(after), None, Some(prompt)) => PageAnchor::Turn {
            prompt,
            place: TurnPlace::After(parse_cursor("after", &after)?),
        },
        _ => {
            return Err(invalid_query(
                "before, after, around and turn: only turn goes together with before or after",
            ));
        }
    };
    Ok(PageRequest { anchor, limit, kinds: parse_kinds(query.kinds.as_deref())? })
}

/// Reads the names of kinds, separated by commas.
pub(crate) fn parse_kinds(kinds: Option<&str>) -> Result<Vec<String>, Fault> {
    let kinds = kinds
        .unwrap_or_default()
        .split(',')
        .map(str::trim)
        .filter(|kind| !kind.is_empty());
    let mut known = Vec::new();
    for kind in kinds {
        if !RowBody::KINDS.contains(&kind) {
            let detail =
                format!("kinds: {:?} is none of {}", shorten(kind), RowBody::KINDS.join(", "));
            return Err(invalid_query(detail));
        }
        if !known.iter().any(|other| other == kind) {
            known.push(kind.to_owned());
        }
    }
    Ok(known)
}

fn unknown_anchor(unknown: UnknownAnchor, query: &RowQuery) -> Fault {
    match unknown {
        UnknownAnchor::Turn => unknown_turn(query.turn.as_deref().unwrap_or_default()),
        UnknownAnchor::Row => {
            let given = [&query.before, &query.after, &query.around].into_iter().flatten().next();
            unknown_row(given.map_or("", String::as_str))
        }
    }
}

/// Returns the fault for a position in a stream that is none.
pub(crate) fn unknown_position(after: &str) -> Fault {
    invalid_query(format!(
        "after: {:?} is no position; take the id of an event of the stream",
        shorten(after)
    ))
}

pub(crate) fn unknown_row(row: &str) -> Fault {
    let detail = format!("the transcript has no row {:?}; load its rows afresh", shorten(row));
    Fault::new(ErrorCode::UNKNOWN_ROW, detail)
}

pub(crate) fn unknown_turn(prompt: &str) -> Fault {
    let detail = format!("the session has no turn of a prompt {:?}", shorten(prompt));
    Fault::new(ErrorCode::UNKNOWN_PROMPT, detail)
}

/// Returns the fault for a transcript that cannot be read.
pub(crate) fn transcript_fault(app: &App, id: &str, failure: &TranscriptFailure) -> Fault {
    match failure {
        TranscriptFailure::Gone if app.host.descriptor(&SessionId::new(id)).is_none() => {
            unknown_session(id)
        }
        TranscriptFailure::Gone => {
            Fault::new(ErrorCode::UNAVAILABLE, "the session is not available; try again")
                .with_session(id)
        }
        TranscriptFailure::Log(_) => unreadable_session(id, failure),
        TranscriptFailure::Database(_) => {
            tracing::error!(session = id, error = %failure, "the rows of a session cannot be read");
            let detail = "the rows of the session cannot be made; the host's own log says why";
            Fault::new(ErrorCode::UNAVAILABLE, detail).with_session(id)
        }
    }
}

pub(super) fn shorten(text: &str) -> String {
    text.chars().take(100).collect()
}
