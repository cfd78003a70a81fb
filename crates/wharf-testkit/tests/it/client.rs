//! The WebSocket client, against a small server in the test itself.

use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use wharf_testkit::client::{Credentials, TestClient};

/// Serves one connection: sends the headers it received, echoes params, and sends requests or
/// closes on command.
async fn serve_connections(listener: TcpListener) -> Result<()> {
    let (stream, _) = listener.accept().await?;
    let mut seen = Vec::new();
    #[expect(clippy::result_large_err, reason = "the library's own signature")]
    let look = |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        for name in ["authorization", "sec-websocket-protocol"] {
            let value = request.headers().get(name).and_then(|value| value.to_str().ok());
            seen.extend(value.map(str::to_owned));
        }
        if let Some(first) = request
            .headers()
            .get("sec-websocket-protocol")
            .and_then(|value| value.to_str().ok())
            && let Ok(chosen) = first.split(',').next().unwrap_or_default().parse()
        {
            response.headers_mut().insert("sec-websocket-protocol", chosen);
        }
        Ok(response)
    };
    let mut socket = tokio_tungstenite::accept_hdr_async(stream, look).await?;
    let greeting = json!({ "method": "session/update", "params": { "update": {
        "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": seen.join(" ") } } } });
    socket.send(Message::text(greeting.to_string())).await?;
    while let Some(Ok(Message::Text(text))) = socket.next().await {
        let frame: Value = serde_json::from_str(&text)?;
        let reply = match frame["method"].as_str() {
            Some("ask") => json!({ "id": 0, "method": "session/request_permission", "params": {} }),
            Some("fail") => json!({ "id": frame["id"], "error": { "code": -7, "message": "no" } }),
            Some("close") => return Ok(socket.close(None).await?),
            Some("silence") => continue,
            Some(_) => json!({ "id": frame["id"], "result": frame["params"] }),
            None => json!({ "method": "answered", "params": frame["result"] }),
        };
        socket.send(Message::text(reply.to_string())).await?;
    }
    Ok(())
}

async fn connect_client(credentials: Credentials) -> Result<TestClient> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("ws://{}/acp", listener.local_addr()?);
    tokio::spawn(serve_connections(listener));
    TestClient::connect_with(&url, &credentials).await
}

#[tokio::test]
async fn each_way_to_show_a_token_is_sent() -> Result<()> {
    connect_client(Credentials::Bearer("t".into()))
        .await?
        .expect_text("Bearer t")
        .await;
    connect_client(Credentials::Subprotocol("t".into()))
        .await?
        .expect_text("acp.v1, wharf.token.t")
        .await;
    connect_client(Credentials::None).await?.expect_text("").await;
    Ok(())
}

#[tokio::test]
async fn answers_find_their_requests_in_any_order() -> Result<()> {
    let client = connect_client(Credentials::None).await?;
    let first = client.start_request("a", json!({ "n": 1 })).await;
    let second = client.start_request_with_id(json!("own"), "b", json!({ "n": 2 })).await;
    assert_eq!(second.wait_answer().await, Ok(json!({ "n": 2 })));
    assert_eq!(first.wait_answer().await, Ok(json!({ "n": 1 })));
    assert_eq!(client.call_method("fail", json!({})).await.map_err(|error| error.code), Err(-7));
    assert_eq!(client.received_frames().len(), 4);
    Ok(())
}

#[tokio::test]
async fn requests_of_the_agent_are_answered_by_hand_or_by_rule() -> Result<()> {
    let client = connect_client(Credentials::None).await?;
    client.send_notification("ask", json!({})).await;
    let ask = client.expect_request("session/request_permission").await;
    client.send_result(ask.id(), json!("by hand")).await;
    assert_eq!(client.expect_notification("answered").await.params(), "by hand");
    client.choose_option("allow_once");
    client.send_notification("ask", json!({})).await;
    let answered = client.expect_notification("answered").await;
    assert_eq!(answered.params()["outcome"]["optionId"], "allow_once");
    Ok(())
}

#[tokio::test]
async fn pending_requests_fail_when_the_connection_ends() -> Result<()> {
    let client = connect_client(Credentials::None).await?;
    let lost = client.start_request("silence", json!({})).await;
    client.send_notification("close", json!({})).await;
    assert!(lost.wait_answer_or_lost().await.is_none());
    assert_eq!(client.wait_closed().await, "closed");
    Ok(())
}

#[tokio::test]
async fn a_wait_that_fails_shows_the_transcript() -> Result<()> {
    let client = connect_client(Credentials::Bearer("shown".into())).await?;
    client.expect_text("Bearer shown").await;
    client.set_wait_limit(Duration::from_millis(20));
    let waiting = tokio::spawn(async move { client.expect_text("never").await });
    let panic = waiting.await.err().context("it came")?.into_panic();
    let text = panic.downcast_ref::<String>().context("no text")?;
    assert!(text.contains("no chunk \"never\"") && text.contains("Bearer shown"), "{text}");
    Ok(())
}
