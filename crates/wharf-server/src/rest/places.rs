//! `/places`: directories in which the caller may start a session.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wharf_api::{PlaceList, PlaceQuery};

use super::extract::QueryParams;
use crate::App;
use crate::fault::Fault;
use crate::use_cases::{self, Caller};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list_places))
}

/// Recent directories and workspaces in which the caller may start a session. Not for observers.
#[utoipa::path(
    get, path = "/places", tag = "workspaces", operation_id = "list_places", params(PlaceQuery),
    responses(
        (status = 200, description = "Where to start", body = PlaceList),
        (status = 500, description = "`registry_damaged`"),
    )
)]
pub(super) async fn list_places(
    State(app): State<App>,
    caller: Caller,
    QueryParams(query): QueryParams<PlaceQuery>,
) -> Result<Json<PlaceList>, Fault> {
    use_cases::list_places(&app, &caller, &query).await.map(Json)
}
