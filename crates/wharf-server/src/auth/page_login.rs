//! The login of the web page: a cookie that no script can read, and a key that only the page has.
//!
//! Browsers send cookies to all ports of a machine, so every server there that the user opens sees
//! them. The storage of a page is kept apart by port. Only cookie and key together are a login.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use super::offered_subprotocols;
use super::tokens::join_halves;

pub(super) const COOKIE_NAME: &str = "wharf_login";
const PAGE_KEY_HEADER: HeaderName = HeaderName::from_static("wharf-page");
/// The key as a subprotocol, for a WebSocket: a browser cannot set headers on it.
const PAGE_SUBPROTOCOL_PREFIX: &str = "wharf.page.";
const FETCH_SITE_HEADER: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Where a browser sends the cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CookieScope {
    /// Only over TLS.
    pub(crate) secure: bool,
    /// The path of the page: `/`, or the prefix under which a proxy serves this host.
    pub(crate) path: String,
}

/// Returns the half of a login that is in the request's cookie.
pub(crate) fn page_cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies = cookies
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    cookies.find(|(name, _)| *name == COOKIE_NAME).map(|(_, cookie)| cookie)
}

/// Returns the token that cookie and key make, if the request has both.
pub(crate) fn page_token(headers: &HeaderMap) -> Option<String> {
    let cookie = page_cookie(headers)?;
    let shown = headers
        .get(PAGE_KEY_HEADER)
        .and_then(|value| value.to_str().ok())
        .map(|key| key.trim().to_owned());
    Some(join_halves(
        cookie,
        &shown.or_else(|| {
            offered_subprotocols(headers)
                .find_map(|word| Some(word.strip_prefix(PAGE_SUBPROTOCOL_PREFIX)?.to_owned()))
        })?,
    ))
}

/// Returns true if the browser says that our own page makes the request. A foreign `Origin` has
/// been refused before. A request that only reads may come without one, since browsers send none
/// then, but not from another site.
pub(crate) fn is_own_page(method: &Method, headers: &HeaderMap) -> bool {
    let site = headers.get(FETCH_SITE_HEADER).map(HeaderValue::as_bytes);
    let looks = method.is_safe() && !headers.contains_key(header::UPGRADE);
    match site {
        Some(b"same-origin") => true,
        Some(b"none") => looks,
        Some(_) => false,
        None => looks || headers.contains_key(header::ORIGIN),
    }
}

/// Returns the header that sets the cookie for so many seconds, or that removes it.
pub(crate) fn login_cookie(
    value: Option<&str>,
    seconds: u64,
    scope: &CookieScope,
) -> Option<HeaderValue> {
    let CookieScope { secure, path } = scope;
    let secure = if *secure { "; Secure" } else { "" };
    let (value, seconds) = value.map_or(("", 0), |value| (value, seconds));
    let text = format!(
        "{COOKIE_NAME}={value}; Path={path}; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}"
    );
    HeaderValue::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn cookie_and_key_together_are_a_login() {
        let cookie = ("cookie", "other=1; wharf_login=abc");
        assert_eq!(
            page_token(&headers(&[cookie, ("wharf-page", "xyz")])).as_deref(),
            Some("abc.xyz")
        );
        let upgrade = ("sec-websocket-protocol", "acp.v1, wharf.page.xyz");
        assert_eq!(page_token(&headers(&[cookie, upgrade])).as_deref(), Some("abc.xyz"));
        for half in [
            &[cookie][..],
            &[("wharf-page", "xyz")],
            &[("cookie", "wharf_login2=abc"), ("wharf-page", "xyz")],
        ] {
            assert_eq!(page_token(&headers(half)), None, "{half:?}");
        }
    }

    #[test]
    fn request_that_changes_something_must_come_from_our_own_page() {
        let own = |method: Method, pairs: &[(&'static str, &'static str)]| {
            is_own_page(&method, &headers(pairs))
        };
        let (origin, same) = (("origin", "http://127.0.0.1:1"), ("sec-fetch-site", "same-origin"));
        assert!(
            own(Method::POST, &[origin]) && own(Method::POST, &[same]) && own(Method::GET, &[])
        );
        assert!(
            !own(Method::POST, &[])
                && !own(Method::GET, &[("upgrade", "websocket")])
                && !own(Method::CONNECT, &[])
        );
        for site in ["same-site", "cross-site", "what"] {
            assert!(!own(Method::GET, &[("sec-fetch-site", site)]), "{site}");
            assert!(!own(Method::POST, &[origin, ("sec-fetch-site", site)]), "{site}");
        }
        assert!(
            own(Method::GET, &[("sec-fetch-site", "none")])
                && !own(Method::POST, &[("sec-fetch-site", "none")])
        );
    }
}
