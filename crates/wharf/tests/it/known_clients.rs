//! A client is identified by its token and its own id on every connection: its prompts stay its
//! own, and a cancel ends the prompts that its sender meant.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::client::{PendingCall, TestClient};
use wharf_testkit::host::TestHost;

use crate::bridge::start_editor;
use crate::{
    connect_client, connect_client_with, cwd, join_session, log, open_session, scripted_host,
    stop_reason,
};

/// A cancel within this time after the end of a turn was meant for that turn.
const CROSSING_TIME: Duration = Duration::from_secs(1);

/// Connects a client that sends its id at `initialize`.
async fn connect_known_client(host: &TestHost, id: &str) -> Result<TestClient> {
    connect_client_with(
        host,
        json!({ "elicitation": { "url": {} } }),
        json!({ "wharf": { "clientId": id } }),
    )
    .await
}

async fn wait_until_accepted(host: &TestHost, session: &str, words: &str) -> Result<()> {
    log::expect_event(host, session, "prompt_accepted", |event| {
        event["frame"].to_string().contains(words)
    })
    .await
    .map(drop)
}

/// Submits a prompt and waits until it is accepted.
async fn submit_prompt(
    host: &TestHost,
    client: &TestClient,
    session: &str,
    words: &str,
) -> Result<PendingCall> {
    let call = client.start_prompt(session, words).await;
    wait_until_accepted(host, session, words).await?;
    Ok(call)
}

/// Returns the words of the prompts whose turns were cancelled, in order.
fn list_cancelled_turns(host: &TestHost, session: &str) -> Result<Vec<String>> {
    let accepted = log::list_events(host, session, "prompt_accepted")?;
    let words = |prompt: &Value| {
        let event = accepted.iter().find(|event| event["prompt"] == *prompt);
        event
            .and_then(|event| event["frame"]["params"]["prompt"][0]["text"].as_str())
            .unwrap_or_default()
            .to_owned()
    };
    let cancels = log::list_events(host, session, "cancel_requested")?;
    Ok(cancels.iter().map(|event| words(&event["prompt"])).collect())
}

async fn release_agent(client: &TestClient, session: &str) {
    client.send_notification("_go", json!({ "sessionId": session })).await;
}

#[tokio::test]
async fn cancel_after_reconnect_ends_own_queued_prompt_and_not_the_turn_of_another() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (other, session) = open_session(&host).await?;
    let running = other.start_prompt(&session, "echo running; wait; echo done").await;
    other.expect_text("running").await;
    let first = connect_known_client(&host, "phone").await?;
    first.load_session(&session, &cwd(&host)?).await?;
    submit_prompt(&host, &first, &session, "echo mine").await?;
    first.close().await;

    let again = connect_known_client(&host, "phone").await?;
    again.load_session(&session, &cwd(&host)?).await?;
    again.cancel_turn(&session).await;
    log::expect_event(&host, &session, "prompt_ended", |event| event["end"]["how"] == "cancelled")
        .await?;
    release_agent(&other, &session).await;
    assert_eq!(
        stop_reason(running.wait_answer().await)?,
        "end_turn",
        "the other client's turn was cancelled"
    );
    assert_eq!(list_cancelled_turns(&host, &session)?, Vec::<String>::new());
    assert!(
        !other.chunk_texts().contains(&"mine".to_owned()),
        "the prompt ran although its sender cancelled it"
    );
    Ok(())
}

#[tokio::test]
async fn prompt_sent_over_rest_belongs_to_the_client_that_its_header_names() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (other, session) = open_session(&host).await?;
    let running = other.start_prompt(&session, "echo running; wait; echo done").await;
    other.expect_text("running").await;
    let path = format!("/sessions/{session}/prompt");
    let body = json!({ "prompt": "echo mine", "queue": true });
    let http = wharf_testkit::http::RestClient::new(&host);
    let answer = http.post_with(&path, ("Wharf-Client-Id", "phone"), &body).await?;
    assert!(answer.status < 300, "{answer:?}");
    wait_until_accepted(&host, &session, "echo mine").await?;

    let phone = connect_known_client(&host, "phone").await?;
    phone.load_session(&session, &cwd(&host)?).await?;
    phone.cancel_turn(&session).await;
    log::expect_event(&host, &session, "prompt_ended", |event| event["end"]["how"] == "cancelled")
        .await?;
    release_agent(&other, &session).await;
    assert_eq!(
        stop_reason(running.wait_answer().await)?,
        "end_turn",
        "the other client's turn was cancelled"
    );
    assert_eq!(list_cancelled_turns(&host, &session)?, Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn attach_takes_the_id_and_the_name_that_the_client_gives_itself() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (_first, session) = open_session(&host).await?;
    let second = connect_client(&host).await?;
    let info = json!({ "name": "Ann's phone", "version": "7" });
    let params = json!({ "sessionId": session, "clientId": "phone", "clientInfo": info });
    assert_eq!(second.call_method("session/attach", params).await?["clientId"], "phone");
    let third = connect_client(&host).await?;
    let joined = third.call_method("session/attach", json!({ "sessionId": session })).await?;
    let named =
        json!({ "clientId": "phone", "name": "Ann's phone", "version": "7", "role": "controller" });
    let listed = joined["connectedClients"].as_array().context("no clients")?;
    assert!(listed.contains(&named), "{listed:?}");
    second.send_prompt(&session, "echo hi").await?;
    let shown = third
        .expect_update("the prompt", |update| update["sessionUpdate"] == "prompt_received")
        .await;
    assert_eq!(shown.params()["update"]["sentBy"]["clientId"], "phone");
    Ok(())
}

#[tokio::test]
async fn cancel_that_crosses_the_end_of_its_own_turn_leaves_the_next_turn_alone() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    for _ in 0..5 {
        if cancel_crosses_end(&host).await? {
            return Ok(());
        }
    }
    anyhow::bail!("the machine is too busy: every cancel came too late")
}

/// Cancels right after the end of the own turn and checks that the next one goes on. Returns false
/// if the cancel may have come too late to count as crossing.
async fn cancel_crosses_end(host: &TestHost) -> Result<bool> {
    let (ann, session) = open_session(host).await?;
    let own = ann.start_prompt(&session, "echo running; wait; echo done").await;
    ann.expect_text("running").await;
    let bob = join_session(host, &session).await?;
    let next = submit_prompt(host, &bob, &session, "echo next; wait; echo finished").await?;
    let released = Instant::now();
    release_agent(&ann, &session).await;
    assert_eq!(stop_reason(own.wait_answer().await)?, "end_turn");
    // The next turn has been shown to her, but she cannot have read it before she pressed the key.
    ann.expect_text("next").await;
    ann.cancel_turn(&session).await;
    // The answer comes after the cancel was taken.
    ann.call_method("_wharf/queue/list", json!({ "sessionId": session })).await?;
    if released.elapsed() >= CROSSING_TIME {
        return Ok(false);
    }
    let notice = ann.expect("a notice", |frame| frame.method() == "_wharf/notice").await;
    assert_eq!(notice.params()["sessionId"], session.as_str());
    release_agent(&bob, &session).await;
    assert_eq!(
        stop_reason(next.wait_answer().await)?,
        "end_turn",
        "the next client's turn was cancelled"
    );
    assert_eq!(list_cancelled_turns(host, &session)?, Vec::<String>::new());
    Ok(true)
}

#[tokio::test]
async fn link_goes_to_the_sender_of_the_prompt_also_after_it_reconnected() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let first = connect_known_client(&host, "phone").await?;
    let session = first.new_session(&cwd(&host)?).await?;
    first.start_prompt(&session, "echo running; wait; elicit-url").await;
    first.expect_text("running").await;
    first.close().await;
    let again = connect_known_client(&host, "phone").await?;
    again.load_session(&session, &cwd(&host)?).await?;
    release_agent(&again, &session).await;
    let asked = again.expect("the link or its end", |frame| {
        frame.method() == "elicitation/create"
            || frame.chunk_text().is_some_and(|text| text.contains("cancel"))
    });
    let asked = asked.await;
    assert_eq!(asked.method(), "elicitation/create", "{}", asked.raw);
    again.send_result(asked.id(), json!({ "action": "accept" })).await;
    again
        .expect("the answer", |frame| {
            frame.chunk_text().is_some_and(|text| text.contains("accept"))
        })
        .await;
    Ok(())
}

/// A client that is known again by its id waits for the answer to a link on its next connection.
#[tokio::test]
async fn open_link_is_asked_again_when_its_sender_reconnects() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    for leaves_first in [true, false] {
        let first = connect_known_client(&host, "phone").await?;
        let session = first.new_session(&cwd(&host)?).await?;
        let other = connect_known_client(&host, "laptop").await?;
        other.call_method("session/attach", json!({ "sessionId": session })).await?;
        first.start_prompt(&session, "elicit-url").await;
        let asked = first.expect_request("elicitation/create").await;
        if leaves_first {
            first.close().await;
            other
                .expect_update("its leaving", |update| {
                    update["sessionUpdate"] == "client_disconnected"
                })
                .await;
        }
        let again = connect_known_client(&host, "phone").await?;
        again.load_session(&session, &cwd(&host)?).await?;
        if !leaves_first {
            first.close().await;
        }
        let once_more = again.expect("the link or its end", |frame| {
            frame.method() == "elicitation/create"
                || frame.chunk_text().is_some_and(|text| text.contains("failed"))
        });
        let once_more = once_more.await;
        assert_eq!(once_more.method(), "elicitation/create", "{}", once_more.raw);
        assert_eq!(once_more.params(), asked.params());
        again.send_result(once_more.id(), json!({ "action": "accept" })).await;
        again
            .expect("the answer", |frame| {
                frame.chunk_text().is_some_and(|text| text.contains("accept"))
            })
            .await;
        let told =
            |frame: &wharf_testkit::client::ReceivedFrame| frame.method() == "elicitation/create";
        assert!(
            !other.received_frames().iter().any(told),
            "a link is for the sender of the prompt alone"
        );
    }
    Ok(())
}

#[tokio::test]
async fn open_link_of_a_client_without_an_id_fails_when_it_leaves() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let first = TestClient::connect(&host.ws_url(), host.token()).await?;
    let abilities = json!({ "elicitation": { "url": {} } });
    first
        .call_method("initialize", json!({ "protocolVersion": 1, "clientCapabilities": abilities }))
        .await?;
    let session = first.new_session(&cwd(&host)?).await?;
    let other = connect_known_client(&host, "laptop").await?;
    other.load_session(&session, &cwd(&host)?).await?;
    first.start_prompt(&session, "elicit-url").await;
    first.expect_request("elicitation/create").await;
    first.close().await;
    other
        .expect("the failure", |frame| {
            frame.chunk_text().is_some_and(|text| text.contains("failed"))
        })
        .await;
    Ok(())
}

#[tokio::test]
async fn cancel_can_name_a_prompt_and_an_interrupt_always_means_the_running_turn() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (ann, session) = open_session(&host).await?;
    let running = ann.start_prompt(&session, "echo running; hang").await;
    ann.expect_text("running").await;
    let kept = submit_prompt(&host, &ann, &session, "echo kept; hang").await?;
    let named = submit_prompt(&host, &ann, &session, "echo named").await?;
    let listed = ann.call_method("_wharf/queue/list", json!({ "sessionId": session })).await?;
    let meta = json!({ "wharf": { "promptId": listed["prompts"][1]["promptId"] } });
    ann.send_notification("session/cancel", json!({ "sessionId": session, "_meta": meta }))
        .await;
    let _ = named.wait_answer().await;
    assert_eq!(
        list_cancelled_turns(&host, &session)?,
        Vec::<String>::new(),
        "only the named prompt was meant"
    );
    let http = wharf_testkit::http::RestClient::new(&host);
    // The interrupting caller has a prompt of its own in the queue: a cancel would mean that one.
    let waiting = json!({ "prompt": "echo waiting", "queue": true });
    http.post(&format!("/sessions/{session}/prompt"), &waiting).await?;
    http.post(&format!("/sessions/{session}/interrupt"), &json!({})).await?;
    assert_eq!(stop_reason(running.wait_answer().await)?, "cancelled");
    ann.expect_text("kept").await;
    ann.cancel_turn(&session).await;
    assert_eq!(stop_reason(kept.wait_answer().await)?, "cancelled");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_through_the_bridge_means_its_own_prompts_after_the_host_was_killed() -> Result<()> {
    let mut host =
        scripted_host(&["--resume"])?.without_keepers(crate::TURN_IS_CUT).start_host()?;
    let mut editor = start_editor(&host, &[])?;
    let session = editor.open_session()?;
    editor.start_prompt(&session, "echo one; hang")?;
    editor.expect("the first turn", |message| {
        wharf_testkit::agent_pipe::chunk_text(message) == "one"
    })?;
    let second = editor.start_prompt(&session, "echo two; hang")?;
    let third = editor.start_prompt(&session, "echo three")?;
    wait_until_accepted(&host, &session, "three").await?;
    host.kill()?;
    host.restart()?;
    editor.expect("the second turn", |message| {
        wharf_testkit::agent_pipe::chunk_text(message) == "two"
    })?;
    editor.send_notification("session/cancel", json!({ "sessionId": session }))?;
    let is_answer = |message: &Value| message.get("method").is_none();
    let ends = [(); 2].map(|()| {
        editor.expect("an answer", |message| {
            is_answer(message) && [second, third].map(Value::from).contains(&message["id"])
        })
    });
    for end in ends {
        let end = end?;
        assert_eq!(end["result"]["stopReason"], "cancelled", "a prompt of the editor's ran: {end}");
    }
    Ok(())
}
