//! Agents that flood, fall silent, close half of their pipe or leave children that ignore signals,
//! beside a session that must not be affected. `hostile_agents` and `orphans` test them one by one.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use wharf_testkit::http::RestClient;
use wharf_testkit::processes;

use super::control_client::ControlClient;
use crate::{
    TREE_ENDS_WITHIN, add_scripted_agent, add_section, connect_client_of, cwd, expect_error, log,
    open_session, parse_pids, prompt_for_text, scripted_host, stop_reason,
};

#[tokio::test]
async fn an_agent_that_floods_slows_no_other_session() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let witness = ControlClient::start(&host).await?;
    let quiet = witness.run_turns(20).await?;
    let (loud, session) = open_session(&host).await?;
    loud.set_wait_limit(Duration::from_secs(60));
    let flood = async {
        loud.send_prompt(&session, "burst 150000 200").await?;
        loud.send_prompt(&session, "flood 100000").await?;
        Ok(())
    };
    witness.works_during(flood).await?;
    let busy = witness.run_turns(20).await?;
    println!("slowest turn of another session: {quiet:?} before, {busy:?} after");
    let shown = loud
        .received_frames()
        .iter()
        .filter(|frame| frame.chunk_index().is_some())
        .count();
    assert_eq!(shown, 150_000);
    Ok(())
}

#[tokio::test]
async fn agent_that_closes_its_output_without_exiting_is_killed() -> Result<()> {
    let agent = wharf_testkit::program::find_scripted_agent()?;
    let directory = tempfile::TempDir::with_prefix("wharf-half-")?;
    let pipe = directory.path().join("pipe");
    // `sed` holds the agent's real output, passes six lines on and exits. The agent stays.
    let script = format!(
        "mkfifo {0}; sed -u 6q <{0} & exec {1} --ignore-eof >{0}",
        pipe.display(),
        agent.display()
    );
    let command = ["sh", "-c", &script].map(str::to_owned);
    let host = scripted_host(&[])?.with_agent("half", &command).start_host()?;
    let witness = ControlClient::start(&host).await?;
    let client = connect_client_of(&host, "half").await?;
    client.initialize().await?;
    let session = client.new_session(&cwd(&host)?).await?;
    let words =
        |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let below = processes::list_descendants(host.pid()).into_iter();
    let half: Vec<u32> = below.filter(|pid| words(pid).contains("--ignore-eof")).collect();
    ensure!(!half.is_empty(), "there is no such agent");
    let error = expect_error(client.send_prompt(&session, "stream 50 flush").await)?;
    ensure!(error.data["reason"] == "agent_exited", "{error}");
    let ended = log::expect_event(&host, &session, "ended", |_| true).await?;
    assert_eq!(ended["ending"]["reason"], "agent_exited", "{ended}");
    witness.run_turns(3).await?;
    assert_eq!(processes::wait_gone(&half, TREE_ENDS_WITHIN), Ok(()), "the agent lives on");
    Ok(())
}

#[tokio::test]
async fn killed_hanging_agents_leave_no_processes() -> Result<()> {
    let mut options = scripted_host(&["--ignore-eof", "--ignore-term"])?;
    for (name, flags) in [
        ("mute", ["--hang-on", "initialize"]),
        ("stuck", ["--hang-on", "session/new"]),
        ("deaf", ["--no-cancel", "--ignore-term"]),
    ] {
        options = add_scripted_agent(options, name, &flags)?;
    }
    // The limits hold for the control client too, whose turns must end in time on a busy machine.
    let options = add_section(options, "[turn]\nno_progress = \"5s\"")
        .with_setting("start_timeout", "5s")
        .with_setting("cancel_timeout", "300ms");
    let host = options.start_host()?;
    let witness = ControlClient::start(&host).await?;
    let http = RestClient::new(&host);
    let start_fails = async |adapter: &str| {
        let body = serde_json::json!({ "adapter": adapter, "cwd": cwd(&host)? });
        let answer = http.post("/sessions/agent", &body).await?;
        ensure!(answer.status == 502, "{} {}", answer.status, answer.body);
        Ok(())
    };
    let turn_is_cancelled = async {
        let client = connect_client_of(&host, "deaf").await?;
        client.initialize().await?;
        let session = client.new_session(&cwd(&host)?).await?;
        let children = parse_pids(&prompt_for_text(&client, &session, "spawn").await?);
        assert_eq!(stop_reason(client.send_prompt(&session, "hang hard").await)?, "cancelled");
        Ok(children)
    };
    let faults = async {
        let ((), (), children) =
            tokio::try_join!(start_fails("mute"), start_fails("stuck"), turn_is_cancelled)?;
        Ok(children)
    };
    let children = witness.works_during(faults).await?;
    ensure!(!children.is_empty());
    assert_eq!(
        processes::wait_gone(&children, TREE_ENDS_WITHIN),
        Ok(()),
        "the children of an agent that hung"
    );
    let listed = http.get("/sessions?alive=false").await?.expect(200)?;
    let ended: Vec<&Value> = listed["sessions"]
        .as_array()
        .context("no list")?
        .iter()
        .map(|one| &one["status"])
        .collect();
    ensure!(ended.iter().filter(|status| **status == "error").count() == 2, "{ended:?}");
    Ok(())
}
