//! ACP: a client sees one ordinary agent; several of them share its sessions.

mod agentless;
mod amux;
mod answers;
mod ask_answer;
mod attach;
mod client;
mod connection;
mod errors;
mod event_id;
mod handshake;
mod history;
mod history_limit;
mod http;
mod inbound;
mod ledger;
mod order;
mod out_frame;
mod outbound;
mod prompts;
mod queue_view;
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
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use crate::App;
use crate::auth::Identity;
use crate::listen::Place;
pub(crate) use amux::Rooms;
use handshake::Handshake;
pub(crate) use history_limit::HistoryLimit;
pub(crate) use http::{Connections, delete, post};
pub(crate) use updates::stop_reason;

/// Names of variables, for a bridge.
const ENVIRONMENT: HeaderName = HeaderName::from_static("wharf-environment");

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
    (method, headers): (Method, HeaderMap),
    // Before the next, which takes the upgrade out of them.
    extensions: Extensions,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    match upgrade {
        Ok(checked) => {
            let (limit, buffers) = (app.host.config().limits.frame.0, Arc::clone(app.host.buffers()));
            match Handshake::new(checked, &extensions, &headers, limit, buffers) {
                Some(handshake) => upgrade_to_socket(app, identity, query, &pairs, place, handshake),
                None => StatusCode::UPGRADE_REQUIRED.into_response(),
            }
        }
        Err(rejection) if method == Method::CONNECT || headers.contains_key(header::UPGRADE) => {
            rejection.into_response()
        }
        // A stream that nobody is going to read.
        Err(_) if method == Method::HEAD => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        Err(_) => http::listen(&app, &identity, &headers).await,
    }
}

/// The query of `GET /acp/sessions`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ListQuery {
    agent: Option<String>,
    cwd: Option<String>,
    cursor: Option<String>,
}

/// `GET /acp/sessions`: the sessions of one agent as `session/list` has them, for amux clients that have no connection.
pub(crate) async fn list_sessions(
    State(app): State<App>,
    Extension(identity): Extension<Identity>,
    Query(ListQuery { agent, cwd, cursor }): Query<ListQuery>,
) -> axum::Json<serde_json::Value> {
    let agent = AcpQuery { agent }.agent(&app);
    let mut found = app.visible_to(&identity).descriptors();
    found.retain(|known| known.adapter_slug == *agent);
    axum::Json(sessions::list_page(found, cwd.as_deref(), cursor.as_deref()))
}

fn upgrade_to_socket(
    app: App,
    identity: Identity,
    query: AcpQuery,
    pairs: &[(String, String)],
    place: Place,
    handshake: Handshake,
) -> Response {
    let binding = match amux::read_query(pairs) {
        // A seat is a person's: an agent in it would keep its owner out.
        Ok(Some(_)) if identity.agent().is_some() => {
            return handshake.accept(|socket, _| websocket::refuse(socket, amux::not_for_agents()));
        }
        Ok(query) => query,
        // Only a socket that is open can be closed with a code and a reason.
        Err(refused) => return handshake.accept(|socket, _| websocket::refuse(socket, refused)),
    };
    // A session that is there already has its agent.
    let known = binding.as_ref().and_then(|query| app.visible_to(&identity).find_by_name(&query.name));
    let agent = known.map_or_else(|| query.agent(&app), |known| known.adapter_slug.as_str().into());
    let wanted = wanted_variables(&app, &agent);
    let mut response = handshake.accept(move |socket, unfinished| async move {
        let bound = match binding {
            Some(query) => match amux::admit(&app, &identity, query).await {
                Ok(bound) => Some(bound),
                Err(refused) => return websocket::refuse(socket, refused).await,
            },
            None => None,
        };
        websocket::run(app, identity, agent, bound, (socket, unfinished)).await;
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
