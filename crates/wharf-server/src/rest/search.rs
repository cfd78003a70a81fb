//! `/search`: the rows of all sessions by their words.

use axum::extract::State;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wharf_api::{SearchArgs, SearchPage};

use super::extract::QueryParams;
use crate::App;
use crate::fault::Fault;
use crate::use_cases::{self, Caller};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(search_rows))
}

/// Searches the prompts, messages, tool calls and asks of all sessions, the newest first.
#[utoipa::path(
    get, path = "/search", tag = "transcript", operation_id = "search", params(SearchArgs),
    responses(
        (status = 200, description = "A page of hits", body = SearchPage),
        (status = 404, description = "`unknown_session`"),
        (status = 409, description = "`fold_changed`: the cursor was made by other rules for rows"),
        (status = 503, description = "`too_many_answers`"),
    )
)]
pub(super) async fn search_rows(
    State(app): State<App>,
    caller: Caller,
    QueryParams(args): QueryParams<SearchArgs>,
) -> Result<Response, Fault> {
    app.large_responses
        .respond(|| use_cases::search_rows(&app, &caller, &args))
        .await
}
