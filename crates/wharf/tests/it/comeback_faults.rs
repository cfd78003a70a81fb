//! Agents that fail in every phase of coming back: a clear error in bounded time, a session that
//! can still come back, prompts with a definite end, no process left, and no effect on other
//! sessions (rules 2.4, 2.6, 2.7).

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::client::TestClient;
use wharf_testkit::host::{HostOptions, TestHost};
use wharf_testkit::http::RestClient;
use wharf_testkit::{WAIT_LIMIT, polling, processes, program};

use crate::{
    add_section, connect_client_of, cwd, expect_error, log, prompt_for_text, scripted_host,
};

/// A failure of an agent that is started again, and the error that it causes.
struct ReturnFault {
    name: &'static str,
    flags: &'static [&'static str],
    told: &'static str,
}

const fn return_fault(
    name: &'static str,
    flags: &'static [&'static str],
    told: &'static str,
) -> ReturnFault {
    ReturnFault { name, flags, told }
}

/// The start timeout of agents that fail: far longer than a busy machine needs for those that fail
/// in another way.
const START_TIMEOUT: &str = "8s";
const TIMEOUT_TEXT: &str = "(start_timeout)";

const RETURN_FAULTS: &[ReturnFault] = &[
    return_fault("exits", &["--exit-on-start", "7"], "exited with code 7"),
    return_fault("deaf", &["--slow-start", "600000"], TIMEOUT_TEXT),
    return_fault("init-hang", &["--hang-on", "initialize"], "answer `initialize` within"),
    return_fault(
        "init-die",
        &["--die-on", "initialize"],
        "went away before it answered `initialize`",
    ),
    return_fault("init-no", &["--error-on", "initialize=-32603"], "refused `initialize`"),
    return_fault("init-garbage", &["--garbage-on", "initialize"], TIMEOUT_TEXT),
    return_fault(
        "init-then-die",
        &["--die-after", "initialize"],
        "went away before it answered `authenticate`",
    ),
    return_fault("auth-hang", &["--hang-on", "authenticate"], "answer `authenticate` within"),
    return_fault(
        "auth-die",
        &["--die-on", "authenticate"],
        "went away before it answered `authenticate`",
    ),
    return_fault("auth-no", &["--error-on", "authenticate=-32000"], "refused `authenticate`"),
    return_fault("load-hang", &["--hang-on", "session/load"], "answer `session/load` within"),
    return_fault(
        "load-die",
        &["--die-on", "session/load"],
        "went away before it answered `session/load`",
    ),
    return_fault("load-no", &["--error-on", "session/load=-32603"], "refused `session/load`"),
    return_fault("load-none", &["--no-load"], "refused `session/load`"),
    return_fault("load-garbage", &["--garbage-on", "session/load"], TIMEOUT_TEXT),
    return_fault("forgot", &["--forget"], "does not know this session any more"),
    return_fault("load-then-die", &["--die-after", "session/load"], "went away"),
    return_fault("endless", &["--replay-forever"], "finish the replay of its session within"),
    return_fault(
        "resume-hang",
        &["--resume", "--hang-on", "session/resume"],
        "answer `session/resume` within",
    ),
    return_fault(
        "resume-no",
        &["--resume", "--error-on", "session/resume=-32603"],
        "refused `session/resume`",
    ),
    return_fault("resume-none", &["--no-load"], "refused `session/resume`"),
    return_fault(
        "mode-hang",
        &["--hang-on", "session/set_mode"],
        "answer `session/set_mode` within",
    ),
    return_fault(
        "mode-die",
        &["--die-on", "session/set_mode"],
        "went away before it answered `session/set_mode`",
    ),
    return_fault("mode-no", &["--fixed-mode"], "might do more than it was allowed to"),
    return_fault(
        "option-hang",
        &["--hang-on", "session/set_config_option"],
        "answer `session/set_config_option` within",
    ),
    return_fault(
        "option-die",
        &["--die-on", "session/set_config_option"],
        "before it answered `session/set_config_option`",
    ),
    return_fault(
        "option-no",
        &["--error-on", "session/set_config_option=-32602"],
        "might do more than it was allowed to",
    ),
];

fn fault_options(faulty: bool) -> Result<HostOptions> {
    let mut options = scripted_host(&[])?.with_setting("resume_on_start", "none");
    if faulty {
        options = options.with_setting("start_timeout", START_TIMEOUT);
    }
    let agent = program::find_scripted_agent()?;
    let agent = agent.to_str().context("not UTF-8")?.to_owned();
    for fault in RETURN_FAULTS {
        let sound: &[&str] = if fault.name.starts_with("resume") { &["--resume"] } else { &[] };
        let flags = if faulty { fault.flags } else { sound };
        let command: Vec<String> = std::iter::once(agent.as_str())
            .chain(flags.iter().copied())
            .map(str::to_owned)
            .collect();
        options = options.with_agent(fault.name, &command);
        if fault.name == "endless" {
            // A pause of the agent is not the end of its replay.
            options = add_section(options, "replay_quiet = \"5s\"");
        }
    }
    Ok(add_section(without_retries(options), "[limits]\nstarts = 100"))
}

/// Turns retries of failed starts off; `agent_restarts` tests the retries.
fn without_retries(mut options: HostOptions) -> HostOptions {
    options.config.get_or_insert_default().insert_str(0, "start_retries = []\n");
    options
}

/// Creates a session with a mode and an option that differ from the agent's defaults, after a
/// login.
async fn create_session_with_settings(host: &TestHost, agent: &str) -> Result<String> {
    let client = connect_client_of(host, agent).await?;
    client.initialize().await?;
    client.call_method("authenticate", json!({ "methodId": "any" })).await?;
    let session = client.new_session(&cwd(host)?).await?;
    client
        .call_method("session/set_mode", json!({ "sessionId": session, "modeId": "code" }))
        .await?;
    let option = json!({ "sessionId": session, "configId": "model", "value": "large" });
    client.call_method("session/set_config_option", option).await?;
    assert_eq!(prompt_for_text(&client, &session, "echo before").await?, "before");
    Ok(session)
}

/// Checks that a prompt fails in time with the reason, and that the session's state is consistent
/// afterwards.
async fn check_failure(
    host: &TestHost,
    http: &RestClient,
    client: &TestClient,
    fault: &ReturnFault,
    session: &str,
) -> Result<()> {
    let (asked, waits) = tokio::join!(
        client.send_prompt(session, "echo one"),
        client.send_prompt(session, "echo two")
    );
    for error in [expect_error(asked)?, expect_error(waits)?] {
        ensure!(error.data["reason"] == "start_failed", "{error}");
    }
    let known = http.get(&format!("/sessions/{session}")).await?.expect(200)?;
    let state = (&known["status"], &known["endReason"], &known["resumable"], &known["queued"]);
    ensure!(state == (&json!("error"), &json!("start_failed"), &json!(true), &json!(0)), "{known}");
    let message = known["message"].as_str().unwrap_or_default();
    ensure!(message.contains(fault.told), "{message}");
    // A client that only loads the session gets the reason too.
    let join = json!({ "sessionId": session, "cwd": cwd(host)?, "mcpServers": [] });
    let error = expect_error(client.call_method("session/load", join).await)?;
    ensure!(error.to_string().contains(fault.told), "{error}");
    let accepted = log::list_events(host, session, "prompt_accepted")?.len();
    let ends = log::list_events(host, session, "prompt_ended")?;
    ensure!(accepted == 3 && ends.len() == 3, "{accepted} prompts, {} ends", ends.len());
    ensure!(ends[1..].iter().all(|end| end["end"]["how"] == "start_failed"), "{ends:?}");
    // There is one start for the prompts, whether or not they came together, and one for the load:
    // no start was retried.
    let starts = log::list_events(host, session, "agent_starting")?.len();
    ensure!((3..=4).contains(&starts), "{starts} starts");
    Ok(())
}

#[tokio::test]
async fn session_can_come_back_after_its_agent_failed_in_any_phase() -> Result<()> {
    let mut host = fault_options(false)?.without_keepers(crate::AGENT_COMES_BACK).start_host()?;
    let mut sessions = Vec::new();
    for fault in RETURN_FAULTS {
        sessions.push(
            create_session_with_settings(&host, fault.name)
                .await
                .with_context(|| fault.name.to_owned())?,
        );
    }
    let config = |faulty: bool| -> Result<Option<String>> { Ok(fault_options(faulty)?.config) };
    host.options_mut().config = config(true)?;
    host.restart()?;
    let http = RestClient::new(&host);
    let (other, unharmed) = crate::open_session(&host).await?;
    let only =
        polling::poll_until(WAIT_LIMIT, || Ok(Some(processes::list_descendants(host.pid()))))
            .await?
            .context("no processes")?;

    let mut all = Vec::new();
    for (fault, session) in RETURN_FAULTS.iter().zip(&sessions) {
        // The client that brings the session back may be connected to another agent.
        let client = TestClient::connect(&host.ws_url(), host.token()).await?;
        client.initialize().await?;
        let (host, http) = (&host, &http);
        all.push(async move {
            check_failure(host, http, &client, fault, session)
                .await
                .with_context(|| fault.name.to_owned())
        });
    }
    let all = futures_util::future::join_all(all);
    let bystander = async {
        for round in 0..20 {
            assert_eq!(
                prompt_for_text(&other, &unharmed, &format!("echo {round}")).await?,
                round.to_string()
            );
        }
        anyhow::Ok(())
    };
    let (failures, unharmed) = tokio::join!(all, bystander);
    let failures: Vec<String> = failures
        .into_iter()
        .filter_map(|result| result.err().map(|e| format!("{e:#}")))
        .collect();
    ensure!(
        failures.is_empty(),
        "{} of {}:\n{}",
        failures.len(),
        RETURN_FAULTS.len(),
        failures.join("\n")
    );
    unharmed?;
    let left = || {
        processes::list_descendants(host.pid())
            .into_iter()
            .filter(|pid| !only.contains(pid))
            .collect::<Vec<_>>()
    };
    let gone = polling::poll_until(WAIT_LIMIT, || Ok(left().is_empty().then_some(()))).await?;
    ensure!(gone.is_some(), "left behind: {:?}", left());

    // The agents are repaired: all sessions come back as they were.
    host.options_mut().config = config(false)?;
    host.restart()?;
    for (fault, session) in RETURN_FAULTS.iter().zip(&sessions) {
        let client = connect_client_of(&host, fault.name).await?;
        client.initialize().await?;
        let state = prompt_for_text(&client, session, "mode")
            .await
            .with_context(|| fault.name.to_owned())?;
        ensure!(state.starts_with("mode=code model=large"), "{}: {state}", fault.name);
    }
    Ok(())
}

#[tokio::test]
async fn prompts_that_waited_for_a_host_get_their_end_when_the_agent_cannot_come_back() -> Result<()>
{
    let mut host = without_retries(scripted_host(&[])?)
        .without_keepers(crate::AGENT_COMES_BACK)
        .start_host()?;
    let (client, session) = crate::open_session(&host).await?;
    client.send_prompt(&session, "echo before").await?;
    let _running = client.start_prompt(&session, "hang").await;
    let _waiting = client.start_prompt(&session, "echo later").await;
    log::expect_event(&host, &session, "prompt_accepted", |event| {
        event["frame"].to_string().contains("later")
    })
    .await?;
    let hangs =
        scripted_host(&["--hang-on", "session/load"])?.with_setting("start_timeout", START_TIMEOUT);
    host.options_mut().config = without_retries(hangs).config;
    host.restart()?;
    let ended = log::expect_event(&host, &session, "prompt_ended", |event| {
        event["end"]["how"] == "start_failed"
    })
    .await?;
    assert_ne!(ended["prompt"], Value::Null);
    let known = RestClient::new(&host).get(&format!("/sessions/{session}")).await?.expect(200)?;
    assert_eq!((&known["queued"], &known["resumable"]), (&json!(0), &json!(true)), "{known}");
    assert_eq!(
        log::list_events(&host, &session, "agent_starting")?.len(),
        2,
        "it is not tried for ever"
    );
    Ok(())
}
