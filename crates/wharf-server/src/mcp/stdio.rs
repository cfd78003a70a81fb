//! MCP as lines on an upgraded connection, which `wharf mcp` copies to and from its client's stdio.

use std::sync::Arc;

use axum::extract::{Extension, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper_util::rt::TokioIo;
use rmcp::transport::async_rw::AsyncRwTransport;

use super::handler::McpHandler;
use super::paced_transport::PacedTransport;
use crate::App;
use crate::auth::Identity;
use crate::fault::Fault;
use crate::listen::ConnectionPermit;
use crate::revocation::wait_for_end;
use crate::unfinished_message::{MeteredStream, UnfinishedMessage};
use wharf_api::ErrorCode;

/// The name of this protocol in the header `Upgrade`.
const UPGRADE_PROTOCOL: &str = "mcp-lines";

/// `GET /mcp/stdio` with `Upgrade: mcp-lines`: from then on one JSON-RPC message per line, both
/// ways.
pub(crate) async fn upgrade_to_lines(
    State(app): State<App>,
    Extension(identity): Extension<Identity>,
    Extension(place): Extension<ConnectionPermit>,
    mut request: Request,
) -> Response {
    let wanted = request
        .headers()
        .get(header::UPGRADE)
        .is_some_and(|wanted| wanted.as_bytes() == UPGRADE_PROTOCOL.as_bytes());
    if !wanted {
        let detail = "this is where `wharf mcp` connects, with `Upgrade: mcp-lines`; MCP over HTTP is at /mcp";
        let refusal = Fault::new(ErrorCode::UPGRADE_REQUIRED, detail);
        return ([(header::UPGRADE, HeaderValue::from_static(UPGRADE_PROTOCOL))], refusal)
            .into_response();
    }
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        match upgraded.await {
            Ok(connection) => serve_connection(app, identity, connection).await,
            Err(error) => tracing::debug!(%error, "an upgrade to MCP did not come about"),
        }
        drop(place);
    });
    let upgrade = [
        (header::CONNECTION, HeaderValue::from_static("upgrade")),
        (header::UPGRADE, HeaderValue::from_static(UPGRADE_PROTOCOL)),
    ];
    (StatusCode::SWITCHING_PROTOCOLS, upgrade).into_response()
}

/// Serves the connection until either side ends it.
async fn serve_connection(app: App, identity: Identity, connection: hyper::upgrade::Upgraded) {
    let unfinished = UnfinishedMessage::new(app.host.buffers());
    let (read, write) =
        tokio::io::split(MeteredStream::new(TokioIo::new(connection), Arc::clone(&unfinished)));
    let longest = app.host.config().limits.frame.0;
    let transport = AsyncRwTransport::new_server(read, write).with_max_line_length(longest);
    let transport = PacedTransport::new(transport, Arc::clone(&unfinished));
    let mut stopping = app.stopping.clone();
    let host = app.clone();
    let shown = identity.clone();
    let serving = async {
        match rmcp::serve_server(McpHandler::new(app, Some(identity)), transport).await {
            Ok(serving) => drop(serving.waiting().await),
            Err(error) => tracing::debug!(%error, "an MCP client did not begin properly"),
        }
    };
    tokio::select! {
        () = serving => {}
        _ = stopping.wait_for(|stopping| *stopping) => {}
        _ = wait_for_end(&host, &shown) => {}
        () = unfinished.closed() => {}
    }
}
