//! One scenario over every transport: two clients share a session, others join late, and one is
//! lost and returns. It leaves the same log over each transport.

use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::client::TestClient;
use wharf_testkit::host::TestHost;
use wharf_testkit::normaliser::Normaliser;

use super::Transport;
use crate::{cwd, log, scripted_host, stop_reason};

/// The results of one run.
#[derive(Debug, PartialEq)]
struct ScenarioResult {
    /// The log, with one value per event.
    log: Vec<Value>,
    /// The answers to the attaches.
    answers: Vec<Value>,
    /// The agent's texts that each client received.
    texts: Vec<Vec<String>>,
}

struct Scenario {
    way: Transport,
    host: TestHost,
    session: String,
    answers: Vec<Value>,
    texts: Vec<Vec<String>>,
    clients: AtomicU32,
}

/// Connects a client that sends its own id: the bridge would choose one for it.
async fn connect_known_client(way: Transport, host: &TestHost, number: u32) -> Result<TestClient> {
    let id = format!("client-{number}");
    way.client(host, json!({ "wharf": { "multiClientUpdates": true, "clientId": id } }))
        .await
}

fn select_option(option: &str) -> Value {
    json!({ "outcome": { "outcome": "selected", "optionId": option } })
}

impl Scenario {
    async fn client(&self) -> Result<TestClient> {
        connect_known_client(self.way, &self.host, self.clients.fetch_add(1, Ordering::Relaxed))
            .await
    }

    async fn attach(&mut self, client: &TestClient, more: Value) -> Result<Value> {
        let mut params = json!({ "sessionId": self.session });
        if let (Some(params), Some(more)) = (params.as_object_mut(), more.as_object()) {
            params.extend(more.clone());
        }
        let answer = client.call_method("session/attach", params).await?;
        self.answers.push(answer.clone());
        Ok(answer)
    }

    /// Returns the id of the newest event, which a client would have received with its last frame.
    fn newest_event(&self) -> Result<String> {
        let records = log::read_records(&self.host, &self.session)?;
        let last = records.last().context("an empty log")?;
        Ok(format!("{}-{}", last["epoch"], last["seq"]))
    }

    /// Waits until the prompt with this text is in the log, so that its position is settled.
    async fn wait_until_accepted(&self, text: &str) -> Result<()> {
        let has_it = |event: &Value| event["frame"]["params"]["prompt"][0]["text"] == text;
        log::expect_event(&self.host, &self.session, "prompt_accepted", has_it).await?;
        Ok(())
    }

    /// Waits until this many clients are attached.
    async fn attended_by(&self, client: &TestClient, count: u64) -> Result<()> {
        for _ in 0..1_000 {
            let status = client
                .call_method("session/status", json!({ "sessionId": self.session }))
                .await?;
            if status["_meta"]["wharf"]["clients"] == count {
                return Ok(());
            }
        }
        anyhow::bail!("never {count} clients")
    }

    /// Lets the second client answer the permission that the first client's prompt caused.
    async fn a_permission_answered_by_the_other(
        &self,
        first: &TestClient,
        second: &TestClient,
    ) -> Result<String> {
        let running = first.start_prompt(&self.session, "echo hello; ask; echo thanks").await;
        let mine = first.expect_request("session/request_permission").await;
        let theirs = second.expect_request("session/request_permission").await;
        ensure!(mine.params() == theirs.params(), "asked differently: {} {}", mine.raw, theirs.raw);
        second.send_result(theirs.id(), select_option("allow_once")).await;
        let withdrawn = first.expect_notification("$/cancel_request").await;
        ensure!(withdrawn.params()["requestId"] == *mine.id(), "{}", withdrawn.raw);
        ensure!(stop_reason(running.wait_answer().await)? == "end_turn");
        second.expect_text("thanks").await;
        let said = first
            .received_frames()
            .into_iter()
            .find(|frame| frame.chunk_text() == Some("hello"))
            .context("no chunk")?;
        Ok(said.params()["update"]["messageId"]
            .as_str()
            .context("no message id")?
            .to_owned())
    }

    /// Joins further clients while the agent waits for an answer, each with another history policy;
    /// all of them get the permission too.
    async fn late_comers(
        &mut self,
        first: &TestClient,
        second: &TestClient,
        message: &str,
    ) -> Result<TestClient> {
        let event = self.newest_event()?;
        let running = first.start_prompt(&self.session, "echo again; ask; echo after").await;
        let asked = second.expect_request("session/request_permission").await;
        let mut stays = None;
        for (policy, entries) in [
            (json!({ "historyPolicy": "full" }), Some(8)),
            (json!({ "historyPolicy": "pending_only" }), Some(1)),
            (json!({ "historyPolicy": "none" }), None),
            (json!({ "historyPolicy": "after_message", "afterMessageId": message }), Some(4)),
            (json!({ "historyPolicy": "after_event", "afterEventId": event }), None),
        ] {
            let late = self.client().await?;
            let answer = self.attach(&late, policy.clone()).await?;
            ensure!(answer["historyPolicy"] == policy["historyPolicy"], "{policy}: {answer}");
            let told = answer["history"].as_array().map(Vec::len);
            ensure!(told == entries, "{policy}: {told:?} entries of {entries:?}: {answer}");
            let again = late.expect_request("session/request_permission").await;
            ensure!(again.params() == asked.params(), "{policy}: {}", again.raw);
            let streamed =
                if policy["historyPolicy"] == "after_event" { vec!["again"] } else { vec![] };
            ensure!(late.chunk_texts() == streamed, "{policy}: {:?}", late.chunk_texts());
            if let Some(before) = stays.replace(late) {
                self.leave_session(first, &before).await?;
            }
        }
        second.send_result(asked.id(), select_option("reject_once")).await;
        ensure!(stop_reason(running.wait_answer().await)? == "end_turn");
        let third = stays.context("nobody came")?;
        third.expect_text("after").await;
        Ok(third)
    }

    /// Ends a connection and waits until the others are notified.
    async fn leave_session(&mut self, other: &TestClient, gone: &TestClient) -> Result<()> {
        self.texts.push(gone.chunk_texts());
        gone.close().await;
        Self::expect_departure(other).await;
        Ok(())
    }

    /// Waits until this client is told that another has left. Every departure is waited for, so
    /// that the next wait does not take an earlier one for its own.
    async fn expect_departure(other: &TestClient) {
        other
            .expect_update("a departure", |update| update["sessionUpdate"] == "client_disconnected")
            .await;
    }

    /// Sends three prompts at once and checks that they run one after the other in the order of
    /// arrival.
    async fn overlapping_prompts(&self, clients: [&TestClient; 3]) -> Result<()> {
        let mut calls =
            vec![clients[0].start_prompt(&self.session, "echo one; wait; echo two").await];
        clients[2].expect_text("one").await;
        for (client, script) in clients.iter().skip(1).zip(["echo three", "echo four"]) {
            calls.push(client.start_prompt(&self.session, script).await);
            self.wait_until_accepted(script).await?;
        }
        clients[1].send_notification("_go", json!({ "sessionId": self.session })).await;
        for call in calls {
            ensure!(stop_reason(call.wait_answer().await)? == "end_turn");
        }
        for client in clients {
            client.expect_text("four").await;
        }
        Ok(())
    }

    /// Cancels the sender's own turn and checks that the other client's prompt runs.
    async fn a_cancel(&self, first: &TestClient, second: &TestClient) -> Result<()> {
        let hanging = first.start_prompt(&self.session, "echo about to hang; hang").await;
        first.expect_text("about to hang").await;
        let waiting = second.start_prompt(&self.session, "echo my turn").await;
        self.wait_until_accepted("echo my turn").await?;
        first.cancel_turn(&self.session).await;
        ensure!(stop_reason(hanging.wait_answer().await)? == "cancelled");
        ensure!(stop_reason(waiting.wait_answer().await)? == "end_turn");
        Ok(())
    }

    /// Detaches a client and checks that it gets no further updates.
    async fn a_detach(&mut self, first: &TestClient, third: TestClient) -> Result<()> {
        // Its earlier updates are compared too.
        third.expect_text("my turn").await;
        let answer = third
            .call_method("session/detach", json!({ "sessionId": self.session }))
            .await?;
        ensure!(answer == json!({ "sessionId": self.session, "status": "detached" }), "{answer}");
        Self::expect_departure(first).await;
        first.send_prompt(&self.session, "echo unheard").await?;
        third.call_method("session/list", json!({})).await?;
        ensure!(!third.chunk_texts().contains(&"unheard".to_owned()));
        self.texts.push(third.chunk_texts());
        third.close().await;
        Ok(())
    }

    /// Drops a client, reconnects it after its last event, and checks that it gets every later
    /// event once.
    async fn a_reconnect(&mut self, first: &TestClient, second: TestClient) -> Result<TestClient> {
        second.expect_text("unheard").await;
        let event = self.newest_event()?;
        self.leave_session(first, &second).await?;
        first.send_prompt(&self.session, "echo missed; plan; tool").await?;
        let again = self.client().await?;
        self.attach(&again, json!({ "historyPolicy": "after_event", "afterEventId": event }))
            .await?;
        first.send_prompt(&self.session, "echo live").await?;
        again.expect_text("live").await;
        ensure!(again.chunk_texts() == ["missed", "live"], "{:?}", again.chunk_texts());
        self.attended_by(first, 2).await?;
        Ok(again)
    }

    /// Returns the log without values that differ between runs: ids, times, and the token's id
    /// where the transport needs a token.
    fn collect_result(self) -> Result<ScenarioResult> {
        let mut normal = Normaliser::new();
        let directory = self.host.directory().file_name().context("no name")?;
        normal.set_name(&directory.to_string_lossy(), "cwd");
        let mut traces = ScenarioResult { log: Vec::new(), answers: Vec::new(), texts: self.texts };
        for record in log::read_records(&self.host, &self.session)? {
            traces.log.push(remove_transport_values(normal.normalise_value(&record)));
        }
        for answer in &self.answers {
            traces.answers.push(remove_transport_values(normal.normalise_value(answer)));
        }
        Ok(traces)
    }
}

/// Removes values of the transport: the token where it needs one, and the key by which the bridge
/// recognises a prompt after a restart of the host.
fn remove_transport_values(mut value: Value) -> Value {
    match &mut value {
        Value::Object(members) => {
            if members
                .get("_meta")
                .is_some_and(|meta| meta["wharf"]["idempotencyKey"].is_string())
            {
                members.remove("_meta");
            }
            for name in ["token", "epoch", "key"] {
                members.remove(name);
            }
            members
                .values_mut()
                .for_each(|member| *member = remove_transport_values(member.take()));
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| *item = remove_transport_values(item.take()))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    value
}

async fn run_scenario(way: Transport) -> Result<ScenarioResult> {
    let host = scripted_host(&["--session-id", "the-agents-own"])?.start_host()?;
    let first = connect_known_client(way, &host, 0).await?;
    let session = first.new_session(&cwd(&host)?).await?;
    let mut stage = Scenario {
        way,
        host,
        session,
        answers: Vec::new(),
        texts: Vec::new(),
        clients: AtomicU32::new(1),
    };
    let second = stage.client().await?;
    second.load_session(&stage.session, &cwd(&stage.host)?).await?;

    let message = stage.a_permission_answered_by_the_other(&first, &second).await?;
    let third = stage.late_comers(&first, &second, &message).await?;
    stage.overlapping_prompts([&first, &second, &third]).await?;
    stage.a_cancel(&first, &second).await?;
    stage.a_detach(&first, third).await?;
    let again = stage.a_reconnect(&first, second).await?;
    stage.texts.extend([first.chunk_texts(), again.chunk_texts()]);
    stage.collect_result()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_scenario_leaves_the_same_log_over_every_transport() -> Result<()> {
    let expected = run_scenario(Transport::WebSocket).await.context("over a WebSocket")?;
    for way in Transport::ALL.into_iter().skip(1) {
        let traces = run_scenario(way).await.with_context(|| format!("{way:?}"))?;
        for (place, (one, other)) in expected.log.iter().zip(&traces.log).enumerate() {
            assert_eq!(one, other, "event {place} over {way:?}");
        }
        assert_eq!(expected, traces, "{way:?}");
    }
    Ok(())
}
