//! A random walk over the real server: clients on every transport prompt, answer, cancel, attach,
//! observe, leave, drop their connection and return under the same id. At the end all clients have
//! the same transcript, every prompt and ask has exactly one end, and every cancel hit the prompts
//! that its sender meant. `WHARF_WALK_SECONDS` sets the length, `WHARF_WALK_SEED` repeats the
//! choices.
//!
//! A long walk is made of rounds, each with a new host and a seed of its own: replays grow with the
//! square of a session's age, and all frames are kept for the checks.

mod cancels;
mod checks;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use wharf_testkit::client::{CallFailure, ReceivedFrame, TestClient};
use wharf_testkit::host::TestHost;
use wharf_testkit::random::TestRandom;

use crate::recording::Recording;
use crate::transports::{Transport, create_observer_token};
use crate::{add_section, connect_client, cwd, log, prompt_for_text};

const CLIENT_COUNT: u64 = 6;
/// The number of unanswered prompts that one client may have.
const MAX_OPEN_PROMPTS: usize = 4;

const ROUND: Duration = Duration::from_secs(20);

/// Returns the number of rounds of the walk.
fn count_rounds() -> Result<u64> {
    let seconds =
        std::env::var("WHARF_WALK_SECONDS").map_or(Ok(0), |seconds| seconds.parse::<u64>())?;
    Ok(seconds.div_ceil(ROUND.as_secs()).max(1))
}

type PromptAnswer = Option<Result<Value, CallFailure>>;

/// A client that uses the sessions at random.
struct WalkClient {
    dice: TestRandom,
    sessions: [String; 2],
    cwd: String,
    /// An observer's token.
    looking: String,
    connection: Option<Connection>,
    /// Its earlier connections.
    gone: Vec<Connection>,
    prompts: u64,
    name: u64,
}

struct Connection {
    client: TestClient,
    way: Transport,
    role: Role,
    /// True if its frames carry event ids.
    has_ids: bool,
    /// True if it has loaded both sessions and stays: it must receive every event.
    is_steady: bool,
    calls: Vec<JoinHandle<PromptAnswer>>,
    /// The number of replays of each session that it asked for.
    replays: HashMap<String, usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Controller,
    Observer,
}

impl WalkClient {
    fn session(&mut self) -> String {
        let place = usize::from(self.dice.is_once_in(3));
        self.sessions[place].clone()
    }

    async fn run_step(&mut self, host: &TestHost) -> Result<()> {
        if self.connection.is_none() {
            return self.connect(host).await;
        }
        let session = self.session();
        let stays = self.connection.as_ref().is_some_and(|connection| connection.is_steady);
        match self.dice.next_below(32) {
            13..=20 if stays => {}
            0..=12 => self.send_prompt(&session).await,
            13..=18 => self.join_session(&session).await?,
            19 | 20 => self.call("session/detach", json!({ "sessionId": session })).await,
            21 => self.client()?.cancel_turn(&session).await,
            22 => self.cancel_clearing(&session).await?,
            23 | 24 => self.change_queue(&session).await?,
            25 => self.set_mode(&session).await,
            26 => self.cancel_request().await?,
            27 | 28 => {
                let gone = self.connection.take().context("not connected")?;
                gone.client.close().await;
                self.gone.push(gone);
            }
            _ => drop(
                self.client()?
                    .call_method("session/status", json!({ "sessionId": session }))
                    .await?,
            ),
        }
        Ok(())
    }

    fn client(&self) -> Result<TestClient> {
        Ok(self.connection.as_ref().context("not connected")?.client.clone())
    }

    async fn connect(&mut self, host: &TestHost) -> Result<()> {
        use Transport::{Bridge, Http, Socket, WebSocket};
        let ways =
            [WebSocket, WebSocket, WebSocket, WebSocket, Http, Http, Http, Socket, Socket, Bridge];
        let way = self.dice.pick_one(&ways);
        let looks = self.dice.is_once_in(6) && matches!(way, WebSocket | Http);
        let (role, token) = if looks {
            (Role::Observer, self.looking.as_str())
        } else {
            (Role::Controller, host.token())
        };
        let (multi, has_ids) = (self.dice.is_once_in(2), self.dice.is_once_in(2));
        let meta = json!({ "wharf": { "multiClientUpdates": multi, "eventIds": has_ids,
            "clientId": format!("person-{}", self.name) } });
        let client = way
            .client_with_token(host, token, meta)
            .await
            .with_context(|| format!("{way:?}"))?;
        client.set_wait_limit(ROUND + Duration::from_secs(60));
        let dice = Mutex::new(TestRandom::from_seed(self.dice.next_number()));
        client.respond_with(move |ask| {
            choose_answer(&mut dice.lock().unwrap_or_else(PoisonError::into_inner), ask)
        });
        let mut replays = HashMap::new();
        let mut is_steady = has_ids && self.dice.is_once_in(2);
        if is_steady {
            for session in &self.sessions {
                replays.insert(session.clone(), 1);
                // The session's agent may just have crashed.
                is_steady &= client.load_session(session, &self.cwd).await.is_ok();
            }
        }
        let calls = Vec::new();
        self.connection =
            Some(Connection { client, way, role, has_ids, is_steady, calls, replays });
        if !self.gone.is_empty() && role == Role::Controller && self.dice.is_once_in(2) {
            self.return_and_cancel().await?;
        }
        Ok(())
    }

    /// Cancels right after a reconnect, while prompts of the last connection may still run or wait.
    async fn return_and_cancel(&mut self) -> Result<()> {
        let session = self.session();
        let connection = self.connection.as_mut().context("not connected")?;
        if !connection.is_steady {
            *connection.replays.entry(session.clone()).or_default() += 1;
            // The agent may just have crashed.
            let _ = connection.client.load_session(&session, &self.cwd).await;
        }
        connection.client.cancel_turn(&session).await;
        Ok(())
    }

    async fn call(&mut self, method: &str, params: Value) {
        let Some(connection) = &mut self.connection else { return };
        let call = connection.client.start_request(method, params).await;
        connection.calls.push(tokio::spawn(call.wait_answer_or_lost()));
    }

    async fn send_prompt(&mut self, session: &str) {
        let waiting = self.connection.iter().flat_map(|connection| &connection.calls);
        if waiting.filter(|call| !call.is_finished()).count() >= MAX_OPEN_PROMPTS {
            return;
        }
        self.prompts += 1;
        // The word is unique in the walk.
        let word = format!("w{}-{}", self.name, self.prompts);
        let scripts = [
            "@",
            "@",
            "stream 20; @",
            "ask; @",
            "ask 2; @",
            "ask2; @",
            "think hm; tool; plan; @",
            "pause 15; @",
        ];
        let rare = [
            "error -32050",
            "crash 3",
            "user mine; @",
            "withdraw; @",
            "mode auto",
            "late after; @",
            "stop max_tokens",
        ];
        let script = if self.dice.is_once_in(8) {
            self.dice.pick_one(&rare)
        } else {
            self.dice.pick_one(&scripts)
        };
        let text = script.replace('@', &format!("echo {word}"));
        self.call(
            "session/prompt",
            json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] }),
        )
        .await;
    }

    async fn join_session(&mut self, session: &str) -> Result<()> {
        let policies = ["full", "none", "pending_only", "after_message"];
        let policy = self.dice.pick_one(&policies);
        let way = self.connection.as_ref().context("not connected")?.way;
        // Long answers are not kept for an interrupted stream, which would be refused.
        let delivery = if way == Transport::Http {
            "stream"
        } else {
            self.dice.pick_one(&["stream", "response"])
        };
        let start = json!({ "sessionId": session, "cwd": self.cwd, "mcpServers": [], "historyPolicy": policy,
            "afterMessageId": "answer-3", "historyDelivery": delivery });
        let method = self.dice.pick_one(&["session/load", "session/resume", "session/attach"]);
        let connection = self.connection.as_mut().context("not connected")?;
        *connection.replays.entry(session.to_owned()).or_default() += 1;
        let call = connection.client.start_request(method, start).await;
        connection.calls.push(tokio::spawn(call.wait_answer_or_lost()));
        Ok(())
    }

    async fn cancel_clearing(&mut self, session: &str) -> Result<()> {
        let meta = json!({ "wharf": { "queue": "clear" } });
        self.client()?
            .send_notification("session/cancel", json!({ "sessionId": session, "_meta": meta }))
            .await;
        Ok(())
    }

    /// Changes the queue, including prompts of other clients.
    async fn change_queue(&mut self, session: &str) -> Result<()> {
        let queue = self
            .client()?
            .call_method("_wharf/queue/list", json!({ "sessionId": session }))
            .await;
        // Observers cannot do this, nor any client while the agent cannot be started.
        let Ok(queue) = queue else { return Ok(()) };
        let Some(prompt) = queue["prompts"].as_array().and_then(|prompts| prompts.last().cloned())
        else {
            return Ok(());
        };
        let method = self.dice.pick_one(&[
            "_wharf/queue/remove",
            "_wharf/queue/move",
            "_wharf/queue/update",
        ]);
        let params = json!({ "sessionId": session, "promptId": prompt["promptId"], "position": 0, "prompt": prompt["prompt"] });
        // The prompt may have started meanwhile.
        let _ = self.client()?.call_method(method, params).await;
        Ok(())
    }

    async fn set_mode(&mut self, session: &str) {
        let mode = self.dice.pick_one(&["ask", "auto"]);
        self.call("session/set_mode", json!({ "sessionId": session, "modeId": mode }))
            .await;
    }

    /// Cancels one of the last requests.
    async fn cancel_request(&mut self) -> Result<()> {
        let id = self.dice.next_below(40);
        self.client()?
            .send_notification("$/cancel_request", json!({ "requestId": id }))
            .await;
        Ok(())
    }
}

/// Returns a client's reaction to a permission: an option, a refusal, an error, or no answer.
fn choose_answer(dice: &mut TestRandom, ask: &ReceivedFrame) -> Option<Result<Value, Value>> {
    let chosen = |option: &str| json!({ "outcome": { "outcome": "selected", "optionId": option } });
    (ask.method() == "session/request_permission").then_some(())?;
    match dice.next_below(10) {
        0..=3 => Some(Ok(chosen("allow_once"))),
        4 | 5 => Some(Ok(chosen("reject_once"))),
        6 => Some(Ok(chosen("none of these"))),
        7 => Some(Ok(json!({ "outcome": { "outcome": "cancelled" } }))),
        8 => Some(Err(json!({ "code": -32603, "message": "no dialog" }))),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_clients_end_with_the_same_transcript() -> Result<()> {
    let mut seeds = TestRandom::from_environment()?;
    walk_round(seeds.clone()).await?;
    for round in 1..count_rounds()? {
        let seed = seeds.next_number();
        println!("round {round}: WHARF_WALK_SEED={seed}");
        walk_round(TestRandom::from_seed(seed)).await?;
    }
    Ok(())
}

async fn walk_round(mut dice: TestRandom) -> Result<()> {
    let recording = Recording::new()?;
    // One agent of each session records the messages that it receives.
    let options = add_section(recording.host_options(&["--commands"])?, "replay_quiet = \"20ms\"");
    let options = crate::add_scripted_agent(options, "other", &["--resume"])?;
    let host = Arc::new(
        add_section(options, "replay_quiet = \"20ms\"")
            .with_setting("cancel_timeout", "2s")
            .start_host()?,
    );
    let first = connect_client(&host).await?;
    let other =
        json!({ "cwd": cwd(&host)?, "mcpServers": [], "_meta": { "wharf": { "agent": "other" } } });
    let other = first.call_method("session/new", other).await?["sessionId"]
        .as_str()
        .context("no id")?
        .to_owned();
    let sessions = [first.new_session(&cwd(&host)?).await?, other];
    first.close().await;

    let walked = run_walk(&mut dice, &host, &sessions).await?;
    let prompts: u64 = walked.iter().map(|person| person.prompts).sum();
    println!("{prompts} prompts");
    ensure!(prompts > 50, "hardly anything happened");

    settle_sessions(&host, &sessions).await?;
    let mut here = Vec::new();
    let mut gone = Vec::new();
    for person in walked {
        here.extend(person.connection);
        gone.extend(person.gone);
    }
    for connection in &mut here {
        checks::check_answers(connection)
            .await
            .with_context(|| format!("{:?}", connection.way))?;
        checks::wait_until_up_to_date(connection, &sessions)
            .await
            .with_context(|| format!("{:?}", connection.way))?;
    }
    for session in &sessions {
        checks::check_log(&host, session)?;
        let records = log::read_records(&host, session)?;
        println!("{:?}", cancels::check_cancels(&records)?);
        for connection in here.iter().chain(&gone) {
            checks::check_shown_events(&records, session, connection)
                .with_context(|| format!("{:?}", connection.way))?;
        }
        checks::check_histories(&host, session, &here).await?;
    }
    checks::check_recording(&recording)
}

async fn run_walk(
    dice: &mut TestRandom,
    host: &Arc<TestHost>,
    sessions: &[String; 2],
) -> Result<Vec<WalkClient>> {
    let until = Instant::now() + ROUND;
    let looking = create_observer_token(host)?;
    let people: Vec<_> = (0..CLIENT_COUNT)
        .map(|name| {
            let (dice, host, sessions) =
                (TestRandom::from_seed(dice.next_number()), Arc::clone(host), sessions.clone());
            let looking = looking.clone();
            tokio::spawn(async move {
                let (cwd, gone) = (cwd(&host)?, Vec::new());
                let mut person = WalkClient {
                    dice,
                    sessions,
                    cwd,
                    looking,
                    connection: None,
                    gone,
                    prompts: 0,
                    name,
                };
                while Instant::now() < until {
                    person.run_step(&host).await.with_context(|| format!("person {name}"))?;
                }
                anyhow::Ok(person)
            })
        })
        .collect();
    let mut walked = Vec::new();
    for person in people {
        walked.push(person.await??);
    }
    Ok(walked)
}

/// Lets all work end: one client answers every ask, and the last prompt is queued behind all
/// others.
async fn settle_sessions(host: &TestHost, sessions: &[String]) -> Result<()> {
    let last = connect_client(host).await?;
    last.set_wait_limit(Duration::from_secs(60));
    last.choose_option("allow_always");
    for session in sessions {
        last.load_session(session, &cwd(host)?).await?;
        let said = prompt_for_text(&last, session, "echo the end").await?;
        ensure!(said.ends_with("the end"), "{said}");
    }
    Ok(())
}
