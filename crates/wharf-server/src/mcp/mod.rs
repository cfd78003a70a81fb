//! MCP (rule 8.5): tools that start, prompt, watch and end sessions. Each translates into a call that REST makes too.
//!
//! Over HTTP every request stands for itself: there are no MCP sessions to keep, to bound or to steal.

mod handler;
mod paced;
mod shapes;
mod stdio;
mod table;
mod wait;

use std::sync::Arc;

use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use crate::App;
use handler::Handler;
pub(crate) use stdio::stdio;

/// Streamable HTTP. It stands behind the guard, which has checked authority, origin and identity.
pub(crate) fn service(app: &App) -> StreamableHttpService<Handler, NeverSessionManager> {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        // Streams, with comments while nothing comes: a tool that waits must not look like a dead connection.
        .with_json_response(false)
        .with_max_request_body_bytes(app.host.config().limits.frame.0)
        .disable_allowed_hosts();
    let app = app.clone();
    let sessions = Arc::new(NeverSessionManager::default());
    StreamableHttpService::new(move || Ok(Handler::new(app.clone(), None)), sessions, config)
}
