//! A host on another machine: TCP with TLS, and a token. Plain HTTP is for this machine, unless the
//! user insists.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use rustls::pki_types::{ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use wharf_host::core::Millis;

use super::ConnectError;
use super::host_url::HostUrl;
use super::stream::HostStream;
use crate::exit::{Exit, Failure};

/// How long a connection may take, its TLS handshake included: long enough for a slow line, short
/// enough for a person who waits.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// A token, and where it comes from.
#[derive(Clone)]
pub(crate) struct RemoteToken {
    pub(crate) text: String,
    /// In words: `the variable WHARF_TOKEN`.
    pub(crate) source: String,
}

impl std::fmt::Debug for RemoteToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteToken")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// How to reach a host on another machine.
#[derive(Clone, Debug)]
pub(crate) struct RemoteOptions {
    pub(crate) url: HostUrl,
    pub(crate) token: Option<RemoteToken>,
    /// The certificates of authorities that are trusted instead of the system's.
    pub(crate) ca: Option<PathBuf>,
    /// Plain HTTP to another machine is allowed.
    pub(crate) plain_http: bool,
}

#[derive(Debug)]
pub(crate) struct RemoteHost {
    pub(crate) options: RemoteOptions,
    /// `None` for plain HTTP.
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// Why the last attempt to connect failed.
    absence: Mutex<Option<String>>,
}

impl RemoteHost {
    /// Prepares connections. Refuses plain HTTP to another machine.
    pub(crate) fn new(options: RemoteOptions) -> anyhow::Result<Self> {
        let url = &options.url;
        if !url.tls && !url.is_loopback() && !options.plain_http {
            let words = format!(
                "{url} is another machine and has no TLS: everyone on the way could read the token and the sessions; use https, or a tunnel (ssh -L), or say --insecure-plain-http"
            );
            return Err(Failure::new(Exit::Usage, words).into());
        }
        if !url.tls && options.ca.is_some() {
            return Err(
                Failure::new(Exit::Usage, format!("--ca is for https, and {url} is not")).into()
            );
        }
        let tls = if url.tls {
            let name = ServerName::try_from(url.host.clone());
            let name = name
                .with_context(|| format!("reading the name {:?} for its certificate", url.host))?;
            Some((Arc::new(client_config(options.ca.as_deref())?), name))
        } else {
            None
        };
        Ok(Self { options, tls, absence: Mutex::default() })
    }

    /// Connects. A host that cannot be reached counts as absent; one whose certificate is not
    /// trusted is refused for good.
    pub(crate) async fn open_stream(&self) -> Result<HostStream, ConnectError> {
        let connected = match tokio::time::timeout(CONNECT_TIMEOUT, self.connect()).await {
            Ok(connected) => connected,
            Err(_) => Err(Attempt::Failed(format!(
                "no connection within {} s",
                CONNECT_TIMEOUT.as_secs()
            ))),
        };
        connected.map_err(|attempt| match attempt {
            Attempt::Failed(why) => {
                *self.absence.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                ConnectError::NoHost
            }
            Attempt::Refused(error) => ConnectError::Refused(error),
        })
    }

    async fn connect(&self) -> Result<HostStream, Attempt> {
        let url = &self.options.url;
        let failed = |error: io::Error| Attempt::Failed(error.to_string());
        let tcp = TcpStream::connect((url.host.as_str(), url.port)).await.map_err(failed)?;
        // Requests are small, and each is waited for.
        let _ = tcp.set_nodelay(true);
        let Some((config, name)) = &self.tls else {
            let peer = tcp.peer_addr().map_err(failed)?;
            if !self.options.plain_http && !peer.ip().is_loopback() {
                let words = format!(
                    "{url} leads to {peer}, which is another machine; plain http is not used for that"
                );
                return Err(Attempt::Refused(Failure::new(Exit::Refused, words).into()));
            }
            return Ok(HostStream::Tcp(tcp));
        };
        match TlsConnector::from(Arc::clone(config)).connect(name.clone(), tcp).await {
            Ok(stream) => Ok(HostStream::Tls(Box::new(stream))),
            Err(error) => {
                match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
                    Some(error) => Err(Attempt::Refused(self.tls_error(error))),
                    None => Err(failed(error)),
                }
            }
        }
    }

    fn tls_error(&self, error: &rustls::Error) -> anyhow::Error {
        let url = &self.options.url;
        let rustls::Error::InvalidCertificate(why) = error else {
            let words =
                format!("{url} does not speak TLS as it should: {error}; is it https there?");
            return Failure::new(Exit::Refused, words).into();
        };
        let why = describe_certificate_error(why, self.options.ca.as_deref());
        let words = format!("the certificate of {url} is not trusted: {why}");
        Failure::new(Exit::Refused, words).into()
    }

    /// Says that no host answers, and why.
    pub(crate) fn describe_absence(&self) -> String {
        let why = self.absence.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        format!("no host answers at {}{why}; is it running there?", self.options.url)
    }

    /// Says which token the host does not accept, and how to make one.
    pub(crate) fn describe_unauthorized(&self, said: &str) -> String {
        let url = &self.options.url;
        match &self.options.token {
            Some(token) => format!(
                "{url} does not accept the token of {} ({said}); make one on that machine: wharf token create --role controller",
                token.source
            ),
            None => format!(
                "{url} wants a token, and none was given; make one on that machine (wharf token create --role controller), then set WHARF_TOKEN, give --token @FILE, or keep it: wharf context add NAME --url {url}"
            ),
        }
    }
}

/// Says why a certificate is not trusted, and what to do.
fn describe_certificate_error(why: &CertificateError, ca: Option<&Path>) -> String {
    let day = |at: &UnixTime| -> String {
        let timestamp = wharf_host::format_timestamp(Millis(at.as_secs().saturating_mul(1_000)));
        timestamp.chars().take(10).collect()
    };
    let advice = "docs/tls.md says how to make one";
    #[expect(clippy::wildcard_enum_match_arm, reason = "the enum grows with each version of rustls")]
    match why {
        CertificateError::UnknownIssuer => match ca {
            Some(ca) => format!("{} does not vouch for it", ca.display()),
            None => {
                "no authority that is known here vouches for it; if it was issued by an authority of your own, give \
                     its certificate with --ca FILE"
                    .to_owned()
            }
        },
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("it expired on {}; {advice}", day(not_after))
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("it is valid from {} on; is the clock of this machine right?", day(not_before))
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names: Vec<&str> = presented.iter().map(|name| bare_name(name)).collect();
            let names = if names.is_empty() { "no host".to_owned() } else { names.join(", ") };
            format!("it names {names}, and not {} (subjectAltName); {advice}", expected.to_str())
        }
        // The name of this cause is known to webpki alone.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            format!("it is that of an authority (CA:TRUE), and a host needs one of its own; {advice}")
        }
        CertificateError::Other(other) => format!("{other}; {advice}"),
        other => format!("{other}; {advice}"),
    }
}

/// Returns the name within `DnsName("box.example")` or `IpAddress(127.0.0.1)`.
fn bare_name(name: &str) -> &str {
    let inner = name
        .split_once('(')
        .and_then(|(_, rest)| rest.strip_suffix(')'))
        .unwrap_or(name);
    inner.trim_matches('"')
}

enum Attempt {
    /// Another attempt may succeed.
    Failed(String),
    Refused(anyhow::Error),
}

/// Trusts the authorities of this file, else those of the system.
fn client_config(ca: Option<&Path>) -> anyhow::Result<ClientConfig> {
    let advice = if ca.is_none() { ", or give --ca FILE" } else { "" };
    let config = wharf_server::tls_client_config(ca);
    let mut config = config.map_err(|why| anyhow::anyhow!("{why}{advice}"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
