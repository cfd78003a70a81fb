//! ColdSessions sessions come back: after `kill -9` of the host and after the end of their agent
//! (rules 2.6, 2.7).

use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::client::{CallFailure, TestClient};
use wharf_testkit::host::TestHost;

use crate::recording::Recording;
use crate::{
    add_scripted_agent, add_section, connect_client, connect_observer, cwd, expect_error,
    join_session, log, open_session, parse_pids, prompt_for_text, scripted_host, stop_reason,
};

/// The requests by which a controller can bring a session back.
#[derive(Clone, Copy, Debug)]
enum WakeRequest {
    Load,
    Resume,
    Attach,
    Prompt,
    /// Any other request that names the session.
    SetMode,
}

const WAKE_REQUESTS: [WakeRequest; 5] = [
    WakeRequest::Load,
    WakeRequest::Resume,
    WakeRequest::Attach,
    WakeRequest::Prompt,
    WakeRequest::SetMode,
];

impl WakeRequest {
    async fn take(
        self,
        client: &TestClient,
        session: &str,
        cwd: &str,
    ) -> Result<Value, CallFailure> {
        let start = json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] });
        match self {
            Self::Load => client.call_method("session/load", start).await,
            Self::Resume => client.call_method("session/resume", start).await,
            Self::Attach => {
                client.call_method("session/attach", json!({ "sessionId": session })).await
            }
            Self::Prompt => client.send_prompt(session, "echo back").await,
            Self::SetMode => {
                client
                    .call_method(
                        "session/set_mode",
                        json!({ "sessionId": session, "modeId": "ask" }),
                    )
                    .await
            }
        }
    }
}

/// Returns the texts that the log holds, in order.
fn logged_texts(host: &TestHost, session: &str) -> Result<Vec<String>> {
    let updates = log::list_events(host, session, "agent_updated")?;
    let update = |event: &Value| event["frame"]["params"]["update"].clone();
    let chunks = updates
        .iter()
        .map(update)
        .filter(|update| update["content"]["text"].is_string());
    Ok(chunks
        .map(|update| update["content"]["text"].as_str().unwrap_or_default().to_owned())
        .collect())
}

/// Returns how the agent was started each time.
fn list_start_kinds(host: &TestHost, session: &str) -> Result<Vec<String>> {
    let starts = log::list_events(host, session, "agent_starting")?;
    Ok(starts
        .iter()
        .map(|event| event["how"].as_str().unwrap_or_default().to_owned())
        .collect())
}

/// Returns how the prompts ended, in the order of their ends.
fn list_prompt_ends(host: &TestHost, session: &str) -> Result<Vec<String>> {
    let ends = log::list_events(host, session, "prompt_ended")?;
    Ok(ends
        .iter()
        .map(|event| event["end"]["how"].as_str().unwrap_or_default().to_owned())
        .collect())
}

async fn wait_until_accepted(host: &TestHost, session: &str, word: &str) -> Result<()> {
    log::expect_event(host, session, "prompt_accepted", |event| {
        event["frame"].to_string().contains(word)
    })
    .await
    .map(drop)
}

/// Brings the session back by this request, prompts it, and checks that its log was appended to.
async fn check_return(
    host: &TestHost,
    way: WakeRequest,
    session: &str,
    before: &[Value],
    how: &str,
) -> Result<()> {
    let client = connect_client(host).await?;
    way.take(&client, session, &cwd(host)?).await?;
    assert_eq!(prompt_for_text(&client, session, "echo after").await?, "after");
    let records = log::read_records(host, session)?;
    assert_eq!(records[..before.len()], *before, "the log before is the log's beginning");
    assert!(
        records
            .iter()
            .enumerate()
            .all(|(place, record)| record["seq"] == place as u64 + 1),
        "a gap"
    );
    assert_eq!(list_start_kinds(host, session)?, ["new", how]);
    let mut expected = vec!["before", "after"];
    if let WakeRequest::Prompt = way {
        expected.insert(1, "back");
    }
    assert_eq!(logged_texts(host, session)?, expected, "nothing of the agent's own replay");
    Ok(())
}

#[tokio::test]
async fn every_request_brings_a_session_back_after_kill_9() -> Result<()> {
    for (flags, how) in [(&[][..], "load"), (&["--resume"], "resume")] {
        let mut host =
            scripted_host(flags)?.without_keepers(crate::AGENT_COMES_BACK).start_host()?;
        let mut sessions = Vec::new();
        for way in WAKE_REQUESTS {
            let (client, session) = open_session(&host).await?;
            client.send_prompt(&session, "echo before").await?;
            sessions.push((way, session));
        }
        host.restart()?;
        for (way, session) in sessions {
            // The host writes this as soon as it is up.
            log::expect_event(&host, &session, "ended", |event| {
                event["ending"]["reason"] == "host_restarted"
            })
            .await?;
            let before = log::read_records(&host, &session)?;
            check_return(&host, way, &session, &before, how)
                .await
                .with_context(|| format!("{way:?} {how}"))?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn every_request_brings_a_session_back_after_a_crash_of_the_agent() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    for way in WAKE_REQUESTS {
        let (client, session) = open_session(&host).await?;
        client.send_prompt(&session, "echo before").await?;
        let error = expect_error(client.send_prompt(&session, "crash 3").await)?;
        assert_eq!(error.data["reason"], "agent_exited", "{error}");
        log::expect_event(&host, &session, "ended", |_| true).await?;
        let before = log::read_records(&host, &session)?;
        check_return(&host, way, &session, &before, "load")
            .await
            .with_context(|| format!("{way:?}"))?;
    }
    Ok(())
}

#[tokio::test]
async fn a_client_that_stayed_goes_on_with_the_next_agent() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let second = join_session(&host, &session).await?;
    let agent = parse_pids(&prompt_for_text(&first, &session, "pid").await?);
    expect_error(first.send_prompt(&session, "crash").await)?;
    let next = parse_pids(&prompt_for_text(&first, &session, "pid").await?);
    assert_ne!(agent, next);
    second.expect_text(&format!("pid {}", next.first().context("no pid")?)).await;
    Ok(())
}

#[tokio::test]
async fn a_session_that_was_closed_comes_back_with_a_prompt() -> Result<()> {
    let host = scripted_host(&["--close"])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    first.send_prompt(&session, "echo before").await?;
    first.call_method("session/close", json!({ "sessionId": session })).await?;
    let ended = log::expect_event(&host, &session, "ended", |_| true).await?;
    assert_eq!(ended["ending"]["reason"], "closed");
    let second = connect_client(&host).await?;
    assert_eq!(prompt_for_text(&second, &session, "echo after").await?, "after");
    Ok(())
}

#[tokio::test]
async fn replay_of_the_agent_is_dropped_before_and_after_its_answer() -> Result<()> {
    let cases: [&[&str]; 5] = [
        &["--replay", "5"],
        &["--replay-after-load"],
        &["--resume", "--replay-on-resume"],
        &["--resume", "--replay-on-resume", "--replay-after-load"],
        &["--replay", "500", "--replay-after-load"],
    ];
    for flags in cases {
        let mut options = scripted_host(&[flags, &["--commands"]].concat())?;
        if flags.contains(&"--replay-after-load") {
            // A pause of the agent is not the end of its replay.
            options = add_section(options, "replay_quiet = \"3s\"");
        }
        let mut host = options.without_keepers(crate::AGENT_COMES_BACK).start_host()?;
        let (first, session) = open_session(&host).await?;
        first.send_prompt(&session, "echo before").await?;
        host.restart()?;
        let second = connect_client(&host).await?;
        // Both are sent at the same time: the prompt has to wait until the replay is over.
        let load = json!({ "sessionId": session, "cwd": cwd(&host)?, "mcpServers": [] });
        let loading = second.start_request("session/load", load).await;
        let prompting = second.start_prompt(&session, "echo after").await;
        loading.wait_answer().await?;
        assert_eq!(stop_reason(prompting.wait_answer().await)?, "end_turn", "{flags:?}");
        assert_eq!(logged_texts(&host, &session)?, ["before", "after"], "{flags:?}");
        let third = join_session(&host, &session).await?;
        assert_eq!(third.chunk_texts(), ["before", "after"], "{flags:?}");
        // State updates are not part of the replay.
        let updates = log::list_events(&host, &session, "agent_updated")?;
        let commands = updates
            .iter()
            .filter(|event| event["update"] == "available_commands_update")
            .count();
        assert_eq!(commands, 2, "{flags:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_replay_of_many_megabytes_is_no_fault() -> Result<()> {
    let mut host = scripted_host(&["--replay", "50000", "--commands"])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    first.send_prompt(&session, "echo before").await?;
    host.restart()?;
    let second = join_session(&host, &session).await?;
    assert_eq!(prompt_for_text(&second, &session, "echo after").await?, "after");
    assert_eq!(log::list_events(&host, &session, "agent_faulted")?.len(), 0);
    assert_eq!(logged_texts(&host, &session)?, ["before", "after"]);
    Ok(())
}

#[tokio::test]
async fn mode_and_options_in_force_are_set_again_before_the_first_prompt() -> Result<()> {
    let recording = Recording::new()?;
    let mut host = recording
        .host_options(&[])?
        .without_keepers(crate::AGENT_COMES_BACK)
        .start_host()?;
    let (first, session) = open_session(&host).await?;
    first
        .call_method("session/set_mode", json!({ "sessionId": session, "modeId": "auto" }))
        .await?;
    let option = json!({ "sessionId": session, "configId": "model", "value": "large" });
    first.call_method("session/set_config_option", option).await?;
    host.restart()?;
    let second = connect_client(&host).await?;
    let said = prompt_for_text(&second, &session, "mode").await?;
    assert!(said.starts_with("mode=auto model=large "), "{said}");
    let expected =
        ["session/load", "session/set_mode", "session/set_config_option", "session/prompt"];
    assert_eq!(recording.read_methods()?, expected);
    let loaded = join_session(&host, &session)
        .await?
        .load_session(&session, &cwd(&host)?)
        .await?;
    assert_eq!(loaded["modes"]["currentModeId"], "auto");
    assert_eq!(loaded["configOptions"][0]["currentValue"], "large");

    // A second restart: restored settings are in force like those that were set.
    host.restart()?;
    let third = connect_client(&host).await?;
    let said = prompt_for_text(&third, &session, "mode ask").await?;
    assert!(said.starts_with("mode=ask model=large "), "{said}");

    // A mode that the agent chose by itself is in force too. It is the mode that the agent starts
    // with, so nothing has to be set.
    host.restart()?;
    let fourth = connect_client(&host).await?;
    let said = prompt_for_text(&fourth, &session, "mode").await?;
    assert!(said.starts_with("mode=ask model=large "), "{said}");
    assert_eq!(
        recording.read_methods()?,
        ["session/load", "session/set_config_option", "session/prompt"]
    );
    Ok(())
}

#[tokio::test]
async fn a_session_does_not_come_back_with_more_rights_than_it_had() -> Result<()> {
    let options = r#"rawupdate {"sessionUpdate":"config_option_update","configOptions":[{"id":"model","name":"Model","type":"select","currentValue":"large","options":[]}]}"#;
    let cases = [
        ("session/set_mode=-32603", "mode auto", "mode \"auto\""),
        ("session/set_config_option=-32603", options, "option \"model\""),
    ];
    for (flag, prompt, word) in cases {
        let recording = Recording::new()?;
        let mut host = recording
            .host_options(&["--error-on", flag])?
            .without_keepers(crate::AGENT_COMES_BACK)
            .start_host()?;
        let (first, session) = open_session(&host).await?;
        first.send_prompt(&session, prompt).await?;
        host.restart()?;
        for way in
            [WakeRequest::Load, WakeRequest::Resume, WakeRequest::Attach, WakeRequest::SetMode]
        {
            let client = connect_client(&host).await?;
            let error = expect_error(way.take(&client, &session, &cwd(&host)?).await)?;
            assert!(error.message.contains(word), "{way:?}: {error}");
            assert_eq!(error.data["reason"], "start_failed", "{way:?}: {error}");
        }
        let client = connect_client(&host).await?;
        let error = expect_error(client.send_prompt(&session, "echo never").await)?;
        assert_eq!(error.data["reason"], "start_failed", "{error}");
        let ended = log::list_events(&host, &session, "ended")?;
        let ending = &ended.last().context("no end")?["ending"];
        assert!(
            ending["message"].as_str().is_some_and(|message| message.contains(word)),
            "{ending}"
        );
        let prompts = recording.read_messages()?;
        let prompts: Vec<&Value> =
            prompts.iter().filter(|message| message["method"] == "session/prompt").collect();
        assert_eq!(prompts.len(), 1, "no prompt reached an agent without its limits: {prompts:?}");
    }
    Ok(())
}

#[tokio::test]
async fn start_parameters_are_kept_privately_and_used_on_return() -> Result<()> {
    let recording = Recording::new()?;
    let mut host = recording
        .host_options(&[])?
        .without_keepers(crate::AGENT_COMES_BACK)
        .start_host()?;
    let (cwd, other) = (cwd(&host)?, host.directory().join("other"));
    std::fs::create_dir(&other)?;
    let server = |name: &str| json!([{ "name": name, "command": "/bin/true", "args": [], "env": [{ "name": "KEY", "value": format!("secret-of-{name}") }] }]);
    let first = connect_client(&host).await?;
    let new = json!({ "cwd": cwd, "mcpServers": server("one"), "additionalDirectories": [other] });
    let opened = first.call_method("session/new", new).await?;
    let session = opened["sessionId"].as_str().context("no id")?.to_owned();
    first.send_prompt(&session, "echo before").await?;

    let folder = log::session_dir(&host, &session);
    let mode = std::fs::metadata(folder.join("start.json"))?.permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(
        !log::read_records(&host, &session)?
            .iter()
            .any(|record| record.to_string().contains("secret-of-one"))
    );

    // Clients that know no servers send an empty list, which changes nothing.
    host.restart()?;
    let second = join_session(&host, &session).await?;
    let sent = recording.since_start()?.into_iter().next().context("nothing sent")?;
    assert_eq!(sent["method"], "session/load");
    assert_eq!(sent["params"]["mcpServers"], server("one"));
    assert_eq!(sent["params"]["additionalDirectories"], json!([other]));
    assert_eq!(sent["params"]["cwd"], cwd.as_str());
    let said = prompt_for_text(&second, &session, "mode").await?;
    assert!(said.ends_with(&format!("cwd={cwd}")), "{said}");

    // New values replace the stored ones.
    for way in [WakeRequest::Load, WakeRequest::Prompt] {
        host.restart()?;
        let third = connect_client(&host).await?;
        if let WakeRequest::Load = way {
            let load = json!({ "sessionId": session, "cwd": cwd, "mcpServers": server("two") });
            third.call_method("session/load", load).await?;
        } else {
            third.send_prompt(&session, "echo back").await?;
        }
        let sent = recording.since_start()?.into_iter().next().context("nothing sent")?;
        assert_eq!(sent["params"]["mcpServers"], server("two"), "{way:?}");
    }
    assert!(
        !log::read_records(&host, &session)?
            .iter()
            .any(|record| record.to_string().contains("secret-of-two"))
    );
    Ok(())
}

/// Creates a session with a running turn and two queued prompts.
async fn create_session_with_queue(host: &TestHost) -> Result<String> {
    let (first, session) = open_session(host).await?;
    let _running = first.start_prompt(&session, "echo running; hang").await;
    first.expect_text("running").await;
    for word in ["one", "two"] {
        let _waiting = first.start_prompt(&session, &format!("echo {word}")).await;
        wait_until_accepted(host, &session, word).await?;
    }
    Ok(session)
}

#[tokio::test]
async fn queued_prompts_run_after_kill_9_and_a_restart() -> Result<()> {
    let mut host = scripted_host(&[])?.without_keepers(crate::AGENT_COMES_BACK).start_host()?;
    let session = create_session_with_queue(&host).await?;
    host.restart()?;
    // This happens without any client.
    let is_two = |event: &Value| event["frame"].to_string().contains("\"two\"");
    log::expect_event(&host, &session, "agent_updated", is_two).await?;
    let later = join_session(&host, &session).await?;
    assert_eq!(later.chunk_texts(), ["running", "one", "two"]);
    assert_eq!(prompt_for_text(&later, &session, "echo on").await?, "on");
    assert_eq!(
        list_prompt_ends(&host, &session)?,
        ["host_restarted", "answered", "answered", "answered"]
    );
    Ok(())
}

#[tokio::test]
async fn queued_prompts_run_after_an_orderly_restart_too() -> Result<()> {
    let mut host = scripted_host(&[])?.without_keepers(crate::AGENT_COMES_BACK).start_host()?;
    let session = create_session_with_queue(&host).await?;
    assert!(host.terminate()?.success());
    host.restart()?;
    let is_two = |event: &Value| event["frame"].to_string().contains("\"two\"");
    log::expect_event(&host, &session, "agent_updated", is_two).await?;
    let later = join_session(&host, &session).await?;
    assert_eq!(prompt_for_text(&later, &session, "echo on").await?, "on");
    assert_eq!(
        list_prompt_ends(&host, &session)?,
        ["host_shutdown", "answered", "answered", "answered"]
    );
    Ok(())
}

#[tokio::test]
async fn queued_prompts_wait_for_a_client_with_resume_on_start_none() -> Result<()> {
    let mut host = scripted_host(&[])?
        .with_setting("resume_on_start", "none")
        .without_keepers(crate::AGENT_COMES_BACK)
        .start_host()?;
    let session = create_session_with_queue(&host).await?;
    host.restart()?;
    let later = connect_client(&host).await?;
    let status = later.call_method("session/status", json!({ "sessionId": session })).await?;
    assert_eq!(status["status"], "not_found");
    assert_eq!(status["_meta"]["wharf"]["resumable"], true);
    let listed = later.call_method("session/list", json!({})).await?;
    assert_eq!(listed["sessions"][0]["_meta"]["wharf"]["queued"], 2, "{listed}");
    let queue = later.call_method("_wharf/queue/list", json!({ "sessionId": session })).await?;
    assert_eq!(
        queue["prompts"].as_array().map(Vec::len),
        Some(2),
        "looking starts nothing: {queue}"
    );
    assert_eq!(list_start_kinds(&host, &session)?, ["new"]);
    // When a client prompts, the waiting prompts run first.
    assert_eq!(prompt_for_text(&later, &session, "echo three").await?, "onetwothree");
    assert_eq!(
        list_prompt_ends(&host, &session)?,
        ["host_restarted", "answered", "answered", "answered"]
    );
    Ok(())
}

#[tokio::test]
async fn every_session_comes_back_with_resume_on_start_all() -> Result<()> {
    let options = add_scripted_agent(scripted_host(&[])?, "mortal", &["--no-load"])?;
    let mut host = options
        .with_setting("resume_on_start", "all")
        .without_keepers(crate::AGENT_COMES_BACK)
        .start_host()?;
    let (_first, session) = open_session(&host).await?;
    let mortal = crate::connect_client_of(&host, "mortal")
        .await?
        .new_session(&cwd(&host)?)
        .await?;
    host.restart()?;
    log::expect_event(&host, &session, "agent_started", |event| event["start"] == 2).await?;
    let later = connect_client(&host).await?;
    let status = later.call_method("session/status", json!({ "sessionId": session })).await?;
    assert_eq!(status["status"], "live");
    let status = later.call_method("session/status", json!({ "sessionId": mortal })).await?;
    assert_eq!(status["status"], "not_found");
    assert_eq!(status["_meta"]["wharf"]["resumable"], false);
    Ok(())
}

#[tokio::test]
async fn interrupted_turn_runs_again_with_on_restart_requeue() -> Result<()> {
    let mut host = scripted_host(&[])?
        .with_setting("on_restart", "requeue")
        .without_keepers(crate::TURN_IS_CUT)
        .start_host()?;
    let (first, session) = open_session(&host).await?;
    let _running = first.start_prompt(&session, "echo begun; ask; echo done").await;
    first.expect_request("session/request_permission").await;
    let _waiting = first.start_prompt(&session, "echo next").await;
    wait_until_accepted(&host, &session, "next").await?;
    host.restart()?;
    let second = connect_client(&host).await?;
    second.choose_option("allow_once");
    second.load_session(&session, &cwd(&host)?).await?;
    second.expect_text("next").await;
    assert_eq!(prompt_for_text(&second, &session, "echo on").await?, "on");
    let texts = ["begun", "begun", "chosen: allow_once", "done", "next", "on"];
    assert_eq!(logged_texts(&host, &session)?, texts);
    assert_eq!(log::list_events(&host, &session, "prompt_requeued")?.len(), 1);
    assert_eq!(list_prompt_ends(&host, &session)?, ["answered", "answered", "answered"]);
    Ok(())
}

#[tokio::test]
async fn an_agent_that_forgot_the_session_is_a_clear_error() -> Result<()> {
    let mut host = scripted_host(&["--forget"])?
        .without_keepers(crate::AGENT_COMES_BACK)
        .start_host()?;
    let (first, session) = open_session(&host).await?;
    first.send_prompt(&session, "echo before").await?;
    host.restart()?;
    for way in [WakeRequest::Load, WakeRequest::Resume, WakeRequest::Attach, WakeRequest::SetMode] {
        let client = connect_client(&host).await?;
        let error = expect_error(way.take(&client, &session, &cwd(&host)?).await)?;
        assert!(error.message.contains("refused `session/load`"), "{way:?}: {error}");
        assert_eq!(error.data["reason"], "start_failed", "{way:?}: {error}");
    }
    let second = connect_client(&host).await?;
    let error = expect_error(second.send_prompt(&session, "echo never").await)?;
    assert_eq!(error.data["reason"], "start_failed", "{error}");
    // The log can still be read.
    let reader = connect_observer(&host).await?;
    reader.load_session(&session, &cwd(&host)?).await?;
    assert_eq!(reader.chunk_texts(), ["before"]);
    Ok(())
}

#[tokio::test]
async fn agent_that_can_neither_load_nor_resume_is_a_clear_error() -> Result<()> {
    let mut host = scripted_host(&["--no-load"])?
        .without_keepers(crate::AGENT_COMES_BACK)
        .start_host()?;
    let (first, session) = open_session(&host).await?;
    first.send_prompt(&session, "echo before").await?;
    host.restart()?;
    let second = connect_client(&host).await?;
    let loaded = second.load_session(&session, &cwd(&host)?).await?;
    assert_eq!(loaded["_meta"]["wharf"], json!({ "status": "killed", "resumable": false }));
    assert_eq!(second.chunk_texts(), ["before"]);
    for way in [WakeRequest::Resume, WakeRequest::Prompt, WakeRequest::SetMode] {
        let error = expect_error(way.take(&second, &session, &cwd(&host)?).await)?;
        assert_eq!(error.data["reason"], "not_resumable", "{way:?}: {error}");
        assert!(error.message.contains("cannot be brought back"), "{way:?}: {error}");
    }
    let attached = WakeRequest::Attach.take(&second, &session, &cwd(&host)?).await?;
    assert_eq!(attached["history"][1]["content"][0]["text"], "before", "{attached}");
    assert_eq!(list_start_kinds(&host, &session)?, ["new"]);
    Ok(())
}

#[tokio::test]
async fn observers_read_a_cold_session_and_start_nothing() -> Result<()> {
    let mut host = scripted_host(&[])?.without_keepers(crate::AGENT_COMES_BACK).start_host()?;
    let (first, session) = open_session(&host).await?;
    first.send_prompt(&session, "echo before").await?;
    host.restart()?;
    log::expect_event(&host, &session, "ended", |_| true).await?;
    let before = log::read_records(&host, &session)?;
    let (by_token, by_wish) = (connect_observer(&host).await?, connect_client(&host).await?);
    by_token.load_session(&session, &cwd(&host)?).await?;
    assert_eq!(by_token.chunk_texts(), ["before"]);
    WakeRequest::Resume.take(&by_token, &session, &cwd(&host)?).await?;
    WakeRequest::Attach.take(&by_token, &session, &cwd(&host)?).await?;
    by_wish
        .call_method("session/attach", json!({ "sessionId": session, "role": "observer" }))
        .await?;
    for observer in [&by_token, &by_wish] {
        for way in [WakeRequest::Prompt, WakeRequest::SetMode] {
            let error = expect_error(way.take(observer, &session, &cwd(&host)?).await)?;
            assert_eq!(error.code, -32011, "{way:?}: {error}");
        }
    }
    assert_eq!(log::read_records(&host, &session)?, before);
    Ok(())
}

#[tokio::test]
async fn start_parameters_are_sent_again_byte_for_byte() -> Result<()> {
    let recording = Recording::new()?;
    let mut host = recording
        .host_options(&[])?
        .without_keepers(crate::AGENT_COMES_BACK)
        .start_host()?;
    let (first, directory) = (connect_client(&host).await?, cwd(&host)?);
    let odd = r#""z" : 1.50e1,"a":{"y":-0.0,"x":"\u0041"},"mcpServers":[ {"name":"one","command":"/bin/true","args":[],"env":[]} ]"#;
    first
        .send_raw(&format!(
            r#"{{"jsonrpc":"2.0","id":"new","method":"session/new","params":{{{odd},"cwd":"{directory}"}}}}"#
        ))
        .await;
    let opened = first.expect("the answer", |frame| *frame.id() == "new").await;
    let session = opened.body["result"]["sessionId"].as_str().context("no id")?.to_owned();
    first.send_prompt(&session, "echo before").await?;
    host.restart()?;
    let second = connect_client(&host).await?;
    assert_eq!(prompt_for_text(&second, &session, "echo after").await?, "after");
    let sent = recording.text()?;
    let loads: Vec<&str> = sent.lines().filter(|line| line.contains("session/load")).collect();
    assert!(loads.len() == 1 && loads[0].contains(odd), "{loads:?}");

    // A client that brings it back with servers of its own changes those and nothing else.
    host.restart()?;
    let third = connect_client(&host).await?;
    let servers = r#"[ {"env":[],"name":"two","command":"/bin/true","args":[], "n":1.0} ]"#;
    third
        .send_raw(&format!(r#"{{"jsonrpc":"2.0","id":"load","method":"session/load","params":{{"cwd":"{directory}","mcpServers":{servers},"sessionId":"{session}"}}}}"#))
        .await;
    third.expect("the answer", |frame| *frame.id() == "load").await;
    let sent = recording.text()?;
    let last = sent.lines().rfind(|line| line.contains("session/load")).context("no load")?;
    let expected =
        odd.replace(r#"[ {"name":"one","command":"/bin/true","args":[],"env":[]} ]"#, servers);
    assert!(last.contains(&expected), "{last}");
    Ok(())
}

#[tokio::test]
async fn clients_that_wake_a_session_at_the_same_time_share_one_agent() -> Result<()> {
    let mut host = scripted_host(&["--delay", "session/load=200"])?
        .without_keepers(crate::AGENT_COMES_BACK)
        .start_host()?;
    let (first, session) = open_session(&host).await?;
    first.send_prompt(&session, "echo before").await?;
    host.restart()?;
    let cwd = cwd(&host)?;
    let mut clients = Vec::new();
    for way in WAKE_REQUESTS.into_iter().chain(WAKE_REQUESTS) {
        clients.push((way, connect_client(&host).await?));
    }
    let ways = clients.iter().map(|(way, client)| way.take(client, &session, &cwd));
    let answers = futures_util::future::join_all(ways).await;
    for ((way, _), answer) in clients.iter().zip(answers) {
        answer.with_context(|| format!("{way:?}"))?;
    }
    assert_eq!(list_start_kinds(&host, &session)?, ["new", "load"]);
    let mut agents = Vec::new();
    for (_, client) in &clients {
        let before = client.received_frames().len();
        client.send_prompt(&session, "pid").await?;
        let said = client.received_frames().into_iter().skip(before).find_map(|frame| {
            frame.chunk_text().filter(|text| text.starts_with("pid")).map(str::to_owned)
        });
        agents.push(said);
    }
    agents.dedup();
    assert_eq!(agents.len(), 1, "{agents:?}");
    Ok(())
}
