//! A random walk over the real server: clients that prompt, answer, cancel, attach, leave, drop and come back as they
//! please. Whatever they do, in the end everyone has the same transcript and everything has exactly one end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use wharf_testkit::client::{Client, Frame, RpcError};
use wharf_testkit::host::Host;

use crate::recording::Recording;
use crate::restart::Dice;
use crate::{client, client_with, cwd, log, section, told};

const PEOPLE: u64 = 6;
/// Prompts of one person that are not answered yet.
const AT_ONCE: usize = 4;

fn walk_for() -> Result<Duration> {
    let seconds = std::env::var("WHARF_WALK_SECONDS").map_or(Ok(10), |seconds| seconds.parse())?;
    Ok(Duration::from_secs(seconds))
}

type Answer = Option<Result<Value, RpcError>>;

/// One who uses the sessions without any plan.
struct Person {
    dice: Dice,
    sessions: [String; 2],
    cwd: String,
    connection: Option<Connection>,
    prompts: u64,
    name: u64,
}

struct Connection {
    client: Client,
    calls: Vec<JoinHandle<Answer>>,
    /// How often it asked for the past of each session.
    replays: HashMap<String, usize>,
}

impl Person {
    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.dice.roll()).unwrap_or_default() % choices.len()]
    }

    fn session(&mut self) -> String {
        let place = usize::from(self.dice.roll().is_multiple_of(3));
        self.sessions[place].clone()
    }

    async fn step(&mut self, host: &Host) -> Result<()> {
        if self.connection.is_none() {
            return self.connect(host).await;
        }
        let session = self.session();
        match self.dice.roll() % 32 {
            0..=12 => self.prompt(&session).await,
            13..=18 => self.join(&session).await?,
            19 | 20 => self.call("session/detach", json!({ "sessionId": session })).await,
            21 => self.client()?.cancel(&session).await,
            22 => self.cancel_clearing(&session).await?,
            23 | 24 => self.meddle(&session).await?,
            25 => self.set_mode(&session).await,
            26 => self.cancel_request().await?,
            27 | 28 => {
                let gone = self.connection.take().context("not connected")?;
                gone.client.close().await;
            }
            _ => drop(self.client()?.request("session/status", json!({ "sessionId": session })).await?),
        }
        Ok(())
    }

    fn client(&self) -> Result<Client> {
        Ok(self.connection.as_ref().context("not connected")?.client.clone())
    }

    async fn connect(&mut self, host: &Host) -> Result<()> {
        let (multi, ids) = (self.dice.roll().is_multiple_of(2), self.dice.roll().is_multiple_of(2));
        let meta = json!({ "wharf": { "multiClientUpdates": multi, "eventIds": ids } });
        let client = client_with(host, json!({}), meta).await?;
        client.set_patience(walk_for()? + Duration::from_secs(60));
        let dice = Mutex::new(Dice::of(self.dice.roll()));
        client.respond_with(move |ask| opinion(&mut dice.lock().unwrap_or_else(PoisonError::into_inner), ask));
        self.connection = Some(Connection { client, calls: Vec::new(), replays: HashMap::new() });
        Ok(())
    }

    async fn call(&mut self, method: &str, params: Value) {
        let Some(connection) = &mut self.connection else { return };
        let call = connection.client.start(method, params).await;
        connection.calls.push(tokio::spawn(call.answer_or_lost()));
    }

    async fn prompt(&mut self, session: &str) {
        let waiting = self.connection.iter().flat_map(|connection| &connection.calls);
        if waiting.filter(|call| !call.is_finished()).count() >= AT_ONCE {
            return;
        }
        self.prompts += 1;
        // A word that nobody else says.
        let word = format!("w{}-{}", self.name, self.prompts);
        let scripts =
            ["@", "@", "stream 20; @", "ask; @", "ask 2; @", "ask2; @", "think hm; tool; plan; @", "pause 15; @"];
        let rare =
            ["error -32050", "crash 3", "user mine; @", "withdraw; @", "mode auto", "late after; @", "stop max_tokens"];
        let script = if self.dice.roll().is_multiple_of(8) { self.one_of(&rare) } else { self.one_of(&scripts) };
        let text = script.replace('@', &format!("echo {word}"));
        self.call("session/prompt", json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] }))
            .await;
    }

    async fn join(&mut self, session: &str) -> Result<()> {
        let policies = ["full", "none", "pending_only", "after_message"];
        let policy = self.one_of(&policies);
        let delivery = self.one_of(&["stream", "response"]);
        let start = json!({ "sessionId": session, "cwd": self.cwd, "mcpServers": [], "historyPolicy": policy,
            "afterMessageId": "answer-3", "historyDelivery": delivery });
        let method = self.one_of(&["session/load", "session/resume", "session/attach"]);
        let connection = self.connection.as_mut().context("not connected")?;
        *connection.replays.entry(session.to_owned()).or_default() += 1;
        let call = connection.client.start(method, start).await;
        connection.calls.push(tokio::spawn(call.answer_or_lost()));
        Ok(())
    }

    async fn cancel_clearing(&mut self, session: &str) -> Result<()> {
        let meta = json!({ "wharf": { "queue": "clear" } });
        self.client()?.notify("session/cancel", json!({ "sessionId": session, "_meta": meta })).await;
        Ok(())
    }

    /// Changes the queue, whoever's prompts are in it.
    async fn meddle(&mut self, session: &str) -> Result<()> {
        let queue = self.client()?.request("_wharf/queue/list", json!({ "sessionId": session })).await?;
        let Some(prompt) = queue["prompts"].as_array().and_then(|prompts| prompts.last().cloned()) else {
            return Ok(());
        };
        let method = self.one_of(&["_wharf/queue/remove", "_wharf/queue/move", "_wharf/queue/update"]);
        let params =
            json!({ "sessionId": session, "promptId": prompt["promptId"], "position": 0, "prompt": prompt["prompt"] });
        // It may have started meanwhile.
        let _ = self.client()?.request(method, params).await;
        Ok(())
    }

    async fn set_mode(&mut self, session: &str) {
        let mode = self.one_of(&["ask", "auto"]);
        self.call("session/set_mode", json!({ "sessionId": session, "modeId": mode })).await;
    }

    /// Takes back any of the last requests.
    async fn cancel_request(&mut self) -> Result<()> {
        let id = self.dice.roll() % 40;
        self.client()?.notify("$/cancel_request", json!({ "requestId": id })).await;
        Ok(())
    }
}

/// What a client says to a permission: some option, no, an error, or nothing.
fn opinion(dice: &mut Dice, ask: &Frame) -> Option<Result<Value, Value>> {
    let chosen = |option: &str| json!({ "outcome": { "outcome": "selected", "optionId": option } });
    (ask.method() == "session/request_permission").then_some(())?;
    match dice.roll() % 10 {
        0..=3 => Some(Ok(chosen("allow_once"))),
        4 | 5 => Some(Ok(chosen("reject_once"))),
        6 => Some(Ok(chosen("none of these"))),
        7 => Some(Ok(json!({ "outcome": { "outcome": "cancelled" } }))),
        8 => Some(Err(json!({ "code": -32603, "message": "no dialog" }))),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_clients_do_everyone_ends_up_with_the_same_story() -> Result<()> {
    let mut dice = Dice::thrown()?;
    let recording = Recording::new()?;
    // One agent of each session writes down what it is told.
    let options = section(recording.scripted(&["--commands"])?, "replay_quiet = \"20ms\"");
    let options = crate::and_scripted(options, "other", &["--resume"])?;
    let host = Arc::new(section(options, "replay_quiet = \"20ms\"").setting("cancel_timeout", "2s").start()?);
    let first = client(&host).await?;
    let other = json!({ "cwd": cwd(&host)?, "mcpServers": [], "_meta": { "wharf": { "agent": "other" } } });
    let other = first.request("session/new", other).await?["sessionId"].as_str().context("no id")?.to_owned();
    let sessions = [first.new_session(&cwd(&host)?).await?, other];
    first.close().await;

    let until = Instant::now() + walk_for()?;
    let people: Vec<_> = (0..PEOPLE)
        .map(|name| {
            let (dice, host, sessions) = (Dice::of(dice.roll()), Arc::clone(&host), sessions.clone());
            tokio::spawn(async move {
                let cwd = cwd(&host)?;
                let mut person = Person { dice, sessions, cwd, connection: None, prompts: 0, name };
                while Instant::now() < until {
                    person.step(&host).await.with_context(|| format!("person {name}"))?;
                }
                anyhow::Ok(person)
            })
        })
        .collect();
    let mut walked = Vec::new();
    for person in people {
        walked.push(person.await??);
    }
    let prompts: u64 = walked.iter().map(|person| person.prompts).sum();
    println!("{prompts} prompts");
    ensure!(prompts > 50, "hardly anything happened");

    settle(&host, &sessions).await?;
    let mut connections: Vec<Connection> = walked.into_iter().filter_map(|person| person.connection).collect();
    for connection in &mut connections {
        check_answers(connection).await?;
    }
    for session in &sessions {
        check_log(&host, session)?;
        check_stories(&host, session, &connections).await?;
    }
    check_recording(&recording)
}

/// Lets everything come to its end: someone answers whatever is asked, and the last prompt is behind all others.
async fn settle(host: &Host, sessions: &[String]) -> Result<()> {
    let last = client(host).await?;
    last.set_patience(Duration::from_secs(60));
    last.choose("allow_always");
    for session in sessions {
        last.load_session(session, &cwd(host)?).await?;
        let said = told(&last, session, "echo the end").await?;
        ensure!(said.ends_with("the end"), "{said}");
    }
    Ok(())
}

/// Every request of a connection that is still there has been answered.
async fn check_answers(connection: &mut Connection) -> Result<()> {
    for call in connection.calls.drain(..) {
        match call.await?.context("the connection was lost")? {
            Ok(_) => {}
            Err(error) => {
                let known = ["removed", "agent_exited", "queue_full"];
                let reason = error.data["reason"].as_str().unwrap_or_default();
                let crashed = error.message.contains("agent is not running");
                let fine = crashed || known.contains(&reason) || [-32050, -32001].contains(&error.code);
                ensure!(fine, "an answer that nobody expects: {error}");
            }
        }
    }
    Ok(())
}

/// Each prompt has one end and each ask one answer, in a log without gaps.
fn check_log(host: &Host, session: &str) -> Result<()> {
    let records = log::records(host, session)?;
    let gapless = records.iter().enumerate().all(|(place, record)| record["seq"] == place as u64 + 1);
    ensure!(gapless, "the log has a gap");
    let count = |kind: &str, name: fn(&Value) -> &Value| {
        let mut counted: HashMap<String, usize> = HashMap::new();
        for event in records.iter().map(|record| &record["event"]).filter(|event| event["kind"] == kind) {
            *counted.entry(name(event).to_string()).or_default() += 1;
        }
        counted
    };
    let accepted = count("prompt_accepted", |event| &event["prompt"]);
    ensure!(accepted.values().all(|times| *times == 1));
    ensure!(accepted == count("prompt_ended", |event| &event["prompt"]), "a prompt with no end, or with two");
    let asked = count("ask_opened", |event| &event["ask"]["id"]);
    ensure!(asked.values().all(|times| *times == 1));
    ensure!(asked == count("ask_resolved", |event| &event["ask"]), "a permission with no answer, or with two");
    println!("{} prompts, {} permissions, {} events", accepted.len(), asked.len(), records.len());
    Ok(())
}

/// The past as a `session/load` tells it.
async fn story(client: &Client, session: &str, cwd: &str) -> Result<Vec<Value>> {
    let before = client.transcript().len();
    client.load_session(session, cwd).await?;
    let frames = client.transcript().into_iter().skip(before);
    Ok(frames.filter_map(|frame| frame.update().cloned()).collect())
}

async fn check_stories(host: &Host, session: &str, connections: &[Connection]) -> Result<()> {
    let fresh = client(host).await?;
    let expected = story(&fresh, session, &cwd(host)?).await?;
    let logged = log::events(host, session, "agent_updated")?.len();
    ensure!(!expected.is_empty() && expected.len() <= logged + log::events(host, session, "turn_started")?.len());
    for connection in connections {
        let replays = connection.replays.get(session).copied().unwrap_or_default();
        check_words(&connection.client, session, replays)?;
        ensure!(story(&connection.client, session, &cwd(host)?).await? == expected, "another story");
    }
    Ok(())
}

/// What was said once is shown once, and once more for each time that the past was asked for.
fn check_words(client: &Client, session: &str, replays: usize) -> Result<()> {
    let mut shown: HashMap<String, usize> = HashMap::new();
    let frames = client.transcript();
    let own = frames.iter().filter(|frame| frame.params()["sessionId"] == session);
    for word in own.filter_map(Frame::text).filter(|text| text.starts_with('w')) {
        *shown.entry(word.to_owned()).or_default() += 1;
    }
    let most = shown.iter().max_by_key(|(_, times)| **times);
    ensure!(most.is_none_or(|(_, times)| *times <= replays + 1), "{most:?} with {replays} replays");
    Ok(())
}

/// No agent was answered twice.
fn check_recording(recording: &Recording) -> Result<()> {
    let mut answered: Vec<String> = Vec::new();
    for message in recording.messages()? {
        if message["method"] == "initialize" {
            answered.clear();
        } else if message.get("method").is_none() {
            let id = message["id"].to_string();
            // Two ids are the script's own and come again with each of its uses.
            let reused = ["\"left\"", "\"right\"", "\"to-be-withdrawn\""].contains(&id.as_str());
            ensure!(reused || !answered.contains(&id), "the agent got a second answer to its request {id}");
            answered.push(id);
        }
    }
    Ok(())
}
