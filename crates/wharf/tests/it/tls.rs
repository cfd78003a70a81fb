//! TLS: allowed addresses, errors about bad files, and every feature over TLS.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use wharf_testkit::WAIT_LIMIT;
use wharf_testkit::client::TestClient;
use wharf_testkit::host::{HostOptions, TestHost};

use crate::program::run_failing_serve;
use crate::{add_section, cwd, prompt_for_text, scripted_host};

/// A certificate for `box.example` and this machine, with its key, in files.
pub(crate) struct CertificatePair(tempfile::TempDir);

impl CertificatePair {
    pub(crate) fn new() -> Result<Self> {
        Self::with_params(|_| {})
    }

    /// Makes a certificate that `change` makes unusual.
    pub(crate) fn with_params(change: impl FnOnce(&mut rcgen::CertificateParams)) -> Result<Self> {
        let pair = Self(tempfile::tempdir()?);
        let mut params = rcgen::CertificateParams::new(
            ["box.example", "localhost", "127.0.0.1"].map(str::to_owned),
        )?;
        change(&mut params);
        let key = rcgen::KeyPair::generate()?;
        std::fs::write(pair.cert(), params.self_signed(&key)?.pem())?;
        std::fs::write(pair.key(), key.serialize_pem())?;
        Ok(pair)
    }

    pub(crate) fn cert(&self) -> PathBuf {
        self.0.path().join("cert.pem")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.0.path().join("key.pem")
    }

    fn arguments(&self) -> Vec<String> {
        let (cert, key) = (self.cert().display().to_string(), self.key().display().to_string());
        vec!["--tls-cert".to_owned(), cert, "--tls-key".to_owned(), key]
    }

    /// Configures a host that listens with this certificate.
    pub(crate) fn on(&self, mut options: HostOptions, listen: &str) -> HostOptions {
        options.arguments.extend(self.arguments());
        HostOptions { listen: Some(listen.to_owned()), ..options }
    }

    /// Connects and offers these protocols.
    pub(crate) async fn connect(
        &self,
        host: &TestHost,
        alpn: &[&str],
    ) -> Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.cert())?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let tcp = TcpStream::connect(("127.0.0.1", listen_port(host)?)).await?;
        let name = ServerName::try_from("box.example")?;
        Ok(TlsConnector::from(Arc::new(config)).connect(name, tcp).await?)
    }
}

fn listen_port(host: &TestHost) -> Result<u16> {
    Ok(host.url().rsplit(':').next().context("no port")?.parse()?)
}

/// Returns the head of the answer to a GET with these headers.
async fn response_head(
    mut stream: TlsStream<TcpStream>,
    path: &str,
    headers: &str,
) -> Result<String> {
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\n{headers}\r\n").as_bytes())
        .await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(tokio::time::timeout(WAIT_LIMIT, stream.read_u8()).await??);
    }
    Ok(String::from_utf8(head)?)
}

const UPGRADE_HEADERS: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

#[tokio::test]
async fn session_works_over_tls_from_another_address() -> Result<()> {
    let pair = CertificatePair::new()?;
    let options = pair.on(scripted_host(&[])?, "0.0.0.0:0");
    let host = HostOptions {
        config: options.config.map(|text| format!("hosts = [\"box.example\"]\n{text}")),
        ..options
    };
    let host = host.start_host()?;
    assert_eq!(host.url(), format!("https://box.example:{}", listen_port(&host)?));

    let stream = pair.connect(&host, &["http/1.1"]).await?;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let mut request =
        format!("wss://box.example:{}/acp", listen_port(&host)?).into_client_request()?;
    request
        .headers_mut()
        .insert("authorization", format!("Bearer {}", host.token()).parse()?);
    let (socket, _) = tokio_tungstenite::client_async(request, stream).await?;
    let client = TestClient::from_socket(socket);
    client.initialize().await?;
    let session = client.new_session(&cwd(&host)?).await?;
    assert_eq!(prompt_for_text(&client, &session, "echo through").await?, "through");

    // The verbs use the socket, which needs no TLS.
    let listed = crate::program::wharf_command(&["sessions", "--json", "--state-dir"])
        .arg(host.state_dir())
        .output()?;
    assert!(String::from_utf8(listed.stdout)?.contains(&session));
    Ok(())
}

#[tokio::test]
async fn http2_is_negotiated_and_accepts_pages_of_the_same_origin() -> Result<()> {
    let pair = CertificatePair::new()?;
    let host = pair.on(scripted_host(&[])?, "127.0.0.1:0").start_host()?;
    let stream = pair.connect(&host, &["h2", "http/1.1"]).await?;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (requests, connection) = h2::client::handshake(stream).await?;
    tokio::spawn(connection);
    let own = host.url().to_owned();
    let plain = own.replace("https", "http");
    for (origin, expected) in
        [(own.as_str(), 200), ("https://evil.example", 403), (plain.as_str(), 403)]
    {
        let request = tokio_tungstenite::tungstenite::http::Request::get(format!("{own}/sessions"));
        let request = request
            .header("origin", origin)
            .header("authorization", format!("Bearer {}", host.token()));
        let (answer, _) = requests.clone().ready().await?.send_request(request.body(())?, true)?;
        assert_eq!(tokio::time::timeout(WAIT_LIMIT, answer).await??.status(), expected, "{origin}");
    }
    Ok(())
}

#[tokio::test]
async fn rebinding_and_foreign_pages_are_refused_on_every_address() -> Result<()> {
    let pair = CertificatePair::new()?;
    let mut options = pair.on(scripted_host(&[])?, "0.0.0.0:0");
    options
        .config
        .get_or_insert_default()
        .insert_str(0, "hosts = [\"box.example\"]\n");
    let host = options.start_host()?;
    let port = listen_port(&host)?;
    let allowed = format!("{UPGRADE_HEADERS}Authorization: Bearer {}\r\n", host.token());
    let own = format!("box.example:{port}");
    for (name, origin, expected) in [
        (own.as_str(), String::new(), "101"),
        ("box.example", "https://box.example".to_owned(), "101"),
        (&format!("127.0.0.1:{port}"), format!("https://127.0.0.1:{port}"), "101"),
        ("evil.example", String::new(), "403"),
        ("10.1.2.3", String::new(), "403"),
        ("box.example.evil.example", String::new(), "403"),
        (&own, "https://evil.example".to_owned(), "403"),
        (&own, format!("http://{own}"), "403"),
        (&own, "https://box.example".to_owned(), "403"),
        (&own, "null".to_owned(), "403"),
    ] {
        let page = if origin.is_empty() { String::new() } else { format!("Origin: {origin}\r\n") };
        let stream = pair.connect(&host, &[]).await?;
        let head =
            response_head(stream, "/acp", &format!("Host: {name}\r\n{page}{allowed}")).await?;
        assert_eq!(head.split(' ').nth(1), Some(expected), "{name} {page}\n{head}");
    }
    Ok(())
}

#[tokio::test]
async fn endless_tls_handshake_times_out_and_blocks_no_other_client() -> Result<()> {
    let pair = CertificatePair::new()?;
    let options = add_section(scripted_host(&[])?, "[limits]\nsilence = \"5s\"");
    let host = pair.on(options, "127.0.0.1:0").start_host()?;
    let mut silent = TcpStream::connect(("127.0.0.1", listen_port(&host)?)).await?;
    let mut half = TcpStream::connect(("127.0.0.1", listen_port(&host)?)).await?;
    // These bytes begin a ClientHello.
    half.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]).await?;
    let mut plain = TcpStream::connect(("127.0.0.1", listen_port(&host)?)).await?;
    plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
    let stream = pair.connect(&host, &[]).await?;
    let answer = response_head(stream, "/healthz", "Host: localhost\r\n").await?;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    for (what, stream) in [("silent", &mut silent), ("half", &mut half), ("plain", &mut plain)] {
        let mut rest = Vec::new();
        let end = tokio::time::timeout(WAIT_LIMIT, stream.read_to_end(&mut rest)).await;
        end.with_context(|| format!("{what} was not cut off"))?.ok();
        assert!(!rest.starts_with(b"HTTP"), "{what}");
    }
    Ok(())
}

#[test]
fn wrong_certificate_files_are_named_at_startup() -> Result<()> {
    let (pair, other) = (CertificatePair::new()?, CertificatePair::new()?);
    let state = pair.0.path().join("state");
    let empty = pair.0.path().join("empty.pem");
    std::fs::write(&empty, "")?;
    let text = |path: &PathBuf| path.display().to_string();
    let (cert, key, empty, other) =
        (text(&pair.cert()), text(&pair.key()), text(&empty), text(&other.key()));
    for (arguments, words) in [
        (vec!["--tls-cert", &cert], vec!["tls.key", "--tls-key"]),
        (vec!["--tls-key", &key], vec!["tls.cert", "--tls-cert"]),
        (
            vec!["--tls-cert", "/no/such.pem", "--tls-key", &key],
            vec!["/no/such.pem", "No such file"],
        ),
        (
            vec!["--tls-cert", &cert, "--tls-key", "/no/such.pem"],
            vec!["/no/such.pem", "No such file"],
        ),
        (vec!["--tls-cert", &empty, "--tls-key", &key], vec![&empty, "no certificate"]),
        (vec!["--tls-cert", &cert, "--tls-key", &cert], vec![&cert, "no private key"]),
        (vec!["--tls-cert", &cert, "--tls-key", &other], vec![&cert, &other, "made together"]),
    ] {
        let arguments = [vec!["--listen", "127.0.0.1:0"], arguments].concat();
        let error = run_failing_serve(&state, &arguments)?;
        for word in words {
            assert!(error.contains(word), "{arguments:?}: no {word:?} in\n{error}");
        }
    }
    Ok(())
}

#[test]
fn addresses_beyond_loopback_need_tls_or_an_explicit_opt_out() -> Result<()> {
    let pair = CertificatePair::new()?;
    let state = pair.0.path().join("state");
    let error = run_failing_serve(&state, &["--listen", "0.0.0.0:0"])?;
    for word in ["0.0.0.0:0", "loopback", "--tls-cert", "--tls-key", "--insecure-no-tls"] {
        assert!(error.contains(word), "no {word} in\n{error}");
    }
    let arguments = pair.arguments();
    let tls: Vec<&str> = arguments.iter().map(String::as_str).collect();
    for more in [&tls[..], &["--insecure-no-tls"]] {
        let error = run_failing_serve(
            &state,
            &[&["--listen", "0.0.0.0:0", "--auth", "none"], more].concat(),
        )?;
        assert!(
            error.contains("auth = \"none\"") && error.contains("loopback")
                || error.contains("127.0.0.1"),
            "{error}"
        );
    }

    let options = HostOptions { listen: Some("0.0.0.0:0".to_owned()), ..scripted_host(&[])? };
    let mut host = options.with_argument("--insecure-no-tls").start_host()?;
    assert!(host.read_stderr().contains("--insecure-no-tls"), "{}", host.read_stderr());
    assert!(host.url().starts_with("http://127.0.0.1:"), "{}", host.url());
    host.restart()?;
    assert!(
        host.read_stderr().contains("--insecure-no-tls"),
        "at every start: {}",
        host.read_stderr()
    );
    Ok(())
}
