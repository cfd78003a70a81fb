//! `kill -9` of the host at random instants, with prompts, permissions, streams and new sessions under way; sometimes
//! of a process below it too.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use wharf_testkit::dice::Dice;
use wharf_testkit::host::Host;
use wharf_testkit::http::Http;
use wharf_testkit::procs;

use super::kill_clients::{
    PromptSender, SeenEvents, SessionStarter, StreamReader, WebSocketEditor, logged_updates, next_text,
};
use super::record_check::{RecordCheck, prompt_text};
use crate::recording::Recording;
use crate::rest::{spawn_session, wait_until_idle};
use crate::{TREE_ENDS_WITHIN, add_section, connect_client_with, cwd};

/// The number of rounds unless `WHARF_FAULT_ROUNDS` is set.
const KILL_ROUNDS: u32 = 200;
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
    let rounds = std::env::var("WHARF_FAULT_ROUNDS").map_or(Ok(KILL_ROUNDS), |rounds| rounds.parse())?;
    let mut dice = Dice::thrown()?;
    let recording = Recording::new()?;
    let options = add_section(recording.scripted(&["--resume"])?, "replay_quiet = \"10ms\"");
    let mut host = options.start()?;
    let http = Http::new(&host);
    let (shared, own) = (spawn_session(&http, &host).await?, spawn_session(&http, &host).await?);
    let mut people = KillClients {
        sender: PromptSender::new(shared.clone()),
        reader: StreamReader::new(shared),
        editor: WebSocketEditor::new(own),
        starter: SessionStarter::default(),
    };
    let mut tally = RecordCheck { rounds, ..RecordCheck::default() };
    for round in 0..rounds {
        let below = people.round(&mut host, &mut dice).await.with_context(|| format!("round {round}"))?;
        tally.orphans.extend(procs::wait_gone(&below, TREE_ENDS_WITHIN).err().into_iter().flatten());
        host.restart()?;
    }
    people.settle(&mut host, &recording, &mut tally).await?;
    println!("{tally}");
    ensure!(tally.lost.is_empty(), "lost: {:#?}", tally.lost);
    ensure!(tally.doubled.is_empty(), "doubled: {:#?}", tally.doubled);
    ensure!(tally.orphans.is_empty(), "left: {:?}", tally.orphans);
    Ok(())
}

impl KillClients {
    /// Lets all clients work until the host is killed. Returns the processes that were below it.
    async fn round(&mut self, host: &mut Host, dice: &mut Dice) -> Result<Vec<u32>> {
        let (seen, http) = (Arc::new(SeenEvents::default()), Http::new(host));
        // Small and large rounds are equally frequent, since the beginning of a round is as good a moment for a kill.
        let largest = 1 << dice.below(u64::from(EVENTS_PER_ROUND.ilog2()) + 1);
        let kill_at = dice.below(largest);
        let shot = dice.once_in(4).then(|| dice.below(kill_at + 1));
        let (dice_a, dice_b, another) = (Dice::of(dice.roll()), Dice::of(dice.roll()), dice.once_in(8));
        let victim = dice.roll();
        let pid = host.pid();
        let kill = async {
            if let Some(at) = shot {
                seen.reaches(at).await;
                let below = procs::descendants(pid);
                if let Some(one) = usize::try_from(victim).ok().and_then(|roll| below.get(roll % below.len().max(1))) {
                    procs::kill(*one);
                }
            }
            seen.reaches(kill_at).await;
        };
        let work = async {
            let busy = async {
                let (sent, edited, started) = tokio::join!(
                    self.sender.work(&http, &seen, dice_a),
                    self.editor.work(host, &seen, dice_b),
                    self.starter.work(host, &http, &seen, another),
                );
                seen.everything();
                sent.and(edited).and(started)
            };
            let (worked, read) = tokio::join!(busy, self.reader.work(&http, &seen));
            worked.and(read)
        };
        let mut below = Vec::new();
        let end = async {
            kill.await;
            below = procs::descendants(pid);
            procs::kill(pid);
        };
        let (worked, ()) = tokio::join!(work, end);
        worked?;
        host.kill9()?;
        Ok(below)
    }

    /// Starts the host for the last time, so that interrupted prompts get their end. Then checks all records.
    async fn settle(mut self, host: &mut Host, recording: &Recording, tally: &mut RecordCheck) -> Result<()> {
        let http = Http::new(host);
        self.sender.work(&http, &SeenEvents::default(), Dice::of(0)).await?;
        self.starter.work(host, &http, &SeenEvents::default(), false).await?;
        let mut texts = BTreeMap::new();
        for session in [&self.sender.session, &self.editor.session] {
            let (path, last) =
                (format!("/sessions/{session}/prompt"), json!({ "prompt": "echo the end", "queue": true }));
            let mut answer = http.post(&path, &last).await?;
            if answer.status == 429 {
                wait_until_idle(&http, session).await?;
                answer = http.post(&path, &last).await?;
            }
            answer.expect(200)?;
            wait_until_idle(&http, session).await?;
        }
        self.count_frames(host, tally).await?;
        http.poke(&format!("/sessions/{}/kill", self.reader.session)).await?.expect(200)?;
        let mut stream = http.stream(&format!("/sessions/{}/stream", self.reader.session), None).await?;
        let mut there = Vec::new();
        while let Some(event) = next_text(&mut stream).await {
            there.push(event);
        }
        tally.compare(&self.reader.events, &there);
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
        tally.once("prompt", self.sender.acknowledged.iter().cloned(), &texts);
        tally.once("turn", self.editor.ended.iter().cloned(), &texts);
        count_deliveries(recording, tally)?;
        let mut labels = BTreeMap::new();
        let listed = http.get("/sessions?limit=1000").await?.expect(200)?;
        for session in listed["sessions"].as_array().context("no list")? {
            *labels.entry(session["label"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
        }
        tally.once("session", self.starter.started.iter().cloned(), &labels);
        let below = procs::descendants(host.pid());
        host.terminate()?;
        tally.orphans.extend(procs::wait_gone(&below, TREE_ENDS_WITHIN).err().into_iter().flatten());
        Ok(())
    }

    /// Checks that the editor received the same frames as a new client, byte for byte.
    async fn count_frames(&self, host: &Host, tally: &mut RecordCheck) -> Result<()> {
        let newcomer = connect_client_with(host, json!({}), json!({ "wharf": { "eventIds": true } })).await?;
        newcomer.load_session(&self.editor.session, &cwd(host)?).await?;
        tally.compare(&self.editor.frames, &logged_updates(&newcomer, &self.editor.session));
        Ok(())
    }
}

/// Checks that no agent received a prompt twice.
fn count_deliveries(recording: &Recording, tally: &mut RecordCheck) -> Result<()> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for text in
        recording.messages()?.iter().filter(|message| message["method"] == "session/prompt").filter_map(prompt_text)
    {
        *times.entry(text).or_default() += 1;
    }
    times.remove("echo the end");
    tally
        .doubled
        .extend(times.into_iter().filter(|(_, times)| *times > 1).map(|(text, _)| format!("delivered: {text}")));
    Ok(())
}
