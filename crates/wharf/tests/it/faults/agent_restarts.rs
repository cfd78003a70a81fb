//! Kills by a user during starts by the host, and agents that die with prompts queued.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::cold_sessions::ColdSessions;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;
use wharf_testkit::random::TestRandom;
use wharf_testkit::{WAIT_LIMIT, polling};

use crate::{add_section, log, scripted_host};

/// The number of restarts of the host unless `WHARF_FAULT_ROUNDS` is set.
const HOST_RESTARTS: u32 = 5;
const SESSION_COUNT: usize = 10;
/// The number of prompts in one queue; some of them make the agent die.
const PROMPT_COUNT: usize = 30;

/// Kills some of the sessions at any moment of their return.
async fn kill_some(
    http: &RestClient,
    dice: &mut TestRandom,
    sessions: &[String],
    killed: &mut BTreeSet<String>,
) -> Result<()> {
    for session in sessions {
        // These requests only let some time pass.
        for _ in 0..dice.next_below(8) {
            http.get("/healthz").await?;
        }
        if dice.is_once_in(6) {
            http.post_empty(&format!("/sessions/{session}/kill")).await?.expect(200)?;
            killed.insert(session.clone());
        }
    }
    Ok(())
}

/// Returns the starts of the agent after the user's kill.
fn starts_after_kill(host: &TestHost, session: &str) -> Result<usize> {
    let events: Vec<Value> = log::read_records(host, session)?
        .into_iter()
        .map(|mut record| record["event"].take())
        .collect();
    let kill = events
        .iter()
        .position(|event| event["kind"] == "ended" && event["ending"]["reason"] == "user");
    let after = &events[kill.context("the kill is not in the log")?..];
    Ok(after.iter().filter(|event| event["kind"] == "agent_starting").count())
}

#[tokio::test]
async fn killed_session_stays_dead_when_killed_at_any_moment_of_a_return() -> Result<()> {
    let rounds =
        std::env::var("WHARF_FAULT_ROUNDS").map_or(Ok(HOST_RESTARTS), |rounds| rounds.parse())?;
    let mut dice = TestRandom::from_environment()?;
    let options = add_section(scripted_host(&["--slow-start", "30"])?, "[limits]\nstarts = 2");
    let mut host = options.start_host()?;
    host.kill()?;
    let directory = host.directory().to_owned();
    let cold = ColdSessions {
        count: SESSION_COUNT,
        agent: "scripted",
        cwd: &directory,
        events: 0,
        waiting: Some("echo waited"),
    };
    let sessions = cold.write_to(&host.state_dir())?;
    let mut killed = BTreeSet::new();
    for _ in 0..rounds {
        host.restart()?;
        let http = RestClient::new(&host);
        kill_some(&http, &mut dice, &sessions, &mut killed).await?;
        for session in sessions.iter().filter(|session| !killed.contains(*session)) {
            // The next kill of the host interrupts the first prompt; the second one waits for the
            // following host.
            for prompt in ["pause 500; echo on", "echo later"] {
                let body = json!({ "prompt": prompt, "queue": true });
                http.post(&format!("/sessions/{session}/prompt"), &body).await?.expect(200)?;
            }
        }
        kill_some(&http, &mut dice, &sessions, &mut killed).await?;
        host.kill()?;
    }
    host.restart()?;
    let http = RestClient::new(&host);
    for session in sessions.iter().filter(|session| !killed.contains(*session)) {
        crate::rest::wait_until_idle(&http, session).await?;
    }
    println!("{} of {SESSION_COUNT} sessions were killed", killed.len());
    for session in &killed {
        let known = http.get(&format!("/sessions/{session}")).await?.expect(200)?;
        ensure!(known["status"] == "killed" && known["endReason"] == "user", "{known}");
        ensure!(starts_after_kill(&host, session)? == 0, "{session} was started after its kill");
    }
    Ok(())
}

#[tokio::test]
async fn queued_prompts_run_until_the_third_agent_death_in_a_row() -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    let options = add_section(scripted_host(&["--resume"])?, "replay_quiet = \"10ms\"");
    let host = options.start_host()?;
    let http = RestClient::new(&host);
    let session = crate::rest::spawn_session(&http, &host).await?;
    // The first prompt blocks the others until all of them are queued.
    let mut dies = vec![false];
    dies.extend((1..PROMPT_COUNT).map(|_| dice.is_once_in(2)));
    let all_queued = host.directory().join("all-queued");
    let wait_for_all = format!("await {}; ", all_queued.display());
    for (number, dies) in dies.iter().enumerate() {
        let wait = if number == 0 { &wait_for_all } else { "" };
        let prompt = if *dies { "crash".to_owned() } else { format!("{wait}echo {number}") };
        let body = json!({ "prompt": prompt, "queue": true });
        http.post(&format!("/sessions/{session}/prompt"), &body).await?.expect(200)?;
    }
    std::fs::write(all_queued, "")?;
    let ends = polling::poll_until(2 * WAIT_LIMIT, || {
        let ends = log::list_events(&host, &session, "prompt_ended")?;
        Ok((ends.len() >= PROMPT_COUNT).then_some(ends))
    });
    let ends = ends.await?.context("prompts without an end")?;
    let told: Vec<bool> = ends.iter().map(|end| end["end"]["how"] == "answered").collect();
    // Three deaths in a row end the rest of the queue.
    let third = dies
        .windows(3)
        .position(|three| three == [true; 3])
        .map_or(PROMPT_COUNT, |at| at + 3);
    let expected: Vec<bool> =
        dies.iter().enumerate().map(|(number, dies)| number < third && !dies).collect();
    ensure!(told == expected, "{dies:?} ended as {told:?}");
    let starts = log::list_events(&host, &session, "agent_starting")?.len();
    let deaths = dies[..third.min(PROMPT_COUNT)].iter().filter(|dies| **dies).count();
    // No start follows a death without queued prompts.
    let last = usize::from(third < PROMPT_COUNT || dies.last() == Some(&true));
    ensure!(starts == 1 + deaths - last, "{starts} starts for {deaths} deaths: {dies:?}");
    Ok(())
}
