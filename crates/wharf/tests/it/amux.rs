//! amux clients: sessions by name, amux's frames beside ACP's, its close codes and its requests
//! (§9).

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::client::{Credentials, ReceivedFrame, TestClient};
use wharf_testkit::host::TestHost;

use crate::recording::Recording;
use crate::transports::create_observer_token;
use crate::{
    add_section, catch_up, connect_client, cwd, expect_error, log, program, scripted_host,
    stop_reason,
};

/// Opens a connection with this query and sends nothing.
async fn connect_with_query(host: &TestHost, query: &str) -> Result<TestClient> {
    TestClient::connect(&format!("{}?{query}", host.ws_url()), host.token()).await
}

/// Connects a peer to the session `work` and sends `initialize` and `session/new`.
async fn connect_peer(host: &TestHost, peer: &str) -> Result<(TestClient, String)> {
    connect_peer_with(
        host,
        &format!("session=work&peer_id={peer}&peer_name={peer}%20N&role=driver"),
    )
    .await
}

async fn connect_peer_with(host: &TestHost, query: &str) -> Result<(TestClient, String)> {
    let client = connect_with_query(host, query).await?;
    client.initialize().await?;
    let session = client.new_session(&cwd(host)?).await?;
    Ok((client, session))
}

/// Returns the next amux frame with this name; it carries the session's name twice.
async fn expect_note(client: &TestClient, name: &str) -> Result<Value> {
    let frame = client.expect_notification(&format!("amux/{name}")).await;
    let mut params = frame.params().clone();
    let members = params.as_object_mut().context("no params")?;
    for key in ["sessionId", "roomId"] {
        assert_eq!(members.remove(key), Some(json!("work")), "{}", frame.raw);
    }
    Ok(params)
}

/// Returns the names of the amux frames received so far.
fn list_note_names(client: &TestClient) -> Vec<String> {
    let of = |frame: &ReceivedFrame| frame.method().strip_prefix("amux/").map(str::to_owned);
    client.received_frames().iter().filter_map(of).collect()
}

fn list_tags(client: &TestClient) -> Vec<String> {
    let of = |frame: &ReceivedFrame| Some(frame.update()?["sessionUpdate"].as_str()?.to_owned());
    client.received_frames().iter().filter_map(of).collect()
}

fn text_block(text: &str) -> Value {
    json!([{ "type": "text", "text": text }])
}

#[tokio::test]
async fn two_peers_share_a_session_and_are_announced_to_each_other() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (ann, session) = connect_peer(&host, "ann").await?;
    assert_eq!(expect_note(&ann, "session_context").await?, json!({ "cwd": cwd(&host)? }));
    let (ben, same) = connect_peer(&host, "ben").await?;
    assert_eq!(session, same, "the late session/new is the same session");
    let joined = json!({ "peerId": "ben", "peerName": "ben N", "role": "driver" });
    assert_eq!(expect_note(&ann, "peer_joined").await?, joined);
    ann.expect_update("client_connected", |update| update["type"] == "client_connected")
        .await;

    ann.send_prompt(&session, "echo hello").await?;
    let mut turns = Vec::new();
    for client in [&ann, &ben] {
        let started = expect_note(client, "turn_started").await?;
        let expected = json!({ "amuxTurnId": started["amuxTurnId"], "peerId": "ann", "peerName": "ann N",
            "role": "driver", "content": text_block("echo hello") });
        assert_eq!(started, expected);
        client.expect_text("hello").await;
        let complete = expect_note(client, "turn_complete").await?;
        assert_eq!(
            complete,
            json!({ "amuxTurnId": started["amuxTurnId"], "stopReason": "end_turn" })
        );
        turns.push(started["amuxTurnId"].clone());
    }
    assert_eq!(turns[0], turns[1], "a turn has one id");
    ben.expect_update("turn_complete", |update| update["type"] == "turn_complete")
        .await;
    let (of_ann, of_ben) = (list_tags(&ann), list_tags(&ben));
    let expected = ["prompt_received", "agent_message_chunk", "turn_complete"];
    assert_eq!(of_ben, expected, "the updates of those who attached, without attaching");
    assert_eq!(of_ann[1..], expected, "the prompter is told as the others are");

    ben.close().await;
    assert_eq!(expect_note(&ann, "peer_left").await?, json!({ "peerId": "ben" }));
    Ok(())
}

#[tokio::test]
async fn a_plain_client_and_a_peer_share_a_session_too() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (ann, session) = connect_peer(&host, "ann").await?;
    let plain = crate::join_session(&host, &session).await?;
    assert_eq!(expect_note(&ann, "peer_joined").await?["role"], "controller");
    let waiting = plain.start_prompt(&session, "wait; echo one").await;
    assert_eq!(expect_note(&ann, "turn_started").await?["peerName"], "wharf-testkit");
    // A plain client's prompt is queued; a peer sees it.
    let second = plain.start_prompt(&session, "echo two").await;
    let added = expect_note(&ann, "queue_item_added").await?;
    assert_eq!((&added["text"], &added["status"]), (&json!("echo two"), &json!("queued")));
    plain.send_notification("_go", json!({ "sessionId": session })).await;
    waiting.wait_answer().await?;
    second.wait_answer().await?;
    assert_eq!(
        expect_note(&ann, "queue_item_submitted").await?["queueItemId"],
        added["queueItemId"]
    );
    assert_eq!(expect_note(&ann, "queue_item_completed").await?["stopReason"], "end_turn");
    assert!(list_note_names(&plain).is_empty(), "no amux frames for who did not ask for them");
    Ok(())
}

#[tokio::test]
async fn permissions_are_announced_with_the_id_of_their_request() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (ann, session) = connect_peer(&host, "ann").await?;
    let (ben, _) = connect_peer(&host, "ben").await?;
    let call = ann.start_prompt(&session, "ask").await;
    let mut numbers = Vec::new();
    for client in [&ann, &ben] {
        let opened = expect_note(client, "agent_request_opened").await?;
        let request = client.expect_request("session/request_permission").await;
        assert_eq!(&opened["requestId"], request.id());
        assert_eq!(&opened["requestParams"], request.params());
        numbers.push(request.id().clone());
    }
    assert_eq!(numbers[0], numbers[1]);
    let answer = json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } });
    ben.send_result(&numbers[1], answer.clone()).await;
    call.wait_answer().await?;
    for client in [&ann, &ben] {
        let resolved = expect_note(client, "agent_request_resolved").await?;
        assert_eq!(
            resolved,
            json!({ "requestId": numbers[0], "resolvedBy": "ben", "result": answer })
        );
        let update = client
            .expect_update("its sibling", |update| update["type"] == "permission_resolved")
            .await;
        let update = update.update().context("no update")?;
        assert_eq!((&update["requestId"], &update["result"]), (&numbers[0], &answer));
    }
    Ok(())
}

#[tokio::test]
async fn connections_are_closed_with_amuxs_codes() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let long = format!("session={}", "x".repeat(129));
    let bad = [
        "session=a&room=b",
        "session=",
        "room=a%20b",
        &long,
        "mux=a&role=",
        "mux=a&peer_id=",
        "mux=a&peer_id=cli_1",
    ];
    for query in bad {
        let closed = connect_with_query(&host, query).await?.wait_closed().await;
        assert!(closed.starts_with("closed 4400 "), "{query}: {closed}");
    }
    let first = connect_with_query(&host, "session=work&peer_id=ann").await?;
    first.initialize().await?;
    let closed = connect_with_query(&host, "room=work&peer_id=ann").await?.wait_closed().await;
    assert!(closed.starts_with("closed 4409 "), "{closed}");
    // Another session name is another session, and another peer id is another peer.
    connect_with_query(&host, "session=play&peer_id=ann")
        .await?
        .initialize()
        .await?;
    connect_with_query(&host, "mux=work").await?.initialize().await?;
    first.initialize().await?;
    Ok(())
}

#[tokio::test]
async fn a_peer_id_is_free_again_when_its_connection_has_ended() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (ann, session) = connect_peer(&host, "ann").await?;
    let (ben, _) = connect_peer(&host, "ben").await?;
    ben.close().await;
    expect_note(&ann, "peer_left").await?;
    let (_, same) = connect_peer(&host, "ben").await?;
    assert_eq!(same, session);
    Ok(())
}

#[tokio::test]
async fn an_agent_that_does_not_start_closes_the_connection() -> Result<()> {
    let options =
        crate::add_scripted_agent(scripted_host(&[])?, "broken", &["--exit-on-start", "3"])?;
    let host =
        crate::add_scripted_agent(options, "late", &["--die-on", "session/new"])?.start_host()?;
    let client = connect_with_query(&host, "session=work&agent=broken").await?;
    assert_eq!(expect_error(client.initialize().await)?.code, -32603);
    assert_eq!(client.wait_closed().await, "closed 1011 the agent could not be started");
    let client = connect_with_query(&host, "session=work&agent=late").await?;
    client.initialize().await?;
    assert_eq!(
        expect_error(client.new_session(&cwd(&host)?).await)?.data["reason"],
        "start_failed"
    );
    assert_eq!(client.wait_closed().await, "closed 1011 the agent could not be started");
    // The name can be used by the next session that starts.
    connect_peer(&host, "ann").await?;
    Ok(())
}

#[tokio::test]
async fn plain_prompt_during_a_turn_is_refused_with_the_holder_of_the_turn() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (ann, session) = connect_peer(&host, "ann").await?;
    let (ben, _) = connect_peer(&host, "ben").await?;
    let call = ann.start_prompt(&session, "wait; echo done").await;
    expect_note(&ben, "turn_started").await?;
    let error = expect_error(ben.send_prompt(&session, "echo me too").await)?;
    assert_eq!((error.code, error.message.as_str()), (-32001, "session busy"));
    for client in [&ann, &ben] {
        assert_eq!(
            expect_note(client, "session_busy").await?,
            json!({ "busy": true, "heldBy": "ann" })
        );
    }
    ann.send_notification("_go", json!({ "sessionId": session })).await;
    assert_eq!(stop_reason(call.wait_answer().await)?, "end_turn");
    assert_eq!(stop_reason(ben.send_prompt(&session, "echo mine").await)?, "end_turn");
    assert_eq!(
        log::list_events(&host, &session, "prompt_accepted")?.len(),
        2,
        "the refused one was never taken"
    );
    Ok(())
}

#[tokio::test]
async fn a_steer_replaces_the_running_turn() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (ann, session) = connect_peer(&host, "ann").await?;
    let (ben, _) = connect_peer(&host, "ben").await?;
    let call = ann.start_prompt(&session, "hang").await;
    let first = expect_note(&ben, "turn_started").await?["amuxTurnId"].clone();
    let steered = ben
        .call_method(
            "amux/steer_active_turn",
            json!({ "sessionId": session, "text": "echo better" }),
        )
        .await?;
    assert_eq!((&steered["mode"], &steered["status"]), (&json!("hard"), &json!("submitted")));
    assert_eq!(stop_reason(call.wait_answer().await)?, "cancelled");
    let expected = json!({ "amuxTurnId": first, "cancelledBy": "ben", "originalDriver": "ann", "reason": "hard_steer" });
    assert_eq!(expect_note(&ann, "turn_cancelled").await?, expected);
    assert_eq!(expect_note(&ann, "turn_complete").await?["amuxTurnId"], first);
    let started = expect_note(&ann, "turn_started").await?;
    assert_eq!((&started["peerId"], &started["supersedesTurnId"]), (&json!("ben"), &first));
    assert_eq!(started["amuxTurnId"], steered["amuxTurnId"]);
    ann.expect_text("better").await;
    expect_note(&ann, "turn_complete").await?;

    // Without a running turn a steer is an ordinary prompt.
    let idle = ben
        .call_method("amux/steer_active_turn", json!({ "prompt": text_block("echo idle") }))
        .await?;
    assert_eq!(idle["mode"], "prompt");
    ann.expect_text("idle").await;
    Ok(())
}

#[tokio::test]
async fn a_second_steer_waits_for_the_first() -> Result<()> {
    let host = scripted_host(&["--no-cancel"])?.start_host()?;
    let (ann, session) = connect_peer(&host, "ann").await?;
    ann.start_prompt(&session, "wait").await;
    expect_note(&ann, "turn_started").await?;
    ann.call_method("amux/steer_active_turn", json!({ "text": "echo one" })).await?;
    let error = expect_error(
        ann.call_method("amux/steer_active_turn", json!({ "text": "echo two" })).await,
    )?;
    assert_eq!(error.code, -32002);
    ann.send_notification("_go", json!({ "sessionId": session })).await;
    ann.expect_text("one").await;
    Ok(())
}

#[tokio::test]
async fn prompts_are_queued_and_taken_out_again() -> Result<()> {
    let host = add_section(scripted_host(&[])?, "[limits]\nqueue = 2").start_host()?;
    let (ann, session) = connect_peer(&host, "ann").await?;
    let (ben, _) = connect_peer(&host, "ben").await?;
    let call = ann.start_prompt(&session, "wait").await;
    expect_note(&ben, "turn_started").await?;
    let one = ben
        .call_method("amux/queue_prompt", json!({ "sessionId": "work", "text": "echo one" }))
        .await?;
    assert_eq!(one["status"], "queued");
    let added = json!({ "queueItemId": one["queueItemId"], "peerId": "ben", "text": "echo one", "status": "queued" });
    assert_eq!(expect_note(&ann, "queue_item_added").await?, added);
    let two = ben.call_method("amux/queue_prompt", json!({ "text": "echo two" })).await?;
    assert_eq!(
        expect_error(ben.call_method("amux/queue_prompt", json!({ "text": "echo three" })).await)?
            .code,
        -32003
    );

    let unqueue = json!({ "queueItemId": one["queueItemId"] });
    let removed = ann.call_method("amux/unqueue_prompt", unqueue.clone()).await?;
    assert_eq!(removed, json!({ "queueItemId": one["queueItemId"], "status": "removed" }));
    let expected =
        json!({ "queueItemId": one["queueItemId"], "removedBy": "ann", "reason": "unqueued" });
    assert_eq!(expect_note(&ben, "queue_item_removed").await?, expected);
    assert_eq!(expect_error(ann.call_method("amux/unqueue_prompt", unqueue).await)?.code, -32004);

    ann.send_notification("_go", json!({ "sessionId": session })).await;
    call.wait_answer().await?;
    let submitted = expect_note(&ben, "queue_item_submitted").await?;
    assert_eq!(submitted["queueItemId"], two["queueItemId"]);
    let expected = json!({ "queueItemId": two["queueItemId"], "amuxTurnId": submitted["amuxTurnId"],
        "stopReason": "end_turn" });
    assert_eq!(expect_note(&ben, "queue_item_completed").await?, expected);
    assert_eq!(ben.chunk_texts(), ["two"]);

    // A prompt for an idle session becomes a queue item all the same.
    let idle = ben.call_method("amux/queue_prompt", json!({ "text": "echo idle" })).await?;
    assert_eq!(idle["status"], "submitted");
    assert_eq!(expect_note(&ann, "queue_item_completed").await?["queueItemId"], two["queueItemId"]);
    assert_eq!(expect_note(&ann, "queue_item_added").await?["queueItemId"], idle["queueItemId"]);
    Ok(())
}

#[tokio::test]
async fn any_peer_ends_the_running_turn_by_request_or_by_notification() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (ann, session) = connect_peer(&host, "ann").await?;
    let (ben, _) = connect_peer(&host, "ben").await?;
    assert_eq!(
        expect_error(ben.call_method("amux/cancel_active_turn", json!({})).await)?.code,
        -32002
    );
    for by_request in [true, false] {
        let call = ann.start_prompt(&session, "hang").await;
        let turn = expect_note(&ben, "turn_started").await?["amuxTurnId"].clone();
        let params = json!({ "reason": "enough" });
        if by_request {
            assert_eq!(
                ben.call_method("amux/cancel_active_turn", params).await?["amuxTurnId"],
                turn
            );
        } else {
            ben.send_notification("amux/cancel_active_turn", params).await;
        }
        assert_eq!(stop_reason(call.wait_answer().await)?, "cancelled");
        let expected = json!({ "amuxTurnId": turn, "cancelledBy": "ben", "originalDriver": "ann", "reason": "enough" });
        assert_eq!(expect_note(&ann, "turn_cancelled").await?, expected);
    }
    Ok(())
}

#[tokio::test]
async fn reason_of_a_cancel_is_recorded_cut_and_optional() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (ann, session) = connect_peer(&host, "ann").await?;
    let (ben, _) = connect_peer(&host, "ben").await?;
    for (params, expected) in [
        (json!({ "reason": "é".repeat(5_000) }), json!("é".repeat(1_024))),
        (json!({ "reason": "" }), Value::Null),
        (json!({ "reason": null }), Value::Null),
        (json!({}), Value::Null),
    ] {
        let call = ann.start_prompt(&session, "hang").await;
        expect_note(&ben, "turn_started").await?;
        ben.call_method("amux/cancel_active_turn", params).await?;
        assert_eq!(stop_reason(call.wait_answer().await)?, "cancelled");
        assert_eq!(expect_note(&ann, "turn_cancelled").await?["reason"], expected);
        let logged = crate::log::list_events(&host, &session, "cancel_requested")?;
        assert_eq!(logged.last().context("no cancel in the log")?["reason"], expected);
    }
    let call = ann.start_prompt(&session, "hang").await;
    expect_note(&ben, "turn_started").await?;
    let params = json!({ "reason": 7 });
    assert_eq!(
        expect_error(ben.call_method("amux/cancel_active_turn", params).await)?.code,
        -32602
    );
    ben.call_method("amux/cancel_active_turn", json!({})).await?;
    assert_eq!(stop_reason(call.wait_answer().await)?, "cancelled");
    Ok(())
}

#[tokio::test]
async fn wrong_amux_requests_are_refused() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (ann, _) = connect_peer(&host, "ann").await?;
    for (method, params, code) in [
        ("amux/queue_prompt", json!({}), -32602),
        ("amux/queue_prompt", json!({ "text": "" }), -32602),
        ("amux/queue_prompt", json!({ "text": 1 }), -32602),
        ("amux/steer_active_turn", json!({ "prompt": [] }), -32602),
        ("amux/unqueue_prompt", json!({}), -32602),
        ("amux/queue_prompt", json!({ "sessionId": "other", "text": "x" }), -32001),
        ("amux/dance", json!({}), -32601),
    ] {
        assert_eq!(
            expect_error(ann.call_method(method, params.clone()).await)?.code,
            code,
            "{method} {params}"
        );
    }
    let plain = connect_client(&host).await?;
    assert_eq!(
        expect_error(plain.call_method("amux/queue_prompt", json!({ "text": "x" })).await)?.code,
        -32601
    );
    Ok(())
}

#[tokio::test]
async fn observers_see_everything_and_change_nothing() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let alone = connect_with_query(&host, "session=work&peer_id=eve&role=observer").await?;
    alone.initialize().await?;
    assert_eq!(
        expect_error(alone.new_session(&cwd(&host)?).await)?.code,
        -32011,
        "it starts nothing"
    );
    let error = expect_error(alone.call_method("session/attach", json!({})).await)?;
    assert_eq!((error.code, &error.data["sessionId"]), (-32001, &json!("work")));

    let (ann, session) = connect_peer(&host, "ann").await?;
    assert_eq!(alone.new_session(&cwd(&host)?).await?, session);
    assert_eq!(expect_note(&ann, "peer_joined").await?["role"], "observer");
    let asks: [(&str, Value); 4] = [
        ("steer_active_turn", json!({ "text": "x" })),
        ("queue_prompt", json!({ "text": "x" })),
        ("unqueue_prompt", json!({ "queueItemId": "x" })),
        ("cancel_active_turn", json!({})),
    ];
    for (method, params) in asks {
        assert_eq!(
            expect_error(alone.call_method(&format!("amux/{method}"), params).await)?.code,
            -32011,
            "{method}"
        );
    }
    assert_eq!(expect_error(alone.send_prompt(&session, "echo x").await)?.code, -32011);
    let token = create_observer_token(&host)?;
    let looks_on =
        TestClient::connect(&format!("{}?room=work&peer_id=tok", host.ws_url()), &token).await?;
    looks_on.initialize().await?;
    looks_on.new_session(&cwd(&host)?).await?;
    assert_eq!(
        expect_error(looks_on.call_method("amux/queue_prompt", json!({ "text": "x" })).await)?.code,
        -32011
    );
    ann.send_prompt(&session, "echo seen").await?;
    expect_note(&alone, "turn_started").await?;
    alone.expect_text("seen").await;
    Ok(())
}

#[tokio::test]
async fn late_joiners_start_no_agent_and_get_the_history() -> Result<()> {
    let recording = Recording::new()?;
    let host = recording.host_options(&[])?.start_host()?;
    let (ann, session) = connect_peer(&host, "ann").await?;
    ann.send_prompt(&session, "echo one").await?;
    let live = list_note_names(&ann);
    let sent_by_ann = recording.read_messages()?;
    let (ben, _) = connect_peer(&host, "ben").await?;
    ben.expect_update("turn_complete", |update| update["type"] == "turn_complete")
        .await;
    let answer = ben
        .received_frames()
        .iter()
        .position(|frame| frame.body["result"]["sessionId"] == session.as_str());
    let update = ben.received_frames().iter().position(|frame| frame.update().is_some());
    assert!(answer.context("no answer")? < update.context("no update")?, "the answer comes first");
    assert_eq!(ben.chunk_texts(), ["one"]);
    assert_eq!(list_tags(&ben), ["prompt_received", "agent_message_chunk", "turn_complete"]);
    assert_eq!(list_note_names(&ben), live, "the context, the turn's start and its end");
    let started = ben
        .received_frames()
        .into_iter()
        .find(|frame| frame.method() == "amux/turn_started");
    let started = started.context("no turn_started")?;
    assert!(started.params()["_meta"]["amux"]["recordedAt"].is_string(), "{}", started.raw);
    assert_eq!(recording.read_messages()?, sent_by_ann, "no agent was asked for anything");
    // A second `session/new` gets only the answer, without history.
    assert_eq!(ben.new_session(&cwd(&host)?).await?, session);
    ann.send_prompt(&session, "echo two").await?;
    ben.expect_text("two").await;
    assert_eq!(ben.chunk_texts(), ["one", "two"]);
    Ok(())
}

#[tokio::test]
async fn history_length_is_a_setting_and_history_can_be_declined() -> Result<()> {
    for (turns, shown) in
        [("unbounded", vec!["one", "two", "three"]), ("2", vec!["two", "three"]), ("0", vec![])]
    {
        let host = scripted_host(&[])?
            .with_argument("--replay-turns")
            .with_argument(turns)
            .start_host()?;
        let (ann, session) = connect_peer(&host, "ann").await?;
        for word in ["one", "two", "three"] {
            ann.send_prompt(&session, &format!("echo {word}")).await?;
        }
        let (ben, _) = connect_peer(&host, "ben").await?;
        let (eve, _) = connect_peer_with(&host, "room=work&peer_id=eve&replay=skip").await?;
        ann.send_prompt(&session, "echo live").await?;
        for (client, past) in [(&ben, &shown), (&eve, &vec![])] {
            client.expect_text("live").await;
            let expected: Vec<&str> = past.iter().copied().chain(["live"]).collect();
            assert_eq!(client.chunk_texts(), expected, "{turns}");
            assert_eq!(
                list_note_names(client).iter().filter(|note| *note == "turn_started").count(),
                expected.len(),
                "{turns}"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn peers_that_connect_at_the_same_time_start_one_session() -> Result<()> {
    let host = scripted_host(&["--delay", "session/new=200"])?.start_host()?;
    let peers = ["a", "b", "c", "d"].map(|id| connect_peer(&host, id));
    let peers = futures_util::future::join_all(peers).await;
    let peers = peers.into_iter().collect::<Result<Vec<_>>>()?;
    assert!(peers.iter().all(|(_, session)| *session == peers[0].1), "{peers:?}");
    assert_eq!(log::all_sessions(&host)?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn session_name_survives_a_restart_of_the_host() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let (ann, session) = connect_peer(&host, "ann").await?;
    ann.send_prompt(&session, "echo before").await?;
    let turn = expect_note(&ann, "turn_started").await?["amuxTurnId"].clone();
    assert_eq!(log::list_events(&host, &session, "created")?[0]["origin"]["name"], "work");
    host.restart()?;
    let (ben, same) = connect_peer(&host, "ben").await?;
    assert_eq!(same, session);
    assert_eq!(
        expect_note(&ben, "turn_started").await?["amuxTurnId"],
        turn,
        "its turns keep their ids"
    );
    ben.send_prompt(&session, "echo after").await?;
    ben.expect_text("after").await;
    assert_eq!(ben.chunk_texts(), ["before", "after"]);
    assert_eq!(log::all_sessions(&host)?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn session_name_is_free_when_its_session_is_deleted_or_cannot_come_back() -> Result<()> {
    let host = scripted_host(&["--no-load"])?.start_host()?;
    let (ann, first) = connect_peer(&host, "ann").await?;
    ann.call_method("session/delete", json!({ "sessionId": first })).await?;
    let second = ann.new_session(&cwd(&host)?).await?;
    assert_ne!(first, second);
    // Its agent cannot come back.
    expect_error(ann.send_prompt(&second, "crash").await)?;
    log::expect_event(&host, &second, "ended", |_| true).await?;
    let third = ann.new_session(&cwd(&host)?).await?;
    assert_ne!(second, third);
    assert_eq!(stop_reason(ann.send_prompt(&third, "echo on").await)?, "end_turn");
    let (_, same) = connect_peer(&host, "ben").await?;
    assert_eq!(same, third);
    Ok(())
}

#[tokio::test]
async fn attach_needs_no_id_and_returns_the_history_as_raw_frames() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (ann, session) = connect_peer(&host, "ann").await?;
    ann.send_prompt(&session, "echo one").await?;
    for params in [json!({}), json!({ "sessionId": "work" }), json!({ "sessionId": session })] {
        let ben = connect_with_query(&host, "session=work&peer_id=ben").await?;
        let introduced = ben.initialize().await?;
        assert_eq!(introduced["agentCapabilities"]["sessionCapabilities"]["attach"], true);
        let answer = ben.call_method("session/attach", params.clone()).await?;
        assert_eq!(
            (&answer["sessionId"], &answer["clientId"]),
            (&json!(session), &json!("ben")),
            "{params}"
        );
        assert_eq!(answer["connectedClients"][0]["clientId"], "ann");
        let history = answer["history"].as_array().context("no history")?;
        let methods: Vec<&str> =
            history.iter().filter_map(|entry| entry["method"].as_str()).collect();
        let update = "session/update";
        assert_eq!(
            methods,
            ["amux/turn_started", update, update, "amux/turn_complete", update],
            "{params}"
        );
        assert_eq!(history[0]["params"]["content"], text_block("echo one"));
        assert_eq!(history[2]["params"]["update"]["content"]["text"], "one");
        ben.close().await;
        expect_note(&ann, "peer_left").await?;
        catch_up(&ann).await;
    }
    // Plain clients get the typed history and the capability as an object.
    let plain = connect_client(&host).await?;
    let answer = plain.call_method("session/attach", json!({ "sessionId": session })).await?;
    assert_eq!(answer["history"][0]["type"], "prompt");
    assert_eq!(expect_error(plain.call_method("session/attach", json!({})).await)?.code, -32602);
    Ok(())
}

#[tokio::test]
async fn an_attach_or_a_queued_prompt_starts_the_session_if_there_is_none() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let ann = connect_with_query(&host, "session=work&peer_id=ann").await?;
    ann.initialize().await?;
    let attached = ann.call_method("session/attach", json!({})).await?;
    assert_eq!(attached["history"], json!([]));
    let ben = connect_with_query(&host, "session=play&peer_id=ben").await?;
    ben.initialize().await?;
    ben.call_method("amux/queue_prompt", json!({ "text": "echo first" })).await?;
    ben.expect_text("first").await;
    assert_eq!(log::all_sessions(&host)?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn detach_closes_the_connection_and_leaves_the_session() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (ann, session) = connect_peer(&host, "ann").await?;
    for params in [json!({}), json!({ "sessionId": session })] {
        let (ben, _) = connect_peer(&host, "ben").await?;
        let call = ben.start_request("session/detach", params).await;
        assert_eq!(
            call.wait_answer().await?,
            json!({ "sessionId": session, "status": "detached" })
        );
        assert_eq!(ben.wait_closed().await, "closed 1000 detached");
        assert_eq!(expect_note(&ann, "peer_left").await?, json!({ "peerId": "ben" }));
    }
    assert_eq!(stop_reason(ann.send_prompt(&session, "echo on").await)?, "end_turn");
    Ok(())
}

#[tokio::test]
async fn session_ends_when_no_peer_returns_within_the_grace_time() -> Result<()> {
    let host = scripted_host(&[])?
        .with_argument("--session-ttl-seconds")
        .with_argument("1")
        .start_host()?;
    let (ann, session) = connect_peer(&host, "ann").await?;
    ann.close().await;
    let ended = log::expect_event(&host, &session, "ended", |_| true).await?;
    assert_eq!(ended["ending"]["reason"], "idle");
    Ok(())
}

#[tokio::test]
async fn without_auth_old_clients_need_no_token_and_pages_are_still_refused() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let url = format!("{}?session=work&peer_id=ann", host.ws_url());
    let refused_for = |why: &anyhow::Error| format!("{why:#}");
    let error = TestClient::connect_with(&url, &Credentials::None)
        .await
        .err()
        .context("let in")?;
    assert!(refused_for(&error).contains("401"), "{error:#}");
    drop(host);

    let host = scripted_host(&[])?.with_setting("auth", "none").start_host()?;
    assert!(host.read_stderr().contains("without a token"), "{}", host.read_stderr());
    let url = format!("{}?session=work&peer_id=ann", host.ws_url());
    let ann = TestClient::connect_with(&url, &Credentials::None).await?;
    ann.initialize().await?;
    let session = ann.new_session(&cwd(&host)?).await?;
    assert_eq!(stop_reason(ann.send_prompt(&session, "echo in").await)?, "end_turn");
    let page = Credentials::Headers(vec![("origin", "http://evil.example".to_owned())]);
    let error = TestClient::connect_with(&url, &page)
        .await
        .err()
        .context("a foreign page was let in")?;
    assert!(refused_for(&error).contains("403"), "{error:#}");
    let wrong = Credentials::Bearer("x".repeat(52));
    let error = TestClient::connect_with(&url, &wrong)
        .await
        .err()
        .context("a wrong token was taken")?;
    assert!(refused_for(&error).contains("401"), "{error:#}");
    Ok(())
}

#[tokio::test]
async fn host_without_auth_listens_on_loopback_only() -> Result<()> {
    let state = tempfile::TempDir::new()?;
    let said =
        program::run_failing_serve(state.path(), &["--auth", "none", "--listen", "0.0.0.0:0"])?;
    assert!(said.contains("auth = \"none\"") && said.contains("127.0.0.1"), "{said}");
    let said = program::run_failing_serve(state.path(), &["--auth", "maybe"])?;
    assert!(said.contains("token") && said.contains("none"), "{said}");
    Ok(())
}

#[tokio::test]
async fn queue_items_of_a_peer_that_leaves_are_orphaned_and_still_run() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (ann, session) = connect_peer(&host, "ann").await?;
    let (ben, _) = connect_peer(&host, "ben").await?;
    let call = ann.start_prompt(&session, "wait").await;
    expect_note(&ben, "turn_started").await?;
    let item = ben.call_method("amux/queue_prompt", json!({ "text": "echo orphan" })).await?["queueItemId"].clone();
    expect_note(&ann, "queue_item_added").await?;
    ben.close().await;
    assert_eq!(expect_note(&ann, "peer_left").await?, json!({ "peerId": "ben" }));
    assert_eq!(
        expect_note(&ann, "queue_item_orphaned").await?,
        json!({ "queueItemId": item, "peerId": "ben" })
    );
    ann.send_notification("_go", json!({ "sessionId": session })).await;
    call.wait_answer().await?;
    ann.expect_text("orphan").await;
    assert_eq!(expect_note(&ann, "queue_item_completed").await?["queueItemId"], item);
    Ok(())
}

#[tokio::test]
async fn sessions_are_listed_over_plain_http() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (_ann, session) = connect_peer(&host, "ann").await?;
    let http = wharf_testkit::http::RestClient::new(&host);
    let listed = http.get(&format!("/acp/sessions?cwd={}", cwd(&host)?)).await?.expect(200)?;
    assert_eq!(listed["sessions"][0]["sessionId"], session, "{listed}");
    let elsewhere = http.get("/acp/sessions?cwd=/elsewhere").await?.expect(200)?;
    assert_eq!(elsewhere, json!({ "sessions": [] }));
    let others = http.get("/acp/sessions?agent=demo").await?.expect(200)?;
    assert_eq!(others, json!({ "sessions": [] }));
    Ok(())
}
