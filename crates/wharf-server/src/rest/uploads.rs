//! `/sessions/{id}/uploads`: files that are sent with a prompt.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wharf_api::{UploadInfo, UploadQuery};

use super::extract::{PathParams, QueryParams};
use crate::App;
use crate::fault::Fault;
use crate::use_cases::{self, Caller};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(store_upload))
}

/// Keeps a file for a prompt of this session: the body is the file. A prompt names it by the
/// content block `{"type":"upload","id":"…"}`. It is deleted with the session.
#[utoipa::path(
    post, path = "/sessions/{id}/uploads", tag = "files", operation_id = "store_upload",
    params(("id" = String, Path), UploadQuery),
    request_body(content = Vec<u8>, content_type = "application/octet-stream", description = "The file; `Content-Type` is its type"),
    responses(
        (status = 201, description = "It is kept", body = UploadInfo),
        (status = 422, description = "`content_not_accepted`: the agent takes no images"),
        (status = 429, description = "`too_many_uploads`"),
    )
)]
pub(super) async fn store_upload(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<UploadQuery>,
    request: Request,
) -> Result<(StatusCode, Json<UploadInfo>), Fault> {
    let (head, body) = request.into_parts();
    let given_type = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let data = app.body_reader.read(&head.headers, body).await?;
    let kept = use_cases::store_upload(&app, &caller, &id, query, given_type, data).await?;
    Ok((StatusCode::CREATED, Json(kept)))
}
