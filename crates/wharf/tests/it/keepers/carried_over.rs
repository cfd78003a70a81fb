//! Permissions, queued prompts, cancels and requests that are under way when the host dies reach
//! their end with the next host, once.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::client::TestClient;
use wharf_testkit::host::TestHost;
use wharf_testkit::random::TestRandom;
use wharf_testkit::{WAIT_LIMIT, polling, processes};

use super::{KeepingHost, pause_for_yields, pick_yields};
use crate::recording::Recording;
use crate::{
    TREE_ENDS_WITHIN, connect_client, cwd, join_session, log, open_session, scripted_host,
};

/// Rounds of the cancel that races with the kill.
const CANCEL_ROUNDS: u64 = 5;

/// Waits until the agent has written this file.
async fn wait_for_file(path: &std::path::Path) -> Result<()> {
    let exists = || Ok(path.exists().then_some(()));
    polling::poll_until(WAIT_LIMIT, exists)
        .await?
        .with_context(|| format!("no {}", path.display()))
}

/// Waits until all prompts of a session have ended, and returns how.
async fn wait_prompt_ends(host: &TestHost, session: &str, count: usize) -> Result<Vec<Value>> {
    let ends = polling::poll_until(WAIT_LIMIT, || {
        let ended = log::list_events(host, session, "prompt_ended")?;
        Ok((ended.len() >= count).then_some(ended))
    });
    Ok(ends
        .await?
        .context("a prompt has no end")?
        .into_iter()
        .map(|mut event| event["end"].take())
        .collect())
}

fn count_received(recording: &Recording, fits: impl Fn(&Value) -> bool) -> Result<usize> {
    Ok(recording.read_messages()?.iter().filter(|message| fits(message)).count())
}

#[tokio::test]
async fn permissions_asked_before_during_and_after_the_absence_are_answered_once() -> Result<()> {
    let recording = Recording::new()?;
    let mut host = KeepingHost::start(recording.host_options(&[])?)?;
    let marker = host.directory().join("asked");
    let (client, before) = open_session(&host).await?;
    let (during, after) =
        (client.new_session(&cwd(&host)?).await?, client.new_session(&cwd(&host)?).await?);
    let _asked = client.start_prompt(&before, "ask").await;
    client.expect_request("session/request_permission").await;
    let _waiting = client.start_prompt(&after, "echo waits; wait; ask").await;
    client.expect_text("waits").await;
    let go = host.directory().join("go");
    let script = format!("echo pauses; await {}; save {} now; ask", go.display(), marker.display());
    let _pausing = client.start_prompt(&during, &script).await;
    client.expect_text("pauses").await;
    host.kill()?;
    std::fs::write(&go, "")?;
    wait_for_file(&marker).await?;
    host.restart()?;
    let client = connect_client(&host).await?;
    client.choose_option("allow_once");
    for session in [&before, &during, &after] {
        client.load_session(session, &cwd(&host)?).await?;
    }
    client.send_notification("_go", json!({ "sessionId": after })).await;
    for session in [&before, &during, &after] {
        let ends = wait_prompt_ends(&host, session, 1).await?;
        assert_eq!((ends.len(), &ends[0]["stop_reason"]), (1, &json!("end_turn")), "{ends:?}");
        let (opened, resolved) = (
            log::list_events(&host, session, "ask_opened")?,
            log::list_events(&host, session, "ask_resolved")?,
        );
        assert_eq!((opened.len(), resolved.len()), (1, 1), "{opened:?} {resolved:?}");
        assert_eq!(resolved[0]["outcome"]["how"], "answered");
    }
    // The log may be ahead of the connection.
    let count_chosen = || {
        client
            .chunk_texts()
            .into_iter()
            .filter(|text| text == "chosen: allow_once")
            .count()
    };
    polling::poll_until(WAIT_LIMIT, || Ok((count_chosen() >= 3).then_some(()))).await?;
    assert_eq!(count_chosen(), 3);
    assert_eq!(count_received(&recording, |message| message["result"]["outcome"].is_object())?, 3);
    assert_eq!(count_received(&recording, |message| message["method"] == "session/prompt")?, 3);
    host.stop_all().await
}

#[tokio::test]
async fn queued_prompt_runs_once_after_the_kill() -> Result<()> {
    let recording = Recording::new()?;
    let mut host = KeepingHost::start(recording.host_options(&[])?)?;
    let (client, session) = open_session(&host).await?;
    let _running = client.start_prompt(&session, "echo begun; wait; echo one").await;
    client.expect_text("begun").await;
    let _queued = client.start_prompt(&session, "echo two").await;
    log::expect_event(&host, &session, "prompt_accepted", |event| {
        event["frame"].to_string().contains("two")
    })
    .await?;
    host.restart()?;
    let client = join_session(&host, &session).await?;
    client.send_notification("_go", json!({ "sessionId": session })).await;
    client.expect_text("two").await;
    let ends = wait_prompt_ends(&host, &session, 2).await?;
    let reasons: Vec<&Value> = ends.iter().map(|end| &end["stop_reason"]).collect();
    assert_eq!(reasons, ["end_turn", "end_turn"], "{ends:?}");
    assert_eq!(client.chunk_texts(), ["begun", "one", "two"]);
    assert_eq!(count_received(&recording, |message| message["method"] == "session/prompt")?, 2);
    host.stop_all().await
}

#[tokio::test]
async fn cancel_requested_just_before_the_kill_reaches_the_agent_once() -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    let recording = Recording::new()?;
    let mut host = KeepingHost::start(recording.host_options(&[])?)?;
    let (client, session) = open_session(&host).await?;
    let mut client = client;
    for round in 1..=CANCEL_ROUNDS {
        let begun = format!("begun {round}");
        let _running = client.start_prompt(&session, &format!("echo {begun}; hang")).await;
        client.expect_text(&begun).await;
        client.cancel_turn(&session).await;
        // The kill comes while the cancel is on its way: before it is in the log, before the agent
        // has it, or later.
        pause_for_yields(pick_yields(&mut dice)).await;
        host.restart()?;
        client = join_session(&host, &session).await?;
        let is_requested =
            log::list_events(&host, &session, "cancel_requested")?.len() as u64 == round;
        if !is_requested {
            client.cancel_turn(&session).await;
        }
        let ends = wait_prompt_ends(&host, &session, usize::try_from(round)?).await?;
        assert_eq!(
            ends.last().map(|end| &end["stop_reason"]),
            Some(&json!("cancelled")),
            "{ends:?}"
        );
        let cancels = log::list_events(&host, &session, "cancel_requested")?.len() as u64;
        let received =
            count_received(&recording, |message| message["method"] == "session/cancel")? as u64;
        assert_eq!((cancels, received), (round, round), "in the log, at the agent");
    }
    host.stop_all().await
}

#[derive(Clone, Copy, Debug)]
enum HostEnd {
    Killed,
    Terminated,
}

/// Runs a script that has a request under way when the host ends, and that says `after` in the end.
/// Returns the client of the next host after that.
async fn run_over_restart(
    host: &mut KeepingHost,
    end: HostEnd,
    script: &str,
    is_under_way: impl AsyncFnOnce(&TestHost, &TestClient) -> Result<()>,
) -> Result<(TestClient, String)> {
    let (client, session) = open_session(host).await?;
    let _running = client.start_prompt(&session, script).await;
    is_under_way(host, &client).await?;
    match end {
        HostEnd::Killed => host.kill()?,
        HostEnd::Terminated => ensure!(host.terminate()?.success(), "the host's exit"),
    }
    host.restart()?;
    let client = join_session(host, &session).await?;
    let ends = wait_prompt_ends(host, &session, 1).await?;
    assert_eq!((ends.len(), &ends[0]["stop_reason"]), (1, &json!("end_turn")), "{ends:?}");
    // The log may be ahead of the connection.
    client.expect_text("after").await;
    Ok((client, session))
}

#[tokio::test]
async fn terminal_that_runs_when_the_host_ends_is_ended_and_the_agent_is_told() -> Result<()> {
    let mut host = KeepingHost::start(scripted_host(&[])?)?;
    for end in [HostEnd::Killed, HostEnd::Terminated] {
        let file = host.directory().join(format!("terminal-pid-{end:?}"));
        let command = format!(
            "echo $$ > {0}.new && mv {0}.new {0} && exec tail -f /dev/null",
            file.display()
        );
        let script = format!("terminal {command}; echo after");
        let path = file.clone();
        let (client, _) =
            run_over_restart(&mut host, end, &script, async move |_, _| wait_for_file(&path).await)
                .await?;
        let texts = client.chunk_texts();
        ensure!(texts.last().map(String::as_str) == Some("after"), "{texts:?}");
        ensure!(
            texts.iter().any(|text| text.starts_with("failed: ")),
            "no request of the terminal failed: {texts:?}"
        );
        let pid: u32 = std::fs::read_to_string(&file)?.trim().parse()?;
        assert_eq!(processes::wait_gone(&[pid], TREE_ENDS_WITHIN), Ok(()));
    }
    host.stop_all().await
}

#[tokio::test]
async fn file_requests_in_flight_at_the_kill_are_answered_once() -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    let recording = Recording::new()?;
    let mut host = KeepingHost::start(recording.host_options(&[])?)?;
    let path = host.directory().join("file");
    std::fs::write(&path, "content")?;
    for end in [HostEnd::Killed, HostEnd::Terminated, HostEnd::Killed, HostEnd::Killed] {
        let script = format!(
            "echo begun; fs read {0}; fs write {0} content; fs read {0}; echo after",
            path.display()
        );
        let yields = pick_yields(&mut dice);
        let (client, _) = run_over_restart(&mut host, end, &script, async move |_, client| {
            client.expect_text("begun").await;
            pause_for_yields(yields).await;
            Ok(())
        })
        .await?;
        let texts = client.chunk_texts();
        let [begun, first, written, second, after] = texts.as_slice() else {
            anyhow::bail!("{texts:?}")
        };
        assert_eq!((begun.as_str(), after.as_str()), ("begun", "after"));
        for read in [first, second] {
            assert_eq!(read, r#"answered: {"content":"content"}"#, "reading is repeatable");
        }
        ensure!(
            written == "answered: {}" || written == "answered: null" || written.contains("unknown"),
            "{written}"
        );
    }
    host.stop_all().await
}

#[tokio::test]
async fn sigterm_leaves_the_agent_and_the_next_host_goes_on() -> Result<()> {
    let mut host = KeepingHost::start(scripted_host(&[])?)?;
    let (client, session) = open_session(&host).await?;
    let _running = client.start_prompt(&session, "echo begun; wait; echo end").await;
    client.expect_text("begun").await;
    let keeper = host.only_keeper()?;
    let kept = [processes::list_descendants(keeper), vec![keeper]].concat();
    assert_eq!(kept.len(), 2, "keeper and agent: {kept:?}");
    assert!(host.terminate()?.success());
    let alive: Vec<u32> = kept.iter().copied().filter(|pid| processes::is_alive(*pid)).collect();
    assert_eq!(alive, kept, "the agent is left to its keeper");
    host.restart()?;
    let client = join_session(&host, &session).await?;
    client.send_notification("_go", json!({ "sessionId": session })).await;
    client.expect_text("end").await;
    let ends = wait_prompt_ends(&host, &session, 1).await?;
    assert_eq!((ends.len(), &ends[0]["stop_reason"]), (1, &json!("end_turn")), "{ends:?}");
    assert_eq!(
        log::list_events(&host, &session, "ended")?,
        [0; 0].map(Value::from),
        "the session never ended"
    );
    host.stop_all().await
}
