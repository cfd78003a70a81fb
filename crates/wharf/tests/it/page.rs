//! The web page as a browser meets it over HTTP: its files, its login, push messages (chapter 19 of
//! the specification). Tests in a real browser are in `crates/wharf-server/page_tests`.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use wharf_testkit::WAIT_LIMIT;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::logins::{LoginPage, create_login_code};
use crate::metrics_page::MetricsPage;
use crate::rest::{send_prompt, spawn_session};
use crate::rows::run_prompt;
use crate::scopes::{register_workspace, start_session};
use crate::{add_section, log, scripted_host};

/// A point of P-256: the key of the browser in appendix A of RFC 8291.
const BROWSER_KEY: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
const BROWSER_SECRET: &str = "BTBZMqHH6r4Tts7J_aSIgg";

#[tokio::test]
async fn files_of_the_page_are_public_and_versioned() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let anyone = RestClient::with_token(&host, "");
    let index = anyone.send("GET", "/", &[], "").await?;
    assert_eq!(index.status, 200);
    let policy = index.header("content-security-policy").context("no policy")?;
    assert!(
        policy.contains("require-trusted-types-for 'script'") && !policy.contains("unsafe"),
        "{policy}"
    );
    let main = index
        .body
        .split("src=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .context("no script")?;
    let script = anyone.send("GET", &format!("/{main}"), &[], "").await?;
    assert_eq!(script.header("cache-control"), Some("public, max-age=31536000, immutable"));
    let tag = script.header("etag").context("no tag")?.to_owned();
    let known = anyone.send("GET", &format!("/{main}"), &[("if-none-match", &tag)], "").await?;
    assert_eq!(known.status, 304);
    let older = anyone.send("GET", "/page/older/js/main.js", &[], "").await?;
    assert_eq!((older.status, older.header("cache-control")), (200, Some("no-cache")));
    assert_eq!(anyone.send("GET", "/page/older/../../token", &[], "").await?.status, 404);
    assert_eq!(anyone.send("GET", "/page/older/js/none.js", &[], "").await?.status, 404);
    assert_eq!(anyone.send("GET", "/sessions", &[], "").await?.status, 401);
    Ok(())
}

#[tokio::test]
async fn browser_that_calls_by_an_unknown_name_gets_a_sentence() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let mut stream =
        tokio::net::TcpStream::connect(host.url().trim_start_matches("http://")).await?;
    let request =
        "GET / HTTP/1.1\r\nHost: box.example\r\nAccept: text/html,*/*\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    assert!(
        answer.starts_with("HTTP/1.1 403") && answer.contains("text/plain; charset=utf-8"),
        "{answer}"
    );
    assert!(answer.contains("add the name to `hosts`"), "{answer}");
    Ok(())
}

/// Changes when the only login of the host expires.
fn set_expiry(host: &TestHost, at: &str) -> Result<()> {
    let path = host.state_dir().join("tokens.json");
    let mut content: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    content["tokens"][0]["expiresAt"] = at.into();
    let new = path.with_extension("changed");
    std::fs::write(&new, content.to_string())?;
    Ok(std::fs::rename(new, path)?)
}

async fn read_expiry(page: &LoginPage) -> Result<String> {
    let listed = page.send("GET", "/logins", &[], "").await?.expect(200)?;
    Ok(listed["logins"][0]["expiresAt"].as_str().context("no end")?.to_owned())
}

#[tokio::test]
async fn login_lasts_thirty_days_since_its_last_use() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let page = LoginPage::open(&host, &create_login_code(&host, &[])?).await?;
    let first = read_expiry(&page).await?;
    let unchanged = page.send("GET", "/sessions", &[], "").await?;
    assert_eq!(unchanged.header("set-cookie"), None, "a use on the same day writes nothing");
    // The end of a login that was last used some days ago.
    let soon =
        first.replace(&first[..10], &wharf_host::format_timestamp_in_seconds(in_days(3))[..10]);
    set_expiry(&host, &soon)?;
    let renewed = page.send("GET", "/sessions", &[], "").await?;
    let cookie = renewed.header("set-cookie").context("no new cookie")?;
    assert!(cookie.starts_with(&page.cookie) && cookie.contains("Max-Age=2592000"), "{cookie}");
    assert!(read_expiry(&page).await? >= first, "its time begins anew");
    let fixed = LoginPage::open(&host, &create_login_code(&host, &["--ttl", "1h"])?).await?;
    assert_eq!(fixed.send("GET", "/sessions", &[], "").await?.header("set-cookie"), None);
    set_expiry(&host, "2026-01-01T00:00:00Z")?;
    assert_eq!(
        page.send("GET", "/sessions", &[], "").await?.status,
        401,
        "one that was not used in time has ended"
    );
    Ok(())
}

fn in_days(days: u64) -> wharf_host::core::Millis {
    wharf_host::core::Millis(wharf_host::Now::millis().0 + days * 86_400_000)
}

#[tokio::test]
async fn unused_codes_are_withdrawn() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let owner = RestClient::new(&host);
    let code = owner.post("/login/codes", &json!({ "codeSeconds": 600 })).await?.expect(201)?;
    assert_eq!(code["goodForSeconds"], 600);
    assert_eq!(owner.delete("/login/codes").await?.expect(200)?, json!({ "ok": true, "count": 1 }));
    assert!(LoginPage::open(&host, code["code"].as_str().unwrap_or_default()).await.is_err());
    let wrong = owner.post("/login/codes", &json!({ "codeSeconds": 601 })).await?;
    assert_eq!(wrong.status_and_code(), (422, "invalid_params".to_owned()));
    Ok(())
}

/// A request that the push service got: its headers and the number of bytes of its body.
type Push = (Vec<(String, String)>, usize);

/// Takes one request and answers it with this status.
async fn serve_push(listener: &TcpListener, status: &str) -> Result<Push> {
    let (stream, _) = tokio::time::timeout(WAIT_LIMIT, listener.accept())
        .await
        .context("no push came")??;
    let mut stream = BufReader::new(stream);
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
            None if line.trim_end().is_empty() => break,
            None => {}
        }
    }
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .context("no length")?
        .1
        .parse()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    stream
        .write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes())
        .await?;
    stream.shutdown().await?;
    Ok((headers, length))
}

#[tokio::test]
async fn device_is_told_of_a_question_by_its_push_service() -> Result<()> {
    let host = add_section(scripted_host(&[])?, "[notify]\nmin_turn = \"0ms\"").start_host()?;
    let page = LoginPage::open(&host, &create_login_code(&host, &[])?).await?;
    let own = [("origin", page.origin.as_str())];
    let service = TcpListener::bind("127.0.0.1:0").await?;
    let before = page.send("GET", "/push", &[], "").await?.expect(200)?;
    assert_eq!(before["subscribed"], false);
    let key = before["publicKey"].as_str().context("no key")?;
    assert!(key.len() == 87 && key.starts_with('B'), "{key} is no uncompressed point of 65 bytes");

    let endpoint = format!("http://{}/device", service.local_addr()?);
    let body =
        json!({ "endpoint": endpoint, "keys": { "p256dh": BROWSER_KEY, "auth": BROWSER_SECRET } })
            .to_string();
    assert_eq!(page.send("PUT", "/push", &own, &body).await?.expect(200)?["subscribed"], true);
    let (tested, answer) = tokio::join!(
        serve_push(&service, "201 Created"),
        page.send("POST", "/push/test", &own, "{}")
    );
    let (headers, length) = tested?;
    assert_eq!(answer?.expect(200)?["ok"], true);
    let header = |name: &str| {
        headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    };
    assert_eq!(header("content-encoding"), Some("aes128gcm"));
    ensure!(
        header("authorization").is_some_and(|value| value.starts_with("vapid t=")),
        "{headers:?}"
    );
    assert!(length > 86 + 17, "a header, a message and its tag");

    let rest = RestClient::new(&host);
    let session = spawn_session(&rest, &host).await?;
    send_prompt(&rest, &session, "ask").await?;
    let (headers, _) = serve_push(&service, "410 Gone").await?;
    assert!(headers.contains(&("urgency".to_owned(), "high".to_owned())), "{headers:?}");
    let gone = wharf_testkit::polling::poll_until(WAIT_LIMIT, || {
        let kept = std::fs::read_to_string(host.state_dir().join("push.json"))?;
        Ok((!kept.contains("/device")).then_some(()))
    });
    assert!(gone.await?.is_some(), "a device that its service does not know is forgotten");
    assert_eq!(page.send("GET", "/push", &[], "").await?.expect(200)?["subscribed"], false);
    Ok(())
}

/// Loses all that tells which session led to this one: the first event of its log, the file beside
/// the log and the index.
fn lose_scope(host: &TestHost, session: &str) -> Result<()> {
    let dir = log::session_dir(host, session);
    let segment = dir.join("log").join(format!("{:020}.log", 1));
    let damaged = std::fs::read_to_string(&segment)?.replacen("\"at\":", "\"au\":", 1);
    std::fs::write(&segment, damaged)?;
    let inputs_path = dir.join("start.json");
    let mut inputs: Value = serde_json::from_slice(&std::fs::read(&inputs_path)?)?;
    inputs
        .as_object_mut()
        .context("not an object")?
        .remove("origin")
        .context("no origin")?;
    std::fs::write(&inputs_path, inputs.to_string())?;
    for index in ["index.db", "index.db-wal", "index.db-shm"] {
        let _ = std::fs::remove_file(host.state_dir().join(index));
    }
    Ok(())
}

/// With a receiver from the start on, the host watches for asks before the first device subscribes:
/// an ask that it finds when it begins to watch is past.
const WITH_COMMAND: &str = "[notify]\ncommand = [\"true\"]";

/// Signs a page in with each of these options of a login code, and subscribes all of them to push
/// messages.
async fn open_subscribed_pages<const COUNT: usize>(
    host: &TestHost,
    options: [&[&str]; COUNT],
) -> Result<[LoginPage; COUNT]> {
    let service = TcpListener::bind("127.0.0.1:0").await?;
    let endpoint = format!("http://{}/device", service.local_addr()?);
    let keys = json!({ "p256dh": BROWSER_KEY, "auth": BROWSER_SECRET });
    let subscription = json!({ "endpoint": endpoint, "keys": keys }).to_string();
    tokio::spawn(async move { while serve_push(&service, "201 Created").await.is_ok() {} });
    let mut pages = Vec::new();
    for options in options {
        let page = LoginPage::open(host, &create_login_code(host, options)?).await?;
        let own = [("origin", page.origin.as_str())];
        page.send("PUT", "/push", &own, &subscription).await?.expect(200)?;
        pages.push(page);
    }
    pages.try_into().ok().context("a page is missing")
}

/// Lets the session ask and waits until each page that may know of it was sent a message. `count`
/// counts the calls.
async fn ask_and_push(http: &RestClient, session: &str, count: f64) -> Result<()> {
    send_prompt(http, session, "ask").await?;
    // A notification counts as sent after all devices have been tried.
    let counted = async {
        while MetricsPage::of(http)
            .await?
            .get("wharf_notifications_sent_total{receiver=\"push\"}")?
            < count
        {}
        anyhow::Ok(())
    };
    tokio::time::timeout(WAIT_LIMIT, counted)
        .await
        .context("the push messages were not sent")?
}

/// Returns true if a push message has reached the page.
async fn was_pushed_to(page: &LoginPage) -> Result<bool> {
    let state = page.send("GET", "/push", &[], "").await?.expect(200)?;
    Ok(state["lastDelivery"]["ok"] == true)
}

#[tokio::test]
async fn push_of_a_session_whose_scope_is_lost_goes_to_admins_alone() -> Result<()> {
    let mut host = add_section(scripted_host(&[])?, WITH_COMMAND).start_host()?;
    let session = spawn_session(&RestClient::new(&host), &host).await?;
    run_prompt(&RestClient::new(&host), &session, "echo wombat").await?;
    host.terminate()?;
    lose_scope(&host, &session)?;
    host.restart()?;
    let [admin, controller] =
        open_subscribed_pages(&host, [&[], &["--role", "controller"]]).await?;
    let path = format!("/sessions/{session}");
    assert_eq!(controller.send("GET", &path, &[], "").await?.status, 404, "its scope is not lost");
    ask_and_push(&RestClient::new(&host), &session, 1.0).await?;
    assert!(was_pushed_to(&admin).await?);
    assert!(
        !was_pushed_to(&controller).await?,
        "a login that does not see the session was told of it"
    );
    Ok(())
}

#[tokio::test]
async fn push_of_a_session_goes_to_no_login_of_another_workspace() -> Result<()> {
    let host = add_section(scripted_host(&[])?, WITH_COMMAND).start_host()?;
    register_workspace(&host, "blog").await?;
    let blog_login: &[&str] = &["--role", "controller", "--workspace", "blog"];
    let [admin, blog] = open_subscribed_pages(&host, [&[], blog_login]).await?;
    let http = RestClient::new(&host);
    let elsewhere = spawn_session(&http, &host).await?;
    ask_and_push(&http, &elsewhere, 1.0).await?;
    assert_eq!((was_pushed_to(&admin).await?, was_pushed_to(&blog).await?), (true, false));
    let own = start_session(&http, &json!({ "workspaceSlug": "blog" })).await?;
    ask_and_push(&http, own["id"].as_str().context("no id")?, 2.0).await?;
    assert!(was_pushed_to(&blog).await?);
    Ok(())
}

#[tokio::test]
async fn failed_push_does_not_tell_where_the_host_can_connect_to() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let page = LoginPage::open(&host, &create_login_code(&host, &[])?).await?;
    let own = [("origin", page.origin.as_str())];
    let body = |endpoint: &str| {
        json!({ "endpoint": endpoint, "keys": { "p256dh": BROWSER_KEY, "auth": BROWSER_SECRET } })
            .to_string()
    };
    for endpoint in ["https://10.0.0.1/x", "https://[fe80::1]/x", "https://169.254.169.254/latest"]
    {
        let refused = page.send("PUT", "/push", &own, &body(endpoint)).await?;
        assert_eq!(refused.status_and_code(), (422, "invalid_params".to_owned()), "{endpoint}");
    }
    let service = TcpListener::bind("127.0.0.1:0").await?;
    let endpoint = format!("http://{}/device", service.local_addr()?);
    page.send("PUT", "/push", &own, &body(&endpoint)).await?.expect(200)?;
    let (served, refused) = tokio::join!(
        serve_push(&service, "403 Forbidden"),
        page.send("POST", "/push/test", &own, "{}")
    );
    served?;
    drop(service);
    let closed = page.send("POST", "/push/test", &own, "{}").await?.expect(200)?;
    for outcome in [refused?.expect(200)?, closed] {
        assert_eq!((&outcome["ok"], &outcome["detail"]), (&json!(false), &json!("undelivered")));
    }
    let last = page.send("GET", "/push", &[], "").await?.expect(200)?;
    assert_eq!(last["lastDelivery"]["detail"], "undelivered");
    assert!(host.read_stderr().contains("a push message was not delivered"), "the log says why");
    Ok(())
}

#[tokio::test]
async fn push_messages_are_for_pages_of_the_owner() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let refused = RestClient::new(&host).get("/push").await?;
    assert_eq!(refused.status_and_code(), (403, "host_only".to_owned()), "a token is no page");
    let (_, text) = crate::tokens::create_token(&host, &["--role", "controller"])?;
    let other = RestClient::with_token(&host, &text);
    let code = other.post("/login/codes", &json!({})).await?.expect(201)?["code"].take();
    let page = LoginPage::open(&host, code.as_str().context("no code")?).await?;
    assert_eq!(
        page.send("GET", "/push", &[], "").await?.status_and_code(),
        (403, "host_only".to_owned())
    );
    Ok(())
}
