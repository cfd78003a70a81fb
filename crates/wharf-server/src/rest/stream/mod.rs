//! Server-sent events: the lines (rule 8.3) and the rows (rule 13.5) of one session, and the state
//! of all (rule 8.1).
//!
//! A stream reads the log only when its client reads the stream, so that a client that never reads
//! costs bounded memory. The lines of a large update count against the byte budget of all
//! connections.

mod event_feed;
mod poll_stream;
mod ready_events;
mod row_stream;
mod session_list_stream;
mod session_stream;
mod stream_event;

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;
use wharf_api::{OutputStreamSchema, RowStreamSchema, SessionStreamSchema};

use super::extract::{PathParams, QueryParams};
use crate::App;
use crate::fault::Fault;
use crate::limits::TokenPermit;
use crate::use_cases::{self, Caller};
use poll_stream::PollStream;
use row_stream::RowStream;
use session_list_stream::SessionListStream;
use session_stream::SessionStream;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(follow_session))
        .routes(routes!(watch_sessions))
        .routes(routes!(follow_rows))
}

/// How often an idle stream sends a comment: proxies close connections that are silent for half a
/// minute.
const COMMENT_INTERVAL: Duration = Duration::from_secs(25);
const LAST_EVENT_ID_HEADER: HeaderName = HeaderName::from_static("last-event-id");

/// The query of a session's stream of lines.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct LineStreamQuery {
    /// The id of the last event that the reader had, for those that cannot send `Last-Event-ID`.
    after: Option<String>,
    /// Lines besides those of AIP-46, separated by commas: `prompts`, `plans`.
    include: Option<String>,
}

/// The events of one session as they happen: `line`, `status`, `turn` and `ask`. Stays open while
/// the session sleeps; ends when it was killed, cannot come back or is forgotten.
#[utoipa::path(
    get, path = "/sessions/{id}/stream", tag = "output", operation_id = "follow",
    params(
        ("id" = String, Path), LineStreamQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "Go on after this event"),
    ),
    responses(
        (status = 200, description = "Server-sent events: the name and the data of each", body = OutputStreamSchema, content_type = "text/event-stream"),
        (status = 204, description = "The session was killed or cannot come back, and there is nothing after that event"),
        (status = 409, description = "`unknown_event`: the log does not hold it"),
        (status = 429, description = "`too_many_streams`, `too_many_connections`"),
    )
)]
pub(super) async fn follow_session(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<LineStreamQuery>,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    let permit = app.limits.open_stream(&caller.identity)?;
    let handle = use_cases::open_session(&app, &caller, &id).await?;
    let after = read_position(&headers, query.after);
    let choice = use_cases::read_line_choice(&app, query.include.as_deref())?;
    let visible = app.visible_to(&caller.identity);
    match SessionStream::open(handle, visible, after.as_deref(), choice, app.host.buffers()).await?
    {
        Some(reading) => Ok(stream_response(reading, permit)),
        None => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

/// The query of a session's stream of rows.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct RowStreamQuery {
    /// The id of the last event that the reader had, for those that cannot send `Last-Event-ID`.
    after: Option<String>,
}

/// The rows of a session as they change. Stays open while the session sleeps, and never wakes its
/// agent.
#[utoipa::path(
    get, path = "/sessions/{id}/rows/stream", tag = "transcript", operation_id = "followRows",
    params(
        ("id" = String, Path), RowStreamQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "Go on after this event"),
    ),
    responses(
        (status = 200, description = "Server-sent events: the name and the data of each", body = RowStreamSchema, content_type = "text/event-stream"),
        (status = 422, description = "`invalid_params`"),
        (status = 429, description = "`too_many_streams`, `too_many_connections`"),
    )
)]
pub(super) async fn follow_rows(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<RowStreamQuery>,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    let permit = app.limits.open_stream(&caller.identity)?;
    let after = read_position(&headers, query.after);
    Ok(stream_response(RowStream::open(&app, &caller, &id, after.as_deref()).await?, permit))
}

/// The query of the stream of all sessions.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct WatchQuery {
    /// A session: its rows come in the same stream, as from `GET /sessions/{id}/rows/stream`.
    rows: Option<String>,
    /// The id of the last event of the rows that the reader had.
    after: Option<String>,
    /// Makes the stream end after the first events that are new to the reader, or after this time,
    /// at most 20 seconds: `20s`, `0s`.
    wait: Option<String>,
}

/// The state of every session: `snapshot` once, then `session` for each that changes and
/// `forgotten`; `stopping` when the host was told to stop. With `rows` also the rows of one
/// session.
#[utoipa::path(
    get, path = "/sessions/stream", tag = "sessions", operation_id = "watch",
    params(WatchQuery, ("Last-Event-ID" = Option<String>, Header, description = "Go on with the rows after this event")),
    responses(
        (status = 200, description = "Server-sent events: the name and the data of each", body = SessionStreamSchema, content_type = "text/event-stream"),
        (status = 404, description = "`unknown_session`"),
        (status = 429, description = "`too_many_streams`, `too_many_connections`"),
    )
)]
pub(super) async fn watch_sessions(
    State(app): State<App>,
    caller: Caller,
    QueryParams(query): QueryParams<WatchQuery>,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    let permit = app.limits.open_stream(&caller.identity)?;
    let wait = use_cases::parse_wait(query.wait.as_deref())?;
    let list = SessionListStream::new(&app, &caller.identity);
    let after = read_position(&headers, query.after);
    let rows = match query.rows.filter(|id| !id.is_empty()) {
        Some(id) => Some(RowStream::open(&app, &caller, &id, after.as_deref()).await?),
        None => None,
    };
    Ok(match (wait, rows) {
        (Some(wait), rows) => stream_response(PollStream::new(list, rows, wait), permit),
        (None, Some(rows)) => streamed(stream::select(to_chunks(list), to_chunks(rows)), permit),
        (None, None) => stream_response(list, permit),
    })
}

/// Returns the position that a reader gives. A browser that reconnects repeats the first URL and
/// sends its current position in the header.
fn read_position(headers: &HeaderMap, after: Option<String>) -> Option<String> {
    let header = headers
        .get(LAST_EVENT_ID_HEADER)
        .map(|id| String::from_utf8_lossy(id.as_bytes()).trim().to_owned());
    header.filter(|id| !id.is_empty()).or(after.filter(|id| !id.is_empty()))
}

/// A response body that is made chunk by chunk.
trait ChunkSource: Send + 'static {
    /// Returns the next bytes; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// Returns a response whose body asks the source for bytes when the client has taken the last ones.
fn stream_response(source: impl ChunkSource, permit: TokenPermit) -> Response {
    streamed(to_chunks(source), permit)
}

fn to_chunks(source: impl ChunkSource) -> impl Stream<Item = Bytes> + Send {
    stream::unfold(source, async |mut source| {
        let chunk = source.next().await?;
        Some((chunk, source))
    })
}

fn streamed(chunks: impl Stream<Item = Bytes> + Send + 'static, permit: TokenPermit) -> Response {
    let body = Body::from_stream(chunks.map(move |chunk| {
        // The permit lives as long as the stream.
        let _ = &permit;
        Ok::<_, Infallible>(chunk)
    }));
    let mut response = Response::new(body);
    let set = response.headers_mut();
    set.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    set.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    // Asks proxies not to buffer events; `no-transform` above keeps them from compressing, for
    // which they would buffer.
    set.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// Returns the text of one server-sent event.
fn format_event(name: &str, id: Option<&str>, data: &impl Serialize) -> String {
    // A `Value` sorts the members by name, which readers rely on.
    let data = serde_json::to_value(data).unwrap_or_default();
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("event: {name}\n{id}data: {data}\n\n")
}
