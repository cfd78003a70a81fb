//! Answers of clients in odd spellings, over WebSocket, Streamable HTTP and the bridge: to a
//! request that the agent made of one client. What the agent is told is the answer, or why there is
//! none.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use wharf_testkit::client::TestClient;
use wharf_testkit::host::TestHost;

use crate::recording::Recording;
use crate::transports::Transport;
use crate::{cwd, scripted_host, stop_reason};

const TESTED_TRANSPORTS: [Transport; 3] =
    [Transport::WebSocket, Transport::Http, Transport::Bridge];

/// An answer as a client spells it (`@` is the id), and words of the agent on what it was told.
const CLIENT_ANSWERS: [(&str, &str); 16] = [
    (r#"{"jsonrpc":"2.0","id":@,"result":{"yes":1},"error":null}"#, r#"answered: {"yes":1}"#),
    (
        r#"{"jsonrpc":"2.0","error":null,"method":null,"id":@,"result":{"yes":1}}"#,
        r#"answered: {"yes":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","id":@,"result":null,"error":{"code":7,"message":"no"}}"#,
        r#""message":"no""#,
    ),
    (
        r#"{"jsonrpc":"2.0","id":@,"method":null,"params":null,"result":{"yes":1}}"#,
        r#"answered: {"yes":1}"#,
    ),
    (r#"{"jsonrpc":"2.0","id":"@","result":{"yes":1}}"#, r#"answered: {"yes":1}"#),
    (r#"{"jsonrpc":"2.0","id":@.0,"result":{"yes":1}}"#, r#"answered: {"yes":1}"#),
    (r#"{"jsonrpc":"2.0","id":@0e-1,"result":{"yes":1}}"#, r#"answered: {"yes":1}"#),
    ("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":@,\"result\":{\"yes\":1}}", r#"answered: {"yes":1}"#),
    (r#"{"jsonrpc":"2.0","id":@,"result":null}"#, "answered: null"),
    (r#"{"jsonrpc":"2.0","id":@,"id":@,"result":{"yes":1}}"#, "stands there twice"),
    (
        r#"{"jsonrpc":"2.0","id":@,"result":{"yes":1},"error":{"code":7,"message":"no"}}"#,
        "could not be read",
    ),
    (r#"{"jsonrpc":"2.0","id":@}"#, "could not be read"),
    (r#"{"jsonrpc":"2.0","id":@,"result":{"yes":"#, "could not be read"),
    (r#"{"jsonrpc":"2.0","id":@,"method":"","result":{"yes":1}}"#, r#"answered: {"yes":1}"#),
    (r#"{"jsonrpc":"2.0","id":@,"method":"_x/ask","result":{"yes":1}}"#, "could not be read"),
    (r#"[{"jsonrpc":"2.0","id":@,"result":{"yes":1}}]"#, "could not be read"),
];

async fn answer_and_read_text(client: &TestClient, session: &str, spelled: &str) -> Result<String> {
    let running = client.start_prompt(session, r#"ext _x/ask {"a":1}"#).await;
    let ask = client.expect_request("_x/ask").await;
    client.send_raw(&spelled.replace('@', &ask.id().to_string())).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn", "{spelled}");
    client.chunk_texts().pop().context("the agent said nothing")
}

async fn open_session_over(host: &TestHost, way: Transport) -> Result<(TestClient, String)> {
    let client = way.client(host, json!({})).await?;
    let session = client.new_session(&cwd(host)?).await?;
    Ok((client, session))
}

#[tokio::test]
async fn odd_answers_of_clients_end_the_agents_request_on_every_transport() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    for way in TESTED_TRANSPORTS {
        let (client, session) = open_session_over(&host, way).await?;
        for (spelled, words) in CLIENT_ANSWERS {
            let told = answer_and_read_text(&client, &session, spelled).await?;
            ensure!(told.contains(words), "{way:?} {spelled}: the agent was told {told}");
        }
    }
    Ok(())
}

/// Requests of clients, and words of their answer.
const CLIENT_REQUESTS: [(&str, &str); 6] = [
    (
        "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":\"r\",\"method\":\"_echo\",\"params\":@}",
        r#""id":"r","result":{"#,
    ),
    (
        r#"{"jsonrpc":"2.0","id":"r","method":"_echo","result":null,"error":null,"params":@}"#,
        r#""id":"r","result":{"#,
    ),
    (r#"{"jsonrpc":"2.0","id":7.0,"method":"_echo","params":@}"#, r#""id":7.0,"result":{"#),
    (
        r#"{"jsonrpc":"2.0","id":"r","id":"r","method":"_echo","params":@}"#,
        "`id` stands there twice",
    ),
    (
        r#"{"jsonrpc":"2.0","id":"r","method":"_echo","method":"_echo","params":@}"#,
        "`method` stands there twice",
    ),
    (
        r#"{"jsonrpc":"2.0","id":"r","method":"_echo","params":@,"params":@}"#,
        "`params` stands there twice",
    ),
];

#[tokio::test]
async fn odd_requests_of_clients_are_answered_on_every_transport() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    for way in TESTED_TRANSPORTS {
        let (client, session) = open_session_over(&host, way).await?;
        let params = format!(r#"{{"sessionId":"{session}","n":1e400}}"#);
        for (spelled, words) in CLIENT_REQUESTS {
            client.send_raw(&spelled.replace('@', &params)).await;
            let answers = |frame: &wharf_testkit::client::ReceivedFrame| {
                frame.method().is_empty() && frame.raw.contains(words)
            };
            client
                .expect(&format!("answer of {way:?} to {spelled} with {words}"), answers)
                .await;
        }
    }
    Ok(())
}

/// Requests of the agent, in spellings of some libraries.
const AGENT_FLAGS: [&str; 3] = [
    "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"_x/ask\",\"params\":{\"sessionId\":\"$SESSION\"}}",
    r#"{"jsonrpc":"2.0","id":"q","method":"_x/ask","result":null,"error":null,"params":{"sessionId":"$SESSION"}}"#,
    r#"{"jsonrpc":"2.0","id":7.0,"method":"_x/ask","error":null,"params":{"sessionId":"$SESSION","_meta":null}}"#,
];

#[tokio::test]
async fn odd_requests_of_the_agent_reach_the_client() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session_over(&host, Transport::WebSocket).await?;
    for line in AGENT_FLAGS {
        let running = client.start_prompt(&session, &format!("raw {line}")).await;
        let asked = client.expect_request("_x/ask").await;
        assert_eq!(asked.params()["sessionId"], session.as_str(), "{line}");
        ensure!(!asked.raw.contains("\"error\""), "null members are left out: {}", asked.raw);
        client.send_result(asked.id(), json!({})).await;
        running.wait_answer().await?;
    }
    Ok(())
}

#[tokio::test]
async fn requests_without_an_id_do_not_reach_the_agent() -> Result<()> {
    let recording = Recording::new()?;
    let host = recording.host_options(&["--models"])?.start_host()?;
    for way in TESTED_TRANSPORTS {
        let (client, session) = open_session_over(&host, way).await?;
        for (method, members) in [
            ("session/prompt", r#""prompt":[{"type":"text","text":"echo unasked"}]"#),
            ("session/set_mode", r#""modeId":"auto""#),
            ("session/set_model", r#""modelId":"large""#),
            ("session/set_config_option", r#""configId":"model","value":"large""#),
        ] {
            let params = format!(r#"{{"sessionId":"{session}",{members}}}"#);
            client
                .send_raw(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#))
                .await;
        }
        client.call_method("_echo", json!({ "sessionId": session })).await?;
        let methods = recording.read_methods()?;
        ensure!(methods == ["session/new", "_echo"], "{way:?}: the agent received {methods:?}");
    }
    Ok(())
}
