//! AIP-46 over HTTP: output and event streams in the standard's format (rules 8.3, 8.4).

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wharf_testkit::WAIT_LIMIT;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::{RestClient, TestEvent};
use wharf_testkit::pauses::PauseWatch;

use crate::rest::{output_lines, send_prompt, spawn_session, wait_for_session, wait_until_idle};
use crate::{join_session, scripted_host};

fn list_lines(events: &[TestEvent]) -> Vec<&str> {
    events
        .iter()
        .filter(|event| event.name == "line")
        .filter_map(|event| event.data["line"].as_str())
        .collect()
}

/// Runs a script in a new session and kills the session.
async fn run_and_kill(http: &RestClient, host: &TestHost, script: &str) -> Result<String> {
    let id = spawn_session(http, host).await?;
    send_prompt(http, &id, script).await?;
    wait_until_idle(http, &id).await?;
    http.post_empty(&format!("/sessions/{id}/kill")).await?.expect(200)?;
    Ok(id)
}

#[tokio::test]
async fn a_line_event_has_the_line_and_its_stream() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let mut events = http.open_stream(&format!("/sessions/{id}/stream"), None).await?;
    send_prompt(&http, &id, "echo hello world").await?;
    let event = events.expect_line("hello world").await?;
    assert_eq!(event.data, json!({ "line": "hello world", "stream": "stdout" }));
    let id = event.id.context("no id")?;
    assert!(id.contains('-') && id.ends_with(".1"), "{id}");
    Ok(())
}

#[tokio::test]
async fn status_turn_and_ask_events_are_sent_beside_lines() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let sent = send_prompt(&http, &id, "ask").await?;
    wait_for_session(&http, &id, "a question", |session| session["turn"] == "awaiting_input")
        .await?;
    let asks = http.get(&format!("/sessions/{id}/asks")).await?.expect(200)?;
    let ask = &asks["asks"][0]["askId"];
    http.post(&format!("/sessions/{id}/asks/{ask}"), &json!({ "optionId": "allow_once" }))
        .await?
        .expect(200)?;
    wait_until_idle(&http, &id).await?;
    http.post_empty(&format!("/sessions/{id}/kill")).await?.expect(200)?;
    let events = http
        .open_stream(&format!("/sessions/{id}/stream"), None)
        .await?
        .read_rest()
        .await?;
    let told: Vec<(&str, &Value)> = events
        .iter()
        .filter(|event| event.name != "line")
        .map(|event| (event.name.as_str(), &event.data))
        .collect();
    let names: Vec<&str> = told.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["status", "status", "turn", "ask", "ask", "turn", "status"], "{told:?}");
    assert_eq!(told[0].1, &json!({ "status": "starting" }));
    assert_eq!(told[1].1, &json!({ "status": "running" }));
    assert_eq!(told[2].1, &json!({ "turn": "started", "promptId": sent["promptId"] }));
    assert_eq!(
        (&told[3].1["askId"], &told[3].1["open"], &told[3].1["kind"]),
        (ask, &json!(true), &json!("permission"))
    );
    let closed = json!({ "askId": ask, "open": false, "kind": "permission", "outcome": "answered", "optionId": "allow_once" });
    assert_eq!(told[4].1, &closed);
    assert_eq!(
        told[5].1,
        &json!({ "turn": "ended", "promptId": sent["promptId"], "stopReason": "end_turn" })
    );
    assert_eq!(told[6].1, &json!({ "status": "killed", "endReason": "user" }));
    Ok(())
}

#[tokio::test]
async fn the_end_of_a_turn_comes_after_its_last_line() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = run_and_kill(&http, &host, "echo no line break").await?;
    let events = http
        .open_stream(&format!("/sessions/{id}/stream"), None)
        .await?
        .read_rest()
        .await?;
    let end = events
        .iter()
        .position(|event| event.data["turn"] == "ended")
        .context("no end")?;
    let last = events.iter().rposition(|event| event.name == "line").context("no line")?;
    assert!(last < end, "{events:?}");
    Ok(())
}

#[tokio::test]
async fn stream_ends_with_the_session_and_a_reconnect_gets_no_events() -> Result<()> {
    let host = scripted_host(&["--no-load"])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let path = format!("/sessions/{id}/stream");
    let mut events = http.open_stream(&path, None).await?;
    send_prompt(&http, &id, "echo bye; crash 5").await?;
    let all = events.read_rest().await?;
    let last = all.last().context("nothing came")?;
    assert_eq!((&last.data["status"], &last.data["exitCode"]), (&json!("exited"), &json!(5)));
    assert!(list_lines(&all).contains(&"bye"), "{all:?}");
    let mark = last.id.clone().context("no id")?;
    let after = http.send("GET", &path, &[("last-event-id", &mark)], "").await?;
    assert_eq!((after.status, after.body.as_str()), (204, ""));
    assert_eq!(http.get(&format!("{path}?after={mark}")).await?.status, 204);
    assert_eq!(
        http.open_stream(&path, None).await?.read_rest().await?,
        all,
        "from the beginning it is all there"
    );
    Ok(())
}

#[tokio::test]
async fn stream_stays_open_while_the_session_sleeps() -> Result<()> {
    let host = scripted_host(&["--resume"])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let path = format!("/sessions/{id}/stream");
    let mut first = http.open_stream(&path, None).await?;
    send_prompt(&http, &id, "echo bye; crash 5").await?;
    let ended = first.expect("the end", |event| event.data["status"] == "exited").await?;
    let mark = ended.id.context("no id")?;
    let mut second =
        http.open_stream(&path, Some(&mark)).await.context("a reader that comes back")?;
    send_prompt(&http, &id, "echo back again").await?;
    for events in [&mut first, &mut second] {
        events.expect_line("back again").await?;
    }
    http.post_empty(&format!("/sessions/{id}/kill")).await?.expect(200)?;
    for events in [&mut first, &mut second] {
        let last = events.read_rest().await?.pop().context("no end")?;
        assert_eq!(
            last.data,
            json!({ "status": "killed", "endReason": "user" }),
            "a killed session stays dead"
        );
    }
    Ok(())
}

#[tokio::test]
async fn stream_of_a_sleeping_session_ends_when_the_session_is_forgotten() -> Result<()> {
    let host = scripted_host(&["--resume"])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    send_prompt(&http, &id, "crash 5").await?;
    wait_for_session(&http, &id, "its end", |session| session["status"] == "exited").await?;
    let mut events = http.open_stream(&format!("/sessions/{id}/stream"), None).await?;
    events.expect("the end", |event| event.data["status"] == "exited").await?;
    http.send("DELETE", &format!("/sessions/{id}"), &[], "").await?.expect(200)?;
    events.read_rest().await?;
    Ok(())
}

#[tokio::test]
async fn prompts_and_plans_are_lines_where_a_reader_asks_for_them() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = run_and_kill(&http, &host, "plan; echo done").await?;
    let lines = |answer: Value| -> Vec<String> {
        answer["lines"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|line| line.as_str().map(str::to_owned))
            .collect()
    };
    let output = format!("/sessions/{id}/output");
    let plain = lines(http.get(&output).await?.expect(200)?);
    assert_eq!(plain, ["done", "── turn-end (end_turn) ──"], "AIP-46's table is the default");
    let prompts = lines(http.get(&format!("{output}?include=prompts")).await?.expect(200)?);
    assert_eq!(prompts, ["[prompt] plan; echo done", "done", "── turn-end (end_turn) ──"]);
    let both = lines(http.get(&format!("{output}?include=plans,prompts")).await?.expect(200)?);
    assert_eq!(both.first().map(String::as_str), Some("[prompt] plan; echo done"));
    assert!(both.len() > prompts.len() && both[1].starts_with("[plan] "), "{both:?}");
    let wrong = http.get(&format!("{output}?include=colours")).await?;
    assert_eq!(wrong.status_and_code(), (422, "invalid_params".to_owned()));
    let path = format!("/sessions/{id}/stream?include=prompts,plans");
    let all = http.open_stream(&path, None).await?.read_rest().await?;
    assert_eq!(list_lines(&all), both);
    for (index, event) in all.iter().enumerate().take(all.len() - 1) {
        let rest = http.open_stream(&path, event.id.as_deref()).await?.read_rest().await?;
        assert_eq!(rest, all[index + 1..], "after {:?}", event.id);
    }
    Ok(())
}

#[tokio::test]
async fn every_last_event_id_resumes_without_gap_or_duplicate() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let script = "echo one; think a thought; tool; stream 30 20; plan; echo last";
    let id = run_and_kill(&http, &host, script).await?;
    let path = format!("/sessions/{id}/stream");
    let all = http.open_stream(&path, None).await?.read_rest().await?;
    assert!(all.len() > 10, "{all:?}");
    for (index, event) in all.iter().enumerate() {
        let mark = event.id.as_deref().context("no id")?;
        let answer = http.send("GET", &path, &[("last-event-id", mark)], "").await?;
        if index + 1 == all.len() {
            assert_eq!(answer.status, 204);
            continue;
        }
        let rest = http.open_stream(&path, Some(mark)).await?.read_rest().await?;
        assert_eq!(rest, all[index + 1..], "after {mark}");
    }
    let by_query = format!("{path}?after={}", all[3].id.as_deref().context("no id")?);
    assert_eq!(http.open_stream(&by_query, None).await?.read_rest().await?, all[4..]);
    let newer = all[6].id.as_deref().context("no id")?;
    assert_eq!(
        http.open_stream(&by_query, Some(newer)).await?.read_rest().await?,
        all[7..],
        "the header is newer than the query"
    );
    Ok(())
}

#[tokio::test]
async fn a_reader_that_comes_back_during_a_turn_goes_on_after_a_restart_too() -> Result<()> {
    let mut host =
        scripted_host(&["--resume"])?.without_keepers(crate::TURN_IS_CUT).start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let path = format!("/sessions/{id}/stream");
    let mut events = http.open_stream(&path, None).await?;
    send_prompt(&http, &id, "echo one; think a while; wait; echo two").await?;
    let one = events.expect("the turn", |event| event.data["turn"] == "started").await?;
    drop(events);
    let other = join_session(&host, &id).await?;
    other.send_notification("_go", json!({ "sessionId": id })).await;
    wait_until_idle(&http, &id).await?;
    let mark = one.id.context("no id")?;
    let mut again = http.open_stream(&path, Some(&mark)).await?;
    again.expect_line("two").await?;
    host.restart()?;
    let http = RestClient::new(&host);
    let mut rest = http.open_stream(&path, Some(&mark)).await?;
    rest.expect_line("two").await?;
    rest.expect("the end", |event| event.data["endReason"] == "host_restarted")
        .await?;
    Ok(())
}

#[tokio::test]
async fn an_id_that_the_log_does_not_hold_is_409() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = run_and_kill(&http, &host, "echo x").await?;
    let path = format!("/sessions/{id}/stream");
    for unknown in ["1-99999.1", "77-2", "x", "1-", "1-0.1", "-", "1-2.3.4", "1-+2"] {
        let answer = http.send("GET", &path, &[("last-event-id", unknown)], "").await?;
        assert_eq!(answer.status_and_code(), (409, "unknown_event".to_owned()), "{unknown}");
    }
    assert_eq!(
        http.send("GET", &path, &[("last-event-id", "")], "").await?.status,
        200,
        "nothing yet is no id"
    );
    assert_eq!(
        http.get("/sessions/none/stream").await?.status_and_code(),
        (404, "unknown_session".to_owned())
    );
    Ok(())
}

#[tokio::test]
async fn stream_of_all_sessions_tells_a_stop_but_not_a_death() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let pid = http.get("/host").await?.expect(200)?["pid"].clone();
    let mut events = http.open_stream("/sessions/stream", None).await?;
    events.expect("the snapshot", |event| event.name == "snapshot").await?;
    http.post_empty("/stop").await?.expect(202)?;
    let stopping = events.expect("the stop", |event| event.name == "stopping").await?;
    assert_eq!(stopping.data, json!({ "pid": pid }));

    host.restart()?;
    let http = RestClient::new(&host);
    let mut events = http.open_stream("/sessions/stream", None).await?;
    events.expect("the snapshot", |event| event.name == "snapshot").await?;
    host.kill()?;
    let after = events.read_rest().await.unwrap_or_default();
    assert!(after.iter().all(|event| event.name != "stopping"), "{after:?}");
    Ok(())
}

#[tokio::test]
async fn every_reader_of_the_list_is_told_of_a_stop_that_follows_a_change_at_once() -> Result<()> {
    const READERS: usize = 20;
    // Without a running agent the host is gone a moment after it was told to stop.
    let mut host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = run_and_kill(&http, &host, "echo done").await?;
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let mut events = http.open_stream("/sessions/stream", None).await?;
        events.expect("the snapshot", |event| event.name == "snapshot").await?;
        readers.push(events);
    }
    let rename = async |title: &str| {
        let body = json!({ "title": title }).to_string();
        let headers = [("content-type", "application/json")];
        http.send("PATCH", &format!("/sessions/{id}"), &headers, &body)
            .await?
            .expect(200)
    };
    rename("renamed").await?;
    readers[0]
        .expect("the change", |event| event.data["title"] == "renamed")
        .await?;
    rename("renamed again").await?;
    http.post_empty("/stop").await?.expect(202)?;
    for mut events in readers {
        events.expect("the stop", |event| event.name == "stopping").await?;
    }
    anyhow::ensure!(host.wait_exit(wharf_testkit::WAIT_LIMIT)?.success(), "the host's exit");
    Ok(())
}

#[tokio::test]
async fn several_readers_see_the_same() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let path = format!("/sessions/{id}/stream");
    let mut readers = Vec::new();
    for _ in 0..5 {
        readers.push(http.open_stream(&path, None).await?);
    }
    send_prompt(&http, &id, "stream 500 100").await?;
    wait_until_idle(&http, &id).await?;
    http.post_empty(&format!("/sessions/{id}/kill")).await?.expect(200)?;
    let late = http.open_stream(&path, None).await?.read_rest().await?;
    for reader in &mut readers {
        assert_eq!(reader.read_rest().await?, late);
    }
    Ok(())
}

/// Opens a stream and never reads from its socket.
async fn open_unread_stream(host: &TestHost, path: &str) -> Result<tokio::net::TcpStream> {
    let authority = host.url().trim_start_matches("http://");
    let mut socket = tokio::net::TcpStream::connect(authority).await?;
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: {authority}\r\nauthorization: Bearer {}\r\n\r\n",
        host.token()
    );
    socket.write_all(head.as_bytes()).await?;
    // The response has begun.
    socket.read_exact(&mut [0; 1]).await?;
    Ok(socket)
}

#[tokio::test]
async fn stalled_reader_uses_little_memory_and_blocks_no_other_client() -> Result<()> {
    let mut options = scripted_host(&[])?;
    // Searching every byte for secrets is slow in a debug build.
    options.config.get_or_insert_default().insert_str(0, "redact_output = false\n");
    let host = options.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let path = format!("/sessions/{id}/stream");
    let (_one, _other) = (
        open_unread_stream(&host, &path).await?,
        open_unread_stream(&host, "/sessions/stream").await?,
    );
    let before = host.rss_kib().context("no memory")?;
    send_prompt(&http, &id, "stream 20000 1000").await?;
    let mut events = http.open_stream(&path, None).await?;
    tokio::time::timeout(Duration::from_secs(60), async {
        events.expect("the end", |event| event.data["turn"] == "ended").await
    })
    .await
    .context("a reader that reads was held up")??;
    let grown = host.rss_kib().context("no memory")?.saturating_sub(before);
    assert!(grown < 12 * 1024, "20 MB of output left {grown} KiB behind");
    Ok(())
}

#[tokio::test]
async fn a_silent_stream_has_a_comment_every_25_to_30_seconds() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let comment = async |path: String| -> Result<()> {
        let mut socket = open_unread_stream(&host, &path).await?;
        let (mut seen, mut chunk) = (Vec::new(), [0; 4096]);
        while !seen.windows(3).any(|bytes| bytes == b":\n\n") {
            let read = socket.read(&mut chunk).await?;
            anyhow::ensure!(read > 0, "the stream ended");
            seen.extend_from_slice(&chunk[..read]);
        }
        Ok(())
    };
    let began = std::time::Instant::now();
    let pauses = PauseWatch::start();
    let both = async {
        tokio::try_join!(
            comment(format!("/sessions/{id}/stream")),
            comment("/sessions/stream".to_owned())
        )
    };
    tokio::time::timeout(2 * WAIT_LIMIT, both).await.context("no comment")??;
    pauses.expect_within(Duration::from_secs(30), "the comment")?;
    assert!(began.elapsed() >= Duration::from_secs(20), "not all the time");
    Ok(())
}

#[tokio::test]
async fn disconnected_reader_is_released() -> Result<()> {
    let host = crate::add_section(scripted_host(&[])?, "[limits]\nconnections = 3").start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    // This exceeds the number of permits: each stream must have released its permit for the next.
    for _ in 0..8 {
        let mut events = http.open_stream(&format!("/sessions/{id}/stream"), None).await?;
        events.expect("the beginning", |event| event.name == "status").await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_stream_of_all_sessions_begins_with_a_snapshot_and_tells_changes() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let first = spawn_session(&http, &host).await?;
    let mut events = http.open_stream("/sessions/stream", None).await?;
    let snapshot = events.next().await?.context("nothing came")?;
    assert_eq!(
        (snapshot.name.as_str(), &snapshot.data["sessions"][0]["id"]),
        ("snapshot", &json!(first))
    );
    let second = spawn_session(&http, &host).await?;
    let of = |id: &str, member: &str, value: &str| {
        let (id, member, value) = (id.to_owned(), member.to_owned(), value.to_owned());
        move |event: &TestEvent| {
            event.name == "session" && event.data["id"] == id && event.data[&member] == value
        }
    };
    events.expect("the new one", of(&second, "status", "running")).await?;
    send_prompt(&http, &first, "ask").await?;
    events.expect("a question", of(&first, "turn", "awaiting_input")).await?;
    http.post_empty(&format!("/sessions/{first}/interrupt")).await?.expect(200)?;
    events.expect("rest", of(&first, "turn", "idle")).await?;
    http.post_empty(&format!("/sessions/{second}/kill")).await?.expect(200)?;
    events.expect("an end", of(&second, "status", "killed")).await?;
    http.delete(&format!("/sessions/{second}")).await?.expect(200)?;
    let gone = events.expect("its being forgotten", |event| event.name == "forgotten").await?;
    assert_eq!(gone.data, json!({ "id": second }));
    let again = http
        .open_stream("/sessions/stream", None)
        .await?
        .next()
        .await?
        .context("nothing came")?;
    assert_eq!(
        again.data["sessions"].as_array().map(Vec::len),
        Some(1),
        "a reconnect gets a new snapshot"
    );
    Ok(())
}

#[tokio::test]
async fn agent_updates_are_not_in_the_stream_of_all_sessions() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let mut events = http.open_stream("/sessions/stream", None).await?;
    send_prompt(&http, &id, "stream 3000 200; ask").await?;
    let (mut told, mut asked, mut last) = (0, false, None);
    while !asked {
        let mut event = events.next().await?.context("the stream ended")?;
        asked = event.name == "session" && event.data["turn"] == "awaiting_input";
        // The use of memory is told from time to time.
        if let Some(session) = event.data.as_object_mut() {
            session.remove("resources");
        }
        told += usize::from(last.replace(event.data.clone()) != Some(event.data));
    }
    assert!(told <= 4, "3000 chunks made {told} events");
    Ok(())
}

#[tokio::test]
async fn output_gives_the_last_lines() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let empty = http.get(&format!("/sessions/{id}/output")).await?.expect(200)?;
    assert_eq!(empty, json!({ "id": id, "lines": [] }));
    send_prompt(&http, &id, "echo one; think two; tool; echo three").await?;
    wait_until_idle(&http, &id).await?;
    let all = ["one", "[thought] two", "[tool] a tool", "three", "── turn-end (end_turn) ──"];
    assert_eq!(output_lines(&http, &id).await?, all);
    let last = http.get(&format!("/sessions/{id}/output?lastN=2")).await?.expect(200)?;
    assert_eq!(last["lines"], json!(all[3..]));
    http.post_empty(&format!("/sessions/{id}/kill")).await?.expect(200)?;
    let id_of_last = last["lastEventId"].as_str().context("no id")?;
    let mut events = http.open_stream(&format!("/sessions/{id}/stream"), Some(id_of_last)).await?;
    let names: Vec<String> =
        events.read_rest().await?.into_iter().map(|event| event.name).collect();
    assert!(!names.contains(&"line".to_owned()), "no line comes twice: {names:?}");
    Ok(())
}

#[tokio::test]
async fn events_are_the_log_as_it_is_stored_in_pages() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    send_prompt(&http, &id, "rawupdate {\"sessionUpdate\":\"novel\",\"n\":1.10}").await?;
    let last = wait_until_idle(&http, &id).await?["lastSeq"].as_u64().context("no seq")?;
    let (mut after, mut seqs, mut kinds) = (String::new(), Vec::new(), Vec::new());
    loop {
        let answer = http.get(&format!("/sessions/{id}/events?limit=3{after}")).await?;
        if answer.body.contains("novel") {
            assert!(
                answer.body.contains(r#""n":1.10"#),
                "numbers keep their spelling: {}",
                answer.body
            );
        }
        let page = answer.expect(200)?;
        for event in page["events"].as_array().context("no list")? {
            assert_eq!(event["id"], format!("{}-{}", event["epoch"], event["seq"]));
            seqs.push(event["seq"].as_u64().unwrap_or_default());
            kinds.push(event["kind"].as_str().unwrap_or_default().to_owned());
        }
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(seqs, (1..=last).collect::<Vec<_>>());
    assert_eq!(kinds[0], "created");
    for unknown in ["99-1", "1-9999", "x", "1-0"] {
        let answer = http.get(&format!("/sessions/{id}/events?after={unknown}")).await?;
        assert_eq!(answer.status_and_code(), (409, "unknown_event".to_owned()), "{unknown}");
    }
    Ok(())
}
