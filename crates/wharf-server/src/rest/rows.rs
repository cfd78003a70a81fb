//! `/sessions/{id}/rows`, `/sessions/{id}/turns` and `/sessions/{id}/changes`: the transcript, a
//! page at a time.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wharf_api::{
    ChangedFileList, ChangedFileQuery, ExportQuery, RowPage, RowQuery, RowTextPage, RowTextQuery,
    TranscriptRow, TurnDetail, TurnPage, TurnQuery,
};

use super::extract::{PathParams, QueryParams};
use crate::App;
use crate::fault::Fault;
use crate::use_cases::{self, Caller, SessionExport};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(read_rows))
        .routes(routes!(get_row))
        .routes(routes!(read_row_text))
        .routes(routes!(get_blob))
        .routes(routes!(export_session))
        .routes(routes!(list_turns))
        .routes(routes!(get_turn))
        .routes(routes!(list_changed_files))
}

/// Types that browsers may show. All else is a download.
const SHOWN_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// A page of the transcript, from the newest end if no position is given.
#[utoipa::path(
    get, path = "/sessions/{id}/rows", tag = "transcript", operation_id = "rows", params(("id" = String, Path), RowQuery),
    responses(
        (status = 200, description = "Rows, the oldest first", body = RowPage),
        (status = 404, description = "`unknown_row`, `unknown_prompt`"),
        (status = 409, description = "`fold_changed`: the cursor was made by other rules for rows"),
        (status = 503, description = "`too_many_answers`"),
    )
)]
pub(super) async fn read_rows(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<RowQuery>,
) -> Result<Response, Fault> {
    app.large_responses
        .respond(|| use_cases::read_rows(&app, &caller, &id, &query))
        .await
}

/// One row, with its texts whole as far as they fit into an answer.
#[utoipa::path(
    get, path = "/sessions/{id}/rows/{row}", tag = "transcript", operation_id = "row",
    params(("id" = String, Path), ("row" = String, Path, description = "The id of a row, or of an event within it")),
    responses(
        (status = 200, description = "The row", body = TranscriptRow),
        (status = 404, description = "`unknown_row`"),
        (status = 503, description = "`too_many_answers`"),
    )
)]
pub(super) async fn get_row(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, row)): PathParams<(String, String)>,
) -> Result<Response, Fault> {
    app.large_responses
        .respond(|| use_cases::get_row(&app, &caller, &id, &row))
        .await
}

/// A text that is too large for its row, a page at a time.
#[utoipa::path(
    get, path = "/sessions/{id}/rows/{row}/text", tag = "transcript", operation_id = "rowText",
    params(("id" = String, Path), ("row" = String, Path), RowTextQuery),
    responses(
        (status = 200, description = "A part of the text", body = RowTextPage),
        (status = 404, description = "`unknown_row`"),
        (status = 503, description = "`too_many_answers`"),
    )
)]
pub(super) async fn read_row_text(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, row)): PathParams<(String, String)>,
    QueryParams(query): QueryParams<RowTextQuery>,
) -> Result<Response, Fault> {
    app.large_responses
        .respond(|| use_cases::read_row_text(&app, &caller, &id, &row, &query))
        .await
}

/// An image or other bytes that rows refer to.
#[utoipa::path(
    get, path = "/sessions/{id}/blobs/{blob}", tag = "transcript", operation_id = "blob",
    params(("id" = String, Path), ("blob" = String, Path)),
    responses(
        (status = 200, description = "The bytes; those of other types than images are a download", content(
            (Vec<u8> = "application/octet-stream"), (Vec<u8> = "image/png"), (Vec<u8> = "image/jpeg"),
            (Vec<u8> = "image/gif"), (Vec<u8> = "image/webp"),
        )),
        (status = 404, description = "`unknown_blob`"),
        (status = 503, description = "`too_many_answers`"),
    )
)]
pub(super) async fn get_blob(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, blob)): PathParams<(String, String)>,
) -> Result<Response, Fault> {
    let (mime, body) = app
        .large_responses
        .respond_bytes(|| async {
            let found = use_cases::get_blob(&app, &caller, &id, &blob).await?;
            Ok((found.mime, found.bytes))
        })
        .await?;
    let shown = SHOWN_TYPES.into_iter().find(|shown| **shown == *mime);
    let mut response = body.into_response();
    let set = response.headers_mut();
    let kind = shown.unwrap_or("application/octet-stream");
    set.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    set.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    set.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; sandbox"),
    );
    // The name is the hash of the bytes: they never change.
    let lasts = HeaderValue::from_static("private, max-age=31536000, immutable");
    set.insert(header::CACHE_CONTROL, lasts);
    set.insert(
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    );
    if shown.is_none() {
        set.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    }
    Ok(response)
}

/// The turns of a session, the newest first.
#[utoipa::path(
    get, path = "/sessions/{id}/turns", tag = "transcript", operation_id = "turns",
    params(("id" = String, Path), TurnQuery),
    responses(
        (status = 200, description = "Turns in short", body = TurnPage),
        (status = 404, description = "`unknown_row`"),
        (status = 409, description = "`fold_changed`: the cursor was made by other rules for rows"),
        (status = 503, description = "`too_many_answers`"),
    )
)]
pub(super) async fn list_turns(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<TurnQuery>,
) -> Result<Response, Fault> {
    app.large_responses
        .respond(|| use_cases::list_turns(&app, &caller, &id, &query))
        .await
}

/// One turn with the agent's answer.
#[utoipa::path(
    get, path = "/sessions/{id}/turns/{promptId}", tag = "transcript", operation_id = "turn",
    params(("id" = String, Path), ("promptId" = String, Path)),
    responses(
        (status = 200, description = "The turn", body = TurnDetail),
        (status = 404, description = "`unknown_prompt`"),
        (status = 503, description = "`too_many_answers`"),
    )
)]
pub(super) async fn get_turn(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, prompt)): PathParams<(String, String)>,
) -> Result<Response, Fault> {
    app.large_responses
        .respond(|| use_cases::get_turn(&app, &caller, &id, &prompt))
        .await
}

/// The files that the session's tool calls have changed, the last changed first.
#[utoipa::path(
    get, path = "/sessions/{id}/changes", tag = "transcript", operation_id = "changes",
    params(("id" = String, Path), ChangedFileQuery),
    responses(
        (status = 200, description = "Files with the lines that were added and removed", body = ChangedFileList),
        (status = 404, description = "`unknown_prompt`"),
        (status = 503, description = "`too_many_answers`"),
    )
)]
pub(super) async fn list_changed_files(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<ChangedFileQuery>,
) -> Result<Response, Fault> {
    app.large_responses
        .respond(|| use_cases::list_changed_files(&app, &caller, &id, &query))
        .await
}

/// The whole transcript as a document, redacted unless `raw` is asked for. It is sent while it is
/// made.
#[utoipa::path(
    get, path = "/sessions/{id}/export", tag = "transcript", operation_id = "export",
    params(("id" = String, Path), ExportQuery),
    responses(
        (status = 200, description = "Markdown, JSON or HTML", content(
            (String = "text/markdown"), (String = "text/html"), (Object = "application/json")
        )),
        (status = 503, description = "`too_many_answers`"),
    )
)]
pub(super) async fn export_session(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<ExportQuery>,
) -> Result<Response, Fault> {
    let export = SessionExport::open(&app, &caller, &id, &query).await?;
    let content_type = export.format().content_type();
    let pieces = stream::try_unfold(export, |mut export| async move {
        let piece = export.next_piece().await?;
        Ok::<_, Fault>(piece.map(|piece| (Bytes::from(piece), export)))
    });
    let body = app.large_responses.send_document(pieces).await?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        // A browser that is sent here must not show an agent's text as a page of the host.
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment")),
    ];
    Ok((headers, body).into_response())
}
