//! What every request must pass: the right authority, no foreign origin, an identity.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use wharf_host::{Auth, Badge};

use crate::App;
use crate::auth::{Identity, Peer, Refused, bearer};
use crate::problem::Problem;

/// The authority must be ours, and a browser page must be ours too: a name that a foreign page points at this machine
/// (DNS rebinding) and a foreign page's WebSocket are refused alike (rule 10.3).
pub(crate) async fn check_authority(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let authority = request
        .uri()
        .authority()
        .map(|authority| authority.as_str().to_owned())
        .or_else(|| text(headers, header::HOST));
    match authority {
        Some(authority) if is_local(&authority) => {}
        Some(authority) => {
            return refuse(
                StatusCode::FORBIDDEN,
                "foreign_authority",
                &format!("{authority:?} is not a name of this host; use 127.0.0.1 or localhost"),
            );
        }
        None => return refuse(StatusCode::BAD_REQUEST, "no_authority", "the Host header is missing"),
    }
    match text(headers, header::ORIGIN) {
        Some(origin) if !is_own_origin(&origin, headers) => {
            let detail = format!("requests from pages of {origin:?} are not taken");
            refuse(StatusCode::FORBIDDEN, "foreign_origin", &detail)
        }
        _ => next.run(request).await,
    }
}

/// Lets through who has an [`Identity`], and tells the surfaces which: they take it as `Extension<Identity>`.
pub(crate) async fn require_identity(State(app): State<App>, mut request: Request, next: Next) -> Response {
    match identify(&app, &request) {
        Ok(identity) if !identity.may_reach(request.method(), request.uri().path()) => {
            let detail = "this is not for agents: they look at their own session, and work in those that they started";
            refuse(StatusCode::FORBIDDEN, "not_for_agents", detail)
        }
        Ok(identity) => {
            request.extensions_mut().insert(identity);
            next.run(request).await
        }
        Err(refusal) => *refusal,
    }
}

/// TCP needs a token, unless `auth = "none"`; the local socket needs our own user (rule 10.1). Over the socket a token is
/// not needed, but one that is shown counts: so a bridge can hand an observer's place on. From inside an agent it does
/// not: there everyone is that agent.
fn identify(app: &App, request: &Request) -> Result<Identity, Box<Response>> {
    let peer = request.extensions().get::<Peer>().cloned().unwrap_or(Peer::Network);
    let refusal = match (peer, bearer(request.headers())) {
        (Peer::Network | Peer::Local, Some(token)) => return known(app, &token),
        // Who may do without a token is taken for our own user, as over the socket (rule 10.3).
        (Peer::Network, None) if app.host.config().auth == Auth::None => return Ok(Identity::LOCAL),
        (Peer::Network, None) => unauthorized(
            "a token is needed: send `Authorization: Bearer <token>`; it is in the file `token` of the state directory, and `wharf token create` makes others",
        ),
        (Peer::Local, None) => return Ok(Identity::LOCAL),
        (Peer::Agent(badge), _) => return agent(app, badge),
        (Peer::Stray { pid }, _) => {
            let detail = format!("process {pid} belongs to an agent that has no session; it may not use the socket");
            refuse(StatusCode::FORBIDDEN, "agent_process", &detail)
        }
        (Peer::Unnamed, _) => {
            refuse(StatusCode::FORBIDDEN, "unknown_process", "the system does not say which process is calling")
        }
        (Peer::Stranger, _) => {
            refuse(StatusCode::FORBIDDEN, "another_user", "the socket is for the user who runs this host")
        }
    };
    Err(Box::new(refusal))
}

/// The agent of a session, for as long as its process lives. One that waits for its session is nobody yet.
fn agent(app: &App, badge: Badge) -> Result<Identity, Box<Response>> {
    let has_session = app.host.descriptor(badge.session()).is_some();
    if app.host.is_worn(&badge) && has_session {
        return Ok(Identity::of_agent(badge));
    }
    let detail = "this agent has no session, or has ended; it may not use this host";
    Err(Box::new(refuse(StatusCode::FORBIDDEN, "agent_process", detail)))
}

fn known(app: &App, token: &str) -> Result<Identity, Box<Response>> {
    if let Some(badge) = app.host.badge_of_token(token) {
        return agent(app, badge);
    }
    app.tokens.authenticate(token).map_err(|refused| {
        Box::new(match refused {
            Refused::Unknown => unauthorized("the token is not known to this host; it may have been revoked"),
            // Not 401: a client would throw away a token that may well be good.
            Refused::Unreadable => refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                "tokens_unreadable",
                "this host cannot check tokens at the moment; its log says why",
            ),
        })
    })
}

fn unauthorized(message: &str) -> Response {
    let mut response = refuse(StatusCode::UNAUTHORIZED, "unauthorized", message);
    response.headers_mut().insert(header::WWW_AUTHENTICATE, axum::http::HeaderValue::from_static("Bearer"));
    response
}

fn refuse(status: StatusCode, code: &'static str, detail: &str) -> Response {
    Problem::new(status, code, detail).into_response()
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// `127.0.0.1`, `localhost` or `[::1]`, with any port.
fn is_local(authority: &str) -> bool {
    let name = match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !port.is_empty() => name,
        _ => authority,
    };
    matches!(name, "127.0.0.1" | "localhost" | "[::1]")
}

/// The page must come from the very authority that it calls.
fn is_own_origin(origin: &str, headers: &HeaderMap) -> bool {
    let own = text(headers, header::HOST);
    let page = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    page.is_some() && page == own.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_are_ours() {
        for ours in ["127.0.0.1", "127.0.0.1:7433", "localhost:80", "[::1]:7433", "[::1]"] {
            assert!(is_local(ours), "{ours}");
        }
        for foreign in
            ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io:7433", "10.0.0.1", "", "[::2]:1", "127.0.0.1:"]
        {
            assert!(!is_local(foreign), "{foreign}");
        }
    }

    #[test]
    fn a_page_must_come_from_the_authority_it_calls() {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, "127.0.0.1:7433".parse().unwrap());
        assert!(is_own_origin("http://127.0.0.1:7433", &headers));
        for foreign in ["http://127.0.0.1:9000", "http://evil.example", "null", "file://127.0.0.1:7433"] {
            assert!(!is_own_origin(foreign, &headers), "{foreign}");
        }
    }
}
