//! `/logins`: the signed-in devices.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wharf_api::{LoginChange, LoginEnded, LoginInfo, LoginList};

use super::extract::{JsonBody, PathParams};
use crate::App;
use crate::fault::Fault;
use crate::use_cases::{self, Caller};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list_logins))
        .routes(routes!(rename_login, end_login))
}

/// The signed-in devices that the caller may see.
#[utoipa::path(
    get, path = "/logins", tag = "login", operation_id = "list_logins",
    responses((status = 200, description = "The newest first", body = LoginList))
)]
pub(super) async fn list_logins(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<LoginList>, Fault> {
    use_cases::list_logins(&app, &caller).await.map(Json)
}

/// Gives a device a name.
#[utoipa::path(
    patch, path = "/logins/{loginId}", tag = "login", operation_id = "rename_login", request_body = LoginChange,
    params(("loginId" = String, Path)),
    responses((status = 200, description = "It has the name", body = LoginInfo), (status = 404, description = "`unknown_login`"))
)]
pub(super) async fn rename_login(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    JsonBody(change): JsonBody<LoginChange>,
) -> Result<Json<LoginInfo>, Fault> {
    use_cases::rename_login(&app, &caller, &id, change).await.map(Json)
}

/// Signs a device out: its streams and connections end at once.
#[utoipa::path(
    delete, path = "/logins/{loginId}", tag = "login", operation_id = "end_login", params(("loginId" = String, Path)),
    responses((status = 200, description = "It is signed out", body = LoginEnded), (status = 404, description = "`unknown_login`"))
)]
pub(super) async fn end_login(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<LoginEnded>, Fault> {
    use_cases::end_login(&app, &caller, &id).await.map(Json)
}
