//! Several clients on one session: the same events in the same order, and one answer to each ask.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::client::{ReceivedFrame, TestClient};

use crate::{join_session, log, open_session, prompt_for_text, scripted_host, stop_reason};

fn select_option(option: &str) -> Value {
    json!({ "outcome": { "outcome": "selected", "optionId": option } })
}

/// Returns the updates that a client received, unchanged.
fn list_updates(client: &TestClient) -> Vec<String> {
    client
        .received_frames()
        .into_iter()
        .filter(|frame| frame.update().is_some())
        .map(|frame| frame.raw)
        .collect()
}

async fn expect_permission(client: &TestClient) -> ReceivedFrame {
    client.expect_request("session/request_permission").await
}

#[tokio::test]
async fn two_clients_see_the_same_updates_in_the_same_order() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    first
        .send_prompt(&session, "think hm; plan; echo one; title A title; usage; unknown-update")
        .await?;
    let second = join_session(&host, &session).await?;
    let replayed = list_updates(&second);
    assert_eq!(
        replayed[1..],
        list_updates(&first),
        "after the prompt comes exactly what the first client saw"
    );
    assert!(
        replayed[0].contains("user_message_chunk") && replayed[0].contains("think hm"),
        "{}",
        replayed[0]
    );

    let (before, heard) = (list_updates(&first).len(), list_updates(&second).len());
    first.send_prompt(&session, "stream 500; tool; echo two").await?;
    second.expect_text("two").await;
    assert_eq!(list_updates(&first)[before..], list_updates(&second)[heard + 1..]);
    Ok(())
}

#[tokio::test]
async fn a_prompt_of_another_client_appears_as_a_user_message() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let second = join_session(&host, &session).await?;
    let blocks = json!([{ "type": "text", "text": "echo" }, { "type": "text", "text": " hi \u{e9}", "x": 1.50 }]);
    second
        .call_method("session/prompt", json!({ "sessionId": session, "prompt": blocks }))
        .await?;
    first.expect_text("hi \u{e9}").await;
    let shown = first.received_frames();
    let users: Vec<&Value> = shown
        .iter()
        .filter_map(ReceivedFrame::update)
        .filter(|u| u["sessionUpdate"] == "user_message_chunk")
        .collect();
    assert_eq!(
        users.iter().map(|update| &update["content"]).collect::<Vec<_>>(),
        [&blocks[0], &blocks[1]]
    );
    let place = |frame: &&ReceivedFrame| frame.chunk_text().is_none();
    assert_eq!(
        shown.iter().filter(|frame| frame.update().is_some()).take_while(place).count(),
        2,
        "before the answer"
    );
    assert!(
        !list_updates(&second).iter().any(|raw| raw.contains("user_message_chunk")),
        "its sender knows its own prompt"
    );
    Ok(())
}

#[tokio::test]
async fn the_agents_echo_of_a_prompt_goes_to_its_sender_only() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let second = join_session(&host, &session).await?;
    first.send_prompt(&session, "user my own words; echo done").await?;
    second.expect_text("done").await;
    let has_echo = |client: &TestClient| {
        list_updates(client)
            .iter()
            .filter(|raw| raw.contains("\"my own words\""))
            .count()
    };
    assert_eq!((has_echo(&first), has_echo(&second)), (1, 0));
    let third = join_session(&host, &session).await?;
    assert_eq!(has_echo(&third), 0, "nor is it replayed");
    Ok(())
}

#[tokio::test]
async fn the_first_answer_to_a_permission_wins_and_the_other_copy_is_withdrawn() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let second = join_session(&host, &session).await?;
    // Earlier asks give the two connections different request ids.
    let own = prompt_for_text(&first, &session, "echo warm").await?;
    assert_eq!(own, "warm");
    let running = first.start_prompt(&session, "ask").await;
    let (to_first, to_second) = (expect_permission(&first).await, expect_permission(&second).await);
    assert_eq!(to_first.params(), to_second.params());
    assert_eq!(to_first.params()["sessionId"], session.as_str());
    second.send_result(to_second.id(), select_option("allow_always")).await;
    let withdrawn = first.expect_notification("$/cancel_request").await;
    assert_eq!(&withdrawn.params()["requestId"], to_first.id());
    first.send_result(to_first.id(), select_option("reject_once")).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    assert_eq!(first.chunk_texts().last().map(String::as_str), Some("chosen: allow_always"));
    assert!(
        !second
            .received_frames()
            .iter()
            .any(|frame| frame.method() == "$/cancel_request"),
        "its own answer won"
    );
    let resolved = log::list_events(&host, &session, "ask_resolved")?;
    assert_eq!(resolved.len(), 1, "the late answer left no trace");
    assert_eq!(resolved[0]["by"]["name"], "wharf-testkit");
    Ok(())
}

#[tokio::test]
async fn two_permissions_at_once_are_answered_by_different_clients() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let second = join_session(&host, &session).await?;
    let running = first.start_prompt(&session, "ask2").await;
    let (_, right) = (expect_permission(&first).await, expect_permission(&first).await);
    let (left, _) = (expect_permission(&second).await, expect_permission(&second).await);
    first.send_result(right.id(), select_option("reject_once")).await;
    second.send_result(left.id(), select_option("allow_once")).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    assert_eq!(first.chunk_texts(), ["left chosen: allow_once", "right chosen: reject_once"]);
    Ok(())
}

#[tokio::test]
async fn an_answer_that_was_not_offered_counts_as_a_decline() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let other = join_session(&host, &session).await?;
    let running = client.start_prompt(&session, "ask; ask").await;
    let (ask, others) = (expect_permission(&client).await, expect_permission(&other).await);
    client.send_result(ask.id(), select_option("allow_everything")).await;
    other.send_result(others.id(), select_option("allow_once")).await;
    client.expect_text("chosen: allow_once").await;
    let (ask, others) = (expect_permission(&client).await, expect_permission(&other).await);
    client.send_result(ask.id(), select_option("allow_everything")).await;
    other.send_result(others.id(), select_option("allow_everything")).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    assert_eq!(client.chunk_texts(), ["chosen: allow_once", "chosen: cancelled"]);
    Ok(())
}

#[tokio::test]
async fn a_refusal_counts_once_everyone_has_refused() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let second = join_session(&host, &session).await?;
    let running = first.start_prompt(&session, "ask; ask").await;
    // One client refuses, the other allows: the permission is allowed.
    let (to_first, to_second) = (expect_permission(&first).await, expect_permission(&second).await);
    first
        .send_error(to_first.id(), json!({ "code": -32603, "message": "no dialog here" }))
        .await;
    second.send_result(to_second.id(), select_option("allow_once")).await;
    first.expect_text("chosen: allow_once").await;
    // Both refuse: the agent gets the refusal.
    let (to_first, to_second) = (expect_permission(&first).await, expect_permission(&second).await);
    first
        .send_result(to_first.id(), json!({ "outcome": { "outcome": "cancelled" } }))
        .await;
    second
        .send_result(to_second.id(), json!({ "outcome": { "outcome": "cancelled" } }))
        .await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    assert_eq!(first.chunk_texts(), ["chosen: allow_once", "chosen: cancelled"]);
    Ok(())
}

#[tokio::test]
async fn loading_re_issues_an_open_permission_after_the_answer() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let running = first.start_prompt(&session, "stream 20; ask").await;
    let asked = expect_permission(&first).await;
    let second = join_session(&host, &session).await?;
    let again = expect_permission(&second).await;
    assert_eq!(asked.params(), again.params());
    let frames = second.received_frames();
    let answered = frames
        .iter()
        .rposition(|frame| frame.method().is_empty())
        .context("no response")?;
    let reissued = frames.iter().position(ReceivedFrame::is_request).context("no request")?;
    assert!(answered < reissued, "the permission came before the answer to session/load");
    second.send_result(again.id(), select_option("allow_once")).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    Ok(())
}

#[tokio::test]
async fn permission_stays_open_while_no_client_is_attached() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let _running = first.start_prompt(&session, "ask; echo after").await;
    expect_permission(&first).await;
    first.close().await;
    first.wait_closed().await;
    let second = join_session(&host, &session).await?;
    let ask = expect_permission(&second).await;
    second.send_result(ask.id(), select_option("allow_always")).await;
    second.expect_text("chosen: allow_always").await;
    second.expect_text("after").await;
    log::expect_event(&host, &session, "prompt_ended", |event| event["end"]["how"] == "answered")
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_permission_that_the_agent_withdraws_is_withdrawn_from_everyone() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let second = join_session(&host, &session).await?;
    let running = first.start_prompt(&session, "withdraw").await;
    for client in [&first, &second] {
        let ask = expect_permission(client).await;
        let withdrawn = client.expect_notification("$/cancel_request").await;
        assert_eq!(&withdrawn.params()["requestId"], ask.id());
    }
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    let said = first.chunk_texts().concat();
    assert!(said.contains("-32800"), "{said}");
    Ok(())
}

#[tokio::test]
async fn the_agents_own_request_ids_come_back_as_they_were() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    client.choose_option("allow_once");
    for prompt in ["id0", "stringid", "ask 3"] {
        let said = prompt_for_text(&client, &session, prompt).await?;
        assert!(said.starts_with("chosen: allow_once"), "{prompt}: {said}");
    }
    Ok(())
}

#[tokio::test]
async fn a_client_that_names_a_session_joins_it() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    first.send_prompt(&session, "echo before").await?;
    let second = crate::connect_client(&host).await?;
    assert_eq!(
        prompt_for_text(&second, &session, "echo now").await?,
        "now",
        "and the past is not replayed"
    );
    first.expect_text("now").await;
    first.send_prompt(&session, "echo later").await?;
    second.expect_text("later").await;
    Ok(())
}

#[tokio::test]
async fn one_connection_may_have_many_sessions() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, one) = open_session(&host).await?;
    let two = client.new_session(&crate::cwd(&host)?).await?;
    let calls = [
        client.start_prompt(&one, "stream 300").await,
        client.start_prompt(&two, "stream 300").await,
    ];
    for call in calls {
        assert_eq!(stop_reason(call.wait_answer().await)?, "end_turn");
    }
    for session in [&one, &two] {
        let frames = client.received_frames();
        let own = frames.iter().filter(|frame| frame.params()["sessionId"] == session.as_str());
        assert!(own.filter_map(ReceivedFrame::chunk_index).eq(0..300), "{session}");
    }
    Ok(())
}

#[tokio::test]
async fn clients_that_join_during_a_burst_get_no_gap_and_no_duplicate() -> Result<()> {
    const BURST_UPDATES: u64 = 20_000;
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let running = first
        .start_prompt(&session, &format!("burst {BURST_UPDATES} 20; echo end"))
        .await;
    let mut joined = Vec::new();
    for share in 0..5 {
        first
            .expect("some of it", |frame| {
                frame.chunk_index().is_some_and(|index| index >= share * BURST_UPDATES / 5)
            })
            .await;
        joined.push(join_session(&host, &session).await?);
    }
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    for client in &joined {
        client.expect_text("end").await;
        let indices: Vec<u64> =
            client.received_frames().iter().filter_map(ReceivedFrame::chunk_index).collect();
        assert!(indices.into_iter().eq(0..BURST_UPDATES));
    }
    Ok(())
}

#[tokio::test]
async fn load_during_the_clients_own_turn_replays_and_answers_the_prompt_once() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let running = client.start_prompt(&session, "echo before; ask; echo after").await;
    let ask = expect_permission(&client).await;
    client.load_session(&session, &crate::cwd(&host)?).await?;
    let again = expect_permission(&client).await;
    client.send_result(again.id(), select_option("allow_once")).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    assert_eq!(client.chunk_texts(), ["before", "before", "chosen: allow_once", "after"]);
    let answers = client
        .received_frames()
        .iter()
        .filter(|frame| frame.body["result"]["stopReason"].is_string())
        .count();
    assert_eq!(answers, 1);
    // The other copy of this client is withdrawn or already settled, but never answered twice.
    client.send_result(ask.id(), select_option("reject_once")).await;
    assert_eq!(prompt_for_text(&client, &session, "echo fine").await?, "fine");
    assert_eq!(log::list_events(&host, &session, "ask_resolved")?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn every_copy_of_a_permission_is_withdrawn() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let second = join_session(&host, &session).await?;
    let running = first.start_prompt(&session, "ask").await;
    let mut copies = vec![expect_permission(&first).await.id().clone()];
    first.load_session(&session, &crate::cwd(&host)?).await?;
    copies.push(expect_permission(&first).await.id().clone());
    let ask = expect_permission(&second).await;
    second.send_result(ask.id(), select_option("allow_once")).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    let frames = first.received_frames();
    let withdrawn = frames.iter().filter(|frame| frame.method() == "$/cancel_request");
    let mut withdrawn: Vec<Value> =
        withdrawn.map(|frame| frame.params()["requestId"].clone()).collect();
    withdrawn.sort_by_key(Value::to_string);
    assert_eq!(withdrawn, copies);
    Ok(())
}

#[tokio::test]
async fn client_that_leaves_during_a_burst_disturbs_no_other_client() -> Result<()> {
    const BURST_UPDATES: u64 = 20_000;
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let second = join_session(&host, &session).await?;
    let running = second
        .start_prompt(&session, &format!("burst {BURST_UPDATES} 20; echo end"))
        .await;
    second
        .expect("some of it", |frame| frame.chunk_index().is_some_and(|index| index > 100))
        .await;
    second.close().await;
    drop(running);
    first.expect_text("end").await;
    let indices: Vec<u64> =
        first.received_frames().iter().filter_map(ReceivedFrame::chunk_index).collect();
    assert!(indices.into_iter().eq(0..BURST_UPDATES));
    log::expect_event(&host, &session, "prompt_ended", |event| event["end"]["how"] == "answered")
        .await?;
    assert_eq!(prompt_for_text(&first, &session, "echo on").await?, "on");
    Ok(())
}

#[tokio::test]
async fn unknown_sessions_are_refused_by_their_id() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let client = crate::connect_client(&host).await?;
    for id in ["sess_00000000000000000000000000", "../../token", ""] {
        let error = crate::expect_error(client.load_session(id, "/").await)?;
        assert_eq!((error.code, &error.data["sessionId"]), (-32002, &json!(id)));
        let error = crate::expect_error(client.send_prompt(id, "echo hi").await)?;
        assert_eq!((error.code, &error.data["sessionId"]), (-32002, &json!(id)));
    }
    Ok(())
}
