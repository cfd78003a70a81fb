//! `session/attach` and `session/detach`: joining with a chosen part of the history, and
//! notifications about other clients (§4).

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::client::{CallFailure, ReceivedFrame, TestClient};
use wharf_testkit::host::TestHost;

use crate::{
    connect_client, connect_client_with, connect_observer, cwd, expect_error, join_session, log,
    open_session, prompt_for_text, scripted_host, stop_reason,
};

/// Sends `session/attach` with these parameters beside the session id.
async fn attach_session(
    client: &TestClient,
    session: &str,
    more: Value,
) -> Result<Value, CallFailure> {
    let mut params = json!({ "sessionId": session });
    if let (Some(params), Some(more)) = (params.as_object_mut(), more.as_object()) {
        params.extend(more.clone());
    }
    client.call_method("session/attach", params).await
}

/// Connects a second client and attaches it.
async fn connect_and_attach(
    host: &TestHost,
    session: &str,
    more: Value,
) -> Result<(TestClient, Value)> {
    let client = connect_client(host).await?;
    let answer = attach_session(&client, session, more).await?;
    Ok((client, answer))
}

fn list_entries(answer: &Value) -> Vec<Value> {
    answer["history"].as_array().cloned().unwrap_or_default()
}

fn list_kinds(answer: &Value) -> Vec<String> {
    list_entries(answer)
        .iter()
        .map(|entry| entry["type"].as_str().unwrap_or_default().to_owned())
        .collect()
}

fn selected_option(option: &str) -> Value {
    json!({ "outcome": { "outcome": "selected", "optionId": option } })
}

fn text_block(text: &str) -> Value {
    json!([{ "type": "text", "text": text }])
}

/// Returns the tags of the updates about other clients, in order.
fn list_client_updates(client: &TestClient) -> Vec<String> {
    let tags = [
        "prompt_received",
        "turn_complete",
        "permission_resolved",
        "client_connected",
        "client_disconnected",
    ];
    let of = |frame: &ReceivedFrame| {
        let tag = frame.update()?["sessionUpdate"].as_str()?.to_owned();
        tags.contains(&tag.as_str()).then_some(tag)
    };
    client.received_frames().iter().filter_map(of).collect()
}

/// Returns the position of the first frame that matches.
fn find_frame(client: &TestClient, fits: impl Fn(&ReceivedFrame) -> bool) -> Result<usize> {
    client.received_frames().iter().position(fits).context("no such frame")
}

#[tokio::test]
async fn the_full_history_is_typed_and_folded() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    first.choose_option("allow_once");
    let script = "think h; think m; echo one; echo two; plan; tool; plan; ask";
    first.send_prompt(&session, script).await?;
    let update =
        r#"rawupdate {"sessionUpdate":"tool_call_update","toolCallId":"tool-1","status":"failed"}"#;
    first.send_prompt(&session, update).await?;
    expect_error(first.send_prompt(&session, "error -32050").await)?;
    let frames = first.received_frames();
    let message = frames
        .iter()
        .find(|frame| frame.chunk_text() == Some("one"))
        .context("no chunk")?;
    let message = message.params()["update"]["messageId"].clone();
    let request = frames
        .iter()
        .find(|frame| frame.is_request())
        .context("no request")?
        .params()
        .clone();

    let (_second, answer) = connect_and_attach(&host, &session, json!({})).await?;
    assert_eq!(answer["historyPolicy"], "full");
    assert_eq!(answer["sessionId"], session.as_str());
    let who = answer["connectedClients"][0].clone();
    let who =
        json!({ "clientId": who["clientId"], "name": who["name"], "version": who["version"] });
    let mut history = list_entries(&answer);
    let seqs: Vec<u64> = history.iter().filter_map(|entry| entry["seq"].as_u64()).collect();
    assert_eq!(seqs.len(), history.len());
    assert!(seqs.is_sorted(), "{seqs:?}");
    for entry in &mut history {
        let entry = entry.as_object_mut().context("not an object")?;
        entry.remove("seq");
        let at = entry.remove("timestamp").context("no timestamp")?;
        assert!(at.as_str().is_some_and(|at| at.ends_with('Z')), "{at}");
    }
    let prompt =
        |content: &str| json!({ "type": "prompt", "content": text_block(content), "sentBy": who });
    let complete = |reason: &str| json!({ "type": "turn_complete", "stopReason": reason });
    let expected = [
        prompt(script),
        json!({ "type": "agent_thought", "messageId": "thought", "content": text_block("hm") }),
        json!({ "type": "agent_message", "messageId": message, "content": text_block("onetwo") }),
        json!({ "type": "plan", "entries": [{ "content": "one step", "priority": "high", "status": "in_progress" }] }),
        json!({ "type": "tool_call", "toolCallId": "tool-1", "title": "a tool", "kind": "execute", "status": "failed",
            "content": [{ "type": "diff", "path": "/a.txt", "oldText": "a\n", "newText": "b\n" }] }),
        json!({ "type": "permission_request", "toolCallId": request["toolCall"]["toolCallId"], "request": request,
            "status": "resolved", "resolvedBy": who, "chosenOptionId": "allow_once" }),
        json!({ "type": "agent_message", "messageId": message, "content": text_block("chosen: allow_once") }),
        complete("end_turn"),
        prompt(update),
        complete("end_turn"),
        prompt("error -32050"),
        complete("error"),
    ];
    assert_eq!(history, expected);
    Ok(())
}

#[tokio::test]
async fn unknown_history_policy_counts_as_full_and_the_answer_says_so() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    first.send_prompt(&session, "echo one").await?;
    for policy in [json!("everything"), json!("full"), json!(null)] {
        let (_client, answer) =
            connect_and_attach(&host, &session, json!({ "historyPolicy": policy })).await?;
        assert_eq!(answer["historyPolicy"], "full", "{policy}");
        assert_eq!(list_kinds(&answer), ["prompt", "agent_message", "turn_complete"], "{policy}");
    }
    Ok(())
}

#[tokio::test]
async fn history_pending_only_sends_open_asks_and_none_sends_nothing() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let running = first.start_prompt(&session, "echo before; ask; echo after").await;
    let asked = first.expect_request("session/request_permission").await;
    let (second, pending) =
        connect_and_attach(&host, &session, json!({ "historyPolicy": "pending_only" })).await?;
    let (third, nothing) =
        connect_and_attach(&host, &session, json!({ "historyPolicy": "none" })).await?;
    assert_eq!(nothing["historyPolicy"], "none");
    assert!(nothing.get("history").is_none(), "{nothing}");
    assert_eq!(pending["historyPolicy"], "pending_only");
    let [entry] = list_entries(&pending).try_into().map_err(|all| anyhow::anyhow!("{all:?}"))?;
    assert_eq!(
        (&entry["type"], &entry["status"]),
        (&json!("permission_request"), &json!("pending"))
    );
    assert_eq!(&entry["request"], asked.params());
    assert!(entry["seq"].is_u64() && entry["timestamp"].is_string(), "{entry}");
    // Both clients get the real permission request, after the answer.
    for client in [&second, &third] {
        let again = client.expect_request("session/request_permission").await;
        assert_eq!(again.params(), asked.params());
        let answered = find_frame(client, |frame| frame.body["result"]["clientId"].is_string())?;
        assert!(answered < find_frame(client, ReceivedFrame::is_request)?);
        assert!(client.chunk_texts().is_empty(), "the past was not asked for");
    }
    let ask = third
        .received_frames()
        .into_iter()
        .find(ReceivedFrame::is_request)
        .context("no request")?;
    third.send_result(ask.id(), selected_option("allow_once")).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    assert_eq!(second.expect_text("after").await.chunk_text(), Some("after"));
    // No ask is open any more.
    let (_fourth, pending) =
        connect_and_attach(&host, &session, json!({ "historyPolicy": "pending_only" })).await?;
    assert_eq!(pending["history"], json!([]));
    Ok(())
}

#[tokio::test]
async fn history_after_message_begins_behind_the_known_message() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    for word in ["one", "two"] {
        first.send_prompt(&session, &format!("echo {word}; echo {word}; plan")).await?;
    }
    let ids: Vec<Value> = first
        .received_frames()
        .iter()
        .filter(|frame| frame.chunk_text().is_some())
        .map(|frame| frame.params()["update"]["messageId"].clone())
        .collect();
    let of = |id: &Value| json!({ "historyPolicy": "after_message", "afterMessageId": id });
    let (_client, answer) = connect_and_attach(&host, &session, of(&ids[0])).await?;
    assert_eq!(answer["historyPolicy"], "after_message");
    assert_eq!(
        list_kinds(&answer),
        ["plan", "turn_complete", "prompt", "agent_message", "plan", "turn_complete"]
    );
    let (_client, answer) = connect_and_attach(&host, &session, of(&ids[3])).await?;
    assert_eq!(list_kinds(&answer), ["plan", "turn_complete"]);
    for unknown in [json!("nobody-said-that"), json!(null)] {
        let (_client, answer) = connect_and_attach(&host, &session, of(&unknown)).await?;
        assert_eq!(answer["historyPolicy"], "full");
        assert_eq!(list_kinds(&answer).len(), 8);
    }
    Ok(())
}

#[tokio::test]
async fn history_after_message_includes_a_prompt_that_was_queued_earlier() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let running = first.start_prompt(&session, "echo begun; wait; echo one").await;
    first.expect_text("begun").await;
    let waiting = first.start_prompt(&session, "echo two").await;
    log::expect_event(&host, &session, "prompt_accepted", |event| {
        event["frame"].to_string().contains("two")
    })
    .await?;
    first.send_notification("_go", json!({ "sessionId": session })).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    assert_eq!(stop_reason(waiting.wait_answer().await)?, "end_turn");
    let one = first
        .received_frames()
        .into_iter()
        .find(|frame| frame.chunk_text() == Some("one"))
        .context("no chunk")?;
    let id = &one.params()["update"]["messageId"];
    let after = json!({ "historyPolicy": "after_message", "afterMessageId": id });
    let (_client, answer) = connect_and_attach(&host, &session, after).await?;
    assert_eq!(list_kinds(&answer), ["turn_complete", "prompt", "agent_message", "turn_complete"]);
    assert_eq!(answer["history"][1]["content"], text_block("echo two"));
    assert_eq!(answer["history"][1]["sentBy"]["name"], "wharf-testkit");
    Ok(())
}

#[tokio::test]
async fn history_after_message_includes_the_start_of_an_earlier_tool_call() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let begun = json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "title": "Build", "kind": "execute",
        "status": "pending", "rawInput": { "command": "make" } });
    let done =
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed" });
    for script in
        [format!("rawupdate {begun}"), "echo between".to_owned(), format!("rawupdate {done}")]
    {
        first.send_prompt(&session, &script).await?;
    }
    let between = first
        .received_frames()
        .into_iter()
        .find(|frame| frame.chunk_text() == Some("between"))
        .context("no chunk")?;
    let id = &between.params()["update"]["messageId"];
    let after = json!({ "historyPolicy": "after_message", "afterMessageId": id });
    let (_client, answer) = connect_and_attach(&host, &session, after).await?;
    assert_eq!(list_kinds(&answer), ["turn_complete", "prompt", "tool_call", "turn_complete"]);
    let mut call = answer["history"][2].clone();
    for place in ["seq", "timestamp"] {
        call.as_object_mut().context("no entry")?.remove(place);
    }
    let expected = json!({ "type": "tool_call", "toolCallId": "t", "title": "Build", "kind": "execute",
        "status": "completed", "rawInput": { "command": "make" } });
    assert_eq!(call, expected);
    Ok(())
}

/// Returns the ids of the events that a client was shown.
fn event_ids(client: &TestClient) -> Vec<String> {
    let id = |frame: &ReceivedFrame| {
        frame.params()["_meta"]["wharf"]["eventId"].as_str().map(str::to_owned)
    };
    client.received_frames().iter().filter_map(id).collect()
}

#[tokio::test]
async fn history_after_event_resumes_without_gap_or_duplicate() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let wish = json!({ "wharf": { "eventIds": true } });
    let watcher = connect_client_with(&host, json!({}), wish.clone()).await?;
    attach_session(&watcher, &session, json!({ "historyPolicy": "none" })).await?;
    first.send_prompt(&session, "stream 10; plan").await?;
    watcher
        .expect_update("the plan", |update| update["sessionUpdate"] == "plan")
        .await;
    watcher.close().await;
    first.send_prompt(&session, "stream 10; echo one").await?;
    host.restart()?;
    let second = connect_client(&host).await?;
    second.send_prompt(&session, "echo two").await?;

    let last = event_ids(&watcher).pop().context("no ids")?;
    let again = connect_client_with(&host, json!({}), wish).await?;
    let after = json!({ "historyPolicy": "after_event", "afterEventId": last });
    let answer = attach_session(&again, &session, after).await?;
    assert_eq!(
        (&answer["historyPolicy"], &answer["historyDelivery"]),
        (&json!("after_event"), &json!("stream"))
    );
    assert!(answer.get("history").is_none(), "{answer}");
    second.send_prompt(&session, "echo three").await?;
    again.expect_text("three").await;
    let indices: Vec<u64> =
        again.received_frames().iter().filter_map(ReceivedFrame::chunk_index).collect();
    assert!(indices.into_iter().eq(0..10), "of the second stream only");
    assert_eq!(again.chunk_texts()[10..], ["one", "two", "three"]);
    let seq = |id: &String| id.split_once('-').and_then(|(_, seq)| seq.parse::<u64>().ok());
    let seqs: Vec<u64> =
        event_ids(&watcher).iter().chain(&event_ids(&again)).filter_map(seq).collect();
    assert!(
        seqs.is_sorted_by(|a, b| a < b),
        "nothing lost in its order, nothing doubled: {seqs:?}"
    );
    Ok(())
}

#[tokio::test]
async fn unknown_event_id_counts_as_full_history_and_the_answer_says_so() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    first.send_prompt(&session, "echo one").await?;
    let epoch = log::read_records(&host, &session)?[0]["epoch"].as_u64().context("no epoch")?;
    let ids = [
        format!("{epoch}-999"),
        format!("{}-3", epoch + 1),
        format!("{epoch}-0"),
        "x".to_owned(),
        String::new(),
    ];
    for id in ids {
        let after = json!({ "historyPolicy": "after_event", "afterEventId": id });
        let (_client, answer) = connect_and_attach(&host, &session, after).await?;
        assert_eq!(answer["historyPolicy"], "full", "{id}");
        assert_eq!(list_kinds(&answer), ["prompt", "agent_message", "turn_complete"], "{id}");
    }
    Ok(())
}

#[tokio::test]
async fn a_long_history_is_streamed_after_the_answer() -> Result<()> {
    // This is over four mebibytes of text.
    const CHUNK_COUNT: u64 = 22_000;
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    first.send_prompt(&session, &format!("burst {CHUNK_COUNT} 200")).await?;
    let (second, answer) = connect_and_attach(&host, &session, json!({})).await?;
    assert_eq!(
        (&answer["historyPolicy"], &answer["historyDelivery"]),
        (&json!("full"), &json!("stream"))
    );
    assert!(answer.get("history").is_none());
    assert!(prompt_for_text(&second, &session, "echo live").await?.ends_with("live"));
    let indices: Vec<u64> =
        second.received_frames().iter().filter_map(ReceivedFrame::chunk_index).collect();
    assert!(indices.into_iter().eq(0..CHUNK_COUNT));
    let answered = find_frame(&second, |frame| frame.body["result"]["clientId"].is_string())?;
    assert!(
        answered < find_frame(&second, |frame| frame.update().is_some())?,
        "the stream follows the answer"
    );

    let (_third, answer) =
        connect_and_attach(&host, &session, json!({ "historyDelivery": "response" })).await?;
    assert!(answer.get("historyDelivery").is_none());
    assert_eq!(list_kinds(&answer).len(), 6, "who wants it whole gets it whole");
    Ok(())
}

#[tokio::test]
async fn short_history_is_streamed_when_the_client_asks_for_it() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    first.send_prompt(&session, "echo one").await?;
    let (second, answer) =
        connect_and_attach(&host, &session, json!({ "historyDelivery": "stream" })).await?;
    assert_eq!(
        (&answer["historyPolicy"], &answer["historyDelivery"]),
        (&json!("full"), &json!("stream"))
    );
    second.expect_text("one").await;
    first.send_prompt(&session, "echo two").await?;
    second.expect_text("two").await;
    assert_eq!(second.chunk_texts(), ["one", "two"]);
    Ok(())
}

#[tokio::test]
async fn the_answer_lists_the_others_and_not_the_caller() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (_first, session) = open_session(&host).await?;
    let looker = connect_observer(&host).await?;
    attach_session(&looker, &session, json!({})).await?;
    let (third, answer) = connect_and_attach(&host, &session, json!({})).await?;
    let others = answer["connectedClients"].as_array().context("no list")?.clone();
    let mut roles: Vec<&str> = others.iter().filter_map(|other| other["role"].as_str()).collect();
    roles.sort_unstable();
    assert_eq!(roles, ["controller", "observer"]);
    let own = answer["clientId"].as_str().context("no id")?;
    assert!(
        others
            .iter()
            .all(|other| other["clientId"] != own && other["name"] == "wharf-testkit"),
        "{others:?}"
    );
    // Attaching again replaces the attachment.
    let again = attach_session(&third, &session, json!({ "historyPolicy": "none" })).await?;
    assert_eq!(again["connectedClients"].as_array().map(Vec::len), Some(2));
    assert_eq!(prompt_for_text(&third, &session, "echo once").await?, "once");
    Ok(())
}

#[tokio::test]
async fn clients_that_attached_or_subscribed_are_notified_of_other_clients() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (plain, session) = open_session(&host).await?;
    let (attached, _) =
        connect_and_attach(&host, &session, json!({ "historyPolicy": "none" })).await?;
    let wish = json!({ "wharf": { "multiClientUpdates": true } });
    let wishing = connect_client_with(&host, json!({}), wish).await?;
    wishing.load_session(&session, &cwd(&host)?).await?;
    let prompter = connect_client(&host).await?;
    prompter.load_session(&session, &cwd(&host)?).await?;
    attached
        .expect_update("wishing", |update| update["sessionUpdate"] == "client_connected")
        .await;

    let running = prompter.start_prompt(&session, "ask; echo done").await;
    let ask = plain.expect_request("session/request_permission").await;
    plain.send_result(ask.id(), selected_option("allow_once")).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    prompter.close().await;
    for client in [&attached, &wishing] {
        let tags = [
            "client_connected",
            "prompt_received",
            "permission_resolved",
            "turn_complete",
            "client_disconnected",
        ];
        let mut seen = Vec::new();
        for tag in tags {
            seen.push(client.expect_update(tag, |update| update["sessionUpdate"] == tag).await);
        }
        let updates: Vec<&Value> = seen.iter().filter_map(ReceivedFrame::update).collect();
        assert!(
            updates.iter().all(|update| update["type"] == update["sessionUpdate"]),
            "tagged twice"
        );
        let [connected, received, resolved, complete, gone] = updates[..] else {
            anyhow::bail!("{updates:?}")
        };
        assert_eq!(received["prompt"], text_block("ask; echo done"));
        assert_eq!(received["sentBy"], gone["client"]);
        assert_eq!(connected["client"], gone["client"]);
        assert!(connected["timestamp"].is_string() && gone["timestamp"].is_string());
        assert_eq!(resolved["chosenOptionId"], "allow_once");
        assert_eq!(resolved["toolCallId"], ask.params()["toolCall"]["toolCallId"]);
        assert_ne!(resolved["resolvedBy"], received["sentBy"]);
        assert_eq!(complete["stopReason"], "end_turn");
        let is_user = |frame: &ReceivedFrame| {
            frame
                .update()
                .is_some_and(|update| update["sessionUpdate"] == "user_message_chunk")
        };
        assert!(!client.received_frames().iter().any(is_user), "not told twice in different words");
        let received = find_frame(client, |frame| {
            frame.update().is_some_and(|u| u["type"] == "prompt_received")
        })?;
        assert!(
            received < find_frame(client, ReceivedFrame::is_request)?,
            "before the agent starts"
        );
    }
    for client in [&plain, &prompter] {
        assert_eq!(list_client_updates(client), [""; 0]);
    }
    let users = plain
        .received_frames()
        .iter()
        .filter_map(ReceivedFrame::update)
        .filter(|u| u["sessionUpdate"] == "user_message_chunk")
        .count();
    assert_eq!(users, 1, "plain clients get the standard update");
    Ok(())
}

#[tokio::test]
async fn client_is_not_notified_of_its_own_actions() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (_first, session) = open_session(&host).await?;
    let (second, _) = connect_and_attach(&host, &session, json!({})).await?;
    assert_eq!(prompt_for_text(&second, &session, "echo mine").await?, "mine");
    assert_eq!(list_client_updates(&second), [""; 0]);
    Ok(())
}

#[tokio::test]
async fn prompt_that_never_ran_is_not_reported_as_a_completed_turn() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let (watcher, _) = connect_and_attach(&host, &session, json!({})).await?;
    let running = first
        .start_prompt(&session, "echo running; wait; user my words; echo done")
        .await;
    watcher.expect_text("running").await;
    let waiting = first.start_prompt(&session, "echo never").await;
    log::expect_event(&host, &session, "prompt_accepted", |event| {
        event["frame"].to_string().contains("never")
    })
    .await?;
    first
        .send_notification("$/cancel_request", json!({ "requestId": waiting.id }))
        .await;
    expect_error(waiting.wait_answer().await)?;
    first.send_notification("_go", json!({ "sessionId": session })).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    watcher
        .expect_update("the end", |update| update["type"] == "turn_complete")
        .await;
    assert_eq!(list_client_updates(&watcher), ["prompt_received", "turn_complete"]);
    let echoes = watcher
        .received_frames()
        .iter()
        .filter(|frame| frame.raw.contains("my words\"}"))
        .count();
    assert_eq!(
        echoes, 0,
        "the echo of a prompt stays its sender's, whatever becomes of other prompts"
    );
    let (_late, answer) = connect_and_attach(&host, &session, json!({})).await?;
    assert_eq!(list_kinds(&answer), ["prompt", "agent_message", "turn_complete"]);
    Ok(())
}

#[tokio::test]
async fn detached_client_receives_no_more_updates_and_the_session_goes_on() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let (second, _) = connect_and_attach(&host, &session, json!({})).await?;
    let left = second.call_method("session/detach", json!({ "sessionId": session })).await?;
    assert_eq!(left, json!({ "sessionId": session, "status": "detached" }));
    assert_eq!(prompt_for_text(&first, &session, "echo alone").await?, "alone");
    let error =
        expect_error(second.call_method("session/detach", json!({ "sessionId": session })).await)?;
    assert_eq!((error.code, &error.data["sessionId"]), (-32001, &json!(session)));
    let answer = attach_session(&second, &session, json!({})).await?;
    assert_eq!(list_kinds(&answer), ["prompt", "agent_message", "turn_complete"]);
    assert!(second.chunk_texts().is_empty());
    assert_eq!(prompt_for_text(&second, &session, "echo back").await?, "back");
    Ok(())
}

#[tokio::test]
async fn attach_and_detach_of_an_unknown_session_are_not_found() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let client = connect_client(&host).await?;
    for id in ["sess_00000000000000000000000000", "../../token", ""] {
        for method in ["session/attach", "session/detach"] {
            let error = expect_error(client.call_method(method, json!({ "sessionId": id })).await)?;
            assert_eq!((error.code, &error.data["sessionId"]), (-32001, &json!(id)), "{method}");
        }
    }
    let error = expect_error(client.call_method("session/attach", json!({})).await)?;
    assert_eq!(error.code, -32602, "this connection is bound to no session: {error}");
    Ok(())
}

#[tokio::test]
async fn observers_see_everything_and_change_nothing() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let (by_wish, _) = connect_and_attach(&host, &session, json!({ "role": "observer" })).await?;
    let by_token = connect_observer(&host).await?;
    attach_session(&by_token, &session, json!({ "role": "controller" })).await?;
    let running = first.start_prompt(&session, "echo on it; ask").await;
    let ask = first.expect_request("session/request_permission").await;
    let _waiting = first.start_prompt(&session, "echo next").await;
    log::expect_event(&host, &session, "prompt_accepted", |event| {
        event["frame"].to_string().contains("next")
    })
    .await?;
    for observer in [&by_wish, &by_token] {
        observer.expect_text("on it").await;
        let queue = observer
            .call_method("_wharf/queue/list", json!({ "sessionId": session }))
            .await?;
        let prompt = queue["prompts"][0]["promptId"].clone();
        let forbidden = [
            ("session/prompt", json!({ "sessionId": session, "prompt": text_block("echo no") })),
            ("session/set_mode", json!({ "sessionId": session, "modeId": "auto" })),
            ("session/close", json!({ "sessionId": session })),
            ("_wharf/queue/remove", json!({ "sessionId": session, "promptId": prompt })),
            ("_echo", json!({ "sessionId": session })),
        ];
        for (method, params) in forbidden {
            let error = expect_error(observer.call_method(method, params).await)?;
            assert_eq!(error.code, -32011, "{method}: {error}");
        }
        observer.cancel_turn(&session).await;
    }
    for method in ["session/new", "session/delete"] {
        let error = expect_error(
            by_token
                .call_method(method, json!({ "sessionId": session, "cwd": "/", "mcpServers": [] }))
                .await,
        )?;
        assert_eq!(error.code, -32011, "{method}: {error}");
    }
    first.send_result(ask.id(), selected_option("reject_once")).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    for observer in [&by_wish, &by_token] {
        observer.expect_text("chosen: reject_once").await;
        observer.expect_text("next").await;
        assert!(
            !observer.received_frames().iter().any(ReceivedFrame::is_request),
            "an observer is not asked"
        );
    }
    assert!(log::list_events(&host, &session, "cancel_requested")?.is_empty());
    Ok(())
}

#[tokio::test]
async fn unknown_role_is_kept_as_a_label() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (_first, session) = open_session(&host).await?;
    let (second, _) = connect_and_attach(&host, &session, json!({ "role": "reviewer" })).await?;
    assert_eq!(prompt_for_text(&second, &session, "echo may").await?, "may");
    Ok(())
}

#[tokio::test]
async fn prompt_is_answered_when_its_client_attaches_again_meanwhile() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    for policy in ["full", "none", "pending_only"].into_iter().cycle().take(60) {
        let running = client.start_prompt(&session, "echo quick").await;
        let attaching = client
            .start_request(
                "session/attach",
                json!({ "sessionId": session, "historyPolicy": policy }),
            )
            .await;
        assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
        attaching.wait_answer().await?;
    }
    Ok(())
}

#[tokio::test]
async fn prompt_is_answered_when_its_client_detaches_meanwhile() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let second = join_session(&host, &session).await?;
    let running = second.start_prompt(&session, "echo begun; wait").await;
    first.expect_text("begun").await;
    second.call_method("session/detach", json!({ "sessionId": session })).await?;
    first.send_notification("_go", json!({ "sessionId": session })).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    Ok(())
}

#[tokio::test]
async fn prompt_is_answered_when_its_session_is_closed_or_deleted() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    for method in ["session/close", "session/delete"].into_iter().cycle().take(10) {
        let (client, session) = open_session(&host).await?;
        let running = client.start_prompt(&session, "echo begun; hang").await;
        client.expect_text("begun").await;
        client.call_method(method, json!({ "sessionId": session })).await?;
        let error = expect_error(running.wait_answer().await)?;
        assert_eq!(error.data["reason"], "session_ended", "{method}: {error}");
    }
    Ok(())
}

#[tokio::test]
async fn each_of_many_simultaneous_attaches_is_answered() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    first.send_prompt(&session, "burst 5000").await?;
    let second = connect_client(&host).await?;
    let load = json!({ "sessionId": session, "cwd": cwd(&host)?, "mcpServers": [] });
    let mut calls = Vec::new();
    for method in
        ["session/load", "session/load", "session/resume", "session/attach", "session/load"]
    {
        calls.push(second.start_request(method, load.clone()).await);
    }
    for call in calls {
        call.wait_answer().await?;
    }
    assert!(prompt_for_text(&second, &session, "echo on").await?.ends_with("on"));
    Ok(())
}
