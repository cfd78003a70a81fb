//! `/notify/test`: tries the receivers of notifications.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wharf_api::NotifyTest;

use crate::App;
use crate::fault::Fault;
use crate::use_cases::{self, Caller};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(test_notifications))
}

/// Sends a test to each receiver of notifications that is set, and tells the outcome. For admins.
#[utoipa::path(
    post, path = "/notify/test", tag = "host", operation_id = "test_notifications",
    responses((status = 200, description = "Each receiver was tried once", body = NotifyTest), (status = 403, description = "`admin_only`"))
)]
pub(super) async fn test_notifications(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<NotifyTest>, Fault> {
    use_cases::test_notifications(&app, &caller).await.map(Json)
}
