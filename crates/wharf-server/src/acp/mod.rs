//! ACP: a client sees one ordinary agent; several of them share its sessions.

mod agentless;
mod amux;
mod answers;
mod attach;
mod client;
mod connection;
mod errors;
mod event_id;
mod history;
mod http;
mod inbound;
mod ledger;
mod outbound;
mod prompts;
mod sessions;
mod show;
mod shown;
mod terminals;
mod under_way;
mod understood;
mod updates;
mod view;
mod watched;
mod websocket;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use crate::App;
use crate::auth::{Identity, SUBPROTOCOL};
use crate::listen::Place;
pub(crate) use amux::Rooms;
pub(crate) use http::{Connections, delete, post};
pub(crate) use updates::stop_reason;

/// Names of variables, for a bridge.
const ENVIRONMENT: HeaderName = HeaderName::from_static("wharf-environment");

/// Each socket has one for as long as it lives. Clients say little at a time; thousands of them are what counts.
const READ_BUFFER: usize = 4 << 10;

#[derive(Debug, Default, Deserialize)]
pub(crate) struct AcpQuery {
    /// Which adapter's agent this connection means.
    agent: Option<String>,
}

impl AcpQuery {
    fn agent(self, app: &App) -> Arc<str> {
        self.agent.map_or_else(|| Arc::clone(&app.agent), Into::into)
    }
}

/// `GET /acp`: a WebSocket for those who ask for one, else an event stream.
pub(crate) async fn get(
    State(app): State<App>,
    Extension(identity): Extension<Identity>,
    (Query(query), Query(pairs)): (Query<AcpQuery>, Query<Vec<(String, String)>>),
    Extension(place): Extension<Place>,
    method: Method,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    match upgrade {
        Ok(upgrade) => self::upgrade(app, identity, query, &pairs, place, upgrade),
        Err(rejection) if method == Method::CONNECT || headers.contains_key(header::UPGRADE) => {
            rejection.into_response()
        }
        // A stream that nobody is going to read.
        Err(_) if method == Method::HEAD => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        Err(_) => http::listen(&app, &identity, &headers).await,
    }
}

fn upgrade(
    app: App,
    identity: Identity,
    query: AcpQuery,
    pairs: &[(String, String)],
    place: Place,
    upgrade: WebSocketUpgrade,
) -> Response {
    let limit = app.host.config().limits.frame.0;
    let upgrade = upgrade.protocols([SUBPROTOCOL]).max_message_size(limit).max_frame_size(limit);
    let upgrade = upgrade.read_buffer_size(READ_BUFFER);
    let binding = match amux::read_query(pairs) {
        // A seat is a person's: an agent in it would keep its owner out.
        Ok(Some(_)) if identity.agent().is_some() => {
            return upgrade.on_upgrade(|socket| websocket::refuse(socket, amux::not_for_agents()));
        }
        Ok(query) => query,
        // Only a socket that is open can be closed with a code and a reason.
        Err(refused) => return upgrade.on_upgrade(|socket| websocket::refuse(socket, refused)),
    };
    // A session that is there already has its agent.
    let known = binding.as_ref().and_then(|query| app.seen_by(&identity).named(&query.name));
    let agent = known.map_or_else(|| query.agent(&app), |known| known.adapter_slug.as_str().into());
    let wanted = wanted_variables(&app, &agent);
    let mut response = upgrade.on_upgrade(async move |socket| {
        let bound = match binding {
            Some(query) => match amux::admit(&app, &identity, query).await {
                Ok(bound) => Some(bound),
                Err(refused) => return websocket::refuse(socket, refused).await,
            },
            None => None,
        };
        websocket::run(app, identity, agent, bound, socket).await;
        drop(place);
    });
    // The socket is the connection; the id is for those who expect one.
    let id = HeaderValue::from_str(&http::new_connection_id());
    response.headers_mut().extend(id.map(|id| (http::CONNECTION_ID, id)));
    response.headers_mut().extend(wanted.map(|names| (ENVIRONMENT, names)));
    response
}

/// The variables that the agent's adapter names: a bridge sends its own values of these, and of no others (rule 8.7).
fn wanted_variables(app: &App, agent: &str) -> Option<HeaderValue> {
    let adapters = app.host.config().adapters();
    let names = adapters.variables(&adapters.find(agent, None, &BTreeMap::new()).ok()?);
    if names.is_empty() { None } else { HeaderValue::from_str(&names.join(",")).ok() }
}
