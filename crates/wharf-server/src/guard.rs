//! The checks that every request must pass: the right authority, no foreign origin, an identity.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::Instrument;
use wharf_config::Auth;

use wharf_api::ErrorCode;
use wharf_host::AgentToken;

use crate::App;
use crate::auth::{
    CookieScope, Identity, SocketPeer, TokenRefused, bearer_token, is_own_page, login_cookie,
    page_cookie, page_token,
};
use crate::client_span::client_span;
use crate::fault::Fault;
use crate::listen::{ConnectionPermit, LocalEndpoint};
use crate::revocation::answer_while_valid;
use crate::use_cases::client_id_without_connection;

/// The route of `rest::login` that ends a login.
const LOGOUT_PATH: &str = "/logout";
/// Headers that a proxy adds: with them, a request that comes from this machine may be anybody's.
const FORWARDING_HEADERS: [&str; 6] = [
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "cf-connecting-ip",
];

/// Refuses requests for a foreign authority or from a foreign page (rule 10.3). That keeps out
/// pages that point a name of their own at this machine (DNS rebinding), and their WebSockets.
pub(crate) async fn check_authority(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    // Programs differ in which of several headers they read, and a proxy may have checked the other
    // one.
    for name in [header::HOST, header::ORIGIN] {
        if headers.get_all(&name).iter().nth(1).is_some() {
            let detail = format!("the header {name} stands more than once");
            return close_connection(refuse_request(ErrorCode::DOUBLED_HEADER, &detail));
        }
    }
    let door = request.extensions().get::<LocalEndpoint>().copied().unwrap_or_default();
    let authority = request
        .uri()
        .authority()
        .map(|authority| authority.as_str().to_owned())
        .or_else(|| header_text(headers, header::HOST));
    let authority = match authority {
        Some(authority) if is_known_authority(&app, &authority, door) => authority,
        Some(authority) => {
            let detail = format!(
                "{authority:?} is not a name of this host; use 127.0.0.1 or localhost, or add the name to `hosts` in the configuration"
            );
            if wants_html(headers) {
                return show_sentence(StatusCode::FORBIDDEN, detail);
            }
            return refuse_request(ErrorCode::FOREIGN_AUTHORITY, &detail);
        }
        None => return refuse_request(ErrorCode::NO_AUTHORITY, "the Host header is missing"),
    };
    match header_text(headers, header::ORIGIN) {
        Some(origin) if !is_own_origin(&origin, &authority, door) => {
            let detail = format!("requests from pages of {origin:?} are not taken");
            refuse_request(ErrorCode::FOREIGN_ORIGIN, &detail)
        }
        _ => next.run(request).await,
    }
}

/// Lets callers through that have an [`Identity`]. The surfaces take it as `Extension<Identity>`.
pub(crate) async fn require_identity(
    State(app): State<App>,
    mut request: Request,
    next: Next,
) -> Response {
    match identify(&app, &request) {
        Ok(identity) if !identity.may_reach(request.method(), request.uri().path()) => {
            let detail = "this is not for agents: they look at their own session, and work in those that they started";
            refuse_request(ErrorCode::NOT_FOR_AGENTS, detail)
        }
        Ok(identity) => {
            if let Some(place) = request.extensions().get::<ConnectionPermit>()
                && let Err(full) = place.count_for(&app.limits, &identity)
            {
                return close_connection(full.into_response());
            }
            let renewed = note_page_use(&app, &identity, request.headers()).await;
            request.extensions_mut().insert(identity.clone());
            if request.uri().path() == LOGOUT_PATH {
                // This request ends its own login, and its answer must still go out.
                return next.run(request).await;
            }
            let shown = identity.clone();
            let span = client_span(&client_id_without_connection(&identity));
            let answered =
                answer_while_valid(&app, identity, next.run(request).instrument(span)).await;
            let mut response =
                answered.unwrap_or_else(|ending| refuse_unauthorized(ending.reason()));
            response.extensions_mut().insert(shown);
            response
                .headers_mut()
                .extend(renewed.map(|cookie| (header::SET_COOKIE, cookie)));
            response
        }
        Err(refusal) => *refusal,
    }
}

/// Returns the caller's identity, or the response that refuses it (rule 10.1). TCP needs a token,
/// unless `auth = "none"`; the local socket needs our own user. A token that is shown over the
/// socket counts, so that a bridge can pass an observer's token on. A process of an agent always
/// has the identity of that agent, whatever token it shows.
fn identify(app: &App, request: &Request) -> Result<Identity, Box<Response>> {
    let peer = peer_of(request);
    let refusal = match (peer, bearer_token(request.headers())) {
        (peer @ (SocketPeer::Network(_) | SocketPeer::Local), Some(token)) => {
            return identify_token(app, peer, &token);
        }
        (peer @ SocketPeer::Network(_), None) if page_token(request.headers()).is_some() => {
            return identify_page(app, peer, request);
        }
        (SocketPeer::Network(_), None)
            if app.host.config().auth == Auth::None && is_forwarded(request.headers()) =>
        {
            refuse_unauthorized(
                "auth = \"none\" is for this machine alone, and a proxy has passed this request on",
            )
        }
        // With `auth = "none"` a caller without a token is our own user, as over the socket (rule
        // 10.3).
        (SocketPeer::Network(_), None) if app.host.config().auth == Auth::None => {
            return Ok(Identity::LOCAL);
        }
        (SocketPeer::Network(_), None) => refuse_unauthorized(
            "a token is needed: send `Authorization: Bearer <token>`; it is in the file `token` of the state directory, and `wharf token create` makes others",
        ),
        (SocketPeer::Local, None) => return Ok(Identity::LOCAL),
        (SocketPeer::Agent(badge), _) => return identify_agent(app, badge),
        (SocketPeer::Stray { pid }, _) => {
            let detail = format!(
                "process {pid} belongs to an agent that has no session; it may not use the socket"
            );
            refuse_request(ErrorCode::AGENT_PROCESS, &detail)
        }
        (SocketPeer::Unnamed, _) => refuse_request(
            ErrorCode::UNKNOWN_PROCESS,
            "the system does not say which process is calling",
        ),
        (SocketPeer::Stranger, _) => {
            refuse_request(ErrorCode::ANOTHER_USER, "the socket is for the user who runs this host")
        }
    };
    Err(Box::new(refusal))
}

/// Returns the identity of a session's agent while its process lives. An agent that has no session
/// yet is refused.
fn identify_agent(app: &App, badge: AgentToken) -> Result<Identity, Box<Response>> {
    let has_session = app.host.descriptor(badge.session()).is_some();
    if app.host.is_agent_token_live(&badge) && has_session {
        return Ok(Identity::for_agent(badge));
    }
    let detail = "this agent has no session, or has ended; it may not use this host";
    Err(Box::new(refuse_request(ErrorCode::AGENT_PROCESS, detail)))
}

/// Returns the peer of a request. A request without one counts as coming from the network.
pub(crate) fn peer_of(request: &Request) -> SocketPeer {
    let unknown = SocketPeer::Network(std::net::Ipv4Addr::UNSPECIFIED.into());
    request.extensions().get::<SocketPeer>().cloned().unwrap_or(unknown)
}

/// Returns the identity of a page that is logged in. A browser sends the cookie with the requests
/// of any page, so the request must say that our own page makes it.
fn identify_page(
    app: &App,
    peer: SocketPeer,
    request: &Request,
) -> Result<Identity, Box<Response>> {
    if !is_own_page(request.method(), request.headers()) {
        let detail = "a login of the web page is taken from that page alone: Origin or Sec-Fetch-Site must say so";
        return Err(Box::new(refuse_request(ErrorCode::FOREIGN_ORIGIN, detail)));
    }
    identify_token(app, peer, &page_token(request.headers()).unwrap_or_default())
}

/// Notes the use of a page's login. Returns a new cookie if the use renewed the login's lifetime
/// (rule 19.2).
async fn note_page_use(app: &App, identity: &Identity, headers: &HeaderMap) -> Option<HeaderValue> {
    let id = identity.token.clone()?;
    let cookie = page_cookie(headers)?.to_owned();
    if page_token(headers).is_none() || !app.tokens.note_use(&id) {
        return None;
    }
    let tokens = std::sync::Arc::clone(&app.tokens);
    let lifetime = tokio::task::spawn_blocking(move || tokens.renew(&id)).await.ok().flatten()?;
    login_cookie(Some(&cookie), lifetime.0 / 1_000, &cookie_scope(app, headers))
}

/// Returns where a browser is to send the cookie: for `public_url` its scheme and prefix count,
/// else those of this server.
pub(crate) fn cookie_scope(app: &App, headers: &HeaderMap) -> CookieScope {
    let public = app.host.config().public_url.clone();
    let called = header_text(headers, header::HOST).unwrap_or_default();
    match public.filter(|url| url.authority.eq_ignore_ascii_case(&called)) {
        Some(url) => CookieScope { secure: url.is_https, path: format!("{}/", url.prefix) },
        None => CookieScope {
            secure: app.server_info.url.starts_with("https:"),
            path: "/".to_owned(),
        },
    }
}

fn is_forwarded(headers: &HeaderMap) -> bool {
    FORWARDING_HEADERS
        .iter()
        .any(|name| headers.contains_key(HeaderName::from_static(name)))
}

fn wants_html(headers: &HeaderMap) -> bool {
    header_text(headers, header::ACCEPT).is_some_and(|accepted| accepted.contains("text/html"))
}

/// Shows a sentence to a person who came with a browser.
fn show_sentence(status: StatusCode, sentence: String) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], sentence + "\n").into_response()
}

/// Answers a wrong token or code: 401, or 429 if too many came from this peer.
pub(crate) fn refuse_login(app: &App, peer: SocketPeer, detail: &str) -> Response {
    let Err(wait) = app.failed_logins.record(peer) else { return refuse_unauthorized(detail) };
    let mut response = refuse_request(
        ErrorCode::TOO_MANY_FAILED_LOGINS,
        "many wrong tokens or codes came from this address (limits.failed_logins); a right one is taken at any time",
    );
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, wait.as_secs().saturating_add(1).into());
    response
}

fn identify_token(app: &App, peer: SocketPeer, token: &str) -> Result<Identity, Box<Response>> {
    if let Some(badge) = app.host.find_agent_token(token) {
        return identify_agent(app, badge);
    }
    app.tokens.authenticate(token).map_err(|refused| {
        Box::new(match refused {
            TokenRefused::Unknown => refuse_login(
                app,
                peer,
                "the token is not known to this host; it may have been revoked",
            ),
            TokenRefused::Expired => {
                refuse_unauthorized("the token has expired; make another with `wharf token create`")
            }
            // Not 401: a client would throw away a token that may well be valid.
            TokenRefused::Unreadable => refuse_request(
                ErrorCode::TOKENS_UNREADABLE,
                "this host cannot check tokens at the moment; its log says why",
            ),
        })
    })
}

fn refuse_unauthorized(message: &str) -> Response {
    let mut response = refuse_request(ErrorCode::UNAUTHORIZED, message);
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, axum::http::HeaderValue::from_static("Bearer"));
    response
}

/// Tells the client that the connection is closed after this response.
fn close_connection(mut response: Response) -> Response {
    response
        .headers_mut()
        .insert(header::CONNECTION, axum::http::HeaderValue::from_static("close"));
    response
}

fn refuse_request(code: ErrorCode, detail: &str) -> Response {
    Fault::new(code, detail).into_response()
}

fn header_text(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    headers
        .get(name)
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Returns true for the names of this host, that of `public_url` among them.
fn is_known_authority(app: &App, authority: &str, door: LocalEndpoint) -> bool {
    let config = app.host.config();
    let public = config.public_url.as_ref().map(|url| url.host.clone());
    is_own_authority(authority, door, &config.hosts)
        || public.is_some_and(|host| is_own_authority(authority, door, std::slice::from_ref(&host)))
}

/// Returns true for `127.0.0.1`, `localhost` and `[::1]`, the address that the connection came to,
/// and the names of the configuration; with any port.
fn is_own_authority(authority: &str, door: LocalEndpoint, hosts: &[String]) -> bool {
    let name = match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !port.is_empty() => name,
        _ => authority,
    };
    if matches!(name, "127.0.0.1" | "localhost" | "[::1]") {
        return true;
    }
    let bare = |name: &str| {
        name.trim_start_matches('[')
            .trim_end_matches(']')
            .trim_end_matches('.')
            .to_owned()
    };
    let name = bare(name);
    let address = name.parse::<IpAddr>().ok().map(|address| address.to_canonical());
    (address.is_some() && address == door.address)
        || hosts.iter().any(|known| bare(known).eq_ignore_ascii_case(&name))
}

/// Returns true if the page comes from the authority that it calls, by the same scheme: a page over
/// plain HTTP could have been written by anyone on the way. A page over TLS may call plain HTTP: a
/// proxy in front of us speaks TLS.
fn is_own_origin(origin: &str, authority: &str, door: LocalEndpoint) -> bool {
    let page = match origin.split_once("://") {
        Some(("https", page)) => page,
        Some(("http", page)) if !door.tls => page,
        _ => return false,
    };
    page.eq_ignore_ascii_case(authority)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: LocalEndpoint = LocalEndpoint { tls: false, address: None };
    const TLS: LocalEndpoint = LocalEndpoint { tls: true, address: None };

    #[test]
    fn loopback_names_are_always_own_and_other_names_are_not() {
        for ours in ["127.0.0.1", "127.0.0.1:7433", "localhost:80", "[::1]:7433", "[::1]"] {
            assert!(is_own_authority(ours, PLAIN, &[]), "{ours}");
        }
        for foreign in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.nip.io:7433",
            "10.0.0.1",
            "",
            "[::2]:1",
            "127.0.0.1:",
            ".",
            "[]",
        ] {
            assert!(!is_own_authority(foreign, PLAIN, &[]), "{foreign}");
        }
    }

    #[test]
    fn called_address_and_configured_names_are_own() {
        let door = |address: &str| LocalEndpoint { tls: true, address: address.parse().ok() };
        let hosts = ["box.example".to_owned()];
        for ours in
            ["10.0.0.1:7433", "10.0.0.1", "box.example", "BOX.example:7433", "box.example.:80"]
        {
            assert!(is_own_authority(ours, door("10.0.0.1"), &hosts), "{ours}");
        }
        assert!(is_own_authority("[fe80::7]:7433", door("fe80::7"), &[]));
        for foreign in [
            "10.0.0.2",
            "evil.box.example",
            "box.example.evil",
            "xbox.example",
            "[::ffff:10.0.0.2]",
        ] {
            assert!(!is_own_authority(foreign, door("10.0.0.1"), &hosts), "{foreign}");
        }
    }

    #[test]
    fn a_page_must_come_from_the_authority_it_calls_by_the_same_scheme() {
        let own = "127.0.0.1:7433";
        assert!(is_own_origin("http://127.0.0.1:7433", own, PLAIN));
        assert!(is_own_origin("https://127.0.0.1:7433", own, TLS));
        assert!(
            is_own_origin("https://127.0.0.1:7433", own, PLAIN),
            "behind a proxy that speaks TLS"
        );
        assert!(!is_own_origin("http://127.0.0.1:7433", own, TLS));
        for foreign in
            ["http://127.0.0.1:9000", "http://evil.example", "null", "file://127.0.0.1:7433", ""]
        {
            assert!(!is_own_origin(foreign, own, PLAIN), "{foreign}");
        }
    }
}
