//! Failed logins are limited, and codes log the web page in (rule 10.2).

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use wharf_testkit::client::{Credentials, TestClient, connect};
use wharf_testkit::host::TestHost;
use wharf_testkit::http::{RestAnswer, RestClient};

use crate::tokens::{create_token, expect_stdout, refused_status, run_token};
use crate::{add_section, scripted_host};

/// Returns a browser page without a token.
fn browser_page(host: &TestHost) -> RestClient {
    RestClient::with_token(host, "")
}

/// Returns a login code from the command line.
pub(crate) fn create_login_code(host: &TestHost, arguments: &[&str]) -> Result<String> {
    Ok(expect_stdout(run_token(host, &[&["code", "--no-start"], arguments].concat())?)?
        .trim_end()
        .to_owned())
}

async fn log_in(host: &TestHost, code: &str) -> Result<RestAnswer> {
    let headers = [("content-type", "application/json"), ("origin", host.url())];
    browser_page(host)
        .send("POST", "/login", &headers, &json!({ "code": code }).to_string())
        .await
}

/// A logged-in page.
pub(crate) struct LoginPage {
    http: RestClient,
    pub(crate) origin: String,
    pub(crate) cookie: String,
    key: String,
}

impl LoginPage {
    pub(crate) async fn open(host: &TestHost, code: &str) -> Result<Self> {
        let answer = log_in(host, code).await?;
        let set = answer.header("set-cookie").context("no cookie")?.to_owned();
        for word in ["wharf_login=", "; HttpOnly", "; SameSite=Strict", "; Path=/", "; Max-Age="] {
            ensure!(set.contains(word), "no {word} in {set}");
        }
        let cookie = set.split(';').next().unwrap_or_default().to_owned();
        let key = answer.expect(200)?["page"].as_str().context("no key")?.to_owned();
        Ok(Self {
            http: browser_page(host),
            origin: host.url().to_owned(),
            cookie,
            key,
        })
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        body: &str,
    ) -> Result<RestAnswer> {
        let own = [("cookie", self.cookie.as_str()), ("wharf-page", &self.key)];
        let json = [("content-type", "application/json")];
        let headers = [&own[..], more, if body.is_empty() { &[] } else { &json }].concat();
        self.http.send(method, path, &headers, body).await
    }

    fn web_socket(&self, origin: Option<&str>) -> Credentials {
        let protocols = format!("acp.v1, wharf.page.{}", self.key);
        let mut headers =
            vec![("cookie", self.cookie.clone()), ("sec-websocket-protocol", protocols)];
        headers.extend(origin.map(|origin| ("origin", origin.to_owned())));
        Credentials::Headers(headers)
    }
}

#[tokio::test]
async fn wrong_tokens_are_told_to_wait_and_right_ones_are_not() -> Result<()> {
    let host = add_section(scripted_host(&[])?, "[limits]\nfailed_logins = 5").start_host()?;
    let (wrong, right) = (RestClient::with_token(&host, &"x".repeat(52)), RestClient::new(&host));
    for _ in 0..5 {
        assert_eq!(
            wrong.get("/sessions").await?.status_and_code(),
            (401, "unauthorized".to_owned())
        );
    }
    let answer = wrong.get("/sessions").await?;
    assert_eq!(answer.status_and_code(), (429, "too_many_failed_logins".to_owned()));
    let wait: u64 = answer.header("retry-after").context("no Retry-After")?.parse()?;
    assert!((1..=61).contains(&wait), "{wait}");
    assert_eq!(log_in(&host, "guess").await?.status, 429, "codes are counted with them");
    assert_eq!(refused_status(&host, &Credentials::Subprotocol("x".repeat(52))).await?, Some(429));
    assert_eq!(
        browser_page(&host).send("GET", "/sessions", &[], "").await?.status,
        401,
        "no token is no guess"
    );
    assert_eq!(right.get("/sessions").await?.status, 200);
    assert_eq!(refused_status(&host, &Credentials::Bearer(host.token().to_owned())).await?, None);
    let page = LoginPage::open(&host, &create_login_code(&host, &[])?).await?;
    assert_eq!(page.send("GET", "/sessions", &[], "").await?.status, 200, "a right code neither");
    let metrics = right.get("/metrics").await?;
    assert!(metrics.body.contains("wharf_failed_logins_total 8\n"), "{}", metrics.body);
    assert_eq!(host.read_stderr().matches("limits.failed_logins").count(), 1, "said once a minute");
    Ok(())
}

#[tokio::test]
async fn login_code_works_once() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let made = create_login_code(&host, &[])?;
    let first = LoginPage::open(&host, &made).await?;
    assert_eq!(log_in(&host, &made).await?.status_and_code(), (401, "unauthorized".to_owned()));
    assert_eq!(log_in(&host, "").await?.status, 401);
    let in_query = browser_page(&host)
        .send("POST", &format!("/login?code={made}"), &[("content-type", "application/json")], "{}")
        .await?;
    assert_eq!(in_query.status_and_code(), (400, "unknown_parameter".to_owned()));
    assert_eq!(first.send("GET", "/host", &[], "").await?.status, 200, "as the user who asked");
    let socket =
        TestClient::connect_with(&host.ws_url(), &first.web_socket(Some(host.url()))).await?;
    socket.initialize().await?;

    let listed: Value =
        serde_json::from_str(&expect_stdout(run_token(&host, &["list", "--json"])?)?)?;
    assert_eq!((&listed[0]["label"], &listed[0]["loginOf"]), (&json!("web page"), &json!("host")));
    let kept = std::fs::read_to_string(host.state_dir().join("tokens.json"))?;
    let half = first.cookie.trim_start_matches("wharf_login=");
    assert!(
        !kept.contains(half) && !kept.contains(&first.key) && !host.read_stderr().contains(&made)
    );

    let origin = [("origin", first.origin.as_str())];
    let out = first.send("POST", "/logout", &origin, "").await?;
    assert!(out.header("set-cookie").is_some_and(|set| set.contains("Max-Age=0")), "{out:?}");
    assert_eq!(out.expect(200)?, json!({ "ok": true }));
    assert_eq!(first.send("GET", "/sessions", &[], "").await?.status, 401);
    assert_eq!(socket.wait_closed().await, "closed 1008 the token was revoked");
    assert_eq!(
        RestClient::new(&host).post_empty("/logout").await?.expect(200)?,
        json!({ "ok": false }),
        "a token is no login"
    );
    Ok(())
}

#[tokio::test]
async fn login_cookie_is_accepted_from_its_own_origin_only() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let page = LoginPage::open(&host, &create_login_code(&host, &[])?).await?;
    let own = ("origin", page.origin.as_str());
    let prompt = json!({ "adapter": "scripted", "cwd": crate::cwd(&host)? }).to_string();
    for (more, status) in [
        (&[own][..], 201),
        (&[("sec-fetch-site", "same-origin")], 201),
        (&[], 403),
        (&[("origin", "http://evil.example")], 403),
        (&[("origin", "http://127.0.0.1:1")], 403),
        (&[("origin", "null")], 403),
        (&[own, ("sec-fetch-site", "cross-site")], 403),
        (&[("sec-fetch-site", "same-site")], 403),
    ] {
        let answer = page.send("POST", "/sessions/agent", more, &prompt).await?;
        assert_eq!(answer.status, status, "{more:?}: {}", answer.body);
    }
    assert_eq!(page.send("GET", "/sessions", &[], "").await?.status, 200);
    assert_eq!(
        page.send("GET", "/sessions", &[("sec-fetch-site", "cross-site")], "")
            .await?
            .status,
        403
    );
    let url = host.ws_url();
    assert!(connect(&url, &page.web_socket(Some(&page.origin))).await.is_ok());
    for foreign in [None, Some("http://evil.example"), Some("http://127.0.0.1:1")] {
        assert_eq!(
            refused_status(&host, &page.web_socket(foreign)).await?,
            Some(403),
            "{foreign:?}"
        );
    }
    // Another server on this machine sees the cookie, but not the key that the page keeps.
    let half = LoginPage { key: String::new(), ..page };
    assert_eq!(half.send("GET", "/sessions", &[], "").await?.status, 401);
    Ok(())
}

#[tokio::test]
async fn login_has_the_rights_of_its_token_and_ends_with_it() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    crate::scopes::register_workspace(&host, "here").await?;
    let (id, observer) = create_token(&host, &["--role", "observer"])?;
    let observer = RestClient::with_token(&host, &observer);
    let ask = async |http: &RestClient, body: Value| http.post("/login/codes", &body).await;
    let made = ask(&observer, json!({})).await?.expect(201)?;
    assert_eq!((&made["role"], &made["goodForSeconds"]), (&json!("observer"), &json!(120)));
    let page = LoginPage::open(&host, made["code"].as_str().unwrap_or_default()).await?;
    let own = [("origin", page.origin.as_str())];
    assert_eq!(page.send("GET", "/sessions", &[], "").await?.status, 200);
    let spawn = page.send("POST", "/sessions/agent", &own, r#"{"adapter":"scripted"}"#).await?;
    assert_eq!(spawn.status_and_code(), (403, "observer".to_owned()));
    assert_eq!(
        ask(&observer, json!({ "role": "controller" })).await?.status_and_code(),
        (403, "beyond_own_rights".to_owned())
    );

    let scoped = crate::scopes::workspace_caller(&host, "here")?;
    assert_eq!(ask(&scoped, json!({})).await?.expect(201)?["workspace"], "here");
    assert_eq!(
        ask(&scoped, json!({ "workspace": "there" })).await?.status_and_code(),
        (422, "unknown_workspace".to_owned())
    );
    let narrow = create_login_code(&host, &["--workspace", "here", "--ttl", "1h"])?;
    let narrow = LoginPage::open(&host, &narrow).await?;
    assert_eq!(
        narrow.send("GET", "/host", &[], "").await?.status_and_code(),
        (403, "host_only".to_owned())
    );

    expect_stdout(run_token(&host, &["revoke", &id])?)?;
    assert_eq!(
        page.send("GET", "/sessions", &[], "").await?.status,
        401,
        "its asker's token is gone"
    );
    assert_eq!(narrow.send("GET", "/sessions", &[], "").await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn login_cannot_create_another_login_and_ends_with_the_hosts_token() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let page = LoginPage::open(&host, &create_login_code(&host, &[])?).await?;
    let own = [("origin", page.origin.as_str())];
    let refused = page.send("POST", "/login/codes", &own, "{}").await?;
    assert_eq!(
        refused.status_and_code(),
        (403, "beyond_own_rights".to_owned()),
        "a stolen login would outlive its end"
    );
    // The port changes at a restart; the login belongs to the host, not to its address.
    host.restart()?;
    let page = LoginPage {
        http: RestClient::with_token(&host, ""),
        origin: host.url().to_owned(),
        ..page
    };
    assert_eq!(page.send("GET", "/host", &[], "").await?.status, 200);
    host.kill()?;
    std::fs::remove_file(host.state_dir().join("token"))?;
    host.restart()?;
    let page = LoginPage {
        http: RestClient::with_token(&host, ""),
        origin: host.url().to_owned(),
        ..page
    };
    assert_eq!(
        page.send("GET", "/host", &[], "").await?.status,
        401,
        "the token that opened it was replaced"
    );
    Ok(())
}

#[tokio::test]
async fn request_without_a_token_uses_no_body_budget() -> Result<()> {
    let host = add_section(scripted_host(&[])?, "[limits]\nbody = \"64KiB\"\nbodies = \"64KiB\"")
        .start_host()?;
    let large = format!("{{\"code\":\"{}\"}}", "x".repeat(60_000));
    let answer = browser_page(&host)
        .send("POST", "/login", &[("content-type", "application/json")], &large)
        .await?;
    assert_eq!(answer.status_and_code(), (413, "body_too_large".to_owned()));
    // The unfinished body would use the whole budget.
    let authority = host.url().trim_start_matches("http://").to_owned();
    let head = format!(
        "POST /login HTTP/1.1\r\nhost: {authority}\r\ncontent-type: application/json\r\ncontent-length: 65536\r\n\r\n"
    );
    let mut unfinished = tokio::net::TcpStream::connect(&authority).await?;
    unfinished.write_all(format!("{head}{}", "x".repeat(3_000)).as_bytes()).await?;
    let body = json!({ "adapter": "none", "label": "x".repeat(60_000) });
    assert_eq!(
        RestClient::new(&host).post("/sessions/agent", &body).await?.status,
        422,
        "it is read, and too long a label"
    );
    Ok(())
}

/// Returns the listed logins by their name.
async fn list_names(page: &LoginPage) -> Result<Vec<String>> {
    let listed = page.send("GET", "/logins", &[], "").await?.expect(200)?;
    let logins = listed["logins"].as_array().context("no list")?;
    Ok(logins
        .iter()
        .filter_map(|login| login["name"].as_str().map(str::to_owned))
        .collect())
}

#[tokio::test]
async fn devices_are_listed_named_and_signed_out_at_once() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (phone, laptop) = (
        LoginPage::open(&host, &create_login_code(&host, &[])?).await?,
        LoginPage::open(&host, &create_login_code(&host, &["--role", "controller"])?).await?,
    );
    let listed = phone.send("GET", "/logins", &[], "").await?.expect(200)?;
    let logins = listed["logins"].as_array().context("no list")?;
    assert_eq!(logins.len(), 2, "{listed}");
    let (own, other): (Vec<_>, Vec<_>) = logins.iter().partition(|login| login["current"] == true);
    let id = |logins: &[&Value]| logins[0]["id"].as_str().unwrap_or_default().to_owned();
    let (own, other) = (id(&own), id(&other));
    let origin = [("origin", phone.origin.as_str())];
    for (id, name) in [(&own, "phone"), (&other, "laptop")] {
        let named = phone
            .send("PATCH", &format!("/logins/{id}"), &origin, &json!({ "name": name }).to_string())
            .await?;
        assert_eq!(named.expect(200)?["name"], name);
    }
    assert_eq!(
        list_names(&laptop).await?,
        ["laptop"],
        "a controller does not see the login of an admin"
    );
    let wrong = laptop.send("DELETE", &format!("/logins/{own}"), &origin, "").await?;
    assert_eq!(wrong.status_and_code(), (404, "unknown_login".to_owned()));
    for name in ["", "two\nlines", &"x".repeat(201)] {
        let body = json!({ "name": name }).to_string();
        assert_eq!(
            phone.send("PATCH", &format!("/logins/{own}"), &origin, &body).await?.status,
            422,
            "{name:?}"
        );
    }
    let socket =
        TestClient::connect_with(&host.ws_url(), &laptop.web_socket(Some(host.url()))).await?;
    socket.initialize().await?;
    let ended = phone
        .send("DELETE", &format!("/logins/{other}"), &origin, "")
        .await?
        .expect(200)?;
    assert_eq!(ended, json!({ "ok": true, "id": other }));
    socket.wait_closed().await;
    assert_eq!(laptop.send("GET", "/logins", &[], "").await?.status, 401);
    assert_eq!(list_names(&phone).await?, ["phone"]);
    Ok(())
}

#[tokio::test]
async fn token_sees_only_the_logins_that_were_made_with_it() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let owner = LoginPage::open(&host, &create_login_code(&host, &[])?).await?;
    let (_, text) = create_token(&host, &["--role", "controller"])?;
    let token = RestClient::with_token(&host, &text);
    let none = token.get("/logins").await?.expect(200)?;
    assert_eq!(none, json!({ "logins": [] }));
    let code = token.post("/login/codes", &json!({})).await?.expect(201)?["code"].take();
    let page = LoginPage::open(&host, code.as_str().context("no code")?).await?;
    assert_eq!(
        token.get("/logins").await?.expect(200)?["logins"].as_array().map(Vec::len),
        Some(1)
    );
    assert_eq!(list_names(&page).await?.len(), 1);
    assert_eq!(list_names(&owner).await?.len(), 2, "an admin sees all");
    Ok(())
}
