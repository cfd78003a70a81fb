//! An agent that was taken over is still that agent to its host: identity, delegation, sandbox. No
//! agent can pose as a host to a keeper, whatever it knows.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::client::TestClient;
use wharf_testkit::http::RestClient;
use wharf_testkit::{WAIT_LIMIT, polling, processes, program};

use super::KeepingHost;
use crate::delegation::configure_delegation;
use crate::identity::{CallingAgent, list_ids};
use crate::sandbox::{SandboxDirectories, has_landlock};
use crate::{connect_client, cwd, join_session, log, open_session, prompt_for_text, scripted_host};

const INTRUDER_MESSAGE: &str = "a process that is no host called a keeper";

/// Sends a prompt to a session that was loaded before, and returns only the text of its answer.
async fn prompt_loaded(client: &TestClient, session: &str, prompt: &str) -> Result<String> {
    crate::catch_up(client).await;
    prompt_for_text(client, session, prompt).await
}

#[tokio::test]
async fn agent_that_was_taken_over_has_its_identity_and_its_token() -> Result<()> {
    let mut host = KeepingHost::start(configure_delegation("")?)?;
    let agent = CallingAgent::new(&host).await?;
    let (_other, other_session) = open_session(&host).await?;
    let token = agent.token(&host).await?;
    for _ in 0..2 {
        host.restart()?;
        let (client, session) = (join_session(&host, &agent.session).await?, agent.session.clone());
        let agent = CallingAgent { client, session };
        let http = RestClient::with_token(&host, &token);
        let listed = http.get("/sessions").await?.expect(200)?;
        assert_eq!(list_ids(&listed), [agent.session.as_str()], "the token is the agent's");
        let socket = format!("'{}'", host.socket_path().display());
        for before in ["", "env -i setsid"] {
            for token in ["''", host.token(), "wrong"] {
                let (status, listed) =
                    agent.call(before, &format!("{socket} GET /sessions {token}")).await?;
                assert_eq!(
                    (status, list_ids(&listed)),
                    (200, vec![agent.session.as_str()]),
                    "{before} {token}"
                );
            }
            let (status, _) =
                agent.call(before, &format!("{socket} GET /sessions/{other_session}")).await?;
            assert_eq!(status, 404);
            let kill = format!("{socket} POST /sessions/{other_session}/kill {}", host.token());
            assert_eq!(agent.call(before, &kill).await?.0, 404, "{before}");
            let stop = format!("{socket} POST /stop {}", host.token());
            assert_eq!(agent.call(before, &stop).await?.1["code"], "not_for_agents", "{before}");
        }
    }
    host.stop_all().await
}

#[tokio::test]
async fn agent_that_was_taken_over_delegates_as_itself() -> Result<()> {
    let mut host = KeepingHost::start(configure_delegation("")?)?;
    let agent = CallingAgent::new(&host).await?;
    let token = agent.token(&host).await?;
    host.restart()?;
    let http = RestClient::with_token(&host, &token);
    let child = http
        .post("/sessions/agent", &json!({ "adapter": "child" }))
        .await?
        .expect(201)?;
    assert_eq!(child["parentSessionId"], agent.session.as_str());
    host.restart()?;
    let (client, session) = (join_session(&host, &agent.session).await?, agent.session);
    let agent = CallingAgent { client, session };
    let socket = format!("'{}'", host.socket_path().display());
    let body = r#"'{"adapter":"child"}'"#;
    let (status, second) = agent
        .call("env -i", &format!("{socket} POST /sessions/agent {} {body}", host.token()))
        .await?;
    assert_eq!((status, &second["parentSessionId"]), (201, &json!(agent.session)));
    let child = child["id"].as_str().context("no id")?;
    let kill = format!("{socket} POST /sessions/{child}/kill");
    assert_eq!(agent.call("", &kill).await?.0, 200, "a parent ends its child");
    host.stop_all().await
}

#[tokio::test]
async fn agent_that_was_taken_over_is_still_confined() -> Result<()> {
    if !has_landlock() {
        return Ok(());
    }
    let directories = SandboxDirectories::new()?;
    let mut host = KeepingHost::start(directories.options(&[])?)?;
    let (_client, session) = directories.open(&host).await?;
    host.restart()?;
    let client = connect_client(&host).await?;
    client.load_session(&session, &cwd(&host)?).await?;
    let outside = host.directory().join("outside");
    let said =
        prompt_loaded(&client, &session, &format!("save {} text", outside.display())).await?;
    ensure!(said.starts_with("failed: Permission denied"), "{said}");
    // Files and terminals that Wharf serves obey the same sandbox.
    let said =
        prompt_loaded(&client, &session, &format!("fs write {} text", outside.display())).await?;
    ensure!(said.starts_with("failed: "), "{said}");
    let said =
        prompt_loaded(&client, &session, &format!("terminal echo text > {}", outside.display()))
            .await?;
    ensure!(said.contains("ermission denied"), "{said}");
    ensure!(!outside.exists(), "the sandbox has a hole");
    host.stop_all().await
}

/// Returns a shell command that calls the keeper with its secret and says everything that a host
/// can say.
fn attack_command(host: &KeepingHost, keeper: u32) -> Result<String> {
    let run = host.state_dir().join("run");
    let record: Value = serde_json::from_slice(&std::fs::read(run.join(keeper.to_string()))?)?;
    let secret = record["kept"]["secret"].as_str().context("no secret")?;
    let (agent, socket) =
        (program::find_scripted_agent()?, run.join("keepers-1").join(keeper.to_string()));
    let hello = format!("'hello 1 {secret}'");
    let keep = format!("'keep {secret} 0 0 0 {}'", socket.display());
    Ok(format!(
        "'{}' --say '{}' {hello} end drop forget {keep} 'started 1' gone",
        agent.display(),
        socket.display()
    ))
}

/// Lets the agents of two sessions attack both keepers, with the host and in its absence.
async fn attack_keepers(host: &mut KeepingHost, cwd: &str) -> Result<()> {
    let client = connect_client(host).await?;
    let (first, second) = (client.new_session(cwd).await?, client.new_session(cwd).await?);
    let keepers = host.keepers_of_sessions()?;
    assert_eq!(keepers.len(), 2);
    let agents = keepers.iter().flat_map(|keeper| processes::list_descendants(*keeper));
    let kept: Vec<u32> = agents.chain(keepers.iter().copied()).collect();
    for keeper in &keepers {
        let attack = attack_command(host, *keeper)?;
        for (session, before) in [(&first, ""), (&second, "env -i setsid ")] {
            let said = prompt_for_text(&client, session, &format!("sh {before}{attack}")).await?;
            expect_refused(&said)?;
        }
    }
    let is_logged =
        || Ok((host.read_stderr().matches(INTRUDER_MESSAGE).count() >= 4).then_some(()));
    polling::poll_until(WAIT_LIMIT, is_logged)
        .await?
        .context("the host does not log the calls")?;
    let attacks: Vec<String> = keepers
        .iter()
        .map(|keeper| attack_command(host, *keeper))
        .collect::<Result<_>>()?;
    let marker = host.directory().join("attacked");
    let go = host.directory().join("go");
    let attack = format!("sh {}; {}; touch {}", attacks[0], attacks[1], marker.display());
    let script = format!("echo begun; await {}; {attack}", go.display());
    let _running = client.start_prompt(&first, &script).await;
    client.expect_text("begun").await;
    host.kill()?;
    std::fs::write(&go, "")?;
    let is_done = || Ok(marker.exists().then_some(()));
    polling::poll_until(WAIT_LIMIT, is_done)
        .await?
        .context("the agent did not attack")?;
    ensure!(kept.iter().copied().all(processes::is_alive), "an attack has ended something");
    host.restart()?;
    let is_told = || Ok((host.read_stderr().matches(INTRUDER_MESSAGE).count() >= 2).then_some(()));
    polling::poll_until(WAIT_LIMIT, is_told)
        .await?
        .context("the next host is not told of calls in the absence")?;
    log::expect_event(host, &first, "prompt_ended", |event| {
        event["end"]["stop_reason"] == "end_turn"
    })
    .await?;
    let client = connect_client(host).await?;
    for session in [&first, &second] {
        client.load_session(session, cwd).await?;
        assert_eq!(prompt_loaded(&client, session, "echo unharmed").await?, "unharmed");
        assert_eq!(log::list_events(host, session, "ended")?.len(), 0);
    }
    let said: Vec<String> =
        client.chunk_texts().into_iter().filter(|text| is_answer(text)).collect();
    let in_absence: Vec<&str> = said.iter().flat_map(|text| text.lines()).collect();
    assert_eq!(in_absence.len(), 6, "{said:?}");
    in_absence.iter().try_for_each(|line| expect_refused(line))?;
    ensure!(kept.iter().copied().all(processes::is_alive), "an attack has ended something");
    Ok(())
}

fn is_answer(text: &str) -> bool {
    text.contains("bytes, ") || text.contains("Broken pipe")
}

/// Checks that a keeper answered nothing. It may close the socket while lines are still being sent.
fn expect_refused(said: &str) -> Result<()> {
    let said = said.trim();
    let is_refused = said.starts_with("0 bytes, ") && !said.contains("timed out")
        || said.contains("Broken pipe");
    ensure!(is_refused, "the keeper answered: {said}");
    Ok(())
}

#[tokio::test]
async fn agents_that_call_keepers_with_their_secrets_are_refused_and_logged() -> Result<()> {
    let mut host = KeepingHost::start(scripted_host(&[])?)?;
    let cwd = cwd(&host)?;
    attack_keepers(&mut host, &cwd).await?;
    host.stop_all().await
}

#[tokio::test]
async fn confined_agents_that_call_keepers_with_their_secrets_are_refused() -> Result<()> {
    if !has_landlock() {
        return Ok(());
    }
    let directories = SandboxDirectories::new()?;
    let host = KeepingHost::start(directories.options(&[])?)?;
    let (client, session) = directories.open(&host).await?;
    let keeper = host.only_keeper()?;
    let record = host.state_dir().join("run").join(keeper.to_string());
    let said = prompt_for_text(&client, &session, &format!("load {}", record.display())).await?;
    ensure!(said.starts_with("failed: Permission denied"), "the record has the secret: {said}");
    let said =
        prompt_for_text(&client, &session, &format!("sh {}", attack_command(&host, keeper)?))
            .await?;
    ensure!(expect_refused(&said).is_ok() || said.contains("ermission denied"), "{said}");
    assert_eq!(prompt_for_text(&client, &session, "echo unharmed").await?, "unharmed");
    host.stop_all().await
}
