//! `kill -9` of the host: updates that a client has seen are kept, and every prompt and session has
//! a definite end.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;
use wharf_testkit::random::TestRandom;

use crate::raw_client::{self, RawClient};
use crate::{cwd, log, scripted_host};

const KILL_ROUNDS: u32 = 20;
/// The updates behind those that were seen before the kill.
const UPDATES_AFTER_KILL: usize = 2_000;
/// Fewer rounds where the agent comes back each time, which takes longer.
const KILL_ROUNDS_WITH_AGENT: u32 = 6;
/// The turn hangs after its burst, so that a kill at any later time interrupts it.
const BURST_UPDATES: u64 = 100_000;

/// Returns a number of updates up to `BURST_UPDATES`. Small and large numbers are equally frequent,
/// since the beginning of a burst is as good a moment for a kill.
fn kill_point(dice: &mut TestRandom) -> u64 {
    let largest = 1 << dice.next_below(17);
    (dice.next_below(largest) + 1).min(BURST_UPDATES)
}

#[tokio::test]
async fn updates_seen_before_kill_9_are_replayed() -> Result<()> {
    kill_during_bursts(
        scripted_host(&["--no-load"])?
            .without_keepers(crate::TURN_IS_CUT)
            .start_host()?,
        KILL_ROUNDS,
        false,
    )
    .await
}

#[tokio::test]
async fn updates_seen_before_kill_9_are_replayed_and_the_agent_is_back() -> Result<()> {
    kill_during_bursts(
        scripted_host(&[])?.without_keepers(crate::AGENT_COMES_BACK).start_host()?,
        KILL_ROUNDS_WITH_AGENT,
        true,
    )
    .await
}

#[tokio::test]
async fn updates_seen_before_kill_9_are_replayed_while_the_agent_goes_on() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let mut dice = TestRandom::from_environment()?;
    for round in 0..KILL_ROUNDS_WITH_AGENT {
        let kill_at = kill_point(&mut dice);
        let kept = kill_during_kept_burst(&mut host, kill_at).await;
        kept.with_context(|| format!("round {round}, killed at {kill_at}"))?;
    }
    Ok(())
}

async fn kill_during_kept_burst(host: &mut TestHost, kill_at: u64) -> Result<()> {
    let cwd = cwd(host)?;
    let (session, seen) = see_burst_until_kill(host, kill_at).await?;
    host.restart()?;
    let mut client = RawClient::open(host).await?;
    client.load_session(1, &session, &cwd).await?;
    let mut shown = read_replay(&mut client).await?;
    let enough = seen.len() + UPDATES_AFTER_KILL;
    while shown.len() < enough.min(usize::try_from(BURST_UPDATES)?) {
        let frame = client.next().await?.context("the connection ended before the burst")?;
        shown.extend(raw_client::index(&frame).is_some().then_some(frame));
    }
    ensure!(shown.starts_with(&seen), "{} updates were seen, and others are replayed", seen.len());
    let in_order = shown
        .iter()
        .enumerate()
        .all(|(place, frame)| raw_client::index(frame) == Some(place as u64));
    ensure!(in_order, "the updates are not in order");
    assert_eq!(log::list_events(host, &session, "prompt_ended")?.len(), 0, "the turn goes on");
    RestClient::new(host)
        .post_empty(&format!("/sessions/{session}/kill"))
        .await?
        .expect(200)?;
    Ok(())
}

/// Lets an agent write a burst and kills the host after some of it. Returns the session and the
/// updates that its client has seen.
async fn see_burst_until_kill(host: &mut TestHost, kill_at: u64) -> Result<(String, Vec<String>)> {
    let cwd = cwd(host)?;
    let mut client = RawClient::open(host).await?;
    let session = client.new_session(&cwd).await?;
    client
        .send_prompt(2, &session, &format!("burst {BURST_UPDATES} 40; hang"))
        .await?;
    let mut seen = Vec::new();
    while (seen.len() as u64) < kill_at {
        seen.push(client.next().await?.context("the connection ended before the kill")?);
    }
    host.kill()?;
    // Updates that were under way reached the client too.
    while let Some(frame) = client.next().await? {
        seen.push(frame);
    }
    Ok((session, seen))
}

async fn kill_during_bursts(mut host: TestHost, rounds: u32, comes_back: bool) -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    for round in 0..rounds {
        let kill_at = kill_point(&mut dice);
        let cut = kill_during_burst(&mut host, kill_at, comes_back).await;
        cut.with_context(|| format!("round {round}, killed at {kill_at}"))?;
    }
    Ok(())
}

async fn kill_during_burst(host: &mut TestHost, kill_at: u64, comes_back: bool) -> Result<()> {
    let cwd = cwd(host)?;
    let (session, seen) = see_burst_until_kill(host, kill_at).await?;
    host.restart()?;
    let mut client = RawClient::open(host).await?;
    client.load_session(1, &session, &cwd).await?;
    let replayed = read_replay(&mut client).await?;
    ensure!(replayed.len() >= seen.len(), "{} seen, {} replayed", seen.len(), replayed.len());
    for (place, (before, after)) in seen.iter().zip(&replayed).enumerate() {
        ensure!(before == after, "update {place} was {before} and is {after}");
    }
    let in_order = replayed
        .iter()
        .enumerate()
        .all(|(place, frame)| raw_client::index(frame) == Some(place as u64));
    ensure!(in_order, "the replay is not in order");
    check_log(host, &session, replayed.len())?;
    client.send_prompt(2, &session, "echo still there?").await?;
    let answer = client.answer(2).await?;
    if comes_back {
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        assert_eq!(log::list_events(host, &session, "agent_updated")?.len(), replayed.len() + 1);
    } else {
        assert_eq!(answer["error"]["data"]["reason"], "not_resumable", "{answer}");
    }
    Ok(())
}

/// Returns the agent's updates of a replay up to the answer; the prompt precedes them.
async fn read_replay(client: &mut RawClient) -> Result<Vec<String>> {
    let prompt = client.next().await?.context("the connection ended")?;
    ensure!(prompt.contains("user_message_chunk"), "the replay begins with {prompt}");
    let mut replayed = Vec::new();
    loop {
        let frame = client.next().await?.context("the connection ended within the replay")?;
        if raw_client::is_response(&frame) {
            ensure!(frame.contains("\"result\""), "{frame}");
            return Ok(replayed);
        }
        replayed.push(frame);
    }
}

/// Checks that the log has no gap, one end of the interrupted turn and one end of the session.
fn check_log(host: &TestHost, session: &str, updates: usize) -> Result<()> {
    let records = log::read_records(host, session)?;
    let gapless = records
        .iter()
        .enumerate()
        .all(|(place, record)| record["seq"] == place as u64 + 1);
    ensure!(gapless, "the log has a gap");
    let of = |kind: &str| -> Vec<&Value> {
        records
            .iter()
            .map(|record| &record["event"])
            .filter(|event| event["kind"] == kind)
            .collect()
    };
    assert_eq!(of("agent_updated").len(), updates);
    let ends: Vec<&Value> = of("prompt_ended").iter().map(|event| &event["end"]["how"]).collect();
    assert_eq!(ends, ["host_restarted"]);
    let endings: Vec<&Value> = of("ended").iter().map(|event| &event["ending"]).collect();
    let ended: Vec<(&Value, &Value)> =
        endings.iter().map(|ending| (&ending["status"], &ending["reason"])).collect();
    assert_eq!(ended, [(&Value::from("killed"), &Value::from("host_restarted"))]);
    let first_epoch = records.first().and_then(|record| record["epoch"].as_u64());
    let last_epoch = records.last().and_then(|record| record["epoch"].as_u64());
    ensure!(first_epoch < last_epoch, "the restart is not a new epoch");
    Ok(())
}

#[tokio::test]
async fn queued_prompts_and_asks_end_when_the_agent_cannot_come_back() -> Result<()> {
    let mut host = scripted_host(&["--no-load"])?
        .without_keepers(crate::TURN_IS_CUT)
        .start_host()?;
    let (client, session) = crate::open_session(&host).await?;
    let _asking = client.start_prompt(&session, "ask").await;
    client.expect_request("session/request_permission").await;
    let _waiting = client.start_prompt(&session, "echo later").await;
    log::expect_event(&host, &session, "prompt_accepted", |event| {
        event["frame"].to_string().contains("later")
    })
    .await?;
    host.restart()?;
    let loaded = crate::join_session(&host, &session).await?;
    let asked_again = loaded
        .received_frames()
        .iter()
        .any(|frame| frame.method() == "session/request_permission");
    assert!(!asked_again, "an ask of an agent that is gone");
    let resolved = log::list_events(&host, &session, "ask_resolved")?;
    let outcomes: Vec<&Value> = resolved.iter().map(|event| &event["outcome"]["how"]).collect();
    assert_eq!(outcomes, ["agent_gone"]);
    let accepted = log::list_events(&host, &session, "prompt_accepted")?.len();
    let ended = log::list_events(&host, &session, "prompt_ended")?;
    let ends: Vec<&Value> = ended.iter().map(|event| &event["end"]["how"]).collect();
    assert_eq!((accepted, ends), (2, vec![&Value::from("host_restarted"); 2]));
    Ok(())
}

#[tokio::test]
async fn session_ended_before_the_restart_is_replayed_and_unchanged() -> Result<()> {
    let mut host = scripted_host(&["--no-load"])?.start_host()?;
    let (client, session) = crate::open_session(&host).await?;
    client.send_prompt(&session, "echo one; echo two").await?;
    let _ = client.send_prompt(&session, "crash 3").await;
    log::expect_event(&host, &session, "ended", |_| true).await?;
    let before = log::read_records(&host, &session)?;
    assert!(host.terminate()?.success());
    host.restart()?;
    let loaded = crate::join_session(&host, &session).await?;
    assert_eq!(loaded.chunk_texts(), ["one", "two"]);
    assert_eq!(log::read_records(&host, &session)?, before);
    Ok(())
}
