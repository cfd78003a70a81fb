//! `/asks`, `/sessions/{id}/seen` and `/sessions/{id}/mute`: asks of all sessions, and the marks of
//! the caller's person.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wharf_api::{AskOverview, AskQuery, MuteArgs, MuteMark, SeenArgs, SeenMark};

use super::extract::{JsonBody, PathParams, QueryParams};
use crate::App;
use crate::fault::Fault;
use crate::use_cases::{self, Caller};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list_all_asks))
}

/// Routes that observers may use too: the marks are their own.
pub(super) fn mark_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(mark_seen)).routes(routes!(set_muted))
}

/// The open asks of all sessions, the longest waiting first.
#[utoipa::path(
    get, path = "/asks", tag = "asks", operation_id = "list_all_asks", params(AskQuery),
    responses(
        (status = 200, description = "The open asks with their sessions", body = AskOverview),
        (status = 503, description = "`too_many_answers`"),
    )
)]
pub(super) async fn list_all_asks(
    State(app): State<App>,
    caller: Caller,
    QueryParams(query): QueryParams<AskQuery>,
) -> Result<Response, Fault> {
    app.large_responses
        .respond(|| use_cases::list_all_asks(&app, &caller, &query))
        .await
}

/// Says how far the caller's person has seen the session. The mark never falls.
#[utoipa::path(
    put, path = "/sessions/{id}/seen", tag = "sessions", operation_id = "mark_seen", request_body = SeenArgs,
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "The mark", body = SeenMark),
        (status = 409, description = "`unknown_event`"),
    )
)]
pub(super) async fn mark_seen(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    JsonBody(args): JsonBody<SeenArgs>,
) -> Result<Json<SeenMark>, Fault> {
    use_cases::mark_seen(&app, &caller, &id, &args).await.map(Json)
}

/// Mutes the session for the caller's person, or ends that.
#[utoipa::path(
    put, path = "/sessions/{id}/mute", tag = "sessions", operation_id = "mute", request_body = MuteArgs,
    params(("id" = String, Path)),
    responses((status = 200, description = "The mark", body = MuteMark))
)]
pub(super) async fn set_muted(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    JsonBody(args): JsonBody<MuteArgs>,
) -> Result<Json<MuteMark>, Fault> {
    use_cases::set_muted(&app, &caller, &id, &args).map(Json)
}
