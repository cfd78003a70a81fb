//! MCP (rule 8.5): tools that start, prompt, watch and end sessions, by the same use cases as REST.
//!
//! Over HTTP every request stands alone: there are no MCP sessions to store, to limit or to steal.

mod agents;
mod answer;
mod changed_files;
mod handler;
mod paced_transport;
mod rows;
mod schemas;
mod search;
mod stdio;
mod tools;
mod wait;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use wharf_api::ErrorCode;
use wharf_json::Json;

use crate::App;
use crate::fault::Fault;
use handler::McpHandler;
pub(crate) use stdio::upgrade_to_lines;

/// Returns the route `/mcp`.
pub(crate) fn routes(app: &App) -> Router<App> {
    let taken = axum::middleware::from_fn_with_state(app.clone(), read_body);
    Router::new().route_service("/mcp", build_service(app)).route_layer(taken)
}

/// Reads the body under the limits of all surfaces before the library gets it.
async fn read_body(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> Result<Response, Fault> {
    if request.method() != Method::POST {
        return Ok(next.run(request).await);
    }
    let (head, body) = request.into_parts();
    let body = app.body_reader.read(&head.headers, body).await?;
    // The library would round numbers and keep one of two members with the same name. It refuses
    // malformed JSON itself.
    if let Ok(message) = Json::parse(&body) {
        wharf_json::check_exact(message).map_err(|error| {
            Fault::new(ErrorCode::INVALID_PARAMS, error.to_string())
                .with_legacy_code("invalid_body")
        })?;
    }
    Ok(next.run(Request::from_parts(head, body.into())).await)
}

/// Builds the Streamable HTTP service. The guard in front of it checks authority, origin and
/// identity.
fn build_service(app: &App) -> StreamableHttpService<McpHandler, NeverSessionManager> {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        // Streams send comments while a tool waits, so that the connection does not look dead.
        .with_json_response(false)
        .with_max_request_body_bytes(app.host.config().limits.body.0)
        .disable_allowed_hosts();
    let app = app.clone();
    let sessions = Arc::new(NeverSessionManager::default());
    StreamableHttpService::new(move || Ok(McpHandler::new(app.clone(), None)), sessions, config)
}
