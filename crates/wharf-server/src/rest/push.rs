//! `/push`: push messages to the device that calls.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wharf_api::{PushDelivery, PushState, PushSubscriptionArgs};

use super::extract::JsonBody;
use crate::App;
use crate::fault::Fault;
use crate::use_cases::{self, Caller};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(describe_push, subscribe_push, unsubscribe_push))
        .routes(routes!(test_push))
}

/// The host's key for push messages, and whether this page has subscribed.
#[utoipa::path(
    get, path = "/push", tag = "login", operation_id = "describe_push",
    responses(
        (status = 200, description = "For this page", body = PushState),
        (status = 403, description = "`host_only`: the caller is not a page of the owner"),
    )
)]
pub(super) async fn describe_push(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<PushState>, Fault> {
    use_cases::describe_push(&app, &caller).await.map(Json)
}

/// Subscribes this page, instead of an earlier subscription.
#[utoipa::path(
    put, path = "/push", tag = "login", operation_id = "subscribe_push", request_body = PushSubscriptionArgs,
    responses(
        (status = 200, description = "It has subscribed", body = PushState),
        (status = 403, description = "`host_only`"),
        (status = 422, description = "`invalid_params`"),
    )
)]
pub(super) async fn subscribe_push(
    State(app): State<App>,
    caller: Caller,
    JsonBody(args): JsonBody<PushSubscriptionArgs>,
) -> Result<Json<PushState>, Fault> {
    use_cases::subscribe_push(&app, &caller, args).await.map(Json)
}

/// Ends the subscription of this page.
#[utoipa::path(
    delete, path = "/push", tag = "login", operation_id = "unsubscribe_push",
    responses((status = 200, description = "It gets no push messages", body = PushState), (status = 403, description = "`host_only`"))
)]
pub(super) async fn unsubscribe_push(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<PushState>, Fault> {
    use_cases::unsubscribe_push(&app, &caller).await.map(Json)
}

/// Sends a test to this page by its push service.
#[utoipa::path(
    post, path = "/push/test", tag = "login", operation_id = "test_push",
    responses((status = 200, description = "The outcome", body = PushDelivery), (status = 403, description = "`host_only`"))
)]
pub(super) async fn test_push(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<PushDelivery>, Fault> {
    use_cases::test_push(&app, &caller).await.map(Json)
}
