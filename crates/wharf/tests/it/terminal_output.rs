//! Terminals in tool calls: the client that created one shows it, all others get its text (rule
//! 3.8).

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::client::TestClient;
use wharf_testkit::{WAIT_LIMIT, polling};

use crate::http_client::AcpHttpClient;
use crate::{
    connect_client, connect_client_with, cwd, join_session, log, open_session, scripted_host,
};

/// Returns the text that the tool call showed in place of its terminal, update by update.
fn list_terminal_texts(updates: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let calls = updates.into_iter().filter(|update| update["toolCallId"] == "shown");
    calls.map(|mut update| update["content"][1].take()).collect()
}

fn list_updates(client: &TestClient) -> Vec<Value> {
    client
        .received_frames()
        .iter()
        .filter_map(|frame| frame.update().cloned())
        .collect()
}

fn text_block(text: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": text } })
}

/// Returns the terminal that the agent has shown according to the log.
fn shown_terminal(host: &wharf_testkit::host::TestHost, session: &str) -> Result<Value> {
    let events = log::list_events(host, session, "agent_updated")?;
    let mut contents = events.iter().map(|event| &event["frame"]["params"]["update"]["content"][1]);
    contents
        .find(|item| item["type"] == "terminal")
        .cloned()
        .context("the log does not have the agent's bytes")
}

#[tokio::test]
async fn terminal_output_of_wharf_is_shown_as_text_live_and_in_replays() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let second = join_session(&host, &session).await?;
    first.send_prompt(&session, "show echo hello; echo end").await?;
    second.expect_text("end").await;
    let item = shown_terminal(&host, &session)?;
    let id = item["terminalId"].as_str().context("no id")?;
    let nothing = text_block(&format!("[terminal {id}: no output kept]"));
    let expected = [nothing.clone(), text_block("hello\n"), nothing, text_block("hello\n")];
    assert_eq!(list_terminal_texts(list_updates(&first)), expected);
    assert_eq!(list_terminal_texts(list_updates(&second)), expected);
    let later = join_session(&host, &session).await?;
    assert_eq!(list_terminal_texts(list_updates(&later)), expected);
    let attached = later.call_method("session/attach", json!({ "sessionId": session })).await?;
    let history = attached["history"].as_array().context("no history")?;
    let call = history
        .iter()
        .find(|entry| entry["type"] == "tool_call")
        .context("no tool call")?;
    assert_eq!(
        (&call["content"][1], &call["status"]),
        (&text_block("hello\n"), &json!("completed"))
    );
    Ok(())
}

#[tokio::test]
async fn output_of_a_running_terminal_is_recorded_at_the_end_of_turn_and_agent() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let at = host.directory().display();
    let said = |number: u32| {
        format!(
            "echo {number} && mkfifo {at}/go{number} && touch {at}/{number} && read line < {at}/go{number}"
        )
    };
    let script = format!("show {}\n{}", said(1), said(2));
    let running = client.start_prompt(&session, &script).await;
    let wait = async |number: u32| {
        polling::poll_until(WAIT_LIMIT, || {
            Ok(host.directory().join(number.to_string()).exists().then_some(()))
        })
        .await
    };
    wait(1).await?.context("the command does not run")?;
    // The agent leaves the terminal running.
    client.cancel_turn(&session).await;
    running.wait_answer().await?;
    client.send_prompt(&session, "echo on").await?;
    assert_eq!(list_terminal_texts(list_updates(&client)).last(), Some(&text_block("1\n")));
    std::fs::write(host.directory().join("go1"), "")?;
    wait(2).await?.context("the command does not go on")?;
    let _ = client.send_prompt(&session, "echo last; crash").await;
    log::expect_event(&host, &session, "ended", |_| true).await?;
    let all = list_terminal_texts(
        log::list_events(&host, &session, "agent_updated")?
            .into_iter()
            .map(|mut event| event["frame"]["params"]["update"].take()),
    );
    assert_eq!(all.last(), Some(&text_block("1\n2\n")));
    Ok(())
}

/// Connects a client with terminals, all of which have the same output.
async fn connect_with_terminals(host: &wharf_testkit::host::TestHost) -> Result<TestClient> {
    let client = connect_client_with(host, json!({ "terminal": true }), json!({})).await?;
    client.respond_with(|ask| {
        Some(Ok(match ask.method() {
            "terminal/create" => json!({ "terminalId": "term-7" }),
            "terminal/wait_for_exit" => json!({ "exitCode": 0 }),
            "terminal/output" => json!({ "output": "in the editor", "truncated": false }),
            _ => json!({}),
        }))
    });
    Ok(client)
}

#[tokio::test]
async fn terminal_output_of_a_client_is_shown_as_text_to_other_clients() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let maker = connect_with_terminals(&host).await?;
    let session = maker.new_session(&cwd(&host)?).await?;
    let other = connect_client(&host).await?;
    other.call_method("session/attach", json!({ "sessionId": session })).await?;
    other.send_prompt(&session, "show make; echo end").await?;
    maker.expect_text("end").await;
    let own = json!({ "type": "terminal", "terminalId": "term-7" });
    assert_eq!(
        list_terminal_texts(list_updates(&maker)),
        [own.clone(), own.clone()],
        "it shows the terminal itself"
    );
    let (nothing, said) =
        (text_block("[terminal term-7: no output kept]"), text_block("in the editor"));
    let expected = [nothing.clone(), said.clone(), nothing, said];
    assert_eq!(list_terminal_texts(list_updates(&other)), expected);
    let later = join_session(&host, &session).await?;
    assert_eq!(list_terminal_texts(list_updates(&later)), expected);
    Ok(())
}

/// Content that is left out for a client is left out on the second reading too.
#[tokio::test]
async fn stream_shows_the_same_terminal_output_when_read_again() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = AcpHttpClient::open(&host).await?;
    let (_own, mut events, session) = http.session(&host).await?;
    http.send_prompt(2, &session, "echo one; show echo hello; echo two").await?;
    let mut seen = events.until_answer(2).await?;
    http.send_prompt(3, &session, r#"rawupdate {"sessionUpdate":"notice","message":"n"}"#)
        .await?;
    seen.extend(events.until_answer(3).await?);
    assert_eq!(
        list_terminal_texts(seen.iter().map(|event| event.data["params"]["update"].clone())).len(),
        4
    );
    assert!(!seen.iter().any(|event| event.data.to_string().contains("notice")), "{seen:?}");
    for start in 1..seen.len() {
        let mut again = http.open_stream(Some(&session), Some(&seen[start - 1].id)).await?;
        for expected in &seen[start..] {
            assert_eq!(
                again.next().await?.as_ref(),
                Some(expected),
                "after {}",
                seen[start - 1].id
            );
        }
    }
    Ok(())
}
