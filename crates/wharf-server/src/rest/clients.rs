//! `/sessions/{id}/clients`: the attached clients.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wharf_api::ClientList;

use super::extract::PathParams;
use crate::App;
use crate::fault::Fault;
use crate::use_cases::{self, Caller};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list_clients))
}

/// The clients that are attached to the session by ACP.
#[utoipa::path(
    get, path = "/sessions/{id}/clients", tag = "sessions", operation_id = "list_clients", params(("id" = String, Path)),
    responses((status = 200, description = "In the order in which they came", body = ClientList))
)]
pub(super) async fn list_clients(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<ClientList>, Fault> {
    use_cases::list_clients(&app, &caller, &id).await.map(Json)
}
