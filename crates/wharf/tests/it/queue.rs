//! Shared control of the queue, agents that queue by themselves, and prompts that are submitted
//! twice (§7).

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::client::{PendingCall, ReceivedFrame, TestClient};
use wharf_testkit::host::TestHost;

use crate::{
    add_section, connect_client, cwd, expect_error, join_session, log, open_session,
    prompt_for_text, scripted_host, stop_reason,
};

fn text_block(text: &str) -> Value {
    json!([{ "type": "text", "text": text }])
}

/// Creates a session with a turn that runs until `_go`.
async fn create_busy_session(host: &TestHost) -> Result<(TestClient, String, PendingCall)> {
    let (client, session) = open_session(host).await?;
    let running = client.start_prompt(&session, "echo running; wait; echo done").await;
    client.expect_text("running").await;
    Ok((client, session, running))
}

/// Submits a prompt and waits until it is in the queue.
async fn submit_and_wait_queued(
    host: &TestHost,
    client: &TestClient,
    session: &str,
    words: &str,
) -> Result<PendingCall> {
    let call = client.start_prompt(session, words).await;
    log::expect_event(host, session, "prompt_accepted", |event| {
        event["frame"].to_string().contains(words)
    })
    .await?;
    Ok(call)
}

async fn list_queue(client: &TestClient, session: &str) -> Result<Vec<Value>> {
    let queue = client.call_method("_wharf/queue/list", json!({ "sessionId": session })).await?;
    Ok(queue["prompts"].as_array().context("no prompts")?.clone())
}

fn list_prompt_words(queue: &[Value]) -> Vec<&str> {
    queue.iter().filter_map(|queued| queued["prompt"][0]["text"].as_str()).collect()
}

async fn release_agent(client: &TestClient, session: &str) {
    client.send_notification("_go", json!({ "sessionId": session })).await;
}

#[tokio::test]
async fn the_queue_is_listed_changed_and_run_in_its_new_order() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session, running) = create_busy_session(&host).await?;
    let second = join_session(&host, &session).await?;
    let mut calls = Vec::new();
    for word in ["echo a", "echo b", "echo c", "echo z"] {
        calls.push(submit_and_wait_queued(&host, &first, &session, word).await?);
    }
    let before = list_queue(&second, &session).await?;
    assert_eq!(list_prompt_words(&before), ["echo a", "echo b", "echo c", "echo z"]);
    for (position, queued) in before.iter().enumerate() {
        assert_eq!(queued["position"], position);
        assert_eq!(queued["sentBy"]["name"], "wharf-testkit");
        assert!(queued["acceptedAt"].as_str().is_some_and(|at| at.ends_with('Z')), "{queued}");
    }
    let id = |place: usize| before[place]["promptId"].clone();

    // Another client than their sender removes them.
    second
        .call_method("_wharf/queue/remove", json!({ "sessionId": session, "promptId": id(1) }))
        .await?;
    let update = json!({ "sessionId": session, "promptId": id(2), "prompt": text_block("echo C") });
    second.call_method("_wharf/queue/update", update).await?;
    second
        .call_method(
            "_wharf/queue/move",
            json!({ "sessionId": session, "promptId": id(3), "position": 0 }),
        )
        .await?;
    assert_eq!(
        list_prompt_words(&list_queue(&first, &session).await?),
        ["echo z", "echo a", "echo C"]
    );
    // A position beyond the end means the end.
    second
        .call_method(
            "_wharf/queue/move",
            json!({ "sessionId": session, "promptId": id(3), "position": 99 }),
        )
        .await?;
    assert_eq!(
        list_prompt_words(&list_queue(&first, &session).await?),
        ["echo a", "echo C", "echo z"]
    );

    release_agent(&first, &session).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    for (place, call) in calls.into_iter().enumerate() {
        if place == 1 {
            assert_eq!(expect_error(call.wait_answer().await)?.data["reason"], "removed");
        } else {
            assert_eq!(stop_reason(call.wait_answer().await)?, "end_turn");
        }
    }
    assert_eq!(first.chunk_texts(), ["running", "done", "a", "C", "z"]);
    second.expect_text("z").await;
    let shown: Vec<String> = second
        .received_frames()
        .iter()
        .filter_map(ReceivedFrame::update)
        .filter(|update| update["sessionUpdate"] == "user_message_chunk")
        .map(|update| update["content"]["text"].as_str().unwrap_or_default().to_owned())
        .collect();
    // The editor of a prompt sees it too, since the prompt still belongs to its sender.
    assert_eq!(shown, ["echo running; wait; echo done", "echo a", "echo C", "echo z"]);
    Ok(())
}

#[tokio::test]
async fn queue_changes_are_shown_and_an_edited_prompt_keeps_its_sender() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (ann, session, running) = create_busy_session(&host).await?;
    let bob = connect_client(&host).await?;
    let info = json!({ "name": "bob" });
    let params = json!({ "sessionId": session, "clientId": "bob", "clientInfo": info, "historyPolicy": "none" });
    bob.call_method("session/attach", params).await?;
    let cat = connect_client(&host).await?;
    cat.call_method("session/attach", json!({ "sessionId": session, "historyPolicy": "none" }))
        .await?;
    let waiting = submit_and_wait_queued(&host, &ann, &session, "echo a").await?;
    let changed = |total: usize| {
        move |update: &Value| update["sessionUpdate"] == "queue_changed" && update["total"] == total
    };
    let shown = cat.expect_update("the prompt in the queue", changed(1)).await;
    let entry = shown.params()["update"]["prompts"][0].clone();
    assert_eq!((&entry["position"], &entry["preview"]), (&json!(0), &json!("echo a")));
    assert_eq!((&entry["sentBy"]["name"], entry.get("editedBy")), (&json!("wharf-testkit"), None));
    let update = json!({ "sessionId": session, "promptId": entry["promptId"], "prompt": text_block("echo B") });
    bob.call_method("_wharf/queue/update", update).await?;
    let edited = |update: &Value| update["prompts"][0]["preview"] == "echo B";
    let shown = cat.expect_update("the edited prompt", edited).await;
    let entry = &shown.params()["update"]["prompts"][0];
    assert_eq!(entry["sentBy"]["name"], "wharf-testkit", "the editor was taken for the sender");
    assert_eq!(entry["editedBy"]["clientId"], "bob");
    release_agent(&ann, &session).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    let begun = |update: &Value| {
        update["sessionUpdate"] == "prompt_received" && update["prompt"] == text_block("echo B")
    };
    let begun = cat.expect_update("its turn", begun).await;
    assert_eq!(
        begun.params()["update"]["sentBy"]["name"],
        "wharf-testkit",
        "the editor was taken for the sender"
    );
    assert_eq!(stop_reason(waiting.wait_answer().await)?, "end_turn");
    assert!(
        !ann.received_frames().iter().any(|frame| frame.raw.contains("queue_changed")),
        "it did not ask for that"
    );
    Ok(())
}

#[tokio::test]
async fn a_prompt_that_has_started_cannot_be_changed_any_more() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session, running) = create_busy_session(&host).await?;
    let started = log::expect_event(&host, &session, "turn_started", |_| true).await?;
    let id = started["prompt"].clone();
    let calls = |id: &Value| {
        [
            ("_wharf/queue/remove", json!({ "sessionId": session, "promptId": id })),
            (
                "_wharf/queue/update",
                json!({ "sessionId": session, "promptId": id, "prompt": text_block("echo x") }),
            ),
            ("_wharf/queue/move", json!({ "sessionId": session, "promptId": id, "position": 0 })),
        ]
    };
    for (method, params) in calls(&id) {
        let error = expect_error(first.call_method(method, params).await)?;
        assert_eq!(
            (error.code, &error.data["reason"]),
            (-32602, &json!("already_started")),
            "{method}: {error}"
        );
    }
    for (method, params) in calls(&json!("nobody-sent-this")) {
        let error = expect_error(first.call_method(method, params).await)?;
        assert_eq!(
            (error.code, &error.data["reason"]),
            (-32602, &json!("unknown_prompt")),
            "{method}: {error}"
        );
    }
    for method in
        ["_wharf/queue/remove", "_wharf/queue/update", "_wharf/queue/move", "_wharf/queue/list"]
    {
        let error = expect_error(first.call_method(method, json!({})).await)?;
        assert_eq!(error.code, -32602, "{method}: {error}");
    }
    let error = expect_error(
        first.call_method("_wharf/queue/shuffle", json!({ "sessionId": session })).await,
    )?;
    assert_eq!(error.code, -32601, "{error}");
    release_agent(&first, &session).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    Ok(())
}

#[tokio::test]
async fn a_cancel_request_means_the_request_of_its_own_connection() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session, running) = create_busy_session(&host).await?;
    let second = join_session(&host, &session).await?;
    let waiting = submit_and_wait_queued(&host, &first, &session, "echo mine").await?;
    // On another connection the same id names another request or none.
    second
        .send_notification("$/cancel_request", json!({ "requestId": waiting.id }))
        .await;
    assert_eq!(list_prompt_words(&list_queue(&second, &session).await?), ["echo mine"]);
    first
        .send_notification("$/cancel_request", json!({ "requestId": running.id }))
        .await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "cancelled");
    assert_eq!(stop_reason(waiting.wait_answer().await)?, "end_turn");
    Ok(())
}

#[tokio::test]
async fn a_cancel_can_clear_the_queue_of_everyone() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session, running) = create_busy_session(&host).await?;
    let second = join_session(&host, &session).await?;
    let own = submit_and_wait_queued(&host, &first, &session, "echo own").await?;
    let other = submit_and_wait_queued(&host, &second, &session, "echo other").await?;
    let clear = json!({ "sessionId": session, "_meta": { "wharf": { "queue": "clear" } } });
    first.send_notification("session/cancel", clear).await;
    for call in [running, own, other] {
        assert_eq!(stop_reason(call.wait_answer().await)?, "cancelled");
    }
    assert_eq!(first.chunk_texts(), ["running"]);
    Ok(())
}

/// Returns the order in which turns began and ended.
fn list_turn_events(host: &TestHost, session: &str) -> Result<Vec<String>> {
    let records = log::read_records(host, session)?;
    let kinds = records.iter().filter_map(|record| record["event"]["kind"].as_str());
    Ok(kinds
        .filter(|kind| ["turn_started", "prompt_ended"].contains(kind))
        .map(str::to_owned)
        .collect())
}

const OVERLAPPING_TURNS: [&str; 4] =
    ["turn_started", "turn_started", "prompt_ended", "prompt_ended"];
const SEQUENTIAL_TURNS: [&str; 4] =
    ["turn_started", "prompt_ended", "turn_started", "prompt_ended"];

#[tokio::test]
async fn an_agent_that_queues_by_itself_gets_the_prompt_at_once_where_that_is_set() -> Result<()> {
    let host =
        add_section(scripted_host(&["--native-queue"])?, "queue = \"agent\"").start_host()?;
    let (first, session, running) = create_busy_session(&host).await?;
    let second = join_session(&host, &session).await?;
    let other = second.send_prompt(&session, "echo two").await?;
    assert_eq!(other["stopReason"], "end_turn");
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn", "the earlier one ends early");
    first.expect_text("two").await;
    assert_eq!(first.chunk_texts(), ["running", "two"]);
    assert_eq!(list_turn_events(&host, &session)?, OVERLAPPING_TURNS);
    // Without a running turn it is an ordinary prompt.
    assert_eq!(prompt_for_text(&first, &session, "echo three").await?, "three");
    Ok(())
}

#[tokio::test]
async fn prompt_is_passed_to_a_busy_agent_when_it_asks_for_it() -> Result<()> {
    let to_agent = |session: &str| {
        let meta = json!({ "wharf": { "delivery": "agent" } });
        json!({ "sessionId": session, "prompt": text_block("echo two"), "_meta": meta })
    };
    // The prompt asks for it and the agent supports it: the prompt is passed on.
    let host = scripted_host(&["--native-queue"])?.start_host()?;
    let (first, session, running) = create_busy_session(&host).await?;
    assert_eq!(
        stop_reason(first.call_method("session/prompt", to_agent(&session)).await)?,
        "end_turn"
    );
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    assert_eq!(list_turn_events(&host, &session)?, OVERLAPPING_TURNS);

    // Neither prompt nor setting asks for it: the prompt is queued in the host.
    let (first, session, running) = create_busy_session(&host).await?;
    let waiting = submit_and_wait_queued(&host, &first, &session, "echo two").await?;
    release_agent(&first, &session).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    assert_eq!(stop_reason(waiting.wait_answer().await)?, "end_turn");
    assert_eq!(first.chunk_texts(), ["running", "done", "two"]);
    assert_eq!(list_turn_events(&host, &session)?, SEQUENTIAL_TURNS);

    // The setting asks for it but the agent does not support it: the prompt is queued in the host.
    let host = add_section(scripted_host(&[])?, "queue = \"agent\"").start_host()?;
    let (first, session, running) = create_busy_session(&host).await?;
    let waiting = first.start_request("session/prompt", to_agent(&session)).await;
    log::expect_event(&host, &session, "prompt_accepted", |event| {
        event["frame"].to_string().contains("echo two")
    })
    .await?;
    release_agent(&first, &session).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    assert_eq!(stop_reason(waiting.wait_answer().await)?, "end_turn");
    assert_eq!(list_turn_events(&host, &session)?, SEQUENTIAL_TURNS);
    Ok(())
}

/// Submits a prompt with an idempotency key.
async fn submit_with_key(
    client: &TestClient,
    session: &str,
    key: &str,
    words: &str,
) -> PendingCall {
    let meta = json!({ "wharf": { "idempotencyKey": key } });
    client
        .start_request(
            "session/prompt",
            json!({ "sessionId": session, "prompt": text_block(words), "_meta": meta }),
        )
        .await
}

fn wait_until_accepted(host: &TestHost, session: &str) -> Result<usize> {
    Ok(log::list_events(host, session, "prompt_accepted")?.len())
}

#[tokio::test]
async fn a_prompt_that_is_submitted_again_while_it_runs_runs_once_and_answers_all() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let running = submit_with_key(&first, &session, "k1", "echo once; wait; stop max_tokens").await;
    first.expect_text("once").await;
    let again = submit_with_key(&first, &session, "k1", "echo once; wait; stop max_tokens").await;
    let second = connect_client(&host).await?;
    let elsewhere =
        submit_with_key(&second, &session, "k1", "echo once; wait; stop max_tokens").await;
    // Each prompt has been accepted when a later request of its connection is answered.
    first.call_method("_wharf/queue/list", json!({ "sessionId": session })).await?;
    second.call_method("_wharf/queue/list", json!({ "sessionId": session })).await?;
    release_agent(&first, &session).await;
    for call in [running, again, elsewhere] {
        assert_eq!(stop_reason(call.wait_answer().await)?, "max_tokens");
    }
    assert_eq!(first.chunk_texts(), ["once"]);
    assert_eq!(wait_until_accepted(&host, &session)?, 1);
    Ok(())
}

#[tokio::test]
async fn a_key_that_stands_for_another_prompt_or_is_too_long_is_refused() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let longest = "k".repeat(256);
    assert_eq!(
        stop_reason(
            submit_with_key(&first, &session, &longest, "echo once")
                .await
                .wait_answer()
                .await
        )?,
        "end_turn"
    );
    for (key, reason) in [
        (format!("{longest}k"), "invalid_idempotency_key"),
        (String::new(), "invalid_idempotency_key"),
        (longest, "idempotency_key_reused"),
    ] {
        let refusal = expect_error(
            submit_with_key(&first, &session, &key, "echo no").await.wait_answer().await,
        )?;
        assert_eq!((refusal.code, &refusal.data["reason"]), (-32602, &json!(reason)));
    }
    assert_eq!(
        (first.chunk_texts(), wait_until_accepted(&host, &session)?),
        (vec!["once".to_owned()], 1)
    );
    Ok(())
}

#[tokio::test]
async fn a_prompt_that_is_submitted_again_while_it_waits_keeps_its_place() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session, running) = create_busy_session(&host).await?;
    let waiting = submit_with_key(&first, &session, "k1", "echo a").await;
    let behind = submit_and_wait_queued(&host, &first, &session, "echo b").await?;
    let again = submit_with_key(&first, &session, "k1", "echo a").await;
    assert_eq!(list_prompt_words(&list_queue(&first, &session).await?), ["echo a", "echo b"]);
    release_agent(&first, &session).await;
    for call in [running, waiting, behind, again] {
        assert_eq!(stop_reason(call.wait_answer().await)?, "end_turn");
    }
    assert_eq!(first.chunk_texts(), ["running", "done", "a", "b"]);
    Ok(())
}

#[tokio::test]
async fn a_prompt_that_is_submitted_again_after_its_end_gets_the_same_answer_across_restarts()
-> Result<()> {
    let mut host = scripted_host(&[])?.without_keepers(crate::TURN_IS_CUT).start_host()?;
    let (first, session) = open_session(&host).await?;
    let answer = submit_with_key(&first, &session, "good", "echo once; stop refusal")
        .await
        .wait_answer()
        .await?;
    let error = expect_error(
        submit_with_key(&first, &session, "bad", "error -32077")
            .await
            .wait_answer()
            .await,
    )?;
    let removed = submit_with_key(&first, &session, "cut", "echo cut; hang").await;
    first.expect_text("cut").await;
    assert_eq!(
        submit_with_key(&first, &session, "good", "echo once; stop refusal")
            .await
            .wait_answer()
            .await?,
        answer
    );
    host.restart()?;
    drop(removed);
    let second = connect_client(&host).await?;
    let starts = log::list_events(&host, &session, "agent_starting")?.len();
    assert_eq!(
        submit_with_key(&second, &session, "good", "echo once; stop refusal")
            .await
            .wait_answer()
            .await?,
        answer
    );
    assert_eq!(
        expect_error(
            submit_with_key(&second, &session, "bad", "error -32077")
                .await
                .wait_answer()
                .await
        )?,
        error
    );
    let cut = expect_error(
        submit_with_key(&second, &session, "cut", "echo cut; hang")
            .await
            .wait_answer()
            .await,
    )?;
    assert_eq!(
        cut.data["reason"], "host_restarted",
        "a turn that was cut off has had its end: {cut}"
    );
    assert_eq!(wait_until_accepted(&host, &session)?, 3);
    assert_eq!(
        log::list_events(&host, &session, "agent_starting")?.len(),
        starts,
        "nothing is started to say it again"
    );
    // Another session has keys of its own.
    let other = second.new_session(&cwd(&host)?).await?;
    assert_eq!(
        stop_reason(
            submit_with_key(&second, &other, "good", "echo new").await.wait_answer().await
        )?,
        "end_turn"
    );
    Ok(())
}

#[tokio::test]
async fn prompt_queued_through_a_restart_answers_its_resubmission() -> Result<()> {
    let mut host = scripted_host(&[])?.without_keepers(crate::TURN_IS_CUT).start_host()?;
    let (first, session, _running) = create_busy_session(&host).await?;
    let _waiting = submit_with_key(&first, &session, "k1", "ask; echo once").await;
    log::expect_event(&host, &session, "prompt_accepted", |event| event["key"] == "k1").await?;
    host.restart()?;
    let second = connect_client(&host).await?;
    second.choose_option("allow_once");
    let again = submit_with_key(&second, &session, "k1", "ask; echo once").await;
    assert_eq!(stop_reason(again.wait_answer().await)?, "end_turn");
    second.expect_text("once").await;
    assert_eq!(wait_until_accepted(&host, &session)?, 2);
    Ok(())
}
