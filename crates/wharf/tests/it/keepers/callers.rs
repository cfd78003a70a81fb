//! Keepers that are held up, and odd files beside their records: neither costs an agent.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::http::RestClient;
use wharf_testkit::{WAIT_LIMIT, processes};

use super::KeepingHost;
use crate::program::shell_command;
use crate::rest::{send_prompt, wait_for_session};
use crate::{
    TREE_ENDS_WITHIN, join_session, log, open_session, parse_pids, prompt_for_text, scripted_host,
};

/// More callers than a keeper reads at once.
const SILENT_CALLERS: usize = 40;

#[tokio::test]
async fn silent_callers_of_a_keeper_hold_up_no_take_over() -> Result<()> {
    let mut host = KeepingHost::start(scripted_host(&[])?)?;
    let (client, session) = open_session(&host).await?;
    let agent = parse_pids(&prompt_for_text(&client, &session, "pid").await?);
    host.kill()?;
    let socket = host.state_dir().join("run/keepers-1").join(host.only_keeper()?.to_string());
    let silent: Vec<UnixStream> = (0..SILENT_CALLERS)
        .map(|_| UnixStream::connect(&socket))
        .collect::<Result<_, _>>()?;
    host.restart()?;
    let told = host.read_stderr();
    ensure!(told.contains("took over the agent") && !told.contains("does not answer"), "{told}");
    expect_agent(&host, &session, &agent).await?;
    drop(silent);
    host.stop_all().await
}

/// Checks that the session has this agent.
async fn expect_agent(host: &KeepingHost, session: &str, agent: &[u32]) -> Result<()> {
    let client = join_session(host, session).await?;
    let before = client.chunk_texts().len();
    client.send_prompt(session, "pid").await?;
    assert_eq!(
        parse_pids(&client.chunk_texts().split_off(before).concat()),
        agent,
        "another agent"
    );
    Ok(())
}

/// A keeper's socket that accepts connections and never answers; the true one is set aside.
pub(super) struct SilentSocket {
    path: PathBuf,
    aside: PathBuf,
    _listener: UnixListener,
}

impl SilentSocket {
    pub(super) fn put_before(path: &Path) -> Result<Self> {
        let aside = path.with_extension("aside");
        fs::rename(path, &aside)?;
        Ok(Self {
            path: path.to_owned(),
            aside,
            _listener: UnixListener::bind(path)?,
        })
    }

    pub(super) fn take_away(self) -> Result<()> {
        Ok(fs::rename(&self.aside, &self.path)?)
    }
}

pub(super) fn is_silent(session: &Value) -> bool {
    session["status"] == "running"
        && session["message"].as_str().is_some_and(|text| text.contains("does not answer"))
}

#[tokio::test]
async fn keeper_that_answers_late_is_taken_over_and_what_was_asked_meanwhile_is_done_once()
-> Result<()> {
    let mut host = KeepingHost::start(scripted_host(&[])?)?;
    let (client, session) = open_session(&host).await?;
    let agent = parse_pids(&prompt_for_text(&client, &session, "pid").await?);
    host.kill()?;
    let path = host.state_dir().join("run/keepers-1").join(host.only_keeper()?.to_string());
    let socket = SilentSocket::put_before(&path)?;
    host.restart()?;
    let http = RestClient::new(&host);
    wait_for_session(&http, &session, "its silence", is_silent).await?;
    // The agent is that of its session all the same, and another host would find it again.
    host.restart()?;
    let http = RestClient::new(&host);
    wait_for_session(&http, &session, "its silence", is_silent).await?;
    send_prompt(&http, &session, "echo meanwhile").await?;
    let queued = json!({ "prompt": "pid", "queue": true });
    http.post(&format!("/sessions/{session}/prompt"), &queued).await?.expect(200)?;
    log::expect_event(&host, &session, "turn_started", |event| event["content"] != Value::Null)
        .await?;
    let shown = http.get(&format!("/sessions/{session}")).await?.expect(200)?;
    ensure!(is_silent(&shown), "its session does not say so any more: {shown}");
    socket.take_away()?;
    wait_for_session(&http, &session, "its agent", |session| {
        session["turn"] == "idle" && session["queued"] == 0
    })
    .await?;
    wait_for_session(&http, &session, "no message", |session| session["message"] == Value::Null)
        .await?;
    let client = join_session(&host, &session).await?;
    let said = client.chunk_texts();
    assert_eq!(said.iter().filter(|text| *text == "meanwhile").count(), 1, "{said:?}");
    assert_eq!(parse_pids(&said.last().cloned().unwrap_or_default()), agent, "{said:?}");
    assert_eq!(log::list_events(&host, &session, "ended")?.len(), 0);
    host.stop_all().await
}

#[tokio::test]
async fn session_whose_keeper_does_not_answer_can_be_killed_and_comes_back() -> Result<()> {
    let mut host = KeepingHost::start(scripted_host(&["--ignore-eof", "--ignore-term"])?)?;
    let (client, session) = open_session(&host).await?;
    let _hanging = client.start_prompt(&session, "echo hangs; hang").await;
    client.expect_text("hangs").await;
    let tree = host.kept_processes();
    host.kill()?;
    let path = host.state_dir().join("run/keepers-1").join(host.only_keeper()?.to_string());
    let socket = SilentSocket::put_before(&path)?;
    host.restart()?;
    let http = RestClient::new(&host);
    wait_for_session(&http, &session, "its silence", is_silent).await?;
    http.post_empty(&format!("/sessions/{session}/kill")).await?.expect(200)?;
    ensure!(!tree.iter().any(|pid| processes::is_alive(*pid)), "processes are left");
    let ended = log::expect_event(&host, &session, "ended", |_| true).await?;
    assert_eq!(ended["ending"]["reason"], "user");
    drop(socket);
    let _ = fs::remove_file(path.with_extension("aside"));
    http.post_empty(&format!("/sessions/{session}/resume")).await?.expect(200)?;
    wait_for_session(&http, &session, "its return", |session| session["status"] == "running")
        .await?;
    host.stop_all().await
}

#[tokio::test]
async fn session_ends_when_its_silent_keeper_dies() -> Result<()> {
    let mut host = KeepingHost::start(scripted_host(&[])?)?;
    let (client, session) = open_session(&host).await?;
    let _hanging = client.start_prompt(&session, "echo hangs; hang").await;
    client.expect_text("hangs").await;
    let tree = host.kept_processes();
    host.kill()?;
    let keeper = host.only_keeper()?;
    let path = host.state_dir().join("run/keepers-1").join(keeper.to_string());
    let socket = SilentSocket::put_before(&path)?;
    host.restart()?;
    wait_for_session(&RestClient::new(&host), &session, "its silence", is_silent).await?;
    processes::send_sigkill(keeper);
    let ended = log::expect_event(&host, &session, "ended", |_| true).await?;
    assert_eq!(ended["ending"]["reason"], "host_restarted");
    assert_eq!(processes::wait_gone(&tree, TREE_ENDS_WITHIN), Ok(()));
    drop(socket);
    let _ = fs::remove_file(path.with_extension("aside"));
    host.stop_all().await
}

#[tokio::test]
async fn odd_files_among_the_records_cost_no_agent() -> Result<()> {
    let mut host = KeepingHost::start(scripted_host(&[])?)?;
    let (client, session) = open_session(&host).await?;
    let agent = parse_pids(&prompt_for_text(&client, &session, "pid").await?);
    host.kill()?;
    let keeper = host.only_keeper()?;
    let run = host.state_dir().join("run");
    let record = run.join(keeper.to_string());
    for copy in ["1", "copy", "0000001", &format!("{keeper}.bak")] {
        fs::copy(&record, run.join(copy))?;
    }
    fs::hard_link(&record, run.join("2"))?;
    symlink(&record, run.join("3"))?;
    symlink("/nonexistent", run.join("4"))?;
    fs::create_dir(run.join("5"))?;
    let foreign = ["6.left", "notes.left", "notes.leaving", "mine.taken", "mine.unusable"];
    for name in foreign {
        fs::create_dir(run.join(name))?;
        fs::write(run.join(name).join("file"), "mine")?;
    }
    for name in ["10.11.left", "10.11.unusable"] {
        fs::write(run.join(name), "mine")?;
    }
    let fifo = shell_command("mkfifo \"$1/7\" \"$1/8.new\"").arg(&run).status()?;
    ensure!(fifo.success(), "mkfifo");
    fs::write(run.join("9"), vec![b'x'; 64 << 20])?;
    let odd = fs::read_dir(&run)?.count();
    host.restart()?;
    let told = host.read_stderr();
    ensure!(told.contains("took over the agent") && !told.contains("does not answer"), "{told}");
    ensure!(told.contains("is left alone"), "{told}");
    expect_agent(&host, &session, &agent).await?;
    assert_eq!(fs::read_dir(&run)?.count(), odd, "they are left alone");
    for name in foreign {
        ensure!(run.join(name).join("file").exists(), "{name} is not left alone");
    }
    // The look from outside finds one agent, and does not wait for the pipe.
    let doctor = crate::cli::command_for_host(&host, &["doctor", "--json"]).output()?;
    let findings: Value = serde_json::from_slice(&doctor.stdout).context("doctor")?;
    ensure!(findings.to_string().contains("1 agent outlives its host"), "{findings}");
    RestClient::new(&host).post_empty("/stop").await?.expect(202)?;
    ensure!(host.wait_exit(WAIT_LIMIT)?.success(), "the host's exit");
    assert_eq!(processes::wait_gone(&[agent, vec![keeper]].concat(), TREE_ENDS_WITHIN), Ok(()));
    Ok(())
}
