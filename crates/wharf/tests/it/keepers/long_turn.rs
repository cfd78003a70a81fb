//! One long turn while the host is killed at random moments, with requests of every kind under way.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::sync::watch;
use wharf_testkit::http::RestClient;
use wharf_testkit::random::TestRandom;

use super::KeepingHost;
use super::long_turn_clients::{ReconnectingClient, follow_bridge, follow_rows};
use crate::bridge::start_editor;
use crate::log;
use crate::recording::Recording;

/// Kills of the host, unless `WHARF_KEEPER_KILLS` is set.
const KILLS: u64 = 20;
const UPDATES_PER_KILL: u64 = 5_000;
/// A request follows each group of so many updates.
const UPDATES_PER_REQUEST: u64 = 20;
/// Updates that may come between the permission that is left open and the kill.
const MAX_UPDATES_BEFORE_KILL: u64 = 400;

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn one_turn_goes_on_over_twenty_kills_of_the_host() -> Result<()> {
    let kills = std::env::var("WHARF_KEEPER_KILLS").map_or(Ok(KILLS), |kills| kills.parse())?;
    let mut dice = TestRandom::from_environment()?;
    let updates = kills * UPDATES_PER_KILL;
    let recording = Recording::new()?;
    let mut host = KeepingHost::start(recording.host_options(&[])?)?;
    let mut editor = start_editor(&host, &[])?;
    let session = editor.open_session()?;
    let (next_host, hosts) = watch::channel(RestClient::new(&host));
    let prompt =
        editor.start_prompt(&session, &format!("mixed {updates} {UPDATES_PER_REQUEST}"))?;
    let bridge = tokio::task::spawn_blocking(move || follow_bridge(editor, prompt));
    let rows = tokio::spawn(follow_rows(session.clone(), hosts));
    let mut client = ReconnectingClient::new(&session);
    client.reconnect(&host).await?;
    let mut tally = KillTally::default();
    for kill in 0..kills {
        let kill_at = kill * UPDATES_PER_KILL + dice.next_below(UPDATES_PER_KILL);
        let killed =
            kill_in_flight(&mut host, &mut client, &mut dice, kill_at, kill, &mut tally).await;
        killed.with_context(|| format!("kill {kill} at update {kill_at}"))?;
        next_host.send_replace(RestClient::new(&host));
        client.reconnect(&host).await?;
    }
    client.read_until(updates, false).await?;
    let (answer, by_bridge) = loop {
        // The last requests are answered while the turn ends.
        if bridge.is_finished() {
            break bridge.await??;
        }
        tokio::select! {
            read = client.read_one() => ensure!(read?, "the last connection ended"),
            () = tokio::task::yield_now() => {}
        }
        client.answer_asks().await?;
    };
    ensure!(answer["result"]["stopReason"] == "end_turn", "{answer}");
    let by_rows = rows.await??;
    assert_eq!(client.chunks.digest(), by_bridge.digest());
    assert_eq!((by_rows.count, by_bridge.count), (updates, updates));
    check_log(&host, &session, updates)?;
    tally.check_received(&recording, &host, &session)?;
    println!("{updates} updates, {} kills: {tally:?}", tally.kills);
    host.stop_all().await
}

/// Figures of the run.
#[derive(Debug, Default)]
struct KillTally {
    kills: u64,
    /// Kills of a host that had just started and had no client yet.
    kills_at_start: u64,
    answered: u64,
    unknown_outcomes: u64,
    echoes: u64,
    mode_changes: u64,
    permissions: u64,
}

/// Kills the host after this update, with a permission open and a request and a mode change on
/// their way to the agent.
async fn kill_in_flight(
    host: &mut KeepingHost,
    client: &mut ReconnectingClient,
    dice: &mut TestRandom,
    kill_at: u64,
    kill: u64,
    tally: &mut KillTally,
) -> Result<()> {
    client.read_until(kill_at, false).await?;
    client.wait_for_ask().await?;
    let session = client.session().to_owned();
    client.send("_echo", json!({ "sessionId": session, "kill": kill })).await?;
    let mode = if kill.is_multiple_of(2) { "auto" } else { "ask" };
    client
        .send("session/set_mode", json!({ "sessionId": session, "modeId": mode }))
        .await?;
    let until = (client.chunks.count + dice.next_below(MAX_UPDATES_BEFORE_KILL))
        .min((kill + 1) * UPDATES_PER_KILL);
    client.read_until(until, true).await?;
    host.kill()?;
    client.read_rest().await?;
    host.restart()?;
    tally.kills += 1;
    if dice.is_once_in(4) {
        host.restart()?;
        tally.kills_at_start += 1;
    }
    Ok(())
}

/// Checks that the log has every update once and one end of the turn.
fn check_log(host: &KeepingHost, session: &str, updates: u64) -> Result<()> {
    let records = log::read_records(host, session)?;
    let gapless = records
        .iter()
        .enumerate()
        .all(|(place, record)| record["seq"] == place as u64 + 1);
    ensure!(gapless, "the log has a gap");
    let ends: Vec<&Value> = records
        .iter()
        .map(|record| &record["event"])
        .filter(|event| event["kind"] == "prompt_ended")
        .collect();
    ensure!(ends.len() == 1 && ends[0].to_string().contains("end_turn"), "{ends:?}");
    let chunks = records
        .iter()
        .filter(|record| record["event"].to_string().contains("agent_message_chunk"))
        .count();
    ensure!(chunks as u64 == updates, "{chunks} chunks in the log");
    Ok(())
}

impl KillTally {
    /// Compares the messages that the agent received with the log: every request has one answer,
    /// and no message came twice.
    fn check_received(
        &mut self,
        recording: &Recording,
        host: &KeepingHost,
        session: &str,
    ) -> Result<()> {
        let messages = recording.read_messages()?;
        let mut times: BTreeMap<String, u64> = BTreeMap::new();
        // Agents that only answer a client's `initialize` write to the same recording.
        for message in messages.iter().filter(|message| message["method"] != "initialize") {
            let name = match message["method"].as_str() {
                Some("_echo") => format!("echo {}", message["params"]["kill"]),
                Some(method) => format!("{method} {}", message["id"]),
                None => format!("answer {}", message["id"]),
            };
            *times.entry(name).or_default() += 1;
        }
        let doubled: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
        ensure!(doubled.is_empty(), "the agent received twice: {doubled:?}");
        let count =
            |prefix: &str| times.keys().filter(|name| name.starts_with(prefix)).count() as u64;
        (self.answered, self.echoes) = (count("answer"), count("echo"));
        let is_unknown = |message: &&Value| {
            message["error"]["message"]
                .as_str()
                .is_some_and(|text| text.contains("unknown"))
        };
        self.unknown_outcomes = messages.iter().filter(is_unknown).count() as u64;
        let numbers: Vec<u64> = times
            .keys()
            .filter_map(|name| {
                name.strip_prefix("answer \"mixed-")?.strip_suffix('"')?.parse().ok()
            })
            .collect();
        let last = numbers.iter().max().context("no answers")?;
        ensure!(
            numbers.len() as u64 == last + 1,
            "{} answers to {} requests",
            numbers.len(),
            last + 1
        );
        ensure!(count("session/prompt") == 1 && count("session/new") == 1, "{times:?}");
        let resolved = log::list_events(host, session, "ask_resolved")?.len() as u64;
        let selected = messages
            .iter()
            .filter(|message| message["result"]["outcome"]["outcome"] == "selected")
            .count() as u64;
        self.permissions = selected;
        ensure!(
            resolved == selected,
            "{resolved} permissions in the log, {selected} answers at the agent"
        );
        let modes: Vec<&Value> = messages
            .iter()
            .filter(|message| message["method"] == "session/set_mode")
            .collect();
        self.mode_changes = modes.len() as u64;
        let changes = log::list_events(host, session, "settings_changed")?;
        let settings = changes.last().and_then(|event| event["settings"].as_array());
        let noted =
            settings.and_then(|settings| settings.iter().find(|setting| setting["of"] == "mode"));
        let noted = noted.map(|setting| &setting["value"]);
        let set = modes.last().map(|message| &message["params"]["modeId"]);
        ensure!(noted == set, "the log's mode is {noted:?}, the agent's is {set:?}");
        Ok(())
    }
}
