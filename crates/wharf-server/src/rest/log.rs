//! `/sessions/{id}/output`, `/sessions/{id}/events` and `/sessions/{id}/logs`: the newest lines,
//! the log as it is stored, and the lines that the agent wrote beside the protocol.

use axum::extract::State;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wharf_api::{AgentLogPage, AgentLogQuery, EventPage, EventQuery, OutputLines, OutputQuery};

use super::extract::{PathParams, QueryParams};
use crate::App;
use crate::fault::Fault;
use crate::use_cases::{self, AgentLogRequest, Caller};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list_events))
        .routes(routes!(read_output))
        .routes(routes!(read_agent_log))
}

/// The log of a session, a page at a time.
#[utoipa::path(
    get, path = "/sessions/{id}/events", tag = "output", operation_id = "events", params(("id" = String, Path), EventQuery),
    responses(
        (status = 200, description = "Events in their order", body = EventPage),
        (status = 409, description = "`unknown_event`: the log does not hold `after`"),
        (status = 503, description = "`too_many_answers`"),
    )
)]
pub(super) async fn list_events(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(args): QueryParams<EventQuery>,
) -> Result<Response, Fault> {
    app.large_responses
        .respond(|| use_cases::list_events(&app, &caller, &id, &args))
        .await
}

/// The newest lines of what the agent did and said.
#[utoipa::path(
    get, path = "/sessions/{id}/output", tag = "output", operation_id = "output", params(("id" = String, Path), OutputQuery),
    responses(
        (status = 200, description = "Lines, the oldest first", body = OutputLines),
        (status = 503, description = "`too_many_answers`"),
    )
)]
pub(super) async fn read_output(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(args): QueryParams<OutputQuery>,
) -> Result<Response, Fault> {
    app.large_responses
        .respond(|| use_cases::read_output(&app, &caller, &id, &args))
        .await
}

/// The newest lines that the session's agents wrote to stderr, and those on stdout that are not
/// JSON. With `after` the lines that follow, with `wait` as soon as there are any.
#[utoipa::path(
    get, path = "/sessions/{id}/logs", tag = "output", operation_id = "logs", params(("id" = String, Path), AgentLogQuery),
    responses(
        (status = 200, description = "Lines, the oldest first", body = AgentLogPage),
        (status = 429, description = "`too_many_streams`: a wait counts like a stream"),
        (status = 503, description = "`too_many_answers`"),
    )
)]
pub(super) async fn read_agent_log(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<AgentLogQuery>,
) -> Result<Response, Fault> {
    let request = AgentLogRequest::from_query(&query)?;
    use_cases::wait_for_agent_log(&app, &caller, &id, &request).await?;
    let read = || std::future::ready(use_cases::read_agent_log(&app, &caller, &id, &request));
    app.large_responses.respond(read).await
}
