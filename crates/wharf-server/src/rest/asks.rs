//! `/sessions/{id}/asks`: the agent's open questions, and answers to them.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wharf_api::{AnswerArgs, Answered, AskList};

use super::extract::{JsonBody, PathParams};
use crate::App;
use crate::fault::Fault;
use crate::use_cases::{self, Caller};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list_asks)).routes(routes!(answer_ask))
}

/// The asks that the agent waits for an answer to.
#[utoipa::path(
    get, path = "/sessions/{id}/asks", tag = "asks", operation_id = "list_asks", params(("id" = String, Path)),
    responses(
        (status = 200, description = "The open asks, the oldest first", body = AskList),
        (status = 503, description = "`too_many_answers`"),
    )
)]
pub(super) async fn list_asks(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Response, Fault> {
    app.large_responses.respond(|| use_cases::list_asks(&app, &caller, &id)).await
}

/// Answers the agent. The first valid answer wins, whoever gives it.
#[utoipa::path(
    post, path = "/sessions/{id}/asks/{askId}", tag = "asks", operation_id = "answer_ask", request_body = AnswerArgs,
    params(("id" = String, Path), ("askId" = String, Path)),
    responses(
        (status = 200, description = "The answer is taken", body = Answered),
        (status = 404, description = "`unknown_ask`"),
        (status = 409, description = "`already_answered`"),
        (status = 422, description = "`option_not_offered`, with those `offered`"),
    )
)]
pub(super) async fn answer_ask(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, ask)): PathParams<(String, String)>,
    JsonBody(args): JsonBody<AnswerArgs>,
) -> Result<Json<Answered>, Fault> {
    use_cases::answer_ask(&app, &caller, &id, &ask, args).await.map(Json)
}
