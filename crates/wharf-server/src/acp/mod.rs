//! ACP: a client sees one ordinary agent; several of them share its sessions.

mod agentless;
mod answers;
mod attach;
mod client;
mod connection;
mod errors;
mod event_id;
mod history;
mod inbound;
mod ledger;
mod outbound;
mod prompts;
mod sessions;
mod shown;
mod updates;
mod view;

use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{Extension, Query, State};
use axum::response::Response;
use serde::Deserialize;

use crate::App;
use crate::auth::{Identity, SUBPROTOCOL};
use crate::listen::Place;
use connection::Connection;

#[derive(Debug, Default, Deserialize)]
pub(crate) struct AcpQuery {
    /// Which adapter's agent this connection means.
    agent: Option<String>,
}

/// `GET /acp` with an upgrade.
pub(crate) async fn upgrade(
    State(app): State<App>,
    Extension(identity): Extension<Identity>,
    Query(query): Query<AcpQuery>,
    Extension(place): Extension<Place>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let limit = app.host.config().limits.frame.0;
    let agent = query.agent.map_or_else(|| app.agent.clone(), Into::into);
    upgrade.protocols([SUBPROTOCOL]).max_message_size(limit).max_frame_size(limit).on_upgrade(async move |socket| {
        Connection::run(app, identity, agent, socket).await;
        drop(place);
    })
}
