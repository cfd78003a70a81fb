//! `/sessions/{id}/queue`: the waiting prompts.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wharf_api::{QueueChange, QueueChanged, QueueEntry, QueueList, QueueSendArgs, QueueSent};

use super::extract::{JsonBody, OptionalJsonBody, PathParams};
use crate::App;
use crate::fault::Fault;
use crate::use_cases::{self, Caller};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list_queue))
        .routes(routes!(read_queued, change_queued, remove_queued))
        .routes(routes!(send_queued))
}

/// The prompts that wait.
#[utoipa::path(
    get, path = "/sessions/{id}/queue", tag = "queue", operation_id = "list_queue", params(("id" = String, Path)),
    responses((status = 200, description = "The next one first", body = QueueList))
)]
pub(super) async fn list_queue(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<QueueList>, Fault> {
    use_cases::list_queue(&app, &caller, &id).await.map(Json)
}

/// One prompt that waits, with its whole text.
#[utoipa::path(
    get, path = "/sessions/{id}/queue/{promptId}", tag = "queue", operation_id = "read_queued",
    params(("id" = String, Path), ("promptId" = String, Path)),
    responses(
        (status = 200, description = "The prompt", body = QueueEntry),
        (status = 404, description = "`unknown_prompt`: it does not wait, or not any more"),
    )
)]
pub(super) async fn read_queued(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, prompt)): PathParams<(String, String)>,
) -> Result<Json<QueueEntry>, Fault> {
    use_cases::read_queued(&app, &caller, &id, &prompt).await.map(Json)
}

/// Changes what a waiting prompt says, its place, or both.
#[utoipa::path(
    patch, path = "/sessions/{id}/queue/{promptId}", tag = "queue", operation_id = "change_queued", request_body = QueueChange,
    params(("id" = String, Path), ("promptId" = String, Path)),
    responses(
        (status = 200, description = "It is changed", body = QueueChanged),
        (status = 404, description = "`unknown_prompt`"),
        (status = 409, description = "`already_started`"),
    )
)]
pub(super) async fn change_queued(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, prompt)): PathParams<(String, String)>,
    JsonBody(change): JsonBody<QueueChange>,
) -> Result<Json<QueueChanged>, Fault> {
    use_cases::change_queued(&app, &caller, &id, &prompt, change).await.map(Json)
}

/// Sends a waiting prompt now: it runs next, and the running turn is interrupted for it. With
/// `steer` the turn goes on and the agent gets the prompt in it, where it can do that.
#[utoipa::path(
    post, path = "/sessions/{id}/queue/{promptId}/send", tag = "queue", operation_id = "send_queued",
    params(("id" = String, Path), ("promptId" = String, Path)),
    request_body(content = Option<QueueSendArgs>, description = "May be left out"),
    responses(
        (status = 200, description = "It runs, or does when the interrupted turn has ended", body = QueueSent),
        (status = 404, description = "`unknown_prompt`"),
        (status = 409, description = "`already_started`, `cannot_steer`"),
        (status = 429, description = "`queue_full`: the agent has as many prompts as may wait"),
    )
)]
pub(super) async fn send_queued(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, prompt)): PathParams<(String, String)>,
    OptionalJsonBody(args): OptionalJsonBody<QueueSendArgs>,
) -> Result<Json<QueueSent>, Fault> {
    use_cases::send_queued(&app, &caller, &id, &prompt, args.unwrap_or_default())
        .await
        .map(Json)
}

/// Takes a waiting prompt out of the queue.
#[utoipa::path(
    delete, path = "/sessions/{id}/queue/{promptId}", tag = "queue", operation_id = "remove_queued",
    params(("id" = String, Path), ("promptId" = String, Path)),
    responses(
        (status = 200, description = "It will not run", body = QueueChanged),
        (status = 404, description = "`unknown_prompt`"),
        (status = 409, description = "`already_started`"),
    )
)]
pub(super) async fn remove_queued(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, prompt)): PathParams<(String, String)>,
) -> Result<Json<QueueChanged>, Fault> {
    use_cases::remove_queued(&app, &caller, &id, &prompt).await.map(Json)
}
