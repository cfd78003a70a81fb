//! What the web page shows instead of a token: a cookie that no script can read, and a key that only the page has.
//!
//! Cookies are not kept apart by port, so every server of this machine that the user opens gets to see them; what a page
//! keeps in its storage is kept apart. Only both together are a login.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use super::tokens::joined;
use super::words;

pub(super) const COOKIE: &str = "wharf_login";
const PAGE: HeaderName = HeaderName::from_static("wharf-page");
/// The same for a WebSocket, which has no headers of its own in a browser.
const PAGE_SUBPROTOCOL: &str = "wharf.page.";
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The token that the two halves of a request make, if it has both.
pub(crate) fn page_token(headers: &HeaderMap) -> Option<String> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let (_, cookie) = cookies.find(|(name, _)| *name == COOKIE)?;
    let shown = headers.get(PAGE).and_then(|value| value.to_str().ok()).map(|key| key.trim().to_owned());
    Some(joined(
        cookie,
        &shown.or_else(|| words(headers).find_map(|word| Some(word.strip_prefix(PAGE_SUBPROTOCOL)?.to_owned())))?,
    ))
}

/// Does the browser say that our own page asks? A foreign `Origin` has been refused before. What only looks may come
/// without one, since browsers send none then, but not from another site.
pub(crate) fn is_own_page(method: &Method, headers: &HeaderMap) -> bool {
    let site = headers.get(FETCH_SITE).map(HeaderValue::as_bytes);
    let looks = method.is_safe() && !headers.contains_key(header::UPGRADE);
    match site {
        Some(b"same-origin") => true,
        Some(b"none") => looks,
        Some(_) => false,
        None => looks || headers.contains_key(header::ORIGIN),
    }
}

/// Sets the cookie for so long, or takes it away.
pub(crate) fn cookie(value: Option<&str>, seconds: u64, secure: bool) -> Option<HeaderValue> {
    let secure = if secure { "; Secure" } else { "" };
    let (value, seconds) = value.map_or(("", 0), |value| (value, seconds));
    let text = format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    HeaderValue::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn only_both_halves_are_a_login() {
        let cookie = ("cookie", "other=1; wharf_login=abc");
        assert_eq!(page_token(&headers(&[cookie, ("wharf-page", "xyz")])).as_deref(), Some("abc.xyz"));
        let upgrade = ("sec-websocket-protocol", "acp.v1, wharf.page.xyz");
        assert_eq!(page_token(&headers(&[cookie, upgrade])).as_deref(), Some("abc.xyz"));
        for half in [&[cookie][..], &[("wharf-page", "xyz")], &[("cookie", "wharf_login2=abc"), ("wharf-page", "xyz")]]
        {
            assert_eq!(page_token(&headers(half)), None, "{half:?}");
        }
    }

    #[test]
    fn what_changes_something_must_come_from_our_own_page() {
        let own = |method: Method, pairs: &[(&'static str, &'static str)]| is_own_page(&method, &headers(pairs));
        let (origin, same) = (("origin", "http://127.0.0.1:1"), ("sec-fetch-site", "same-origin"));
        assert!(own(Method::POST, &[origin]) && own(Method::POST, &[same]) && own(Method::GET, &[]));
        assert!(
            !own(Method::POST, &[]) && !own(Method::GET, &[("upgrade", "websocket")]) && !own(Method::CONNECT, &[])
        );
        for site in ["same-site", "cross-site", "what"] {
            assert!(!own(Method::GET, &[("sec-fetch-site", site)]), "{site}");
            assert!(!own(Method::POST, &[origin, ("sec-fetch-site", site)]), "{site}");
        }
        assert!(own(Method::GET, &[("sec-fetch-site", "none")]) && !own(Method::POST, &[("sec-fetch-site", "none")]));
    }
}
