//! The URL of a host on another machine: scheme, name, port and a path that a proxy may have put
//! before the routes.

use std::fmt;
use std::net::IpAddr;

use wharf_render::text::quote;

use crate::exit::{Exit, Failure};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostUrl {
    pub(crate) tls: bool,
    /// A name or an address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Stands before every route: empty, or `/path` without a slash at its end.
    pub(crate) prefix: String,
}

impl HostUrl {
    /// Parses `https://box.example:7433`. The ports of the schemes are 443 and 80.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let invalid = |why: &str| {
            let words = format!(
                "{text} is not the URL of a host: {why}; write it like https://box.example:7433",
                text = quote(text)
            );
            Failure::new(Exit::Usage, words)
        };
        let (tls, rest) = match text.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            Some(_) => return Err(invalid("its scheme is neither https nor http")),
            None => return Err(invalid("it has no scheme")),
        };
        if rest.contains(['?', '#']) || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(invalid("it has a query, a fragment or a space"));
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.contains('@') {
            return Err(invalid(
                "a user or password does not belong there; give the token with --token or WHARF_TOKEN",
            ));
        }
        let (host, port) = split_port(authority);
        let port = match port {
            None => {
                if tls {
                    443
                } else {
                    80
                }
            }
            Some(port) => port
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or_else(|| invalid("its port is no number"))?,
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err(invalid("it names no machine"));
        }
        let path = path.trim_matches('/');
        let prefix = if path.is_empty() { String::new() } else { format!("/{path}") };
        Ok(Self { tls, host: host.to_ascii_lowercase(), port, prefix })
    }

    /// Tells whether the URL names this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        self.host == "localhost"
            || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Returns the name and port for the `Host` header.
    pub(crate) fn authority(&self) -> String {
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let usual = if self.tls { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }

    /// Tells whether both lead to the same machine and port in the same way.
    pub(crate) fn has_same_origin(&self, other: &Self) -> bool {
        (self.tls, &self.host, self.port) == (other.tls, &other.host, other.port)
    }
}

fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        // The last colon may be a part of an address in brackets.
        Some((_, after)) if after.contains(']') => (authority, None),
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    }
}

impl fmt::Display for HostUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_hosts_are_read_and_written() {
        for (text, written, loopback) in [
            ("https://box.example:7433", "https://box.example:7433", false),
            ("https://Box.Example/", "https://box.example", false),
            ("https://box.example:443/wharf/", "https://box.example/wharf", false),
            ("http://127.0.0.1:7433", "http://127.0.0.1:7433", true),
            ("http://localhost", "http://localhost", true),
            ("http://[::1]:80", "http://[::1]", true),
            ("https://[2001:db8::1]:7433/", "https://[2001:db8::1]:7433", false),
        ] {
            let url = HostUrl::parse(text).unwrap();
            assert_eq!(
                (url.to_string().as_str(), url.is_loopback()),
                (written, loopback),
                "{text}"
            );
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "box.example",
            "ws://box",
            "https://",
            "https://u:p@box",
            "https://box:x",
            "https://box:0",
            "https://box/?a",
            "https://b x",
        ] {
            assert_eq!(
                Failure::exit_of(&HostUrl::parse(text).unwrap_err().into()),
                Exit::Usage,
                "{text}"
            );
        }
    }
}
