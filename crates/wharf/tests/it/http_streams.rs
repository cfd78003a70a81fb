//! The event streams of Streamable HTTP: which message comes on which stream, in which order, and
//! where a reconnecting reader resumes.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::host::TestHost;

use crate::http_client::{AcpEventStream, AcpHttpClient, AcpStreamEvent};
use crate::{connect_client, cwd, join_session, open_session, prompt_for_text, scripted_host};

fn last_event_id(events: &AcpEventStream) -> Result<String> {
    events.last.clone().context("no event yet")
}

fn list_texts(events: &[AcpStreamEvent]) -> Vec<&str> {
    events.iter().filter_map(AcpStreamEvent::text).collect()
}

/// Returns the status with which a stream is refused.
async fn refused_status(
    http: &AcpHttpClient,
    session: Option<&str>,
    last: &str,
) -> Result<(u16, Value)> {
    let mut headers = vec![("accept", "text/event-stream"), ("last-event-id", last)];
    headers.extend(session.map(|session| ("acp-session-id", session)));
    let answer = http.send_http("GET", &headers, "").await?;
    Ok((answer.status, answer.json()["code"].clone()))
}

#[tokio::test]
async fn updates_before_the_stream_is_open_are_delivered_on_it() -> Result<()> {
    let host = scripted_host(&["--early-updates", "3"])?.start_host()?;
    let http = AcpHttpClient::open(&host).await?;
    let mut own = http.open_stream(None, None).await?;
    http.send(1, "session/new", json!({ "cwd": cwd(&host)?, "mcpServers": [] }))
        .await?;
    let opened = own.next().await?.context("no answer")?.data;
    let session = opened["result"]["sessionId"].as_str().context(opened.to_string())?;
    // Another request is answered meanwhile, which takes longer than `ready_timeout`; no update
    // came before it.
    let other = connect_client(&host).await?;
    other.load_session(session, &cwd(&host)?).await?;
    http.send(2, "session/list", json!({})).await?;
    assert_eq!(
        own.next().await?.context("no answer")?.data["id"],
        2,
        "nothing of the session on this stream"
    );
    let mut events = http.open_stream(Some(session), None).await?;
    let first = events.next().await?.context("nothing came")?;
    assert_eq!(
        (&first.data["method"], &first.data["params"]["sessionId"]),
        (&json!("session/update"), &json!(session))
    );
    Ok(())
}

#[tokio::test]
async fn a_load_with_the_stream_open_replays_and_then_answers_on_it() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (socket, session) = open_session(&host).await?;
    prompt_for_text(&socket, &session, "echo one; echo two").await?;
    let http = AcpHttpClient::open(&host).await?;
    let mut events = http.open_stream(Some(&session), None).await?;
    http.load_session(1, &session, &host).await?;
    let replay = events.until_answer(1).await?;
    assert_eq!(list_texts(&replay), ["one", "two"]);
    assert!(
        replay
            .iter()
            .any(|event| event.data["params"]["update"]["sessionUpdate"] == "user_message_chunk")
    );
    Ok(())
}

#[tokio::test]
async fn a_load_with_no_stream_open_answers_first_and_replays_later() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (socket, session) = open_session(&host).await?;
    prompt_for_text(&socket, &session, "echo one; echo two").await?;
    let http = AcpHttpClient::open(&host).await?;
    let mut own = http.open_stream(None, None).await?;
    http.load_session(1, &session, &host).await?;
    assert_eq!(own.next().await?.context("no answer")?.data["id"], 1);
    prompt_for_text(&socket, &session, "echo three").await?;
    let mut events = http.open_stream(Some(&session), None).await?;
    let mut replay = Vec::new();
    while list_texts(&replay).last() != Some(&"three") {
        replay.push(events.next().await?.context("the stream ended")?);
    }
    assert_eq!(list_texts(&replay), ["one", "two", "three"]);
    Ok(())
}

#[tokio::test]
async fn an_answer_comes_on_the_sessions_stream_if_it_is_open_and_else_on_the_connections()
-> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = AcpHttpClient::open(&host).await?;
    let (mut own, mut events, session) = http.session(&host).await?;
    let status = json!({ "sessionId": session });
    http.send(2, "session/status", status.clone()).await?;
    assert_eq!(events.answer(2).await?["result"]["status"], "live");
    http.send(3, "session/set_mode", json!({ "sessionId": session, "modeId": "ask" }))
        .await?;
    events.answer(3).await?;
    http.send(4, "session/status", json!({ "sessionId": "sess_other" })).await?;
    assert_eq!(own.answer(4).await?["result"]["status"], "not_found");
    Ok(())
}

#[tokio::test]
async fn a_client_that_opens_no_session_stream_still_gets_its_answers() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = AcpHttpClient::open(&host).await?;
    let mut own = http.open_stream(None, None).await?;
    http.send(1, "session/new", json!({ "cwd": cwd(&host)?, "mcpServers": [] }))
        .await?;
    let opened = own.answer(1).await?;
    let session = opened["result"]["sessionId"].as_str().context(opened.to_string())?;
    http.send_prompt(2, session, "echo one; user my words; echo two").await?;
    assert_eq!(own.answer(2).await?["result"]["stopReason"], "end_turn");
    let mut events = http.open_stream(Some(session), None).await?;
    http.send_prompt(3, session, "echo three").await?;
    let seen = events.until_answer(3).await?;
    assert_eq!(list_texts(&seen), ["one", "two", "three"], "the rest waited for the stream");
    assert!(
        !seen.iter().any(|event| event.data.to_string().contains("my words")),
        "its own prompt is not told back"
    );
    Ok(())
}

#[tokio::test]
async fn response_waits_for_a_disconnected_reader_for_a_limited_time() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = AcpHttpClient::open(&host).await?;
    let (mut own, mut events, session) = http.session(&host).await?;
    http.send_prompt(2, &session, "echo one").await?;
    events.answer(2).await?;
    let before = last_event_id(&events)?;
    drop(events);
    http.send_prompt(3, &session, "echo two").await?;
    assert_eq!(
        own.answer(3).await?["result"]["stopReason"],
        "end_turn",
        "that nobody reads was noticed"
    );
    let mut events = http.open_stream(Some(&session), Some(&before)).await?;
    http.send_prompt(4, &session, "echo three").await?;
    assert_eq!(list_texts(&events.until_answer(4).await?), ["two", "three"]);
    Ok(())
}

#[tokio::test]
async fn stream_broken_during_a_burst_resumes_without_gap_or_duplicate() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = AcpHttpClient::open(&host).await?;
    let (_own, mut events, session) = http.session(&host).await?;
    http.send_prompt(2, &session, "stream 4000 400").await?;
    let mut seen: Vec<AcpStreamEvent> = Vec::new();
    // The stream breaks with many events in flight, with none, and twice at the same position.
    for count in [1, 700, 0, 1500, 3] {
        for _ in 0..count {
            seen.push(events.next().await?.context("the stream ended")?);
        }
        let last = seen.last().context("nothing seen")?.id.clone();
        events = http.open_stream(Some(&session), Some(&last)).await?;
    }
    seen.extend(events.until_answer(2).await?);
    let numbers: Vec<u64> = seen.iter().filter_map(AcpStreamEvent::index).collect();
    assert_eq!(numbers, (0..4000).collect::<Vec<u64>>());
    let mut ids: Vec<&str> = seen.iter().map(|event| event.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), seen.len(), "every event has an id of its own");
    Ok(())
}

/// Covers messages that are not in the log or are for this client alone: answers, permissions,
/// prompts of others, presence.
#[tokio::test]
async fn a_reader_that_comes_back_gets_answers_and_requests_too() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = AcpHttpClient::open(&host).await?;
    let (mut own, events, session) = http.session(&host).await?;
    drop(events);
    let mut events = http.open_stream(Some(&session), None).await?;
    http.send(2, "session/attach", json!({ "sessionId": session, "historyPolicy": "none" }))
        .await?;
    events.answer(2).await?;
    let before = last_event_id(&events)?;
    let other = join_session(&host, &session).await?;
    prompt_for_text(&other, &session, "echo one").await?;
    http.send_prompt(3, &session, "echo two; ask; echo three").await?;
    http.send(4, "session/status", json!({ "sessionId": session })).await?;
    let mut seen = Vec::new();
    while seen
        .iter()
        .filter(|event: &&AcpStreamEvent| event.data.get("id").is_some())
        .count()
        < 2
    {
        seen.push(events.next().await?.context("the stream ended")?);
    }
    // From every position the rest of the stream is the same.
    for start in 0..seen.len() {
        let from = if start == 0 { before.as_str() } else { seen[start - 1].id.as_str() };
        let mut again = http.open_stream(Some(&session), Some(from)).await?;
        for expected in &seen[start..] {
            assert_eq!(again.next().await?.as_ref(), Some(expected), "after {from}");
        }
        events = again;
    }
    let ask = seen
        .iter()
        .find(|event| event.data["method"] == "session/request_permission")
        .context("no permission")?;
    let chosen = json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } });
    http.deliver_message(&json!({ "jsonrpc": "2.0", "id": ask.data["id"], "result": chosen }))
        .await?;
    assert_eq!(list_texts(&events.until_answer(3).await?), ["chosen: allow_once", "three"]);
    let tags: Vec<&Value> = seen
        .iter()
        .map(|event| &event.data["params"]["update"]["sessionUpdate"])
        .collect();
    for tag in ["client_connected", "prompt_received", "turn_complete"] {
        assert!(tags.contains(&&json!(tag)), "{tag} in {tags:?}");
    }
    http.send(5, "session/list", json!({})).await?;
    let listed = own.expect("the list", |event| event.data["id"] == 5).await?;
    let mut again = http.open_stream(None, Some("0-0+1")).await?;
    assert_eq!(again.next().await?, Some(listed), "the connection's own stream goes on too");
    Ok(())
}

#[tokio::test]
async fn newest_reader_takes_over_the_stream() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = AcpHttpClient::open(&host).await?;
    let (mut own, mut events, session) = http.session(&host).await?;
    let mut newer = http.open_stream(Some(&session), None).await?;
    assert_eq!(events.next().await?, None, "the one before it ends");
    http.send_prompt(2, &session, "echo hello").await?;
    newer.text("hello").await?;
    let mut newer = http.open_stream(None, None).await?;
    assert_eq!(own.next().await?, None);
    http.send(3, "session/list", json!({})).await?;
    newer.answer(3).await?;
    Ok(())
}

#[tokio::test]
async fn unknown_stream_event_id_is_409() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = AcpHttpClient::open(&host).await?;
    let (_own, mut events, session) = http.session(&host).await?;
    http.send_prompt(2, &session, "echo hello").await?;
    events.answer(2).await?;
    let known = last_event_id(&events)?;
    let (epoch, seq) = known.split_once('-').context(known.clone())?;
    let other_epoch = format!("{}-{seq}", epoch.parse::<u64>()? + 1);
    let not_yet = format!("{epoch}-{}", seq.parse::<u64>()? + 1000);
    for wrong in ["nonsense", &other_epoch, &not_yet, &format!("{known}@7")] {
        assert_eq!(
            refused_status(&http, Some(&session), wrong).await?,
            (409, json!("unknown_event")),
            "{wrong}"
        );
    }
    assert_eq!(refused_status(&http, None, "0-0+999").await?, (409, json!("unknown_event")));
    assert_eq!(
        refused_status(&http, Some("sess_unknown"), "1-1").await?,
        (409, json!("unknown_event"))
    );
    http.send_prompt(3, &session, "echo still").await?;
    events.text("still").await?;
    Ok(())
}

#[tokio::test]
async fn a_second_load_is_told_apart_from_the_first() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (socket, session) = open_session(&host).await?;
    prompt_for_text(&socket, &session, "echo one; echo two").await?;
    let http = AcpHttpClient::open(&host).await?;
    let mut events = http.open_stream(Some(&session), None).await?;
    http.load_session(1, &session, &host).await?;
    let first = events.until_answer(1).await?;
    http.load_session(2, &session, &host).await?;
    let second = events.until_answer(2).await?;
    ensure!(
        first.iter().all(|event| second.iter().all(|again| again.id != event.id)),
        "{first:?} {second:?}"
    );
    let mut again = http.open_stream(Some(&session), Some(&first[first.len() - 1].id)).await?;
    assert_eq!(again.until_answer(2).await?, second);
    let mut again = http.open_stream(Some(&session), Some(&second[0].id)).await?;
    assert_eq!(again.until_answer(2).await?, second[1..]);
    let mut again = http.open_stream(Some(&session), Some(&first[0].id)).await?;
    assert_eq!(
        again.until_answer(2).await?,
        [&first[1..], &second].concat(),
        "the rest of the first, then the second"
    );
    Ok(())
}

/// Shows how a client that lost the host resumes: the connection id is gone, the event ids of the
/// log are not.
async fn seen_across_a_restart(host: &mut TestHost, resume: bool) -> Result<Vec<String>> {
    let http = AcpHttpClient::open(host).await?;
    let (_own, mut events, session) = http.session(host).await?;
    http.send_prompt(2, &session, "echo one; echo two; echo three").await?;
    let two = events.text("two").await?;
    events.answer(2).await?;
    host.restart()?;
    let http = AcpHttpClient::open(host).await?;
    let mut events = http.open_stream(Some(&session), Some(&two.id)).await?;
    if resume {
        let params = json!({ "sessionId": session, "cwd": cwd(host)?, "mcpServers": [] });
        http.send(1, "session/resume", params).await?;
    }
    let mut seen = Vec::new();
    http.send_prompt(3, &session, "echo four").await?;
    while !seen.contains(&"four".to_owned()) {
        let event = events.next().await?.context("the stream ended")?;
        seen.extend(event.text().map(str::to_owned));
    }
    Ok(seen)
}

#[tokio::test]
async fn a_stream_goes_on_across_a_restart_of_the_host() -> Result<()> {
    for resume in [false, true] {
        let mut host = scripted_host(&[])?.start_host()?;
        assert_eq!(
            seen_across_a_restart(&mut host, resume).await?,
            ["three", "four"],
            "with resume: {resume}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn stalled_stream_reader_slows_no_other_client() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = AcpHttpClient::open(&host).await?;
    let (mut own, mut events, session) = http.session(&host).await?;
    let other = join_session(&host, &session).await?;
    http.send_prompt(2, &session, "stream 30000 1000").await?;
    other
        .expect("the last chunk", |frame| frame.chunk_index() == Some(29_999))
        .await;
    // 30 MB wait in the log; the client's other streams and requests go on, and the host keeps
    // little of it in memory.
    http.send(3, "session/list", json!({})).await?;
    own.answer(3).await?;
    let seen = events.until_answer(2).await?;
    assert_eq!(
        seen.iter().filter_map(AcpStreamEvent::index).collect::<Vec<_>>(),
        (0..30_000).collect::<Vec<u64>>()
    );
    Ok(())
}
