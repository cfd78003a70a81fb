//! Overlapping prompts and cancels: each prompt gets its own answer, in order.

use anyhow::{Context, Result};
use serde_json::json;
use wharf_testkit::processes;

use crate::{
    TREE_ENDS_WITHIN, join_session, log, open_session, parse_pids, prompt_for_text, scripted_host,
    stop_reason,
};

#[tokio::test]
async fn overlapping_prompts_are_queued_and_answered_in_order() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let second = join_session(&host, &session).await?;
    let one = first.start_prompt(&session, "ask; echo one").await;
    let ask = first.expect_request("session/request_permission").await;
    let two = first.start_prompt(&session, "echo two; stop max_tokens").await;
    log::expect_event(&host, &session, "prompt_accepted", |event| {
        event["frame"].to_string().contains("two")
    })
    .await?;
    let three = second.start_prompt(&session, "echo three; error -32050").await;
    log::expect_event(&host, &session, "prompt_accepted", |event| {
        event["frame"].to_string().contains("three")
    })
    .await?;
    first
        .send_result(
            ask.id(),
            json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } }),
        )
        .await;
    assert_eq!(stop_reason(one.wait_answer().await)?, "end_turn");
    assert_eq!(stop_reason(two.wait_answer().await)?, "max_tokens");
    assert_eq!(crate::expect_error(three.wait_answer().await)?.code, -32050);
    assert_eq!(second.chunk_texts(), ["chosen: allow_once", "one", "two", "three"]);
    let places: Vec<usize> = second
        .received_frames()
        .iter()
        .enumerate()
        .filter_map(|(place, frame)| {
            frame
                .update()
                .filter(|update| update["sessionUpdate"] == "user_message_chunk")
                .map(|_| place)
        })
        .collect();
    assert_eq!(places.len(), 2, "its own prompt is not shown to it");
    let answers: Vec<i64> = first
        .received_frames()
        .iter()
        .filter(|frame| frame.method().is_empty())
        .filter_map(|frame| frame.id().as_i64())
        .collect();
    assert!(answers.is_sorted(), "{answers:?}");
    Ok(())
}

#[tokio::test]
async fn a_turn_is_cancelled_by_a_client_that_did_not_start_it() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let second = join_session(&host, &session).await?;
    let running = first.start_prompt(&session, "echo on it; hang").await;
    second.expect_text("on it").await;
    second.cancel_turn(&session).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "cancelled");
    let cancelled = log::list_events(&host, &session, "cancel_requested")?;
    assert_eq!(cancelled.len(), 1);
    assert_eq!(prompt_for_text(&first, &session, "echo on").await?, "on");
    Ok(())
}

#[tokio::test]
async fn a_cancel_right_behind_a_prompt_ends_it() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    for _ in 0..30 {
        client.send_prompt(&session, "echo warm").await?;
        let running = client.start_prompt(&session, "hang").await;
        client.cancel_turn(&session).await;
        assert_eq!(stop_reason(running.wait_answer().await)?, "cancelled");
    }
    Ok(())
}

#[tokio::test]
async fn a_cancel_with_nothing_to_cancel_does_nothing() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    client.cancel_turn(&session).await;
    client
        .send_notification("session/cancel", json!({ "sessionId": "sess_unknown" }))
        .await;
    client.send_notification("session/cancel", json!({})).await;
    assert_eq!(prompt_for_text(&client, &session, "echo fine").await?, "fine");
    assert!(log::list_events(&host, &session, "cancel_requested")?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_cancel_takes_the_callers_waiting_prompts_and_leaves_those_of_others() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let second = join_session(&host, &session).await?;
    let running = first.start_prompt(&session, "echo running; hang").await;
    second.expect_text("running").await;
    let waiting = second.start_prompt(&session, "echo never").await;
    log::expect_event(&host, &session, "prompt_accepted", |event| {
        event["frame"].to_string().contains("never")
    })
    .await?;
    let patient = first.start_prompt(&session, "echo at last").await;
    log::expect_event(&host, &session, "prompt_accepted", |event| {
        event["frame"].to_string().contains("at last")
    })
    .await?;

    // The client only has a queued prompt: that is cancelled, and the other client's turn is not.
    second.cancel_turn(&session).await;
    assert_eq!(stop_reason(waiting.wait_answer().await)?, "cancelled");
    assert!(log::list_events(&host, &session, "cancel_requested")?.is_empty());

    // Its prompt is no longer queued: the running turn is meant, not the next one.
    second.cancel_turn(&session).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "cancelled");
    assert_eq!(stop_reason(patient.wait_answer().await)?, "end_turn");
    assert_eq!(first.chunk_texts(), ["running", "at last"]);
    Ok(())
}

#[tokio::test]
async fn a_cancel_by_the_sender_of_the_running_turn_takes_its_waiting_prompts_too() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let second = join_session(&host, &session).await?;
    let running = first.start_prompt(&session, "echo running; hang").await;
    first.expect_text("running").await;
    let own = first.start_prompt(&session, "echo never").await;
    log::expect_event(&host, &session, "prompt_accepted", |event| {
        event["frame"].to_string().contains("never")
    })
    .await?;
    let others = second.start_prompt(&session, "echo still").await;
    log::expect_event(&host, &session, "prompt_accepted", |event| {
        event["frame"].to_string().contains("still")
    })
    .await?;
    first.cancel_turn(&session).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "cancelled");
    assert_eq!(stop_reason(own.wait_answer().await)?, "cancelled");
    assert_eq!(stop_reason(others.wait_answer().await)?, "end_turn");
    assert_eq!(second.chunk_texts(), ["running", "still"]);
    Ok(())
}

#[tokio::test]
async fn a_cancel_request_takes_a_waiting_prompt_out_of_the_queue() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let running = client.start_prompt(&session, "echo running; hang").await;
    client.expect_text("running").await;
    let waiting = client.start_prompt(&session, "echo never").await;
    log::expect_event(&host, &session, "prompt_accepted", |event| {
        event["frame"].to_string().contains("never")
    })
    .await?;
    client
        .send_notification("$/cancel_request", json!({ "requestId": waiting.id }))
        .await;
    let error = crate::expect_error(waiting.wait_answer().await)?;
    assert_eq!(error.data["reason"], "removed", "{error}");
    client.cancel_turn(&session).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "cancelled");
    Ok(())
}

#[tokio::test]
async fn a_cancel_answers_the_open_permissions_of_the_turn() -> Result<()> {
    let host = scripted_host(&["--no-cancel"])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let second = join_session(&host, &session).await?;
    // The agent ignores the cancel, so that it can report how its permission ended.
    let running = first.start_prompt(&session, "ask; stop cancelled").await;
    let asked = [
        (&first, first.expect_request("session/request_permission").await),
        (&second, second.expect_request("session/request_permission").await),
    ];
    second.cancel_turn(&session).await;
    for (client, ask) in &asked {
        let withdrawn = client.expect_notification("$/cancel_request").await;
        assert_eq!(&withdrawn.params()["requestId"], ask.id());
    }
    assert_eq!(stop_reason(running.wait_answer().await)?, "cancelled");
    assert_eq!(first.chunk_texts(), ["chosen: cancelled"]);
    Ok(())
}

#[tokio::test]
async fn an_agent_that_ignores_a_cancel_is_ended_and_the_turn_with_it() -> Result<()> {
    for flags in [&["--no-cancel", "--no-load"][..], &["--no-cancel"]] {
        let host = scripted_host(flags)?.with_setting("cancel_timeout", "300ms").start_host()?;
        let (client, session) = open_session(&host).await?;
        let agent = parse_pids(&prompt_for_text(&client, &session, "pid").await?);
        let running = client.start_prompt(&session, "echo deaf; hang").await;
        client.expect_text("deaf").await;
        client.cancel_turn(&session).await;
        assert_eq!(stop_reason(running.wait_answer().await)?, "cancelled");
        assert_eq!(processes::wait_gone(&agent, TREE_ENDS_WITHIN), Ok(()));
        let ended = log::expect_event(&host, &session, "ended", |_| true).await?;
        assert_eq!(ended["ending"]["reason"], "unresponsive");
        if flags.contains(&"--no-load") {
            let error = crate::expect_error(client.send_prompt(&session, "echo again").await)?;
            assert_eq!(error.data["reason"], "not_resumable", "{error}");
        } else {
            log::expect_event(&host, &session, "agent_started", |event| event["start"] == 2)
                .await?;
            let next = parse_pids(&prompt_for_text(&client, &session, "pid").await?);
            assert_ne!(next, agent, "another agent goes on");
        }
    }
    Ok(())
}

#[tokio::test]
async fn an_agent_that_ignores_a_cancel_is_brought_back_for_the_prompts_that_wait() -> Result<()> {
    let host = scripted_host(&["--no-cancel"])?
        .with_setting("cancel_timeout", "300ms")
        .start_host()?;
    let (first, session) = open_session(&host).await?;
    let second = join_session(&host, &session).await?;
    let running = first.start_prompt(&session, "echo deaf; hang").await;
    second.expect_text("deaf").await;
    let waiting = second.start_prompt(&session, "echo at last").await;
    log::expect_event(&host, &session, "prompt_accepted", |event| {
        event["frame"].to_string().contains("at last")
    })
    .await?;
    first.cancel_turn(&session).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "cancelled");
    assert_eq!(stop_reason(waiting.wait_answer().await)?, "end_turn");
    first.expect_text("at last").await;
    assert_eq!(first.chunk_texts(), ["deaf", "at last"]);
    Ok(())
}

#[tokio::test]
async fn a_full_queue_refuses_and_says_how_long_it_is() -> Result<()> {
    let host = crate::add_section(scripted_host(&[])?, "[limits]\nqueue = 2").start_host()?;
    let (client, session) = open_session(&host).await?;
    let _running = client.start_prompt(&session, "echo running; hang").await;
    client.expect_text("running").await;
    let _waiting = [
        client.start_prompt(&session, "echo a").await,
        client.start_prompt(&session, "echo b").await,
    ];
    let error = crate::expect_error(client.send_prompt(&session, "echo c").await)?;
    assert_eq!(error.data["reason"], "queue_full", "{error}");
    assert!(error.message.contains("limits.queue"), "{error}");
    Ok(())
}

#[tokio::test]
async fn request_ids_come_back_exactly_as_they_were_spelled() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    crate::catch_up(&client).await;
    let ids = [
        "7",
        "-3",
        "0",
        "18446744073709551615",
        "12345678901234567890123",
        "1.50",
        "\"7\"",
        "\"\\u00e9\\/\"",
        "\"\"",
        "null",
    ];
    for id in ids {
        let prompt = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{{"sessionId":"{session}","prompt":[{{"type":"text","text":"echo x"}}]}}}}"#
        );
        client.send_raw(&prompt).await;
        let response = client.expect("an answer", |frame| frame.method().is_empty()).await;
        let expected =
            format!(r#"{{"id":{id},"jsonrpc":"2.0","result":{{"stopReason":"end_turn"}}}}"#);
        assert_eq!(response.raw, expected);
        // The agent refuses the first method, Wharf the second.
        for method in ["no/such", "_wharf/no/such"] {
            client
                .send_raw(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#))
                .await;
            let response = client.expect("an error", |frame| frame.method().is_empty()).await;
            assert!(response.raw.contains(&format!(r#""id":{id},"#)), "{}", response.raw);
            assert_eq!(response.body["error"]["code"], -32601, "{}", response.raw);
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_process_of_a_session_outlives_its_clients() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let agent = parse_pids(&prompt_for_text(&client, &session, "pid").await?);
    let _running = client.start_prompt(&session, "stream 100; ask; echo done").await;
    client.expect_request("session/request_permission").await;
    client.close().await;
    client.wait_closed().await;
    let later = join_session(&host, &session).await?;
    later.choose_option("allow_once");
    let asked = later
        .received_frames()
        .iter()
        .filter(|frame| frame.is_request())
        .map(|frame| frame.id().clone())
        .next();
    if let Some(id) = asked {
        later
            .send_result(
                &id,
                json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } }),
            )
            .await;
    }
    later.expect_text("done").await;
    log::expect_event(&host, &session, "prompt_ended", |event| event["end"]["how"] == "answered")
        .await?;
    let still = parse_pids(&prompt_for_text(&later, &session, "pid").await?);
    assert_eq!(agent.first().context("no pid")?, still.first().context("no pid")?);
    Ok(())
}
