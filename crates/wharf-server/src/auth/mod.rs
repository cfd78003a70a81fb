//! Identifies callers: by token, and by the process at the other end of the local socket.

mod agent_identity;
mod digest;
mod failed_logins;
mod identity;
mod login_codes;
mod own_token;
mod page_login;
mod peer;
mod scope;
mod terms;
mod tokens;
mod tokens_file;

use axum::http::{HeaderMap, header};

pub(crate) use failed_logins::FailedLogins;
pub(crate) use login_codes::{
    CodeRefused, LOGIN_CODE_LIFETIME, LoginCodes, MAX_LOGIN_CODE_LIFETIME,
};

pub use identity::{Access, Identity, UnknownAccess};
pub use own_token::TokenError;
pub(crate) use page_login::{CookieScope, is_own_page, login_cookie, page_cookie, page_token};
pub(crate) use peer::{SocketPeer, bind_private_socket};
pub use scope::Scope;
pub(crate) use terms::is_label;
pub use terms::{TokenEntry, TokenTerms};
pub(crate) use tokens::TokenEnd;
pub use tokens::{TokenRefused, Tokens};
pub use tokens_file::{NewToken, TokensFile, TokensFileError};

/// The WebSocket subprotocol that is spoken.
pub(crate) const SUBPROTOCOL: &str = "acp.v1";
/// Browsers cannot set headers on a WebSocket: the token may come as a second subprotocol, which is
/// never selected.
const TOKEN_SUBPROTOCOL_PREFIX: &str = "wharf.token.";

/// Returns the token that a request carries, if any. It is never taken from the query: URLs end up
/// in logs (rule 10.2).
///
/// A malformed `Authorization` header counts as an unknown token, not as a missing one.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Option<String> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let words = value.to_str().unwrap_or_default().split_once(' ');
        let token = words
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim());
        return Some(token.unwrap_or_default().to_owned());
    }
    offered_subprotocols(headers)
        .find_map(|word| word.strip_prefix(TOKEN_SUBPROTOCOL_PREFIX))
        .map(ToOwned::to_owned)
}

/// Returns the subprotocols that are offered beside ours. Alone they would have to be selected, and
/// so be echoed.
fn offered_subprotocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let words: Vec<&str> = offered
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .collect();
    let beside_ours = words.contains(&SUBPROTOCOL);
    words.into_iter().filter(move |_| beside_ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        headers
    }

    #[test]
    fn token_comes_as_bearer_or_as_a_subprotocol_beside_ours() {
        assert_eq!(
            bearer_token(&headers(header::AUTHORIZATION, "Bearer abc")).as_deref(),
            Some("abc")
        );
        for unusable in ["Basic abc", "Bearer", "Bearer ", "abc"] {
            assert_eq!(
                bearer_token(&headers(header::AUTHORIZATION, unusable)).as_deref(),
                Some(""),
                "{unusable:?}"
            );
        }
        let both = headers(header::SEC_WEBSOCKET_PROTOCOL, "acp.v1, wharf.token.abc");
        assert_eq!(bearer_token(&both).as_deref(), Some("abc"));
        let alone = headers(header::SEC_WEBSOCKET_PROTOCOL, "wharf.token.abc");
        assert_eq!(
            bearer_token(&alone),
            None,
            "the token alone would have to be selected, and so be echoed"
        );
    }
}
