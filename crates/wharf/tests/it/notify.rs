//! Notifications: a command and a webhook hear of asks, failures and ends of turns (chapter 18 of
//! the specification).

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use wharf_testkit::WAIT_LIMIT;
use wharf_testkit::host::{HostOptions, TestHost};
use wharf_testkit::http::RestClient;
use wharf_testkit::polling::poll_until;

use crate::metrics_page::MetricsPage;
use crate::rest::{send_prompt, spawn_session};
use crate::{add_section, program, scripted_host};

/// A request that the webhook got.
#[derive(Debug)]
struct Hook {
    line: String,
    headers: Vec<(String, String)>,
    text: String,
}

impl Hook {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    fn json(&self) -> Result<Value> {
        Ok(serde_json::from_str(&self.text)?)
    }
}

/// A server that takes requests and answers each with the next of these status lines; the last one
/// counts for all further.
struct HookServer {
    address: SocketAddr,
    hooks: mpsc::Receiver<Hook>,
}

impl HookServer {
    async fn start(answers: &'static [&'static str]) -> Result<Self> {
        Self::start_with(answers, None).await
    }

    async fn start_with(
        answers: &'static [&'static str],
        tls: Option<TlsAcceptor>,
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (sender, hooks) = mpsc::channel(64);
        tokio::spawn(async move {
            let mut answers = answers.iter().copied();
            let mut last = "200 OK";
            while let Ok((stream, _)) = listener.accept().await {
                let served = match &tls {
                    Some(tls) => match tls.accept(stream).await {
                        Ok(stream) => {
                            last = answers.next().unwrap_or(last);
                            serve_hook(stream, last).await
                        }
                        Err(error) => Err(error.into()),
                    },
                    None => {
                        last = answers.next().unwrap_or(last);
                        serve_hook(stream, last).await
                    }
                };
                if let Ok(hook) = served {
                    let _ = sender.send(hook).await;
                }
            }
        });
        Ok(Self { address, hooks })
    }

    async fn next(&mut self) -> Result<Hook> {
        tokio::time::timeout(WAIT_LIMIT, self.hooks.recv())
            .await
            .context("no request came")?
            .context("no server")
    }

    fn url(&self) -> String {
        format!("http://{}/hook?key=quokka", self.address)
    }
}

async fn serve_hook(stream: impl AsyncRead + AsyncWrite + Unpin, answer: &str) -> Result<Hook> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let mut hook = Hook {
        line: line.trim_end().to_owned(),
        headers: Vec::new(),
        text: String::new(),
    };
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await?;
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        hook.headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let length: usize = hook.header("content-length").context("no length")?.parse()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    hook.text = String::from_utf8(body)?;
    let location =
        if answer.starts_with('3') { "location: http://127.0.0.1:1/other\r\n" } else { "" };
    stream
        .write_all(format!("HTTP/1.1 {answer}\r\n{location}content-length: 0\r\n\r\n").as_bytes())
        .await?;
    stream.shutdown().await?;
    Ok(hook)
}

fn notify_host(more: &str) -> Result<TestHost> {
    notify_options(more)?.start_host()
}

fn notify_options(more: &str) -> Result<HostOptions> {
    Ok(add_section(scripted_host(&["--resume"])?, &format!("[notify]\nmin_turn = \"0ms\"\n{more}")))
}

#[tokio::test]
async fn webhook_hears_of_asks_ends_and_failures() -> Result<()> {
    let mut hooks = HookServer::start(&[]).await?;
    let host = notify_host(&format!("webhook = \"{}\"", hooks.url()))?;
    let rest = RestClient::new(&host);
    let session = spawn_session(&rest, &host).await?;
    rest.send(
        "PATCH",
        &format!("/sessions/{session}"),
        &[("content-type", "application/json")],
        r#"{"title":"Fix it"}"#,
    )
    .await?
    .expect(200)?;
    send_prompt(&rest, &session, "ask").await?;
    let hook = hooks.next().await?;
    assert_eq!(hook.line, "POST /hook?key=quokka HTTP/1.1");
    assert_eq!(hook.header("content-type"), Some("application/json"));
    assert_eq!(hook.header("wharf-signature"), None, "there is no secret");
    let asked = hook.json()?;
    let asks = rest.get(&format!("/sessions/{session}")).await?.expect(200)?;
    assert_eq!(asked["row"], asks["attention"]["row"]);
    assert_eq!(hook.header("wharf-notification-id"), asked["id"].as_str());
    let facts =
        json!([asked["kind"], asked["sessionId"], asked["title"], asked["why"], asked["count"]]);
    assert_eq!(facts, json!(["needs_answer", session, "Fix it", "permission", 1]));
    ensure!(!hook.text.contains(host.token()), "{}", hook.text);

    let ask = rest.get(&format!("/sessions/{session}/asks")).await?.expect(200)?;
    let ask = &ask["asks"][0];
    let answer = json!({ "optionId": ask["options"][0]["optionId"] });
    rest.post(&format!("/sessions/{session}/asks/{}", ask["askId"]), &answer)
        .await?
        .expect(200)?;
    let finished = hooks.next().await?.json()?;
    assert_eq!(json!([finished["kind"], finished["why"]]), json!(["finished", "done"]));

    let other = spawn_session(&rest, &host).await?;
    send_prompt(&rest, &other, "error -32000 no luck").await?;
    let failed = hooks.next().await?.json()?;
    assert_eq!(
        json!([failed["kind"], failed["sessionId"], failed["why"]]),
        json!(["failed", other, "error"])
    );
    // The host counts a notification when it has the answer.
    let counted = async {
        while MetricsPage::of(&rest)
            .await?
            .get("wharf_notifications_sent_total{receiver=\"webhook\"}")?
            < 3.0
        {}
        anyhow::Ok(())
    };
    tokio::time::timeout(WAIT_LIMIT, counted).await.context("not counted")??;
    let page = MetricsPage::of(&rest).await?;
    for (outcome, count) in [("sent", 3.0), ("failed", 0.0), ("dropped", 0.0)] {
        let name = format!("wharf_notifications_{outcome}_total{{receiver=\"webhook\"}}");
        assert_eq!(page.get(&name)?, count, "{outcome}");
    }
    Ok(())
}

#[tokio::test]
async fn webhook_is_signed_and_its_secret_told_to_no_one() -> Result<()> {
    let mut hooks = HookServer::start(&[]).await?;
    let secret = tempfile::NamedTempFile::new()?;
    std::fs::write(secret.path(), "numbat\n")?;
    let more = format!("webhook = \"{}\"\nwebhook_secret_file = {:?}", hooks.url(), secret.path());
    let host = notify_host(&more)?;
    let rest = RestClient::new(&host);
    let tried = rest.post_empty("/notify/test").await?.expect(200)?;
    assert_eq!(tried, json!({ "receivers": [{ "receiver": "webhook", "ok": true }] }));
    let hook = hooks.next().await?;
    let signed = format!("{}.{}", hook.header("wharf-timestamp").context("no time")?, hook.text);
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"numbat");
    let tag = ring::hmac::sign(&key, signed.as_bytes());
    let digits: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hook.header("wharf-signature"), Some(format!("sha256={digits}").as_str()));
    assert_eq!(hook.json()?["kind"], "test");
    std::fs::remove_file(secret.path())?;
    let tried = rest.post_empty("/notify/test").await?.expect(200)?;
    assert_eq!(tried["receivers"][0]["ok"], false, "an unsigned request is not sent instead");
    let said = format!("{}{:?}", host.read_stderr(), hook.headers);
    ensure!(!said.contains("numbat") && !host.read_stderr().contains("quokka"), "{said}");
    Ok(())
}

#[tokio::test]
async fn failed_delivery_is_tried_again_and_redirects_are_not_followed() -> Result<()> {
    let mut hooks = HookServer::start(&["503 Busy", "204 No Content", "302 Found"]).await?;
    let host = notify_host(&format!("webhook = \"{}\"", hooks.url()))?;
    let rest = RestClient::new(&host);
    let session = spawn_session(&rest, &host).await?;
    send_prompt(&rest, &session, "ask").await?;
    let (first, again) = (hooks.next().await?, hooks.next().await?);
    assert_eq!(first.text, again.text, "it is the same notification");
    let tried = rest.post_empty("/notify/test").await?.expect(200)?;
    let detail = tried["receivers"][0]["detail"].as_str().context("no detail")?;
    ensure!(detail.contains("302") && detail.contains("redirects are not followed"), "{detail}");
    Ok(())
}

#[tokio::test]
async fn reason_that_has_gone_and_muted_sessions_are_not_told() -> Result<()> {
    let mut hooks = HookServer::start(&["503 Busy", "503 Busy", "200 OK"]).await?;
    let host = notify_host(&format!("webhook = \"{}\"", hooks.url()))?;
    let rest = RestClient::new(&host);
    let (gone, muted, open) = (
        spawn_session(&rest, &host).await?,
        spawn_session(&rest, &host).await?,
        spawn_session(&rest, &host).await?,
    );
    rest.send(
        "PUT",
        &format!("/sessions/{muted}/mute"),
        &[("content-type", "application/json")],
        r#"{"muted":true}"#,
    )
    .await?
    .expect(200)?;
    send_prompt(&rest, &muted, "ask").await?;
    send_prompt(&rest, &gone, "ask").await?;
    assert_eq!(hooks.next().await?.json()?["sessionId"], gone.as_str());
    // The first try has failed. The ask is gone before the second one, which would come before that
    // of the other session.
    rest.post_empty(&format!("/sessions/{gone}/interrupt")).await?.expect(200)?;
    send_prompt(&rest, &open, "ask").await?;
    for attempt in ["first", "second"] {
        assert_eq!(hooks.next().await?.json()?["sessionId"], open.as_str(), "the {attempt} try");
    }
    Ok(())
}

#[tokio::test]
async fn restarted_host_repeats_nothing() -> Result<()> {
    let mut hooks = HookServer::start(&[]).await?;
    let options = notify_options(&format!("webhook = \"{}\"", hooks.url()))?;
    let mut host = options.without_keepers(crate::TURN_IS_CUT).start_host()?;
    let rest = RestClient::new(&host);
    let (done, asks) = (spawn_session(&rest, &host).await?, spawn_session(&rest, &host).await?);
    send_prompt(&rest, &done, "echo done").await?;
    assert_eq!(hooks.next().await?.json()?["kind"], "finished");
    send_prompt(&rest, &asks, "ask").await?;
    assert_eq!(hooks.next().await?.json()?["kind"], "needs_answer");
    host.kill()?;
    host.restart()?;
    let cut = hooks.next().await?.json()?;
    let facts = json!([cut["sessionId"], cut["kind"], cut["why"]]);
    assert_eq!(
        facts,
        json!([asks, "failed", "host_restarted"]),
        "the turn ended with the host, and its ask"
    );
    let rest = RestClient::new(&host);
    let tried = rest.post_empty("/notify/test").await?.expect(200)?;
    assert_eq!(tried["receivers"][0]["ok"], true);
    assert_eq!(hooks.next().await?.json()?["kind"], "test", "nothing else was sent");
    Ok(())
}

#[tokio::test]
async fn webhook_certificate_is_checked() -> Result<()> {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()])?;
    let ca = tempfile::NamedTempFile::new()?;
    std::fs::write(ca.path(), cert.pem())?;
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).map_err(anyhow::Error::msg)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let mut hooks = HookServer::start_with(&[], Some(acceptor)).await?;
    let url = format!("https://localhost:{}/", hooks.address.port());
    for (ca, is_trusted) in [(None, false), (Some(ca.path()), true)] {
        let ca = ca.map(|path| format!("webhook_ca = {path:?}")).unwrap_or_default();
        let host = notify_host(&format!("webhook = \"{url}\"\n{ca}"))?;
        let tried = RestClient::new(&host).post_empty("/notify/test").await?.expect(200)?;
        assert_eq!(tried["receivers"][0]["ok"], is_trusted, "{tried}");
    }
    assert_eq!(hooks.next().await?.json()?["kind"], "test", "the untrusted server got no request");
    Ok(())
}

/// Returns the settings of a command that runs this script.
fn script(text: &str) -> String {
    format!("command = [\"/bin/sh\", \"-c\", {}]", json!(text))
}

#[tokio::test]
async fn command_gets_the_facts_and_no_secret() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (facts, input) = (folder.path().join("facts"), folder.path().join("input"));
    let text = format!(
        "env > {0}/env; cat > {0}/stdin; mv {0}/env {0}/facts; mv {0}/stdin {0}/input",
        folder.path().display()
    );
    let host = add_section(
        scripted_host(&[])?,
        &format!("[notify]\nmin_turn = \"0ms\"\n{}", script(&text)),
    )
    .with_variable("WHARF_NOTIFY_WEBHOOK_SECRET", "numbat")
    .start_host()?;
    let rest = RestClient::new(&host);
    let session = spawn_session(&rest, &host).await?;
    send_prompt(&rest, &session, "ask").await?;
    let told = poll_until(WAIT_LIMIT, || Ok(std::fs::read_to_string(&input).ok()))
        .await?
        .context("no input")?;
    let told: Value = serde_json::from_str(&told)?;
    assert_eq!((&told["kind"], &told["sessionId"]), (&json!("needs_answer"), &json!(session)));
    let facts = std::fs::read_to_string(facts)?;
    for line in ["WHARF_NOTIFY_KIND=needs_answer", &format!("WHARF_NOTIFY_SESSION={session}")] {
        ensure!(facts.lines().any(|known| known == line), "{line} in {facts}");
    }
    ensure!(
        !facts.contains("numbat")
            && !facts.contains("WHARF_TOKEN")
            && !facts.contains(host.token()),
        "{facts}"
    );
    Ok(())
}

#[tokio::test]
async fn command_that_hangs_or_fails_is_ended_and_reported() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let pid_file = folder.path().join("pid");
    let hang = format!("sleep 600 & echo $! > {}; wait", pid_file.display());
    let host = notify_host(&format!("timeout = \"5s\"\n{}", script(&hang)))?;
    let tried = RestClient::new(&host).post_empty("/notify/test").await?.expect(200)?;
    let detail = tried["receivers"][0]["detail"].as_str().context("no detail")?;
    ensure!(detail.contains("longer than 5 s"), "{detail}");
    let child: u32 = std::fs::read_to_string(pid_file)?.trim().parse()?;
    wharf_testkit::processes::wait_gone(&[child], WAIT_LIMIT)
        .map_err(|left| anyhow::anyhow!("{left:?} runs still"))?;

    let host = notify_host(&script("echo out; echo err >&2; exit 3"))?;
    let shown = program::wharf_command(&["notify", "test", "--state-dir"])
        .arg(host.state_dir())
        .output()?;
    assert_eq!(shown.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&shown.stdout),
        "command: failed: it ended with exit code 3\n  out\n  err\n"
    );
    let well = notify_host(&script("cat >/dev/null"))?;
    let shown = program::wharf_command(&["notify", "test", "--state-dir"])
        .arg(well.state_dir())
        .output()?;
    assert_eq!((shown.status.code(), &*shown.stdout), (Some(0), b"command: sent\n".as_slice()));
    let none = scripted_host(&[])?.start_host()?;
    let shown = program::wharf_command(&["notify", "test", "--state-dir"])
        .arg(none.state_dir())
        .output()?;
    assert_eq!(shown.status.code(), Some(5), "{shown:?}");
    Ok(())
}
