//! `kill -9` of the host at random instants, with prompts, permissions, streams and new sessions
//! under way; sometimes of a process below it too.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;
use wharf_testkit::random::TestRandom;
use wharf_testkit::{WAIT_LIMIT, processes};

use super::kill_clients::{
    PromptSender, SeenEvents, SessionStarter, StreamReader, WebSocketEditor, logged_updates,
    next_text,
};
use super::record_check::{RecordCheck, prompt_text};
use crate::recording::Recording;
use crate::rest::{spawn_session, wait_until_idle};
use crate::{TREE_ENDS_WITHIN, add_section, connect_client_with, cwd};

/// The number of rounds unless `WHARF_FAULT_ROUNDS` is set.
const KILL_ROUNDS: u32 = 200;
/// The same where the agents go on.
const KEPT_KILL_ROUNDS: u32 = 40;
/// The approximate number of events that clients see in a round without a kill.
const EVENTS_PER_ROUND: u64 = 300;

struct KillClients {
    sender: PromptSender,
    reader: StreamReader,
    editor: WebSocketEditor,
    starter: SessionStarter,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_kills_lose_and_duplicate_no_records() -> Result<()> {
    kill_host_often(KILL_ROUNDS, false).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_a_host_whose_agents_go_on_lose_and_duplicate_no_records() -> Result<()> {
    kill_host_often(KEPT_KILL_ROUNDS, true).await
}

/// Kills the host amid traffic; `is_kept` says whether its agents go on.
async fn kill_host_often(rounds: u32, is_kept: bool) -> Result<()> {
    let rounds = std::env::var("WHARF_FAULT_ROUNDS").map_or(Ok(rounds), |rounds| rounds.parse())?;
    let mut dice = TestRandom::from_environment()?;
    let recording = Recording::new()?;
    let options = add_section(recording.host_options(&["--resume"])?, "replay_quiet = \"10ms\"");
    let reason = "each kill has to cut turns and to leave no process";
    let mut host = if is_kept {
        options.start_host()?
    } else {
        options.without_keepers(reason).start_host()?
    };
    let http = RestClient::new(&host);
    let (shared, own) = (spawn_session(&http, &host).await?, spawn_session(&http, &host).await?);
    let mut people = KillClients {
        sender: PromptSender::new(shared.clone()),
        reader: StreamReader::new(shared),
        editor: WebSocketEditor::new(own),
        starter: SessionStarter::default(),
    };
    let mut tally = RecordCheck { rounds, ..RecordCheck::default() };
    for round in 0..rounds {
        let below = people
            .run_round(&mut host, &mut dice)
            .await
            .with_context(|| format!("round {round}"))?;
        if !is_kept {
            tally
                .orphans
                .extend(processes::wait_gone(&below, TREE_ENDS_WITHIN).err().into_iter().flatten());
        }
        host.restart()?;
    }
    people.settle_round(&mut host, &recording, &mut tally).await?;
    println!("{tally}");
    ensure!(tally.lost.is_empty(), "lost: {:#?}", tally.lost);
    ensure!(tally.doubled.is_empty(), "doubled: {:#?}", tally.doubled);
    ensure!(tally.orphans.is_empty(), "left: {:?}", tally.orphans);
    Ok(())
}

impl KillClients {
    /// Lets all clients work until the host is killed. Returns the processes that were below it.
    async fn run_round(&mut self, host: &mut TestHost, dice: &mut TestRandom) -> Result<Vec<u32>> {
        let (seen, http) = (Arc::new(SeenEvents::default()), RestClient::new(host));
        // Small and large rounds are equally frequent, since the beginning of a round is as good a
        // moment for a kill.
        let largest = 1 << dice.next_below(u64::from(EVENTS_PER_ROUND.ilog2()) + 1);
        let kill_at = dice.next_below(largest);
        let shot = dice.is_once_in(4).then(|| dice.next_below(kill_at + 1));
        let (dice_a, dice_b, another) = (
            TestRandom::from_seed(dice.next_number()),
            TestRandom::from_seed(dice.next_number()),
            dice.is_once_in(8),
        );
        let victim = dice.next_number();
        let pid = host.pid();
        let kill = async {
            if let Some(at) = shot {
                seen.wait_for_count(at).await;
                let below = processes::list_descendants(pid);
                if let Some(one) = usize::try_from(victim)
                    .ok()
                    .and_then(|roll| below.get(roll % below.len().max(1)))
                {
                    processes::send_sigkill(*one);
                }
            }
            seen.wait_for_count(kill_at).await;
        };
        let work = async {
            let busy = async {
                let (sent, edited, started) = tokio::join!(
                    self.sender.run_round(&http, &seen, dice_a),
                    self.editor.run_round(host, &seen, dice_b),
                    self.starter.run_round(host, &http, &seen, another),
                );
                seen.mark_finished();
                sent.and(edited).and(started)
            };
            let (worked, read) = tokio::join!(busy, self.reader.run_round(&http, &seen));
            worked.and(read)
        };
        let mut below = Vec::new();
        let end = async {
            kill.await;
            below = processes::list_descendants(pid);
            processes::send_sigkill(pid);
        };
        let (worked, ()) = tokio::join!(work, end);
        worked?;
        host.kill()?;
        Ok(below)
    }

    /// Starts the host for the last time, so that interrupted prompts get their end. Then checks
    /// all records.
    async fn settle_round(
        mut self,
        host: &mut TestHost,
        recording: &Recording,
        tally: &mut RecordCheck,
    ) -> Result<()> {
        let http = RestClient::new(host);
        self.sender
            .run_round(&http, &SeenEvents::default(), TestRandom::from_seed(0))
            .await?;
        self.starter.run_round(host, &http, &SeenEvents::default(), false).await?;
        let mut texts = BTreeMap::new();
        // Its last turn may have outlived the hosts, with an ask that the editor answers no more.
        let _ = http.post_empty(&format!("/sessions/{}/interrupt", self.editor.session)).await?;
        for session in [&self.sender.session, &self.editor.session] {
            let (path, last) = (
                format!("/sessions/{session}/prompt"),
                json!({ "prompt": "echo the end", "queue": true }),
            );
            let mut answer = http.post(&path, &last).await?;
            if answer.status == 429 {
                wait_until_idle(&http, session).await?;
                answer = http.post(&path, &last).await?;
            }
            answer.expect(200)?;
            wait_until_idle(&http, session).await?;
        }
        self.count_frames(host, tally).await?;
        http.post_empty(&format!("/sessions/{}/kill", self.reader.session))
            .await?
            .expect(200)?;
        let mut stream = http
            .open_stream(&format!("/sessions/{}/stream", self.reader.session), None)
            .await?;
        let mut there = Vec::new();
        while let Some(event) = next_text(&mut stream).await {
            there.push(event);
        }
        tally.compare_records(&self.reader.events, &there);
        // A reader that resumes after an event misses none of the following events.
        let read: Vec<&String> = self.reader.events.iter().map(|(id, _)| id).collect();
        let expected: Vec<&String> = there.iter().take(read.len()).map(|(id, _)| id).collect();
        if read != expected {
            tally.lost.push("a reader was not shown everything in its order".to_owned());
        }
        for session in [&self.sender.session, &self.editor.session] {
            for (text, times) in tally.check_log(host, session)? {
                *texts.entry(text).or_default() += times;
            }
        }
        tally.check_once("prompt", self.sender.acknowledged.iter().cloned(), &texts);
        tally.check_once("turn", self.editor.ended.iter().cloned(), &texts);
        count_deliveries(recording, tally)?;
        let mut labels = BTreeMap::new();
        let listed = http.get("/sessions?limit=1000").await?.expect(200)?;
        for session in listed["sessions"].as_array().context("no list")? {
            *labels
                .entry(session["label"].as_str().unwrap_or_default().to_owned())
                .or_default() += 1;
        }
        tally.check_once("session", self.starter.started.iter().cloned(), &labels);
        let mut below = processes::list_descendants(host.pid());
        // Keepers that were taken over are no descendants of this host.
        for entry in std::fs::read_dir(host.state_dir().join("run"))? {
            let keeper = entry?.file_name().to_str().and_then(|name| name.parse().ok());
            below.extend(keeper.into_iter().flat_map(|keeper| {
                processes::list_descendants(keeper).into_iter().chain([keeper])
            }));
        }
        http.post_empty("/stop").await?.expect(202)?;
        host.wait_exit(WAIT_LIMIT)?;
        tally
            .orphans
            .extend(processes::wait_gone(&below, TREE_ENDS_WITHIN).err().into_iter().flatten());
        Ok(())
    }

    /// Checks that the editor received the same frames as a new client, byte for byte.
    async fn count_frames(&self, host: &TestHost, tally: &mut RecordCheck) -> Result<()> {
        let newcomer =
            connect_client_with(host, json!({}), json!({ "wharf": { "eventIds": true } })).await?;
        newcomer.load_session(&self.editor.session, &cwd(host)?).await?;
        tally
            .compare_records(&self.editor.frames, &logged_updates(&newcomer, &self.editor.session));
        Ok(())
    }
}

/// Checks that no agent received a prompt twice.
fn count_deliveries(recording: &Recording, tally: &mut RecordCheck) -> Result<()> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for text in recording
        .read_messages()?
        .iter()
        .filter(|message| message["method"] == "session/prompt")
        .filter_map(prompt_text)
    {
        *times.entry(text).or_default() += 1;
    }
    times.remove("echo the end");
    tally.doubled.extend(
        times
            .into_iter()
            .filter(|(_, times)| *times > 1)
            .map(|(text, _)| format!("delivered: {text}")),
    );
    Ok(())
}
