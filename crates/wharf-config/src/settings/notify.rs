//! `[notify]`: a command and a webhook that hear when a session needs a person.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;

use super::Duration;

/// Holds the secret of the webhook if no file does. Agents do not get it.
pub const WEBHOOK_SECRET_VARIABLE: &str = "WHARF_NOTIFY_WEBHOOK_SECRET";

/// The settings of notifications (rule 18.1). Without a command and a webhook there are none.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct NotifySettings {
    /// The states that the host notifies people of.
    pub on: Vec<NotifyKind>,
    /// A turn that was shorter is not told as finished.
    pub min_turn: Duration,
    pub content: NotifyContent,
    /// The program and its arguments; no shell is involved.
    pub command: Vec<String>,
    pub webhook: Option<WebhookUrl>,
    /// A file with the secret that signs the webhook's requests.
    pub webhook_secret_file: Option<PathBuf>,
    /// A PEM file with the certificates that the webhook's server may be certified by, instead of
    /// the system's.
    pub webhook_ca: Option<PathBuf>,
    /// Whether `http://` may lead to another machine.
    pub webhook_http: bool,
    /// How long one run of the command or one request may take.
    pub timeout: Duration,
}

/// The state of a session that a notification tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotifyKind {
    NeedsAnswer,
    Failed,
    Finished,
}

/// How much of a session a notification tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NotifyContent {
    /// Workspace, title, reason and the beginning of the question or failure.
    #[default]
    Full,
    /// The workspace and the state alone: a webhook may be another person's machine.
    None,
}

impl NotifyKind {
    pub const ALL: [Self; 3] = [Self::NeedsAnswer, Self::Failed, Self::Finished];

    /// Returns the word of the setting, which is that of the session's attention.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NeedsAnswer => "needs_answer",
            Self::Failed => "failed",
            Self::Finished => "finished",
        }
    }
}

impl Default for NotifySettings {
    fn default() -> Self {
        Self {
            on: NotifyKind::ALL.to_vec(),
            min_turn: Duration::from_millis(20_000),
            content: NotifyContent::Full,
            command: Vec::new(),
            webhook: None,
            webhook_secret_file: None,
            webhook_ca: None,
            webhook_http: false,
            timeout: Duration::from_millis(10_000),
        }
    }
}

impl NotifySettings {
    /// Returns true if notifications have a receiver.
    pub fn has_receiver(&self) -> bool {
        !self.command.is_empty() || self.webhook.is_some()
    }

    pub(super) fn check_values(&self) -> Result<(), String> {
        if self.command.first().is_some_and(|program| program.trim().is_empty()) {
            return Err("notify.command: its first word is the program, and is empty".to_owned());
        }
        if self.timeout.to_std().is_none_or(|limit| limit.is_zero()) {
            return Err("notify.timeout: a command or a webhook that hangs must come to an end; write it like \"10s\""
                .to_owned());
        }
        match &self.webhook {
            Some(url) if !url.is_https && !self.webhook_http && !url.names_this_machine() => {
                Err(format!(
                    "notify.webhook: http:// to {} would show everyone on the way what sessions ask; write https://, or set notify.webhook_http = true",
                    url.host
                ))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// The address of a webhook. It may hold a secret, so it is not shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct WebhookUrl {
    pub is_https: bool,
    /// A name or an address, without brackets.
    pub host: String,
    pub port: u16,
    /// The path with its query.
    pub path: String,
}

impl std::fmt::Debug for WebhookUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WebhookUrl({}…)", self.origin())
    }
}

impl WebhookUrl {
    /// Returns scheme, host and port, which may be shown.
    pub fn origin(&self) -> String {
        let scheme = if self.is_https { "https" } else { "http" };
        format!("{scheme}://{}", self.authority())
    }

    /// Returns the value of the header `Host`.
    pub fn authority(&self) -> String {
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let default = if self.is_https { 443 } else { 80 };
        if self.port == default { host } else { format!("{host}:{}", self.port) }
    }

    /// Returns true for `localhost` and loopback addresses.
    pub fn names_this_machine(&self) -> bool {
        self.host == "localhost"
            || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

impl TryFrom<String> for WebhookUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for WebhookUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Without the text itself: it may hold a secret.
        let bad = |why: &str| {
            format!("not the URL of a webhook: {why}; write it like \"https://example.com/hook\"")
        };
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(bad("it has blanks or characters that must be percent-encoded"));
        }
        let (is_https, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err(bad("it begins neither with https:// nor with http://")),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(bad("a name and a password in it are not supported"));
        }
        let (host, port) =
            split_authority(authority).ok_or_else(|| bad("the host or the port cannot be read"))?;
        let port = port.unwrap_or(if is_https { 443 } else { 80 });
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { is_https, host: host.to_owned(), port, path })
    }
}

/// Splits `name:port`, `1.2.3.4` or `[::1]:port`.
fn split_authority(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(inside) => {
            let (host, rest) = inside.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, rest)
        }
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = match rest.strip_prefix(':') {
        Some(port) => Some(port.parse().ok()?),
        None if rest.is_empty() => None,
        None => return None,
    };
    (!host.is_empty()).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn webhook_urls_are_read_in_parts() {
        let url = |is_https, host: &str, port, path: &str| WebhookUrl {
            is_https,
            host: host.into(),
            port,
            path: path.into(),
        };
        for (text, expected, authority) in [
            ("https://example.com", url(true, "example.com", 443, "/"), "example.com"),
            (
                "https://example.com:8443/a?b=c#d",
                url(true, "example.com", 8443, "/a?b=c"),
                "example.com:8443",
            ),
            ("http://[::1]:80?x", url(false, "::1", 80, "/?x"), "[::1]"),
            ("http://127.0.0.1:9/", url(false, "127.0.0.1", 9, "/"), "127.0.0.1:9"),
        ] {
            let read: WebhookUrl = text.parse().unwrap();
            assert_eq!((&read, read.authority().as_str()), (&expected, authority), "{text}");
        }
        for text in [
            "",
            "example.com",
            "ftp://x/",
            "https://",
            "https://:1/",
            "https://a:b@c/",
            "https://a b/",
            "https://x:99999/",
            "http://[::1/",
        ] {
            let error = text.parse::<WebhookUrl>().unwrap_err();
            assert!(text.len() < 12 || !error.contains(text), "{error}");
        }
        let secret: WebhookUrl = "https://example.com/T000/secret".parse().unwrap();
        assert_eq!(format!("{secret:?}"), "WebhookUrl(https://example.com…)");
    }

    #[test]
    fn http_to_other_machines_must_be_allowed() {
        let parse =
            |more: &str| Config::parse(&format!("[notify]\n{more}")).map(|config| config.notify);
        assert!(!parse("").unwrap().has_receiver());
        assert!(parse("command = [\"notify-send\"]").unwrap().has_receiver());
        parse("webhook = \"http://127.0.0.1:1/x\"").unwrap();
        parse("webhook = \"http://localhost/x\"").unwrap();
        let error = parse("webhook = \"http://example.com/x\"").unwrap_err();
        assert!(error.contains("webhook_http"), "{error}");
        parse("webhook = \"http://example.com/x\"\nwebhook_http = true").unwrap();
        for bad in [
            "timeout = \"never\"",
            "command = [\"\"]",
            "on = [\"working\"]",
            "content = \"some\"",
            "webhok = 1",
        ] {
            parse(bad).unwrap_err();
        }
    }
}
