//! `/adapters`: the agents that can be started (rule 8.7).

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wharf_api::{AdapterList, AdapterQuery};

use super::extract::QueryParams;
use crate::App;
use crate::fault::Fault;
use crate::use_cases::{self, Caller};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list_adapters))
}

/// The agents that can be started, by slug.
#[utoipa::path(
    get, path = "/adapters", tag = "adapters", operation_id = "list_adapters", params(AdapterQuery),
    responses((status = 200, description = "All of them", body = AdapterList), (status = 422, description = "`invalid_params`"))
)]
pub(super) async fn list_adapters(
    State(app): State<App>,
    caller: Caller,
    QueryParams(query): QueryParams<AdapterQuery>,
) -> Result<Json<AdapterList>, Fault> {
    use_cases::list_adapters(&app, &caller, &query).await.map(Json)
}
