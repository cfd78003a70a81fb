//! `/sessions/{id}/files` and `/files`: files that a prompt may name.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wharf_api::{DirectoryFileQuery, FileList, FileQuery};

use super::extract::{PathParams, QueryParams};
use crate::App;
use crate::fault::Fault;
use crate::use_cases::{self, Caller};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(find_session_files))
        .routes(routes!(find_directory_files))
}

/// Files and directories of the session by a part of their name. Ignored files are left out. The
/// answer comes within 50 ms; `partial` says that there may be more. Not for observers.
#[utoipa::path(
    get, path = "/sessions/{id}/files", tag = "files", operation_id = "find_session_files",
    params(("id" = String, Path), FileQuery),
    responses((status = 200, description = "The best first", body = FileList))
)]
pub(super) async fn find_session_files(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<FileQuery>,
) -> Result<Json<FileList>, Fault> {
    use_cases::find_session_files(&app, &caller, &id, &query).await.map(Json)
}

/// The same in a directory in which the caller may start a session.
#[utoipa::path(
    get, path = "/files", tag = "files", operation_id = "find_directory_files", params(DirectoryFileQuery),
    responses(
        (status = 200, description = "The best first", body = FileList),
        (status = 403, description = "`cwd_not_allowed`"),
        (status = 422, description = "`invalid_cwd`"),
    )
)]
pub(super) async fn find_directory_files(
    State(app): State<App>,
    caller: Caller,
    QueryParams(query): QueryParams<DirectoryFileQuery>,
) -> Result<Json<FileList>, Fault> {
    use_cases::find_directory_files(&app, &caller, &query).await.map(Json)
}
