//! The session beside its rows: a reader of the stream learns of settings, clients and running
//! commands without asking again (rules 13.4, 13.5).

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::WAIT_LIMIT;
use wharf_testkit::client::TestClient;
use wharf_testkit::http::{RestClient, TestEventStream};

use crate::program::wharf_command;
use crate::rest::{send_prompt, spawn_session, wait_until_idle};
use crate::rest_settings::patch;
use crate::rows::{RowReader, read_all_rows};
use crate::{connect_client, cwd, scripted_host};

/// Applies events until the state fits, and returns it.
async fn follow_state(
    events: &mut TestEventStream,
    reader: &mut RowReader,
    fits: impl Fn(&Value) -> bool,
) -> Result<Value> {
    let follow = async {
        while !fits(reader.state()) {
            let event = events.next().await?.context("the stream has ended")?;
            reader.apply(&event)?;
        }
        Ok(reader.state().clone())
    };
    // Beats come for ever.
    tokio::time::timeout(WAIT_LIMIT, follow)
        .await
        .context("the state does not come")?
}

async fn open_rows(http: &RestClient, id: &str) -> Result<(TestEventStream, RowReader)> {
    let mut events = http.open_stream(&format!("/sessions/{id}/rows/stream"), None).await?;
    let mut reader = RowReader::default();
    reader.apply(&events.next().await?.context("no page")?)?;
    Ok((events, reader))
}

#[tokio::test]
async fn reader_is_told_of_settings_and_commands() -> Result<()> {
    let host = scripted_host(&["--models", "--commands"])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let (mut events, mut reader) = open_rows(&http, &id).await?;
    let has_commands = |state: &Value| {
        state["settings"]["commands"].as_array().is_some_and(|list| !list.is_empty())
    };
    let state = follow_state(&mut events, &mut reader, has_commands).await?;
    assert_eq!(
        state["settings"],
        http.get(&format!("/sessions/{id}/settings")).await?.expect(200)?
    );
    assert_eq!(state["settings"]["modes"]["current"], "ask");

    patch(&http, &format!("/sessions/{id}/settings"), &json!({ "mode": "auto", "model": "large" }))
        .await?
        .expect(200)?;
    let is_set = |state: &Value| {
        state["settings"]["modes"]["current"] == "auto"
            && state["settings"]["models"]["current"] == "large"
    };
    let state = follow_state(&mut events, &mut reader, is_set).await?;
    let page = http.get(&format!("/sessions/{id}/rows")).await?.expect(200)?;
    assert_eq!(page["state"]["settings"], state["settings"]);
    Ok(())
}

#[tokio::test]
async fn reader_is_told_who_comes_and_goes() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let (mut events, mut reader) = open_rows(&http, &id).await?;
    assert_eq!(reader.state()["clients"], json!([]));

    let made = wharf_command(&[
        "token",
        "create",
        "--role",
        "admin",
        "--label",
        "anna",
        "--json",
        "--state-dir",
    ]);
    let made: Value = serde_json::from_slice(&{ made }.arg(host.state_dir()).output()?.stdout)?;
    let anna =
        TestClient::connect(&host.ws_url(), made["token"].as_str().context("no token")?).await?;
    anna.initialize().await?;
    anna.load_session(&id, &cwd(&host)?).await?;
    let owner = connect_client(&host).await?;
    owner.load_session(&id, &cwd(&host)?).await?;
    let both =
        follow_state(&mut events, &mut reader, |state| state["clients"][1].is_object()).await?;
    let persons: Vec<&Value> = both["clients"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|client| &client["person"])
        .collect();
    assert_eq!(persons, ["anna", "owner"]);
    assert_eq!(
        (&both["clients"][0]["name"], &both["clients"][0]["role"]),
        (&json!("wharf-testkit"), &json!("controller"))
    );
    let listed = http.get(&format!("/sessions/{id}/clients")).await?.expect(200)?;
    assert_eq!(listed["clients"], both["clients"]);

    anna.close().await;
    let is_alone =
        |state: &Value| state["clients"].as_array().is_some_and(|clients| clients.len() == 1);
    let one = follow_state(&mut events, &mut reader, is_alone).await?;
    assert_eq!(one["clients"][0]["person"], "owner");
    Ok(())
}

#[tokio::test]
async fn output_of_a_running_command_is_told_and_ends_in_its_row() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let (mut events, mut reader) = open_rows(&http, &id).await?;
    let at = host.directory().display();
    let secret = format!("ghp_{}", "a1B2".repeat(9));
    let script = format!(
        "show echo one {secret} && mkfifo {at}/go {at}/end && read line < {at}/go && echo two && read line < {at}/end"
    );
    send_prompt(&http, &id, &script).await?;
    let shows = |text: &'static str| move |state: &Value| state["live"][0]["text"] == text;
    let first = follow_state(&mut events, &mut reader, shows("one ghp_[redacted]\n")).await?;
    let bytes = "one \n".len() + secret.len();
    assert_eq!(
        (&first["live"][0]["toolCallId"], &first["live"][0]["bytes"]),
        (&json!("shown"), &json!(bytes))
    );
    let page = http.get(&format!("/sessions/{id}/rows")).await?.expect(200)?;
    assert_eq!(page["state"]["live"], first["live"], "a reader that comes now sees it, too");
    assert_eq!(
        reader.rows(),
        read_all_rows(&http, &id, 200).await?,
        "rows are made of the log alone"
    );

    std::fs::write(host.directory().join("go"), "\n")?;
    follow_state(&mut events, &mut reader, shows("one ghp_[redacted]\ntwo\n")).await?;
    std::fs::write(host.directory().join("end"), "\n")?;
    follow_state(&mut events, &mut reader, |state| state["live"] == json!([])).await?;
    while !reader.rows().iter().any(|row| row["kind"] == "turn_end") {
        reader.apply(&events.next().await?.context("the stream has ended")?)?;
    }
    let rows = reader.rows();
    let tool = rows.iter().find(|row| row["toolCallId"] == "shown").context("no tool call")?;
    let output = tool["output"]["text"].as_str().context("no output")?;
    assert!(output.ends_with("\none ghp_[redacted]\ntwo\n"), "{output}");
    Ok(())
}

#[tokio::test]
async fn host_stops_although_readers_follow_an_idle_session() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let (mut rows, _) = open_rows(&http, &id).await?;
    let mut all = http.open_stream(&format!("/sessions/stream?rows={id}"), None).await?;
    all.next().await?.context("no list")?;
    let stopped = host.terminate();
    // The streams end with the host, in whichever way.
    while let Ok(Some(_)) = rows.next().await {}
    while let Ok(Some(_)) = all.next().await {}
    assert!(stopped?.success());
    Ok(())
}

/// Reads a stream to its end, and returns true if it told that the turn was ended by a stop.
async fn is_told_of_cut(mut events: TestEventStream, prompt: &str) -> bool {
    let mut is_told = false;
    // The stream ends with the host, in whichever way.
    while let Ok(Some(event)) = events.next().await {
        let row = &event.data;
        is_told |= event.name == "row"
            && row["kind"] == "turn_end"
            && row["turn"] == prompt
            && row["reason"] == "host_shutdown";
    }
    is_told
}

#[tokio::test]
async fn readers_are_told_of_the_turn_that_a_stop_cuts_before_their_streams_end() -> Result<()> {
    const READERS: usize = 8;
    let mut host = scripted_host(&[])?.without_keepers(crate::TURN_IS_CUT).start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let cut = send_prompt(&http, &id, "echo begun; hang").await?;
    let cut = cut["promptId"].as_str().context("no prompt")?;
    let waiting = json!({ "prompt": "echo never", "queue": true });
    http.post(&format!("/sessions/{id}/prompt"), &waiting).await?.expect(200)?;
    let mut readers = Vec::new();
    for n in 0..READERS {
        let path = match n % 2 {
            0 => format!("/sessions/{id}/rows/stream"),
            _ => format!("/sessions/stream?rows={id}"),
        };
        let mut events = http.open_stream(&path, None).await?;
        events.expect("the page", |event| event.name == "page").await?;
        readers.push(events);
    }
    http.post_empty("/stop").await?.expect(202)?;
    for (n, events) in readers.into_iter().enumerate() {
        ensure!(is_told_of_cut(events, cut).await, "reader {n} is not told");
    }
    ensure!(host.wait_exit(WAIT_LIMIT)?.success(), "the host's exit");
    Ok(())
}

/// Reads a stream to its end, and returns true if it told that the session is gone.
async fn is_told_of_deletion(mut events: TestEventStream) -> bool {
    while let Ok(Some(event)) = events.next().await {
        if event.name == "gone" {
            return true;
        }
    }
    false
}

/// The sessions wait for each other before they are taken off the list, when their tasks have
/// ended.
#[tokio::test]
async fn readers_of_sessions_that_are_deleted_at_once_are_told_that_they_are_gone() -> Result<()> {
    const SESSIONS: usize = 12;
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let mut readers = Vec::new();
    let mut deletions = Vec::new();
    for _ in 0..SESSIONS {
        let id = spawn_session(&http, &host).await?;
        wait_until_idle(&http, &id).await?;
        let (events, _) = open_rows(&http, &id).await?;
        readers.push(events);
        deletions.push(id);
    }
    let deleting = deletions.into_iter().map(|id| {
        let http = RestClient::new(&host);
        tokio::spawn(async move { http.delete(&format!("/sessions/{id}")).await })
    });
    let deleting: Vec<_> = deleting.collect();
    for (n, events) in readers.into_iter().enumerate() {
        ensure!(is_told_of_deletion(events).await, "reader {n} is not told");
    }
    for deleted in deleting {
        let status = deleted.await??.status;
        ensure!((200..300).contains(&status), "{status}");
    }
    Ok(())
}
