//! ACP: a client sees one ordinary agent; several of them share its sessions.

mod amux;
mod answers;
mod ask_answer;
mod attachments;
mod capability_filter;
mod client_info;
mod client_profile;
mod connection;
mod errors;
mod event_id;
mod handshake;
mod http;
mod inbound;
mod message_order;
mod methods;
mod out_frame;
mod outbound;
mod outbox;
mod past;
mod pending_requests;
mod queue_view;
mod show;
mod shown;
mod subscription;
mod terminals;
mod unbound_agent;
mod under_way;
mod updates;
mod view;
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
use crate::listen::ConnectionPermit;
use crate::use_cases::{self, Caller};
pub(crate) use amux::Rooms;
use connection::{Connection, ConnectionOptions};
use handshake::Handshake;
pub(crate) use http::{Connections, delete, post};
use methods::AcpMethods;
pub use methods::{AcpMethod, MethodTrait};
pub(crate) use past::HistoryLimit;

/// The header with the names of the variables that a bridge sends.
const ENVIRONMENT_HEADER: HeaderName = HeaderName::from_static("wharf-environment");
/// Methods that begin so are never passed on to an agent (rule 3.10).
const RESERVED_PREFIXES: [&str; 2] = ["_wharf/", amux::METHOD_PREFIX];

#[derive(Debug, Default, Deserialize)]
pub(crate) struct AcpQuery {
    /// The adapter whose agent this connection means.
    agent: Option<String>,
}

impl AcpQuery {
    fn agent(self, app: &App) -> Arc<str> {
        self.agent
            .map_or_else(|| app.host.config().default_agent.as_str().into(), Into::into)
    }
}

/// `GET /acp`: a WebSocket for a client that asks for one, else an event stream.
pub(crate) async fn get(
    State(app): State<App>,
    Extension(identity): Extension<Identity>,
    (Query(query), Query(pairs)): (Query<AcpQuery>, Query<Vec<(String, String)>>),
    Extension(place): Extension<ConnectionPermit>,
    (method, headers): (Method, HeaderMap),
    // Before the next, which takes the upgrade out of them.
    extensions: Extensions,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    match upgrade {
        Ok(checked) => {
            let limit = app.host.config().limits.frame.0;
            let buffers = Arc::clone(app.host.buffers());
            match Handshake::new(checked, &extensions, &headers, limit, buffers) {
                Some(handshake) => {
                    upgrade_to_socket(app, identity, query, &pairs, place, handshake)
                }
                None => StatusCode::UPGRADE_REQUIRED.into_response(),
            }
        }
        Err(rejection) if method == Method::CONNECT || headers.contains_key(header::UPGRADE) => {
            rejection.into_response()
        }
        // A HEAD request would open a stream that has no reader.
        Err(_) if method == Method::HEAD => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        Err(_) => http::listen(&app, &identity, &headers).await,
    }
}

/// The query of `GET /acp/sessions`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ListQuery {
    agent: Option<String>,
    cursor: Option<String>,
    #[serde(flatten)]
    filter: methods::ListFilter,
}

/// `GET /acp/sessions`: the sessions of one agent as `session/list` has them, for amux clients that
/// have no connection.
pub(crate) async fn list_sessions(
    State(app): State<App>,
    Extension(identity): Extension<Identity>,
    Query(ListQuery { agent, cursor, filter }): Query<ListQuery>,
) -> axum::Json<serde_json::Value> {
    let agent = AcpQuery { agent }.agent(&app);
    let view = use_cases::AttentionView::new(&app, &identity);
    let mut found = use_cases::visible_sessions(&app, &Caller::new(identity, None));
    found.retain(|known| known.adapter_slug == *agent);
    axum::Json(methods::list_page(found, &view, &filter, cursor.as_deref()))
}

fn upgrade_to_socket(
    app: App,
    identity: Identity,
    query: AcpQuery,
    pairs: &[(String, String)],
    place: ConnectionPermit,
    handshake: Handshake,
) -> Response {
    let refuse = |handshake: Handshake, refused: amux::Refused| {
        // Only a socket that is open can be closed with a code and a reason.
        handshake.accept(move |socket, _| websocket::refuse(socket, refused.code, refused.reason))
    };
    let binding = match amux::Query::read(pairs) {
        Ok(Some(_)) if identity.agent_session().is_some() => {
            return refuse(handshake, amux::not_for_agents());
        }
        Ok(query) => query,
        Err(refused) => return refuse(handshake, refused),
    };
    // A session that is there already has its agent.
    let known = binding
        .as_ref()
        .and_then(|query| app.visible_to(&identity).find_by_name(&query.name));
    let agent = known.map_or_else(|| query.agent(&app), |known| known.adapter_slug.as_str().into());
    let wanted = wanted_variables(&app, &agent);
    let mut response = handshake.accept(move |socket, unfinished| async move {
        match binding {
            Some(query) => match amux::connect(app, identity, agent, query).await {
                Ok((methods, outlet)) => websocket::run(methods, outlet, socket, unfinished).await,
                Err(refused) => {
                    return websocket::refuse(socket, refused.code, refused.reason).await;
                }
            },
            None => {
                let (connection, outlet) =
                    Connection::new(app, identity, agent, ConnectionOptions::default());
                websocket::run(Arc::new(AcpMethods::new(connection)), outlet, socket, unfinished)
                    .await;
            }
        }
        drop(place);
    });
    // The socket is the connection; the id is for clients that expect one.
    let id = HeaderValue::from_str(&http::new_connection_id());
    response.headers_mut().extend(id.map(|id| (http::CONNECTION_ID, id)));
    response.headers_mut().extend(wanted.map(|names| (ENVIRONMENT_HEADER, names)));
    response
}

/// The variables that the agent's adapter names: a bridge sends its own values of these, and of no
/// others (rule 8.7).
fn wanted_variables(app: &App, agent: &str) -> Option<HeaderValue> {
    let adapters = app.host.config().adapters();
    let names = adapters.variable_names(&adapters.find(agent, None, &BTreeMap::new()).ok()?);
    if names.is_empty() { None } else { HeaderValue::from_str(&names.join(",")).ok() }
}
