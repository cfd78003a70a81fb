//! A raw control byte in the name of a member is not JSON. From agents and from clients such a
//! message is refused, and nothing of it gets into the log or to the other side.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::http_client::AcpHttpClient;
use crate::{connect_client, cwd, expect_error, log, open_session, scripted_host, stop_reason};

/// The bytes that may not stand in a name as they are.
const CONTROL_BYTES: [char; 4] = ['\t', '\u{1}', '\u{c}', '\u{1f}'];

/// Restarts the host, and checks that the session can be read and goes on.
async fn expect_readable_after_restart(mut host: TestHost, session: &str) -> Result<()> {
    host.restart()?;
    let events = RestClient::new(&host)
        .get(&format!("/sessions/{session}/events?limit=1000"))
        .await?
        .expect(200)?;
    let listed = events["events"].as_array().context("no events")?.len();
    ensure!(listed == log::read_records(&host, session)?.len(), "{listed} events are listed");
    let client = connect_client(&host).await?;
    client.load_session(session, &cwd(&host)?).await?;
    for frame in client.received_frames() {
        wharf_json::Json::parse(frame.raw.as_bytes())
            .with_context(|| format!("not JSON: {:?}", frame.raw))?;
    }
    Ok(())
}

#[tokio::test]
async fn answer_with_a_control_byte_in_a_name_fails_its_turn_and_the_session_stays_readable()
-> Result<()> {
    let answer = "session/prompt={\"jsonrpc\":\"2.0\",\"a\tb\":1,\"id\":@ID@,\"result\":{\"stopReason\":\"end_turn\"}}";
    let host = scripted_host(&["--answer-with", answer])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let error = expect_error(client.send_prompt(&session, "echo unused").await)?;
    ensure!(error.message.contains("control character"), "{error}");
    expect_readable_after_restart(host, &session).await
}

#[tokio::test]
async fn update_with_a_control_byte_in_a_name_is_a_fault_and_reaches_nobody() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let mut lines = String::new();
    for byte in CONTROL_BYTES {
        for update in [
            format!(
                r#"{{"a{byte}b":1,"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"bad"}}}}"#
            ),
            format!(
                r#"{{"sessionUpdate":"session_info_update","title":"bad","_meta":{{"a{byte}b":1}}}}"#
            ),
        ] {
            lines += &format!(
                r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"$SESSION","update":{update}}}}}"#
            );
            lines += "\n";
        }
    }
    let path = host.directory().join("lines");
    fs::write(&path, lines)?;
    client
        .send_prompt(&session, &format!("rawfile {}; echo good", path.display()))
        .await?;
    assert_eq!(client.chunk_texts(), ["good"]);
    let faults = log::list_events(&host, &session, "agent_faulted")?;
    assert_eq!(faults.len(), 2 * CONTROL_BYTES.len(), "{faults:?}");
    expect_readable_after_restart(host, &session).await
}

#[tokio::test]
async fn client_request_with_a_control_byte_in_a_name_does_not_reach_the_agent() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let record = folder.path().join("record");
    let host = scripted_host(&["--record", record.to_str().context("not UTF-8")?])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let http = AcpHttpClient::open(&host).await?;
    // A line break is no part of a name either, although a frame may be written on several lines.
    let prompt = r#","prompt":[{"type":"text","text":"echo bad"}]"#;
    for byte in CONTROL_BYTES.into_iter().chain(['\n', '\r']) {
        for (method, rest) in [("_x/control", ""), ("session/prompt", prompt)] {
            let id = format!("{method} {}", u32::from(byte));
            let frame = format!(
                r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}","params":{{"sessionId":"{session}","a{byte}b":1{rest}}}}}"#
            );
            client.send_raw(&frame).await;
            let refusal = client.expect("the refusal", |frame| *frame.id() == *id).await;
            assert_eq!(refusal.body["error"]["code"], -32700, "{byte:?} {}", refusal.raw);
            let answer = http.post_text(&frame).await?;
            assert_eq!(
                (answer.status, &answer.json()["error"]["code"]),
                (400, &json!(-32700)),
                "{byte:?}"
            );
        }
    }
    assert_eq!(stop_reason(client.send_prompt(&session, "echo good").await)?, "end_turn");
    let recorded = fs::read_to_string(&record)?;
    ensure!(!recorded.contains("_x/control") && !recorded.contains("echo bad"), "{recorded}");
    expect_readable_after_restart(host, &session).await
}
