//! What every request must pass: the right authority, no foreign origin, an identity.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use wharf_host::{Auth, Host};

use crate::App;
use crate::auth::{Identity, Peer, Refused, bearer, is_own_page, page_token};
use crate::ending::while_good;
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
        Ok(identity) => {
            request.extensions_mut().insert(identity.clone());
            let shown = identity.clone();
            let answered = while_good(&app.tokens, identity, next.run(request)).await;
            let mut response = answered.unwrap_or_else(|ending| unauthorized(ending.reason()));
            response.extensions_mut().insert(shown);
            response
        }
        Err(refusal) => *refusal,
    }
}

/// TCP needs a token, unless `auth = "none"`; the local socket needs our own user, and nobody from inside an agent (rule 10.1). Over the socket
/// a token is not needed, but one that is shown counts: so a bridge can hand an observer's place on.
fn identify(app: &App, request: &Request) -> Result<Identity, Box<Response>> {
    let peer = peer_of(request);
    let refusal = match (peer, bearer(request.headers())) {
        (Peer::Network(_), Some(token)) => return known(app, peer, &token),
        (Peer::Network(_), None) if page_token(request.headers()).is_some() => return logged_in(app, peer, request),
        // Who may do without a token is taken for our own user, as over the socket (rule 10.3).
        (Peer::Network(_), None) if app.host.config().auth == Auth::None => return Ok(Identity::LOCAL),
        (Peer::Network(_), None) => unauthorized(
            "a token is needed: send `Authorization: Bearer <token>`; it is in the file `token` of the state directory, and `wharf token create` makes others",
        ),
        (Peer::Local { pid: Some(pid) }, _) if Host::has_started(pid) => {
            let session = app.host.session_of_process(pid);
            let whose = session.map_or_else(|| "an agent".to_owned(), |session| format!("the agent of {session}"));
            let detail = format!("process {pid} belongs to {whose}; agents may not use the socket");
            refuse(StatusCode::FORBIDDEN, "agent_process", &detail)
        }
        (Peer::Local { pid: Some(_) }, Some(token)) => return known(app, peer, &token),
        (Peer::Local { pid: Some(_) }, None) => return Ok(Identity::LOCAL),
        (Peer::Local { pid: None }, _) => {
            refuse(StatusCode::FORBIDDEN, "unknown_process", "the system does not say which process is calling")
        }
        (Peer::Stranger, _) => {
            refuse(StatusCode::FORBIDDEN, "another_user", "the socket is for the user who runs this host")
        }
    };
    Err(Box::new(refusal))
}

/// Who cannot be told is taken for the nearest stranger.
pub(crate) fn peer_of(request: &Request) -> Peer {
    let unknown = Peer::Network(std::net::Ipv4Addr::UNSPECIFIED.into());
    request.extensions().get::<Peer>().copied().unwrap_or(unknown)
}

/// A login of the web page. A browser sends its cookie with whatever any page asks for, so it is said who asks.
fn logged_in(app: &App, peer: Peer, request: &Request) -> Result<Identity, Box<Response>> {
    if !is_own_page(request.method(), request.headers()) {
        let detail = "a login of the web page is taken from that page alone: Origin or Sec-Fetch-Site must say so";
        return Err(Box::new(refuse(StatusCode::FORBIDDEN, "foreign_origin", detail)));
    }
    known(app, peer, &page_token(request.headers()).unwrap_or_default())
}

/// A wrong token or code, unless there were too many of them.
pub(crate) fn wrong(app: &App, peer: Peer, detail: &str) -> Response {
    let Err(wait) = app.failures.note(peer) else { return unauthorized(detail) };
    let mut response = refuse(
        StatusCode::TOO_MANY_REQUESTS,
        "too_many_failed_logins",
        "many wrong tokens or codes came from this address (limits.failed_logins); a right one is taken at any time",
    );
    response.headers_mut().insert(header::RETRY_AFTER, wait.as_secs().saturating_add(1).into());
    response
}

fn known(app: &App, peer: Peer, token: &str) -> Result<Identity, Box<Response>> {
    app.tokens.authenticate(token).map_err(|refused| {
        Box::new(match refused {
            Refused::Unknown => wrong(app, peer, "the token is not known to this host; it may have been revoked"),
            Refused::Expired => unauthorized("the token has expired; make another with `wharf token create`"),
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
