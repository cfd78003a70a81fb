//! `/metrics`: the host's metrics in the text format of Prometheus.

use axum::extract::State;
use axum::http::{HeaderName, header};

use crate::App;
use crate::fault::Fault;
use crate::metrics::{gather_families, to_prometheus_text};
use crate::use_cases::Caller;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(get_metrics))
}

const PROMETHEUS_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Sessions, turns, logs, agents, connections and the host itself in numbers, in Prometheus' text
/// format. Not for tokens of one workspace.
#[utoipa::path(
    get, path = "/metrics", tag = "host", operation_id = "metrics",
    responses(
        (status = 200, description = "One number a line", body = String, content_type = "text/plain"),
        (status = 403, description = "`host_only`"),
    )
)]
pub(super) async fn get_metrics(
    State(app): State<App>,
    caller: Caller,
) -> Result<([(HeaderName, &'static str); 1], String), Fault> {
    caller.may_see_host()?;
    Ok((
        [(header::CONTENT_TYPE, PROMETHEUS_CONTENT_TYPE)],
        to_prometheus_text(&gather_families(&app)),
    ))
}
