//! ACP over Streamable HTTP: the response to each kind of request.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::client::{Credentials, connect};

use crate::http_client::{AcpHttpClient, initialize_message};
use crate::{
    add_section, join_session, open_session, program, scripted_host, stop_reason, without_usage,
};

const JSON_HEADER: (&str, &str) = ("content-type", "application/json");
const ACCEPT_EVENTS_HEADER: (&str, &str) = ("accept", "text/event-stream");

fn list_request() -> Value {
    json!({ "jsonrpc": "2.0", "id": 5, "method": "session/list", "params": {} })
}

#[tokio::test]
async fn initialize_makes_a_connection_and_is_answered_at_once() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = AcpHttpClient::new(&host, host.token());
    let (first, second) =
        (http.post(&initialize_message()).await?, http.post(&initialize_message()).await?);
    assert_eq!((first.status, first.header("content-type")), (200, Some("application/json")));
    assert_eq!(
        (&first.json()["id"], &first.json()["result"]["protocolVersion"]),
        (&json!(0), &json!(1))
    );
    let (first, second) = (first.header("acp-connection-id"), second.header("acp-connection-id"));
    assert!(first.is_some_and(|id| id.len() > 30) && first != second, "{first:?} {second:?}");
    Ok(())
}

#[tokio::test]
async fn message_after_initialize_is_accepted_with_202_and_answered_on_the_stream() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = AcpHttpClient::open(&host).await?;
    // The stream is not open yet, so the answer waits for it.
    http.send(5, "session/list", json!({})).await?;
    let mut own = http.open_stream(None, None).await?;
    assert_eq!(own.answer(5).await?["result"]["sessions"], json!([]));
    http.send(6, "_wharf/none", json!({})).await?;
    assert_eq!(
        own.answer(6).await?["error"]["code"],
        -32601,
        "a refusal of content comes after 202 too"
    );
    http.deliver_message(&initialize_message()).await?;
    assert_eq!(
        own.answer(0).await?["result"]["protocolVersion"],
        1,
        "a second initialize is a message like any other"
    );
    Ok(())
}

#[tokio::test]
async fn a_message_of_another_media_type_is_415() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = AcpHttpClient::open(&host).await?;
    let body = list_request().to_string();
    for headers in
        [&[][..], &[("content-type", "text/plain")], &[("content-type", "application/jsonl")]]
    {
        assert_eq!(http.send_http("POST", headers, &body).await?.status, 415, "{headers:?}");
    }
    let with_charset = [("content-type", "application/json; charset=utf-8")];
    assert_eq!(http.send_http("POST", &with_charset, &body).await?.status, 202);
    Ok(())
}

#[tokio::test]
async fn a_get_that_does_not_accept_events_is_406() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = AcpHttpClient::open(&host).await?;
    for headers in [&[][..], &[("accept", "application/json")], &[("accept", "*/*")]] {
        assert_eq!(http.send_http("GET", headers, "").await?.status, 406, "{headers:?}");
    }
    assert_eq!(http.send_http("HEAD", &[ACCEPT_EVENTS_HEADER], "").await?.status, 405);
    assert_eq!(http.send_http("PUT", &[JSON_HEADER], "{}").await?.status, 405);
    Ok(())
}

#[tokio::test]
async fn batch_is_501_and_malformed_message_is_400() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = AcpHttpClient::open(&host).await?;
    assert_eq!(http.post(&json!([list_request()])).await?.status, 501);
    let broken = http.send_http("POST", &[JSON_HEADER], "{\"jsonrpc\":").await?;
    assert_eq!((broken.status, &broken.json()["error"]["code"]), (400, &json!(-32700)));
    let number = http.post(&json!(7)).await?;
    assert_eq!((number.status, &number.json()["error"]["code"]), (400, &json!(-32600)));
    Ok(())
}

#[tokio::test]
async fn a_message_over_the_limit_is_413() -> Result<()> {
    let host = add_section(scripted_host(&[])?, "[limits]\nframe = \"64KiB\"").start_host()?;
    let http = AcpHttpClient::open(&host).await?;
    let mut large = list_request();
    large["params"]["filling"] = "x".repeat(65 << 10).into();
    let answer = http.post(&large).await?;
    let problem = answer.json();
    assert_eq!((answer.status, &problem["code"]), (413, &json!("body_too_large")));
    assert_eq!(problem["legacyCode"], "too_large", "the word of the last release");
    assert_eq!(http.post(&list_request()).await?.status, 202, "the connection goes on");
    Ok(())
}

#[tokio::test]
async fn missing_or_unknown_connection_id_is_refused() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let mut http = AcpHttpClient::new(&host, host.token());
    for (id, expected) in [(None, 400), (Some("conn_unknown"), 404)] {
        http.connection = id.map(str::to_owned);
        assert_eq!(http.post(&list_request()).await?.status, expected);
        assert_eq!(http.send_http("GET", &[ACCEPT_EVENTS_HEADER], "").await?.status, expected);
        let delete = http.send_http("DELETE", &[], "").await?;
        assert_eq!(
            (delete.status, delete.header("content-type")),
            (expected, Some("application/problem+json"))
        );
    }
    Ok(())
}

#[tokio::test]
async fn connection_id_of_another_token_is_refused() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = AcpHttpClient::open(&host).await?;
    let made =
        program::wharf_command(&["token", "create", "--role", "admin", "--json", "--state-dir"]);
    let made: Value = serde_json::from_slice(&{ made }.arg(host.state_dir()).output()?.stdout)?;
    let mut other = AcpHttpClient::new(&host, made["token"].as_str().context("no token")?);
    other.connection = http.connection.clone();
    assert_eq!(other.post(&list_request()).await?.status, 404);
    assert_eq!(other.send_http("GET", &[ACCEPT_EVENTS_HEADER], "").await?.status, 404);
    assert_eq!(other.send_http("DELETE", &[], "").await?.status, 404);
    assert_eq!(http.post(&list_request()).await?.status, 202);
    other.connection = None;
    assert_eq!(other.post(&initialize_message()).await?.status, 200, "it may have one of its own");
    Ok(())
}

#[tokio::test]
async fn session_header_is_optional_but_must_match_the_body() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = AcpHttpClient::open(&host).await?;
    let (_own, mut events, session) = http.session(&host).await?;
    let prompt = json!([{ "type": "text", "text": "echo hi" }]);
    let params = json!({ "sessionId": session, "prompt": prompt });
    let message =
        json!({ "jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": params });
    let body = message.to_string();
    assert_eq!(
        http.send_http("POST", &[JSON_HEADER, ("acp-session-id", "sess_other")], &body)
            .await?
            .status,
        400
    );
    assert_eq!(
        http.send_http("POST", &[JSON_HEADER, ("acp-session-id", &session)], &body)
            .await?
            .status,
        202
    );
    assert_eq!(events.answer(2).await?["result"]["stopReason"], "end_turn");
    http.send_prompt(3, &session, "echo again").await?;
    events.text("again").await?;
    Ok(())
}

#[tokio::test]
async fn delete_ends_the_connection_and_the_session_lives_on() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = AcpHttpClient::open(&host).await?;
    let (mut own, mut events, session) = http.session(&host).await?;
    http.send_prompt(2, &session, "echo before; wait; echo after").await?;
    events.text("before").await?;
    let answer = http.send_http("DELETE", &[], "").await?;
    assert_eq!((answer.status, answer.body.as_str()), (202, ""));
    assert_eq!((own.next().await?, events.next().await?), (None, None), "its streams end");
    assert_eq!(http.send_http("DELETE", &[], "").await?.status, 404);
    assert_eq!(http.post(&list_request()).await?.status, 404);

    let other = join_session(&host, &session).await?;
    let status =
        without_usage(other.call_method("session/status", json!({ "sessionId": session })).await?);
    assert_eq!(
        status["_meta"]["wharf"],
        json!({ "turn": "running", "clients": 1, "resumable": true })
    );
    other.send_notification("_go", json!({ "sessionId": session })).await;
    other.expect_text("after").await;
    Ok(())
}

#[tokio::test]
async fn a_websocket_has_a_connection_id_too() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (_socket, response) =
        connect(&host.ws_url(), &Credentials::Bearer(host.token().to_owned())).await?;
    let id = response
        .headers()
        .get("acp-connection-id")
        .context("no id")?
        .to_str()?
        .to_owned();
    let mut http = AcpHttpClient::new(&host, host.token());
    http.connection = Some(id);
    assert_eq!(http.post(&list_request()).await?.status, 404, "it is the socket's alone");
    Ok(())
}

#[tokio::test]
async fn a_permission_is_asked_on_the_stream_and_answered_by_a_post() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = AcpHttpClient::open(&host).await?;
    let (_own, mut events, session) = http.session(&host).await?;
    http.send_prompt(2, &session, "ask").await?;
    let ask = events
        .expect("a permission", |event| event.data["method"] == "session/request_permission")
        .await?;
    assert_eq!(ask.data["params"]["sessionId"], session.as_str());
    let chosen = json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } });
    // Official clients send no session header here: the id identifies the request that is answered.
    http.deliver_message(&json!({ "jsonrpc": "2.0", "id": ask.data["id"], "result": chosen }))
        .await?;
    events.text("chosen: allow_once").await?;
    assert_eq!(events.answer(2).await?["result"]["stopReason"], "end_turn");
    http.send_prompt(3, &session, "hang").await?;
    http.deliver_message(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } }))
        .await?;
    assert_eq!(events.answer(3).await?["result"]["stopReason"], "cancelled");
    Ok(())
}

#[tokio::test]
async fn a_websocket_and_an_http_client_share_a_session() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (socket, session) = open_session(&host).await?;
    let http = AcpHttpClient::open(&host).await?;
    let mut events = http.open_stream(Some(&session), None).await?;
    http.load_session(1, &session, &host).await?;
    events.answer(1).await?;

    let running = socket.start_prompt(&session, "echo one; ask").await;
    let asked = socket.expect_request("session/request_permission").await;
    let ask = events
        .expect("a permission", |event| event.data["method"] == "session/request_permission")
        .await?;
    let chosen = json!({ "outcome": { "outcome": "selected", "optionId": "reject_once" } });
    http.deliver_message(&json!({ "jsonrpc": "2.0", "id": ask.data["id"], "result": chosen }))
        .await?;
    let withdrawn = socket.expect_notification("$/cancel_request").await;
    assert_eq!(&withdrawn.params()["requestId"], asked.id());
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");

    http.send_prompt(2, &session, "stream 300").await?;
    let seen: Vec<String> = events
        .until_answer(2)
        .await?
        .iter()
        .filter_map(|event| event.text().map(str::to_owned))
        .collect();
    socket.expect("the last chunk", |frame| frame.chunk_index() == Some(299)).await;
    assert_eq!(socket.chunk_texts()[1..], seen[..], "both saw the same from the choice on");
    Ok(())
}
