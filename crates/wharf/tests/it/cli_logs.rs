//! `wharf logs`: the host's own log in files, and the lines that agents write beside the protocol
//! (rules 8.8, 11.3).

use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::WAIT_LIMIT;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::cli::{
    command_for_host, expect_output, run_failing_wharf, run_wharf, start_kept_session,
};
use crate::cli_host::{StopHostOnDrop, command_for_state};
use crate::identity::CallingAgent;
use crate::program::start_and_read_lines;
use crate::rest::{caller_with_role, send_prompt, spawn_session, wait_until_idle};
use crate::scopes::{register_workspace, workspace_caller};
use crate::{add_section, cwd, scripted_host};

/// A secret of a known form.
const SECRET: &str = "sk-ant-api03-Zq8Lk2Vw9Xy7Tb4Nc6Hd";

/// Reads the log until it has so many lines, and returns the last answer with all lines.
async fn read_lines(http: &RestClient, id: &str, count: usize) -> Result<Value> {
    let began = Instant::now();
    let mut all = http.get(&format!("/sessions/{id}/logs")).await?.expect(200)?;
    while all["lines"].as_array().context("no lines")?.len() < count {
        ensure!(began.elapsed() < WAIT_LIMIT, "{all} does not have {count} lines");
        let next = all["next"].as_str().context("no next")?;
        let page = http
            .get(&format!("/sessions/{id}/logs?wait=5s&after={next}"))
            .await?
            .expect(200)?;
        let lines = all["lines"]
            .as_array()
            .into_iter()
            .chain(page["lines"].as_array())
            .flatten()
            .cloned()
            .collect();
        all = page;
        all["lines"] = Value::Array(lines);
    }
    Ok(all)
}

/// Returns stream and text of each line.
fn streams_and_texts(page: &Value) -> Vec<(String, String)> {
    let member = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
    page["lines"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|line| (member(line, "stream"), member(line, "text")))
        .collect()
}

fn stderr(text: &str) -> (String, String) {
    ("stderr".to_owned(), text.to_owned())
}

async fn start_session(flags: &[&str]) -> Result<(TestHost, RestClient, String)> {
    let host = scripted_host(flags)?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    Ok((host, http, id))
}

#[tokio::test]
async fn agent_log_has_stderr_and_stray_stdout_without_secrets() -> Result<()> {
    let (host, http, id) =
        start_session(&["--stderr", &format!("at start \u{1b}[31m{SECRET}")]).await?;
    send_prompt(&http, &id, "stderr in the turn").await?;
    wait_until_idle(&http, &id).await?;
    send_prompt(&http, &id, "raw no message").await?;
    let page = read_lines(&http, &id, 3).await?;
    let stray = ("stdout".to_owned(), "no message".to_owned());
    assert_eq!(
        streams_and_texts(&page),
        [stderr("at start sk-[redacted]"), stderr("in the turn"), stray]
    );
    assert_eq!(page["gap"], false);
    assert!(page["lines"][0]["at"].as_str().is_some_and(|at| at.ends_with('Z')), "{page}");

    let told = run_wharf(&host, &["logs", &id])?;
    let columns: Vec<Vec<&str>> =
        told.lines().map(|line| line.split('\t').skip(1).collect()).collect();
    assert_eq!(
        columns,
        [["stderr", "at start sk-[redacted]"], ["stderr", "in the turn"], ["stdout", "no message"]]
    );
    assert_eq!(run_wharf(&host, &["logs", &id, "-n", "1"])?.lines().count(), 1);
    let answer = http.get(&format!("/sessions/{id}/logs")).await?.expect(200)?;
    assert_eq!(
        serde_json::from_str::<Value>(&run_wharf(&host, &["logs", &id, "--json"])?)?,
        answer
    );
    run_failing_wharf(&host, &["logs", &id, "-n", "0"], 2)?;
    run_failing_wharf(&host, &["logs", "nobody"], 4)?;
    Ok(())
}

#[tokio::test]
async fn last_words_of_an_agent_that_does_not_start_can_be_read() -> Result<()> {
    let options = add_section(
        scripted_host(&[])?,
        "[agents.failing]\ncommand = [\"sh\", \"-c\", \"echo the reason >&2; printf half >&2; exit 3\"]",
    );
    let host = options.start_host()?;
    let http = RestClient::new(&host);
    let failed = http
        .post("/sessions/agent", &json!({ "adapter": "failing", "cwd": cwd(&host)? }))
        .await?
        .expect(502)?;
    let id = failed["sessionId"].as_str().context("no session")?;
    let page = read_lines(&http, id, 2).await?;
    assert_eq!(streams_and_texts(&page), [stderr("the reason"), stderr("half")]);
    Ok(())
}

#[tokio::test]
async fn readers_of_a_session_and_no_others_read_its_log() -> Result<()> {
    let (host, http, id) = start_session(&["--stderr", "hello"]).await?;
    read_lines(&http, &id, 1).await?;
    let path = format!("/sessions/{id}/logs");
    let observer = caller_with_role(&host, "observer")?;
    assert_eq!(streams_and_texts(&observer.get(&path).await?.expect(200)?), [stderr("hello")]);
    register_workspace(&host, "other").await?;
    let stranger = workspace_caller(&host, "other")?;
    assert_eq!(stranger.get(&path).await?.expect(404)?["code"], "unknown_session");
    for query in
        ["?after=7", "?limit=0", "?limit=5001", "?wait=5s", "?wait=2h&after=0123456789ab.0"]
    {
        let refused = http.get(&format!("{path}{query}")).await?.expect(422)?;
        assert_eq!(refused["code"], "invalid_params", "{query}");
    }
    assert_eq!(http.get("/sessions/sess_00000000000000000000000000/logs").await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn agent_reads_its_own_log_and_no_other() -> Result<()> {
    let host = scripted_host(&["--stderr", "hello"])?.start_host()?;
    let [agent, other] = [CallingAgent::new(&host).await?, CallingAgent::new(&host).await?];
    read_lines(&RestClient::new(&host), &agent.session, 1).await?;
    let http = agent.http(&host).await?;
    let own = http.get(&format!("/sessions/{}/logs", agent.session)).await?.expect(200)?;
    assert_eq!(streams_and_texts(&own), [stderr("hello")]);
    assert_eq!(http.get(&format!("/sessions/{}/logs", other.session)).await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn log_of_a_forgotten_session_is_gone_and_ends_its_readers() -> Result<()> {
    let (_host, http, id) = start_session(&["--stderr", "hello"]).await?;
    let page = read_lines(&http, &id, 1).await?;
    let next = page["next"].as_str().context("no next")?.to_owned();
    let waiting = tokio::spawn({
        let (http, path) = (http.clone(), format!("/sessions/{id}/logs?wait=1h&after={next}"));
        async move { http.get(&path).await }
    });
    http.delete(&format!("/sessions/{id}")).await?.expect(200)?;
    let ended = tokio::time::timeout(WAIT_LIMIT, waiting).await???;
    assert_eq!(ended.status, 404, "{}", ended.body);
    Ok(())
}

#[tokio::test]
async fn following_an_agent_log_goes_past_a_restart_of_the_host_and_ends_with_the_session()
-> Result<()> {
    let (mut host, http, id) = start_session(&["--resume"]).await?;
    send_prompt(&http, &id, "stderr before").await?;
    read_lines(&http, &id, 1).await?;
    let mut following = start_and_read_lines(command_for_host(&host, &["logs", &id, "-f"]))?;
    assert!(following.next()?.ends_with("\tstderr\tbefore"));
    wait_until_idle(&http, &id).await?;
    send_prompt(&http, &id, "stderr after").await?;
    assert!(following.next()?.ends_with("\tstderr\tafter"));
    wait_until_idle(&http, &id).await?;
    host.restart()?;
    let http = RestClient::new(&host);
    send_prompt(&http, &id, "stderr of the next host").await?;
    assert!(following.next()?.ends_with("\tstderr\tof the next host"), "each line comes once");
    http.post(&format!("/sessions/{id}/kill"), &json!({})).await?.expect(200)?;
    assert_eq!(following.read_rest()?, Vec::<String>::new());
    assert_eq!(following.code()?, Some(0));
    Ok(())
}

#[test]
fn log_of_a_host_in_the_background_is_private_plain_and_read_without_a_host() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let state = folder.path().join("state");
    let missing = command_for_state(&state, &["logs"]).output()?;
    assert_eq!(missing.status.code(), Some(4), "{missing:?}");
    assert!(!state.exists(), "logs starts no host");
    let _stopped = StopHostOnDrop(&state);
    expect_output(command_for_state(&state, &["sessions"]).env("WHARF_LOG", "debug").output()?, 0)?;
    let mut following = start_and_read_lines(command_for_state(&state, &["logs", "-f"]))?;
    following.find(|line| line.contains("listening"))?;
    expect_output(command_for_state(&state, &["stop"]).output()?, 0)?;
    following.find(|line| line.contains("stopping: asked by a client"))?;

    let file = state.join("host.log");
    let text = std::fs::read_to_string(&file)?;
    assert!(!text.contains('\u{1b}'), "{text}");
    assert_eq!(std::fs::metadata(&file)?.permissions().mode() & 0o777, 0o600);
    let told = expect_output(command_for_state(&state, &["logs", "-n", "10000"]).output()?, 0)?;
    assert_eq!(told, text, "the log is read after the end of its host");
    let told =
        expect_output(command_for_state(&state, &["logs", "-n", "1", "--json"]).output()?, 0)?;
    assert_eq!(serde_json::from_str::<Value>(&told)?, json!({ "lines": [text.lines().last()] }));
    Ok(())
}

#[tokio::test]
async fn host_in_the_foreground_logs_to_stderr_without_colours_and_logs_says_so() -> Result<()> {
    let (mut host, ..) = start_session(&[]).await?;
    std::fs::write(host.state_dir().join("host.log"), "of an earlier host\n")?;
    let shown = command_for_host(&host, &["logs"]).output()?;
    let note = String::from_utf8_lossy(&shown.stderr).into_owned();
    assert_eq!(expect_output(shown, 0)?, "of an earlier host\n");
    assert!(
        note.contains("logs to its own stderr") && note.contains(&host.pid().to_string()),
        "{note}"
    );
    host.terminate()?;
    let stderr = host.read_stderr();
    assert!(stderr.contains("a session runs") && !stderr.contains('\u{1b}'), "{stderr:?}");
    Ok(())
}

#[test]
fn log_file_of_a_host_is_named_and_read() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("wharf.log");
    let path = file.to_str().context("not UTF-8")?;
    let mut host = scripted_host(&[])?
        .with_argument("--log-file")
        .with_argument(path)
        .start_host()?;
    let status: Value = serde_json::from_str(&run_wharf(&host, &["status", "--json"])?)?;
    assert_eq!(status["logFile"], path);
    let mut following = start_and_read_lines(command_for_host(&host, &["logs", "-f"]))?;
    start_kept_session(&host, &[])?;
    let line = following.find(|line| line.contains("a session runs"))?;
    host.terminate()?;
    assert!(std::fs::read_to_string(&file)?.contains(&line));
    assert_eq!(host.read_stderr(), "");
    Ok(())
}
