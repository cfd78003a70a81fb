//! One request to the webhook: signed, bounded in time and size, never redirected.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use ring::hmac;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use wharf_config::{NotifySettings, WEBHOOK_SECRET_VARIABLE, WebhookUrl};
use wharf_host::Notification;

use super::DeliveryFailure;
use super::reach::Reach;
use crate::client_tls::tls_client_config;
use crate::small_file::read_small_file;

/// The time at which the request was made, in seconds since 1970. It is signed with the body.
const TIMESTAMP_HEADER: &str = "wharf-timestamp";
/// `sha256=` and the HMAC-SHA256 of the timestamp, a full stop and the body, in hexadecimal digits.
const SIGNATURE_HEADER: &str = "wharf-signature";
/// The id of the notification: the same for each try.
const ID_HEADER: &str = "wharf-notification-id";
/// The head of an answer; its body is not read.
const MAX_ANSWER_HEAD_BYTES: usize = 16 << 10;
/// A longer secret is a mistake, such as the wrong file.
const MAX_SECRET_BYTES: usize = 4 << 10;

/// Sends a notification to the webhook.
pub(super) async fn send_webhook(
    settings: &NotifySettings,
    notification: &Notification,
) -> Result<(), DeliveryFailure> {
    let Some(url) = &settings.webhook else {
        return Err(DeliveryFailure::permanent("no webhook is set; set notify.webhook"));
    };
    let sending = async {
        let file = settings.webhook_secret_file.clone();
        let secret = read_files(move || read_secret(file.as_deref())).await?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let request = build_request(url, notification, secret.as_deref(), now)
            .map_err(DeliveryFailure::permanent)?;
        exchange(settings, url, Reach::Any, request).await
    };
    check_status(url, limit_time(settings, url, sending).await?)
}

/// Sends a request and returns the status of the answer.
pub(crate) async fn post_request(
    settings: &NotifySettings,
    url: &WebhookUrl,
    reach: Reach,
    request: Request<Body>,
) -> Result<StatusCode, DeliveryFailure> {
    limit_time(settings, url, exchange(settings, url, reach, request)).await
}

/// Gives the sending as much time as the settings allow.
async fn limit_time(
    settings: &NotifySettings,
    url: &WebhookUrl,
    sending: impl Future<Output = Result<StatusCode, DeliveryFailure>>,
) -> Result<StatusCode, DeliveryFailure> {
    let limit = settings.timeout.to_std().unwrap_or_default();
    tokio::time::timeout(limit, sending).await.map_err(|_| no_answer(url, limit))?
}

fn no_answer(url: &WebhookUrl, limit: Duration) -> DeliveryFailure {
    DeliveryFailure::temporary(format!(
        "{} did not answer within {} s",
        url.origin(),
        limit.as_secs_f32()
    ))
}

/// Reads files on a thread that may wait for the disk.
async fn read_files<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, DeliveryFailure> {
    let read = tokio::task::spawn_blocking(read).await;
    // A person may mend the files while the notification is tried again.
    read.unwrap_or_else(|error| Err(error.to_string()))
        .map_err(DeliveryFailure::temporary)
}

/// Returns the secret of the file, else of the variable; `None` if neither is set. A file that is
/// set but cannot be used is an error: an unsigned request would be taken for a forged one, or
/// worse, be believed.
fn read_secret(file: Option<&Path>) -> Result<Option<Vec<u8>>, String> {
    let Some(path) = file else {
        let secret =
            std::env::var_os(WEBHOOK_SECRET_VARIABLE).map(|secret| secret.into_encoded_bytes());
        return Ok(secret.filter(|secret| !secret.is_empty()));
    };
    let shown = path.display();
    let secret = read_small_file(path, MAX_SECRET_BYTES)
        .map_err(|error| format!("notify.webhook_secret_file: cannot read {shown}: {error}"))?;
    let secret = secret.trim_ascii().to_vec();
    if secret.is_empty() {
        return Err(format!("notify.webhook_secret_file: {shown} is empty"));
    }
    Ok(Some(secret))
}

fn build_request(
    url: &WebhookUrl,
    notification: &Notification,
    secret: Option<&[u8]>,
    now: u64,
) -> Result<Request<Body>, String> {
    let body = notification.to_json();
    let mut request = Request::post(&url.path)
        .header(HOST, url.authority())
        .header(USER_AGENT, concat!("wharf/", env!("CARGO_PKG_VERSION")))
        .header(CONTENT_TYPE, "application/json")
        .header(ID_HEADER, &notification.id)
        .header(TIMESTAMP_HEADER, now.to_string());
    if let Some(secret) = secret {
        request = request.header(SIGNATURE_HEADER, sign(secret, now, &body));
    }
    request
        .body(Body::from(body))
        .map_err(|_| "the request cannot be made of notify.webhook".to_owned())
}

/// Signs the time with the body, so that an old request cannot be sent again later.
fn sign(secret: &[u8], now: u64, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let tag = hmac::sign(&key, format!("{now}.{body}").as_bytes());
    let digits: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={digits}")
}

async fn exchange(
    settings: &NotifySettings,
    url: &WebhookUrl,
    reach: Reach,
    request: Request<Body>,
) -> Result<StatusCode, DeliveryFailure> {
    let ca = settings.webhook_ca.clone();
    let is_https = url.is_https;
    let tls =
        read_files(move || is_https.then(|| tls_client_config(ca.as_deref())).transpose()).await?;
    let failed = |error: std::io::Error| {
        DeliveryFailure::temporary(format!("cannot connect to {}: {error}", url.origin()))
    };
    let stream = reach.connect(url).await?;
    if let Some(config) = tls {
        let name = ServerName::try_from(url.host.clone()).map_err(|_| {
            DeliveryFailure::permanent(
                "notify.webhook: the host is no name that a certificate can have",
            )
        })?;
        let stream = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .map_err(failed)?;
        return send_request(url, stream, request).await;
    }
    // A name such as `localhost` may lead anywhere.
    let is_near = stream.peer_addr().is_ok_and(|peer| peer.ip().is_loopback());
    if !is_near && !settings.webhook_http {
        let why =
            format!("{} leads to another machine, and http:// is only for this one", url.origin());
        return Err(DeliveryFailure::permanent(why));
    }
    send_request(url, stream, request).await
}

async fn send_request<S>(
    url: &WebhookUrl,
    stream: S,
    request: Request<Body>,
) -> Result<StatusCode, DeliveryFailure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let failed = |error: hyper::Error| {
        DeliveryFailure::temporary(format!("{} did not answer: {error}", url.origin()))
    };
    let mut builder = http1::Builder::new();
    builder.max_buf_size(MAX_ANSWER_HEAD_BYTES);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let send = sender.send_request(request);
    // The connection ends with this future, whatever of an answer is still to come.
    let answer: Response<Incoming> = tokio::select! {
        // First, since a server may close the connection right after its answer.
        biased;
        answer = send => answer.map_err(failed)?,
        Err(error) = connection => return Err(failed(error)),
    };
    Ok(answer.status())
}

fn check_status(url: &WebhookUrl, status: StatusCode) -> Result<(), DeliveryFailure> {
    if status.is_success() {
        return Ok(());
    }
    let why = format!("{} answered {status}", url.origin());
    if status.is_redirection() {
        return Err(DeliveryFailure::permanent(format!(
            "{why}; redirects are not followed: set the final URL"
        )));
    }
    let is_temporary = status.is_server_error()
        || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
    Err(if is_temporary {
        DeliveryFailure::temporary(why)
    } else {
        DeliveryFailure::permanent(why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_covers_the_time_and_the_body() {
        // printf '1763405000.{}' | openssl dgst -sha256 -hmac key
        let signed = sign(b"key", 1_763_405_000, "{}");
        assert_eq!(
            signed,
            "sha256=bd2442ebccfe676cd092c043ac3ea160eee0b3a7ea687372910315d47e5a903e"
        );
        assert_ne!(sign(b"key", 1_763_405_001, "{}"), signed);
        assert_ne!(sign(b"kez", 1_763_405_000, "{}"), signed);
    }

    #[test]
    fn only_failures_that_may_pass_are_tried_again() {
        let url: WebhookUrl = "https://example.com/hook/secret".parse().unwrap();
        let check = |status: u16| check_status(&url, StatusCode::from_u16(status).unwrap());
        check(204).unwrap();
        for (status, can_retry) in
            [(301, false), (400, false), (404, false), (408, true), (429, true), (500, true)]
        {
            let failure = check(status).unwrap_err();
            assert_eq!(failure.can_retry, can_retry, "{status}");
            assert!(!failure.why.contains("secret"), "{}", failure.why);
        }
    }

    /// Settings of a webhook at a server that takes connections and says nothing.
    async fn local_webhook(scheme: &str) -> (tokio::net::TcpListener, NotifySettings) {
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("{scheme}://{}/hook", server.local_addr().unwrap());
        (
            server,
            NotifySettings {
                webhook: Some(url.parse().unwrap()),
                ..NotifySettings::default()
            },
        )
    }

    #[tokio::test]
    async fn files_that_cannot_be_used_now_are_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let (_server, settings) = local_webhook("https").await;
        let missing = Some(dir.path().join("missing"));
        let empty = dir.path().join("empty");
        std::fs::write(&empty, "").unwrap();
        for settings in [
            NotifySettings { webhook_secret_file: missing.clone(), ..settings.clone() },
            NotifySettings { webhook_secret_file: Some(empty), ..settings.clone() },
            NotifySettings { webhook_ca: missing, ..settings },
        ] {
            let failure = send_webhook(&settings, &Notification::new_test()).await.unwrap_err();
            assert!(failure.can_retry, "{}", failure.why);
            assert!(failure.why.contains(&*dir.path().to_string_lossy()), "{}", failure.why);
        }
    }

    #[test]
    fn file_that_blocks_its_reader_does_not_hang_the_runtime() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        for is_secret in [true, false] {
            let file = Some(fifo.clone());
            let (ended, outcome) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let failure = runtime.block_on(async {
                    let (_server, mut settings) = local_webhook("https").await;
                    *(if is_secret {
                        &mut settings.webhook_secret_file
                    } else {
                        &mut settings.webhook_ca
                    }) = file;
                    send_webhook(&settings, &Notification::new_test()).await.unwrap_err()
                });
                ended.send(failure).unwrap();
            });
            let failure = outcome.recv_timeout(Duration::from_secs(20)).unwrap();
            assert!(
                failure.can_retry && failure.why.contains("is not a regular file"),
                "{}",
                failure.why
            );
        }
    }

    #[test]
    fn secret_file_that_cannot_be_used_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        read_secret(Some(&path)).unwrap_err();
        for (content, secret) in [("\n", None), ("s3cret\n", Some("s3cret"))] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(
                read_secret(Some(&path)).ok().flatten().as_deref(),
                secret.map(str::as_bytes),
                "{content:?}"
            );
        }
        std::fs::write(&path, vec![b'x'; MAX_SECRET_BYTES + 1]).unwrap();
        read_secret(Some(&path)).unwrap_err();
    }
}
