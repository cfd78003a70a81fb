//! `public_url`: the address by which browsers reach this host through a proxy or a tunnel.

use std::str::FromStr;

use serde::Deserialize;

use super::notify::WebhookUrl;

/// The address of the web page for other machines.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PublicUrl {
    pub is_https: bool,
    /// The name or address, without brackets and port.
    pub host: String,
    /// The header `Host` of a browser that calls it.
    pub authority: String,
    /// The path under which a proxy serves this host: empty, or like `/wharf`.
    pub prefix: String,
}

impl PublicUrl {
    /// Returns the address of the page, which ends with a slash.
    pub fn page_address(&self) -> String {
        let scheme = if self.is_https { "https" } else { "http" };
        format!("{scheme}://{}{}/", self.authority, self.prefix)
    }
}

impl TryFrom<String> for PublicUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for PublicUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |why: &str| {
            format!("public_url: {text:?} {why}; write it like \"https://box.example/wharf\"")
        };
        let url: WebhookUrl = text.parse().map_err(|_| bad("is not a URL"))?;
        if url.path.contains('?') || text.contains('#') {
            return Err(bad("has a query or a fragment"));
        }
        let authority = url.authority();
        Ok(Self {
            is_https: url.is_https,
            authority,
            host: url.host,
            prefix: url.path.trim_end_matches('/').to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_url_is_read_in_parts() {
        for (text, authority, prefix, page) in [
            ("https://box.example", "box.example", "", "https://box.example/"),
            (
                "https://box.example:8443/wharf/",
                "box.example:8443",
                "/wharf",
                "https://box.example:8443/wharf/",
            ),
            ("http://10.0.0.7:7433/", "10.0.0.7:7433", "", "http://10.0.0.7:7433/"),
        ] {
            let url: PublicUrl = text.parse().unwrap();
            assert_eq!(
                (url.authority.as_str(), url.prefix.as_str()),
                (authority, prefix),
                "{text}"
            );
            assert_eq!(url.page_address(), page);
        }
        for wrong in [
            "box.example",
            "ftp://box.example",
            "https://box.example/?a",
            "https://box.example/#a",
            "",
        ] {
            assert!(wrong.parse::<PublicUrl>().is_err(), "{wrong}");
        }
    }
}
