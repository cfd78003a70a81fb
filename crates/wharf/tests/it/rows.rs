//! The transcript as rows: pages, the stream that follows them, and turns (chapter 13).

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_api::FOLD_NUMBER;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::{RestClient, TestEvent, TestEventStream};

use crate::attention::mark_seen;
use crate::mcp_client::Mcp;
use crate::rest::{send_prompt, spawn_session, wait_for_session, wait_until_idle};
use crate::scopes::{register_workspace, workspace_caller};
use crate::scripted_host;

/// A script with rows of many kinds, among them a tool call that a later turn ends.
const FIRST_SCRIPT: &str =
    "tool-open slow; echo one; think two; tool; plan; stream 20 1; echo three";
const LATER_SCRIPT: &str = "echo four; tool-done slow; tool; echo five";

/// A reader as a client is to be written: it applies the events of a stream to the rows that it
/// has.
#[derive(Debug, Default)]
pub(crate) struct RowReader {
    /// The rows by the seq and number in their id, which is their order.
    rows: BTreeMap<(u64, u64), Value>,
    state: Value,
    /// The newest revision of rows that are not loaded.
    unseen: BTreeMap<String, u64>,
    position: Option<String>,
    /// Rows that have to be fetched again.
    stale: Vec<String>,
}

/// Returns the place of a row in the transcript.
fn row_place(id: &str) -> (u64, u64) {
    let (_, rest) = id.split_once('-').unwrap_or_default();
    let (seq, n) = rest.split_once('.').unwrap_or((rest, "1"));
    (seq.parse().unwrap_or_default(), n.parse().unwrap_or_default())
}

impl RowReader {
    /// Applies one event as the specification tells clients to.
    pub(crate) fn apply(&mut self, event: &TestEvent) -> Result<()> {
        let data = &event.data;
        match event.name.as_str() {
            "page" => {
                self.rows.clear();
                self.unseen.clear();
                self.load(data)?;
                self.state = data["state"].clone();
            }
            "row" => self.put_row(data)?,
            "append" | "tail" => self.append(&event.name, data)?,
            "state" => {
                for (name, value) in data.as_object().into_iter().flatten() {
                    self.state[name] = value.clone();
                }
            }
            "beat" | "reset" | "snapshot" | "session" | "forgotten" => {}
            other => anyhow::bail!("an unknown event {other}"),
        }
        if event.id.is_some() {
            self.position.clone_from(&event.id);
        }
        Ok(())
    }

    /// Adds the rows of an older page. A row that has changed since is fetched again.
    pub(crate) fn load(&mut self, page: &Value) -> Result<()> {
        for row in page["rows"].as_array().context("no rows")? {
            let id = row["id"].as_str().context("no id")?;
            if self.unseen.get(id).is_some_and(|rev| row["rev"].as_u64() < Some(*rev)) {
                self.stale.push(id.to_owned());
            }
            self.rows.insert(row_place(id), row.clone());
        }
        Ok(())
    }

    fn put_row(&mut self, row: &Value) -> Result<()> {
        let id = row["id"].as_str().context("no id")?;
        let place = row_place(id);
        let is_older_than_all =
            self.rows.first_key_value().is_some_and(|(first, _)| place < *first);
        match self.rows.get(&place) {
            Some(known) if known["rev"].as_u64() >= row["rev"].as_u64() => {}
            None if is_older_than_all => {
                self.unseen.insert(id.to_owned(), row["rev"].as_u64().context("no rev")?);
            }
            _ => {
                self.rows.insert(place, row.clone());
            }
        }
        Ok(())
    }

    fn append(&mut self, name: &str, data: &Value) -> Result<()> {
        let id = data["id"].as_str().context("no id")?;
        let Some(row) = self.rows.get_mut(&row_place(id)) else {
            self.unseen.insert(id.to_owned(), data["rev"].as_u64().context("no rev")?);
            return Ok(());
        };
        ensure!(
            row["rev"] == data["from"],
            "an append from {} to a row of {}",
            data["from"],
            row["rev"]
        );
        let part = usize::try_from(data["part"].as_u64().context("no part")?)?;
        let part = &mut row["parts"][part];
        let end = if name == "tail" { &mut part["cut"]["tail"] } else { &mut part["text"] };
        *end = format!(
            "{}{}",
            end.as_str().context("no text")?,
            data["text"].as_str().context("no text")?
        )
        .into();
        (row["rev"], row["changedAt"]) = (data["rev"].clone(), data["changedAt"].clone());
        Ok(())
    }

    /// Returns the position of the last complete batch.
    pub(crate) fn position(&self) -> Option<&str> {
        self.position.as_deref()
    }

    pub(crate) const fn state(&self) -> &Value {
        &self.state
    }

    pub(crate) fn rows(&self) -> Vec<Value> {
        self.rows.values().cloned().collect()
    }
}

/// Reads all rows, a page at a time from the newest end.
pub(crate) async fn read_all_rows(http: &RestClient, id: &str, limit: usize) -> Result<Vec<Value>> {
    let (mut rows, mut before) = (Vec::new(), None::<String>);
    loop {
        let cursor = before.map(|before| format!("&before={before}")).unwrap_or_default();
        let page = http
            .get(&format!("/sessions/{id}/rows?limit={limit}{cursor}"))
            .await?
            .expect(200)?;
        let mut older = page["rows"].as_array().context("no rows")?.clone();
        older.append(&mut rows);
        rows = older;
        match page["before"].as_str() {
            Some(cursor) => before = Some(cursor.to_owned()),
            None => return Ok(rows),
        }
    }
}

/// Applies events until the turn's last row has come.
async fn follow_turn(
    events: &mut TestEventStream,
    reader: &mut RowReader,
    prompt: &str,
) -> Result<()> {
    loop {
        let event = events.next().await?.context("the stream has ended")?;
        reader.apply(&event)?;
        let ended =
            event.name == "row" && event.data["kind"] == "turn_end" && event.data["turn"] == prompt;
        if ended {
            // The batch is complete with the event that has an id.
            let mut last = event;
            while last.id.is_none() {
                last = events.next().await?.context("the stream has ended")?;
                reader.apply(&last)?;
            }
            return Ok(());
        }
    }
}

/// Runs a prompt to its end and returns its id.
pub(crate) async fn run_prompt(http: &RestClient, id: &str, script: &str) -> Result<String> {
    let sent = send_prompt(http, id, script).await?;
    wait_until_idle(http, id).await?;
    Ok(sent["promptId"].as_str().context("no prompt id")?.to_owned())
}

fn kinds(rows: &[Value]) -> Vec<&str> {
    rows.iter().filter_map(|row| row["kind"].as_str()).collect()
}

pub(crate) async fn start_session() -> Result<(TestHost, RestClient, String)> {
    let host = scripted_host(&["--resume"])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    Ok((host, http, id))
}

#[tokio::test]
async fn stream_applied_to_its_page_equals_a_fresh_page() -> Result<()> {
    let (_host, http, id) = start_session().await?;
    let mut events = http.open_stream(&format!("/sessions/{id}/rows/stream"), None).await?;
    let mut reader = RowReader::default();
    let page = events.next().await?.context("no page")?;
    assert_eq!((page.name.as_str(), &page.data["fold"]), ("page", &json!(FOLD_NUMBER)));
    assert!(page.id.is_some(), "a page is complete");
    reader.apply(&page)?;
    for script in [FIRST_SCRIPT, LATER_SCRIPT] {
        let sent = send_prompt(&http, &id, script).await?;
        follow_turn(&mut events, &mut reader, sent["promptId"].as_str().context("no id")?).await?;
        assert_eq!(reader.rows(), read_all_rows(&http, &id, 200).await?);
    }
    let rows = reader.rows();
    let found = kinds(&rows);
    for kind in ["prompt", "message", "thought", "tool", "plan", "turn_end"] {
        assert!(found.contains(&kind), "no {kind} in {found:?}");
    }
    let slow = rows.iter().find(|row| row["toolCallId"] == "slow").context("no tool call")?;
    assert_eq!(
        (&slow["state"], &slow["open"]),
        (&json!("completed"), &json!(false)),
        "a late update is seen"
    );
    Ok(())
}

#[tokio::test]
async fn late_update_of_a_row_that_is_not_loaded_is_found_with_its_page() -> Result<()> {
    let (_host, http, id) = start_session().await?;
    run_prompt(&http, &id, FIRST_SCRIPT).await?;
    let first = http.get(&format!("/sessions/{id}/rows?limit=200")).await?.expect(200)?;
    // The reader has only the end of the transcript when the old row changes.
    let newest = http
        .get(&format!("/sessions/{id}/rows?limit=1&kinds=turn_end"))
        .await?
        .expect(200)?;
    let as_of = newest["asOf"].as_str().context("no position")?.to_owned();
    let mut reader = RowReader::default();
    reader.load(&newest)?;
    let mut events = http
        .open_stream(&format!("/sessions/{id}/rows/stream?after={as_of}"), None)
        .await?;
    let sent = send_prompt(&http, &id, LATER_SCRIPT).await?;
    follow_turn(&mut events, &mut reader, sent["promptId"].as_str().context("no id")?).await?;
    reader.load(&first)?;
    let all = read_all_rows(&http, &id, 200).await?;
    assert_eq!(
        reader.stale.len(),
        1,
        "the row of the slow tool call has changed meanwhile: {:?}",
        reader.stale
    );
    let fresh = http
        .get(&format!("/sessions/{id}/rows/{}", reader.stale[0]))
        .await?
        .expect(200)?;
    reader.put_row(&fresh)?;
    assert_eq!(reader.rows(), all);
    Ok(())
}

#[tokio::test]
async fn rows_are_the_same_after_a_crash_and_without_the_database() -> Result<()> {
    let (mut host, http, id) = start_session().await?;
    run_prompt(&http, &id, FIRST_SCRIPT).await?;
    let first = read_all_rows(&http, &id, 200).await?;
    run_prompt(&http, &id, LATER_SCRIPT).await?;
    let before = read_all_rows(&http, &id, 200).await?;
    assert!(first.len() < before.len());
    for wipes in [false, true] {
        host.kill()?;
        if wipes {
            for name in ["transcript.db", "transcript.db-wal", "transcript.db-shm"] {
                let _ = std::fs::remove_file(host.state_dir().join(name));
            }
        }
        host.restart()?;
        let http = RestClient::new(&host);
        let mut after = read_all_rows(&http, &id, 200).await?;
        // The crash itself adds rows.
        after.truncate(before.len());
        assert_eq!(after, before, "wipes: {wipes}");
    }
    Ok(())
}

#[tokio::test]
async fn rows_that_the_database_has_damaged_are_made_anew() -> Result<()> {
    let (mut host, http, id) = start_session().await?;
    run_prompt(&http, &id, "echo wombat").await?;
    let before = read_all_rows(&http, &id, 200).await?;
    host.terminate()?;
    let path = host.state_dir().join("transcript.db");
    let mut bytes = std::fs::read(&path)?;
    let row = br#"{"id":"1-"#;
    let found: Vec<usize> = (0..bytes.len() - row.len())
        .filter(|at| bytes[*at..].starts_with(row))
        .collect();
    assert!(!found.is_empty(), "no row is in the database");
    for at in found {
        bytes[at] = b'x';
    }
    std::fs::write(&path, bytes)?;
    host.restart()?;
    let http = RestClient::new(&host);
    let mut after = read_all_rows(&http, &id, 200).await?;
    after.truncate(before.len());
    assert_eq!(after, before);
    Ok(())
}

#[tokio::test]
async fn every_position_of_a_stream_resumes_to_the_same_rows_even_after_a_restart() -> Result<()> {
    let (mut host, http, id) = start_session().await?;
    let path = format!("/sessions/{id}/rows/stream");
    let mut events = http.open_stream(&path, None).await?;
    let mut reader = RowReader::default();
    let mut readers = Vec::new();
    // The agent goes on when a step has come: so that the steps come in batches of their own.
    let seen = |step: usize| host.directory().join(format!("seen-{step}"));
    let wait = |step: usize| format!("await {}", seen(step).display());
    let first = format!("tick 30 100; {}; tool-open slow; echo one; {}", wait(0), wait(1));
    let steps = format!("{first}; tool-done slow; {}; echo two; {}; echo three", wait(2), wait(3));
    let sent = send_prompt(&http, &id, &steps).await?;
    let mut step = 0;
    loop {
        let event = events.next().await?.context("the stream has ended")?;
        reader.apply(&event)?;
        if let Some(position) = &event.id {
            readers.push((position.clone(), reader.rows.clone()));
            std::fs::write(seen(step), "")?;
            step += 1;
        }
        if event.data["kind"] == "turn_end" && event.data["turn"] == sent["promptId"] {
            break;
        }
    }
    wait_until_idle(&http, &id).await?;
    assert!(readers.len() > 3, "only {} batches", readers.len());
    host.kill()?;
    host.restart()?;
    let http = RestClient::new(&host);
    let all = read_all_rows(&http, &id, 200).await?;
    for (position, rows) in readers {
        let mut reader = RowReader { rows, ..RowReader::default() };
        let mut events = http.open_stream(&path, Some(&position)).await?;
        while reader.rows() != all {
            let event = events.next().await?.context("the stream has ended")?;
            ensure!(event.name != "beat", "after {position} rows are missing: {:?}", reader.rows());
            reader.apply(&event)?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn pages_begin_with_a_turn_and_cover_every_row_once() -> Result<()> {
    let (_host, http, id) = start_session().await?;
    for turn in 0..5 {
        run_prompt(
            &http,
            &id,
            &format!("echo {turn}; tool; think more; tool-open t{turn}; echo end"),
        )
        .await?;
    }
    let all = read_all_rows(&http, &id, 200).await?;
    for limit in [1, 3, 4, 7, 30] {
        assert_eq!(read_all_rows(&http, &id, limit).await?, all, "limit {limit}");
    }
    let page = http.get(&format!("/sessions/{id}/rows?limit=4")).await?.expect(200)?;
    assert_eq!(
        (&page["midTurn"], &page["rows"][0]["kind"]),
        (&json!(false), &json!("prompt")),
        "{page}"
    );
    assert!(page["state"]["session"]["id"] == json!(id), "the newest page has the state");
    let page = http.get(&format!("/sessions/{id}/rows?limit=1")).await?.expect(200)?;
    assert_eq!(
        (&page["midTurn"], page["rows"].as_array().map(Vec::len)),
        (&json!(true), Some(1)),
        "{page}"
    );
    let last_prompt = all.iter().rfind(|row| row["kind"] == "prompt").context("no prompt")?;
    assert_eq!(
        page["turnHead"],
        json!({ "id": last_prompt["id"], "summary": last_prompt["summary"] })
    );
    let (mut forward, mut path) = (
        Vec::new(),
        format!("/sessions/{id}/rows?around={}&limit=2", all[0]["id"].as_str().unwrap_or_default()),
    );
    loop {
        let page = http.get(&path).await?.expect(200)?;
        forward.extend(page["rows"].as_array().context("no rows")?.iter().cloned());
        match page["after"].as_str() {
            Some(after) => path = format!("/sessions/{id}/rows?after={after}&limit=3"),
            None => break,
        }
    }
    assert_eq!(forward, all);
    Ok(())
}

#[tokio::test]
async fn pages_are_selected_by_row_turn_and_kind() -> Result<()> {
    let (_host, http, id) = start_session().await?;
    run_prompt(&http, &id, "echo first; tool").await?;
    let prompt = run_prompt(&http, &id, "echo second; tool; think x").await?;
    run_prompt(&http, &id, "echo third; tool").await?;
    let all = read_all_rows(&http, &id, 200).await?;
    let of_turn: Vec<Value> =
        all.iter().filter(|row| row["turn"] == json!(prompt)).cloned().collect();
    let page = http.get(&format!("/sessions/{id}/rows?turn={prompt}")).await?.expect(200)?;
    assert_eq!(
        (page["rows"].as_array(), &page["before"], &page["after"]),
        (Some(&of_turn), &Value::Null, &Value::Null)
    );
    let first = http
        .get(&format!("/sessions/{id}/rows?turn={prompt}&limit=2"))
        .await?
        .expect(200)?;
    let after = first["after"].as_str().context("no cursor")?;
    let rest = http
        .get(&format!("/sessions/{id}/rows?turn={prompt}&after={after}"))
        .await?
        .expect(200)?;
    assert_eq!(rest["rows"].as_array().map(Vec::as_slice), Some(&of_turn[2..]));
    let tools: Vec<Value> = all.iter().filter(|row| row["kind"] == "tool").cloned().collect();
    let page = http
        .get(&format!("/sessions/{id}/rows?kinds=tool&limit=2"))
        .await?
        .expect(200)?;
    assert_eq!(page["rows"].as_array().map(Vec::as_slice), Some(&tools[1..]));
    let before = page["before"].as_str().context("no cursor")?;
    let page = http
        .get(&format!("/sessions/{id}/rows?kinds=tool&limit=2&before={before}"))
        .await?
        .expect(200)?;
    assert_eq!(page["rows"].as_array().map(Vec::as_slice), Some(&tools[..1]));
    let middle = of_turn[1]["id"].as_str().context("no id")?;
    let page = http
        .get(&format!("/sessions/{id}/rows?around={middle}&limit=4"))
        .await?
        .expect(200)?;
    assert!(page["rows"].as_array().is_some_and(|rows| rows.contains(&of_turn[1])), "{page}");
    assert!(page["after"].is_string(), "{page}");
    Ok(())
}

#[tokio::test]
async fn cursor_of_another_fold_and_malformed_queries_are_refused() -> Result<()> {
    let (_host, http, id) = start_session().await?;
    run_prompt(&http, &id, "echo one").await?;
    let fold = format!("f{FOLD_NUMBER}");
    for (query, status, code) in [
        ("before=f1.1-3", 409, "fold_changed"),
        ("before=FOLD.1-999", 404, "unknown_row"),
        ("before=1-3", 422, "invalid_params"),
        ("before=zzz", 422, "invalid_params"),
        ("after=FOLD.x", 422, "invalid_params"),
        ("before=FOLD.1-3&after=FOLD.1-3", 422, "invalid_params"),
        ("limit=0", 422, "invalid_params"),
        ("limit=201", 422, "invalid_params"),
        ("kinds=tool,nothing", 422, "invalid_params"),
        ("turn=prm_none", 404, "unknown_prompt"),
        ("around=9-999", 404, "unknown_row"),
    ] {
        let query = query.replace("FOLD", &fold);
        let answer = http.get(&format!("/sessions/{id}/rows?{query}")).await?;
        assert_eq!(answer.status_and_code(), (status, code.to_owned()), "{query}");
    }
    let answer = http.get(&format!("/sessions/{id}/rows/stream?after=zzz")).await?;
    assert_eq!(answer.status_and_code(), (422, "invalid_params".to_owned()));
    let lost_point = format!("{fold}.9-3");
    for (after, why) in [("f1.1-3", "fold_changed"), (lost_point.as_str(), "log_cut")] {
        let mut events = http
            .open_stream(&format!("/sessions/{id}/rows/stream?after={after}"), None)
            .await?;
        let reset = events.next().await?.context("no event")?;
        assert_eq!(
            (reset.name.as_str(), &reset.data["why"], &reset.id),
            ("reset", &json!(why), &None)
        );
        let page = events.next().await?.context("no event")?;
        assert!(page.name == "page" && page.id.is_some(), "{page:?}");
    }
    Ok(())
}

#[tokio::test]
async fn event_within_a_row_leads_to_the_row() -> Result<()> {
    let (_host, http, id) = start_session().await?;
    run_prompt(&http, &id, "stream 5 1").await?;
    let all = read_all_rows(&http, &id, 200).await?;
    let message = all.iter().find(|row| row["kind"] == "message").context("no message")?;
    let (epoch, seq) = message["id"].as_str().and_then(|id| id.split_once('-')).context("no id")?;
    let inside = format!("{epoch}-{}", seq.parse::<u64>()? + 2);
    assert_eq!(http.get(&format!("/sessions/{id}/rows/{inside}")).await?.expect(200)?, *message);
    let none = http.get(&format!("/sessions/{id}/rows/{epoch}-99999")).await?;
    assert_eq!(none.status_and_code(), (404, "unknown_row".to_owned()));
    Ok(())
}

#[tokio::test]
async fn stream_of_rows_outlives_the_agent_and_wakes_none() -> Result<()> {
    let (_host, http, id) = start_session().await?;
    run_prompt(&http, &id, "echo one").await?;
    http.post_empty(&format!("/sessions/{id}/kill")).await?.expect(200)?;
    let mut events = http.open_stream(&format!("/sessions/{id}/rows/stream"), None).await?;
    let page = events.next().await?.context("no page")?;
    assert_eq!(page.data["state"]["session"]["status"], "killed");
    let reconnected = http
        .open_stream(&format!("/sessions/{id}/rows/stream"), page.id.as_deref())
        .await?;
    drop(reconnected);
    let session = http.get(&format!("/sessions/{id}")).await?.expect(200)?;
    assert_eq!(session["status"], "killed", "reading wakes no agent");
    let mut reader = RowReader::default();
    reader.apply(&page)?;
    http.post_empty(&format!("/sessions/{id}/resume")).await?.expect(200)?;
    let sent = send_prompt(&http, &id, "echo again").await?;
    follow_turn(&mut events, &mut reader, sent["promptId"].as_str().context("no id")?).await?;
    assert_eq!(reader.rows(), read_all_rows(&http, &id, 200).await?);
    wait_until_idle(&http, &id).await?;
    while reader.state["session"]["turn"] != "idle" {
        reader.apply(&events.next().await?.context("the stream has ended")?)?;
    }
    assert_eq!(reader.state["session"]["status"], "running");
    Ok(())
}

#[tokio::test]
async fn deleted_session_ends_its_streams_and_leaves_no_rows() -> Result<()> {
    let (host, http, id) = start_session().await?;
    run_prompt(&http, &id, "echo numbat").await?;
    let mut events = http.open_stream(&format!("/sessions/{id}/rows/stream"), None).await?;
    let mut both = http.open_stream(&format!("/sessions/stream?rows={id}"), None).await?;
    events.expect("a page", |event| event.name == "page").await?;
    both.expect("a page", |event| event.name == "page").await?;
    http.delete(&format!("/sessions/{id}")).await?.expect(200)?;
    let last = events.read_rest().await?.pop().context("no event")?;
    assert_eq!((last.name.as_str(), &last.data), ("gone", &json!({})));
    both.expect("the end of the rows", |event| event.name == "gone").await?;
    both.expect("the list", |event| event.name == "forgotten" && event.data["id"] == json!(id))
        .await?;
    let answer = http.get(&format!("/sessions/{id}/rows")).await?;
    assert_eq!(answer.status_and_code(), (404, "unknown_session".to_owned()));
    drop((events, both));
    for entry in std::fs::read_dir(host.state_dir())? {
        let path = entry?.path();
        if path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("transcript.db"))
        {
            let bytes = std::fs::read(&path)?;
            let is_left = bytes.windows(6).any(|window| window == b"numbat");
            assert!(!is_left, "{} still has what was said", path.display());
        }
    }
    Ok(())
}

#[tokio::test]
async fn list_and_rows_come_in_one_stream() -> Result<()> {
    let (host, http, id) = start_session().await?;
    let mut events = http.open_stream(&format!("/sessions/stream?rows={id}"), None).await?;
    let mut reader = RowReader::default();
    let (mut has_snapshot, mut has_page) = (false, false);
    while !(has_snapshot && has_page) {
        let event = events.next().await?.context("the stream has ended")?;
        has_snapshot |= event.name == "snapshot";
        has_page |= event.name == "page";
        reader.apply(&event)?;
    }
    let other = spawn_session(&http, &host).await?;
    let sent = send_prompt(&http, &id, "echo one; tool").await?;
    let prompt = sent["promptId"].as_str().context("no id")?;
    let (mut seen_other, mut seen_end) = (false, false);
    while !(seen_other && seen_end) {
        let event = events.next().await?.context("the stream has ended")?;
        seen_other |= event.name == "session" && event.data["id"] == json!(other);
        seen_end |= event.data["kind"] == "turn_end" && event.data["turn"] == json!(prompt);
        reader.apply(&event)?;
    }
    assert_eq!(reader.rows(), read_all_rows(&http, &id, 200).await?);
    let answer = http.get("/sessions/stream?rows=sess_none").await?;
    assert_eq!(answer.status_and_code(), (404, "unknown_session".to_owned()));
    Ok(())
}

#[tokio::test]
async fn poll_ends_with_the_first_news_and_the_next_goes_on_there() -> Result<()> {
    let (_host, http, id) = start_session().await?;
    let mut reader = RowReader::default();
    let poll = async |reader: &mut RowReader, wait: &str| -> Result<Vec<String>> {
        let path = format!("/sessions/stream?rows={id}&wait={wait}");
        let events = http.open_stream(&path, reader.position.as_deref()).await?.read_rest().await?;
        events.iter().try_for_each(|event| reader.apply(event))?;
        Ok(events.into_iter().map(|event| event.name).collect())
    };
    assert_eq!(
        poll(&mut reader, "20s").await?,
        ["snapshot", "page"],
        "a reader without a position is not kept waiting"
    );
    assert_eq!(poll(&mut reader, "0s").await?, ["snapshot", "state"], "there is nothing new");
    let (news, sent) =
        tokio::join!(poll(&mut reader, "20s"), send_prompt(&http, &id, "echo one; tool"));
    assert_ne!(news?, ["snapshot", "state"], "the poll waits for the turn");
    sent?;
    wait_until_idle(&http, &id).await?;
    poll(&mut reader, "0s").await?;
    assert_eq!(reader.rows(), read_all_rows(&http, &id, 200).await?);
    // In a quiet session only the beat wakes the stream.
    for _ in 0..3 {
        assert_eq!(
            poll(&mut reader, "0s").await?,
            ["snapshot", "state"],
            "the poll does not wait for the beat"
        );
    }
    let refused = http.get(&format!("/sessions/stream?rows={id}&wait=soon")).await?;
    assert_eq!(refused.status_and_code(), (422, "invalid_params".to_owned()));
    Ok(())
}

#[tokio::test]
async fn queue_and_asks_are_in_the_state_of_a_stream() -> Result<()> {
    let (_host, http, id) = start_session().await?;
    let mut events = http.open_stream(&format!("/sessions/{id}/rows/stream"), None).await?;
    let mut reader = RowReader::default();
    send_prompt(&http, &id, "ask").await?;
    wait_for_session(&http, &id, "a question", |session| session["turn"] == "awaiting_input")
        .await?;
    http.post(&format!("/sessions/{id}/prompt"), &json!({ "prompt": "echo later", "queue": true }))
        .await?
        .expect(200)?;
    let has_all = |state: &Value| {
        let waits = state["session"]["attention"]["state"] == "needs_answer";
        waits && state["queue"][0]["text"] == "echo later" && state["asks"][0].is_string()
    };
    while !has_all(&reader.state) {
        reader.apply(&events.next().await?.context("the stream has ended")?)?;
    }
    let ask = reader.state["asks"][0].as_str().context("no ask")?;
    let row = reader.rows.get(&row_place(ask)).context("no row of the ask")?;
    assert_eq!((&row["kind"], &row["state"]), (&json!("ask"), &json!("open")));
    for path in ["/asks".to_owned(), format!("/sessions/{id}/asks")] {
        let listed = http.get(&path).await?.expect(200)?;
        let shown = (&listed["asks"][0]["row"], &listed["asks"][0]["subject"]);
        assert_eq!(shown, (&row["id"], &row["subject"]), "{path}");
    }
    let ask = row["askId"].to_string();
    http.post(&format!("/sessions/{id}/asks/{ask}"), &json!({ "optionId": "allow_once" }))
        .await?
        .expect(200)?;
    while reader.state["queue"] != json!([]) || reader.state["asks"] != json!([]) {
        reader.apply(&events.next().await?.context("the stream has ended")?)?;
    }
    Ok(())
}

#[tokio::test]
async fn state_of_a_stream_follows_the_attention_of_its_reader() -> Result<()> {
    let (_host, http, id) = start_session().await?;
    let mut events = http.open_stream(&format!("/sessions/{id}/rows/stream"), None).await?;
    let mut reader = RowReader::default();
    send_prompt(&http, &id, "echo done").await?;
    while reader.state["session"]["attention"]["state"] != "finished" {
        reader.apply(&events.next().await?.context("the stream has ended")?)?;
    }
    let page = http.get(&format!("/sessions/{id}/rows")).await?.expect(200)?;
    assert_eq!(page["state"]["session"]["attention"], reader.state["session"]["attention"]);
    // Nothing happens in the session itself.
    let end = reader.state["session"]["attention"]["row"].clone();
    mark_seen(&http, &id, &end).await?.expect(200)?;
    while reader.state["session"]["attention"]["state"] != "quiet" {
        reader.apply(&events.next().await?.context("the stream has ended")?)?;
    }
    Ok(())
}

#[tokio::test]
async fn turn_has_its_text_its_end_and_its_rows() -> Result<()> {
    let (_host, http, id) = start_session().await?;
    let prompt = run_prompt(&http, &id, "echo one; tool; echo two").await?;
    let turn = http.get(&format!("/sessions/{id}/turns/{prompt}")).await?.expect(200)?;
    assert_eq!(
        (&turn["text"], &turn["textCut"], &turn["state"], &turn["stopReason"], &turn["outcome"]),
        (&json!("one\n\ntwo"), &json!(false), &json!("ended"), &json!("end_turn"), &json!("done")),
        "{turn}"
    );
    let all = read_all_rows(&http, &id, 200).await?;
    let of_turn: Vec<&Value> = all.iter().filter(|row| row["turn"] == json!(prompt)).collect();
    let ends = (of_turn.first().map(|row| &row["id"]), of_turn.last().map(|row| &row["id"]));
    assert_eq!(ends, (Some(&turn["firstRow"]), Some(&turn["lastRow"])));
    send_prompt(&http, &id, "ask").await?;
    wait_for_session(&http, &id, "a question", |session| session["turn"] == "awaiting_input")
        .await?;
    let queued = json!({ "prompt": "echo later", "queue": true });
    let queued = http.post(&format!("/sessions/{id}/prompt"), &queued).await?.expect(200)?;
    let waiting = queued["promptId"].as_str().context("no id")?;
    let turn = http.get(&format!("/sessions/{id}/turns/{waiting}")).await?.expect(200)?;
    assert_eq!(
        (&turn["state"], &turn["summary"], &turn["firstRow"]),
        (&json!("queued"), &json!("echo later"), &Value::Null)
    );
    let page = http.get(&format!("/sessions/{id}/turns?limit=1")).await?.expect(200)?;
    assert_eq!(
        (&page["turns"][0]["state"], &page["turns"][0]["stopReason"]),
        (&json!("running"), &Value::Null),
        "{page}"
    );
    let before = page["before"].as_str().context("no cursor")?;
    let page = http
        .get(&format!("/sessions/{id}/turns?limit=1&before={before}"))
        .await?
        .expect(200)?;
    assert_eq!(
        (&page["turns"][0]["promptId"], &page["before"]),
        (&json!(prompt), &Value::Null),
        "{page}"
    );
    let none = http.get(&format!("/sessions/{id}/turns/prm_none")).await?;
    assert_eq!(none.status_and_code(), (404, "unknown_prompt".to_owned()));
    Ok(())
}

#[tokio::test]
async fn text_that_is_too_large_for_its_row_is_read_whole_and_in_pages() -> Result<()> {
    let (_host, http, id) = start_session().await?;
    let words = "word ".repeat(100);
    let script = vec![format!("echo {words}"); 120].join("; ");
    run_prompt(&http, &id, &script).await?;
    let all = read_all_rows(&http, &id, 200).await?;
    let message = all.iter().find(|row| row["kind"] == "message").context("no message")?;
    let cut = &message["parts"][0]["cut"];
    let total = cut["bytes"].as_u64().context("the text is not cut")?;
    assert!(serde_json::to_string(message)?.len() <= 64 * 1024);
    let whole = http
        .get(&format!("/sessions/{id}/rows/{}", message["id"].as_str().unwrap_or_default()))
        .await?;
    let whole = whole.expect(200)?;
    let text = whole["parts"][0]["text"].as_str().context("no text")?;
    assert_eq!((text.len() as u64, &whole["parts"][0]["cut"]), (total, &Value::Null));
    assert_eq!(read_whole_text(&http, &id, cut).await?, text);
    Ok(())
}

/// Reads the pages of a text that is too large for its row.
async fn read_whole_text(http: &RestClient, id: &str, cut: &Value) -> Result<String> {
    let address = cut["whole"].as_str().context("no address")?;
    let (mut read, mut offset) = (String::new(), Some(0));
    while let Some(from) = offset {
        let page = http
            .get(&format!("/sessions/{id}/{address}&offset={from}"))
            .await?
            .expect(200)?;
        read.push_str(page["text"].as_str().context("no text")?);
        offset = page["next"].as_u64();
    }
    Ok(read)
}

#[tokio::test]
async fn burst_that_a_stream_follows_is_whole_and_in_order() -> Result<()> {
    const CHUNKS: usize = 40_000;
    let (_host, http, id) = start_session().await?;
    let mut events = http.open_stream(&format!("/sessions/{id}/rows/stream"), None).await?;
    let mut reader = RowReader::default();
    let sent = send_prompt(&http, &id, &format!("burst {CHUNKS} 100")).await?;
    follow_turn(&mut events, &mut reader, sent["promptId"].as_str().context("no id")?).await?;
    let rows = reader.rows();
    let message = rows.iter().find(|row| row["kind"] == "message").context("no message")?;
    let text = read_whole_text(&http, &id, &message["parts"][0]["cut"]).await?;
    let numbers: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(numbers.len(), CHUNKS);
    for (expected, found) in numbers.iter().enumerate() {
        assert_eq!(*found, expected.to_string(), "a chunk is missing or out of order");
    }
    Ok(())
}

#[tokio::test]
async fn images_are_served_by_their_hash_and_other_bytes_as_downloads() -> Result<()> {
    let (_host, http, id) = start_session().await?;
    // Both are text, so that the test can read them.
    let gif = "R0lGODlhAQABAAAAADs=";
    let page = "PGh0bWw+PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0PjwvaHRtbD4=";
    let chunk = |data: &str| {
        json!({ "sessionUpdate": "agent_message_chunk",
            "content": { "type": "image", "mimeType": "image/png", "data": data } })
    };
    run_prompt(&http, &id, &format!("rawupdate {}", chunk(gif))).await?;
    run_prompt(&http, &id, &format!("rawupdate {}", chunk(page))).await?;
    let all = read_all_rows(&http, &id, 200).await?;
    let blobs: Vec<&str> = all.iter().filter_map(|row| row["parts"][0]["blob"].as_str()).collect();
    let [image, other] = blobs.as_slice() else { anyhow::bail!("not two blobs: {all:?}") };
    for (name, kind, disposition) in
        [(image, "image/gif", None), (other, "application/octet-stream", Some("attachment"))]
    {
        let answer = http.get(&format!("/sessions/{id}/blobs/{name}")).await?;
        let header = |name| answer.header(name);
        assert_eq!(
            (answer.status, header("content-type"), header("content-disposition")),
            (200, Some(kind), disposition)
        );
        assert_eq!(header("x-content-type-options"), Some("nosniff"));
    }
    let none = http.get(&format!("/sessions/{id}/blobs/b3_00")).await?;
    assert_eq!(none.status_and_code(), (404, "unknown_blob".to_owned()));
    Ok(())
}

#[tokio::test]
async fn prompt_that_waits_is_answered_with_its_turn() -> Result<()> {
    let (_host, http, id) = start_session().await?;
    let path = format!("/sessions/{id}/prompt");
    let sent = http
        .post(&format!("{path}?wait=1m"), &json!({ "prompt": "echo one; tool; echo two" }))
        .await?
        .expect(200)?;
    assert_eq!(
        (&sent["turn"]["text"], &sent["turn"]["state"]),
        (&json!("one\n\ntwo"), &json!("ended")),
        "{sent}"
    );
    assert_eq!(sent["turn"]["promptId"], sent["promptId"]);
    let sent = http
        .post(&format!("{path}?wait=10ms"), &json!({ "prompt": "ask" }))
        .await?
        .expect(200)?;
    assert_eq!(
        (&sent["turn"]["state"], &sent["turn"]["stopReason"]),
        (&json!("running"), &Value::Null),
        "{sent}"
    );
    for wait in ["never", "2h", "soon", "-1s"] {
        let answer = http
            .post(&format!("{path}?wait={wait}"), &json!({ "prompt": "echo three" }))
            .await?;
        assert_eq!(answer.status_and_code(), (422, "invalid_params".to_owned()), "{wait}");
    }
    Ok(())
}

#[tokio::test]
async fn rows_of_another_workspace_come_in_no_stream_of_all_sessions() -> Result<()> {
    let (host, _http, id) = start_session().await?;
    register_workspace(&host, "here").await?;
    let foreign = workspace_caller(&host, "here")?;
    let answer = foreign.get(&format!("/sessions/stream?rows={id}")).await?;
    assert_eq!(answer.status_and_code(), (404, "unknown_session".to_owned()));
    Ok(())
}

#[tokio::test]
async fn mcp_reads_rows_by_turn_and_kind() -> Result<()> {
    let (host, http, id) = start_session().await?;
    run_prompt(&http, &id, "echo numbat; tool").await?;
    let prompt = run_prompt(&http, &id, "echo quoll; tool; think x").await?;
    for mut mcp in Mcp::over_both(&host)? {
        let tool = "get_agent_session_output";
        let arguments =
            json!({ "sessionId": id, "format": "rows", "turn": prompt, "kinds": "message,tool" });
        let output = mcp.call_tool(tool, arguments).await?;
        let rows = output["rows"].as_array().context("no rows")?;
        assert_eq!(kinds(rows), ["message", "tool"], "{output}");
        assert_eq!((&rows[0]["summary"], &rows[0]["row"]), (&json!("quoll"), &Value::Null));
        let whole = json!({ "sessionId": id, "format": "rows", "turn": prompt, "kinds": "message", "whole": true });
        let output = mcp.call_tool(tool, whole).await?;
        assert_eq!(output["rows"][0]["row"]["parts"][0]["text"], "quoll", "{output}");
        // The newest rows of the turn come first; `before` leads to the others.
        let newest = json!({ "sessionId": id, "format": "rows", "turn": prompt, "lastN": 2 });
        let output = mcp.call_tool(tool, newest).await?;
        let newest_kinds = kinds(output["rows"].as_array().context("no rows")?);
        assert_eq!(newest_kinds, ["thought", "turn_end"], "{output}");
        let older = json!({ "sessionId": id, "format": "rows", "turn": prompt, "before": output["before"] });
        let older = mcp.call_tool(tool, older).await?;
        let older_kinds = kinds(older["rows"].as_array().context("no rows")?);
        assert_eq!(older_kinds, ["prompt", "message", "tool"], "{older}");
        let refusal =
            mcp.call_for_refusal(tool, json!({ "sessionId": id, "turn": prompt })).await?;
        assert_eq!(refusal.0, "invalid_params");
    }
    Ok(())
}

#[tokio::test]
async fn beats_come_while_the_session_is_silent_and_have_the_position() -> Result<()> {
    let (_host, http, id) = start_session().await?;
    let mut events = http.open_stream(&format!("/sessions/{id}/rows/stream"), None).await?;
    let page = events.expect("a page", |event| event.name == "page").await?;
    let beat = events.expect("a beat", |event| event.name == "beat").await?;
    assert_eq!((&beat.data["asOf"], &beat.id), (&page.data["asOf"], &page.id));
    assert!(beat.data["now"].is_string());
    Ok(())
}
