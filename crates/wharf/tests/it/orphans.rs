//! No process of an agent outlives its session or the host, whatever ends it.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use wharf_testkit::client::TestClient;
use wharf_testkit::host::TestHost;
use wharf_testkit::{WAIT_LIMIT, polling, processes};

use crate::program::{ChildGuard, shell_command};
use crate::{
    TREE_ENDS_WITHIN, expect_error, log, open_session, parse_pids, prompt_for_text, scripted_host,
    stop_in_time,
};

/// A session whose agent has started children that resist: one in its own group, one with a session
/// of its own, one that was forked twice; the last two ignore SIGTERM.
struct AgentTree {
    client: TestClient,
    session: String,
    agent: u32,
    children: Vec<u32>,
}

impl AgentTree {
    async fn start_tree(host: &TestHost) -> Result<Self> {
        let (client, session) = open_session(host).await?;
        let children = parse_pids(&prompt_for_text(&client, &session, "spawn").await?);
        let agent = parse_pids(&prompt_for_text(&client, &session, "pid").await?);
        assert_eq!(children.len(), 3);
        let agent = *agent.first().context("no pid")?;
        let tree = Self { client, session, agent, children };
        assert!(tree.all_pids().into_iter().all(processes::is_alive));
        Ok(tree)
    }

    fn all_pids(&self) -> Vec<u32> {
        [&[self.agent], self.children.as_slice()].concat()
    }

    /// Returns the agent's parent. All other processes are below it, however they were forked.
    fn keeper_pid(&self, host: &TestHost) -> Result<u32> {
        let below = processes::list_descendants(host.pid());
        let keeper = below
            .iter()
            .copied()
            .find(|pid| processes::list_descendants(*pid).contains(&self.agent));
        let keeper = keeper.context("no keeper")?;
        let below = processes::list_descendants(keeper);
        assert!(self.all_pids().iter().all(|pid| below.contains(pid)), "a child has left the tree");
        Ok(keeper)
    }
}

fn assert_gone(pids: &[u32]) {
    assert_eq!(processes::wait_gone(pids, TREE_ENDS_WITHIN), Ok(()));
}

#[tokio::test]
async fn kill_9_of_the_host_leaves_nothing_running() -> Result<()> {
    let mut host = scripted_host(&["--ignore-eof", "--ignore-term"])?
        .without_keepers(crate::PROCESSES_END)
        .start_host()?;
    let tree = AgentTree::start_tree(&host).await?;
    let keeper = tree.keeper_pid(&host)?;
    host.kill()?;
    assert_gone(&[&[keeper], tree.all_pids().as_slice()].concat());
    Ok(())
}

#[tokio::test]
async fn kill_9_of_the_host_during_a_start_leaves_nothing_running() -> Result<()> {
    let mut host =
        scripted_host(&["--spawn-children", "--hang-on", "session/new"])?.start_host()?;
    let client = crate::connect_client(&host).await?;
    let _starting = client
        .start_request("session/new", serde_json::json!({ "cwd": "/", "mcpServers": [] }))
        .await;
    let session = loop {
        tokio::task::yield_now().await;
        if let Ok(session) = log::only_session(&host) {
            break session;
        }
    };
    log::expect_event(&host, &session, "agent_starting", |_| true).await?;
    let below =
        || Ok(Some(processes::list_descendants(host.pid())).filter(|below| below.len() >= 5));
    let below = polling::poll_until(TREE_ENDS_WITHIN, below)
        .await?
        .context("no keeper, agent and three children")?;
    host.kill()?;
    assert_gone(&below);
    Ok(())
}

#[tokio::test]
async fn terminated_host_ends_process_trees_that_ignore_sigterm_in_time() -> Result<()> {
    let mut host = scripted_host(&["--ignore-eof", "--ignore-term"])?
        .without_keepers(crate::PROCESSES_END)
        .start_host()?;
    let trees = [AgentTree::start_tree(&host).await?, AgentTree::start_tree(&host).await?];
    let below = processes::list_descendants(host.pid());
    stop_in_time(&mut host)?;
    let left: Vec<u32> = below.into_iter().filter(|pid| processes::is_alive(*pid)).collect();
    assert_eq!(left, [0_u32; 0], "alive after the host's end");
    for tree in &trees {
        assert_eq!(tree.client.wait_closed().await, "closed 1001 the host is stopping");
        let ended = log::list_events(&host, &tree.session, "ended")?;
        let reasons: Vec<_> = ended.iter().map(|event| &event["ending"]["reason"]).collect();
        assert_eq!(reasons, ["host_shutdown"]);
    }
    Ok(())
}

#[tokio::test]
async fn an_agent_that_crashes_leaves_no_children() -> Result<()> {
    let host = scripted_host(&["--no-load"])?.start_host()?;
    for hold in ["spawn", "spawn hold"] {
        let (client, session) = open_session(&host).await?;
        let children = parse_pids(&prompt_for_text(&client, &session, hold).await?);
        let error = expect_error(client.send_prompt(&session, "crash 7").await)?;
        assert_eq!(error.data["reason"], "agent_exited", "{error}");
        assert_gone(&children);
        let ended = log::expect_event(&host, &session, "ended", |_| true).await?;
        assert_eq!(ended["ending"]["status"], "exited");
        assert_eq!(ended["ending"]["exit_code"], 7);
        let error = expect_error(client.send_prompt(&session, "echo again").await)?;
        assert_eq!(error.data["reason"], "not_resumable", "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn killing_the_keeper_ends_the_agent_and_its_children_and_the_session_says_so() -> Result<()>
{
    let host = scripted_host(&["--ignore-eof", "--ignore-term"])?.start_host()?;
    let tree = AgentTree::start_tree(&host).await?;
    let (other, other_session) = open_session(&host).await?;
    let running = tree.client.start_prompt(&tree.session, "hang").await;
    log::expect_event(&host, &tree.session, "turn_started", |event| event["prompt"].is_string())
        .await?;
    processes::send_sigkill(tree.keeper_pid(&host)?);
    assert_gone(&tree.all_pids());
    let error = expect_error(running.wait_answer().await)?;
    assert_eq!(error.data["reason"], "agent_exited", "{error}");
    let ended = log::expect_event(&host, &tree.session, "ended", |_| true).await?;
    let message = ended["ending"]["message"].as_str().unwrap_or_default();
    assert!(!message.is_empty(), "{ended}");
    assert_eq!(prompt_for_text(&other, &other_session, "echo unharmed").await?, "unharmed");
    Ok(())
}

#[tokio::test]
async fn untagged_process_without_a_keeper_is_ended_and_reaped() -> Result<()> {
    let host = scripted_host(&["--resume"])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let (other, other_session) = open_session(&host).await?;
    let said = prompt_for_text(
        &client,
        &session,
        "sh env -i setsid tail -f /dev/null >/dev/null 2>&1 & echo $!",
    )
    .await?;
    let stray: u32 = said.trim().parse()?;
    let agent = parse_pids(&prompt_for_text(&client, &session, "pid").await?);
    let below = processes::list_descendants(host.pid());
    let keeper = below
        .iter()
        .copied()
        .find(|pid| processes::list_descendants(*pid).contains(&stray))
        .context("no keeper")?;
    processes::send_sigkill(keeper);
    assert_gone(&[agent.as_slice(), &[stray]].concat());
    // The process is reaped too, not left as a zombie.
    let reaped =
        || Ok(Some(()).filter(|()| !processes::list_descendants(host.pid()).contains(&stray)));
    polling::poll_until(TREE_ENDS_WITHIN, reaped)
        .await?
        .context("it was not reaped")?;
    assert_eq!(prompt_for_text(&other, &other_session, "echo unharmed").await?, "unharmed");
    log::expect_event(&host, &session, "ended", |_| true).await?;
    assert_eq!(prompt_for_text(&client, &session, "echo back").await?, "back");
    Ok(())
}

#[tokio::test]
async fn orphans_of_host_and_keeper_are_ended_at_the_next_start() -> Result<()> {
    let mut host = scripted_host(&["--ignore-eof", "--ignore-term"])?.start_host()?;
    let tree = AgentTree::start_tree(&host).await?;
    let keeper = tree.keeper_pid(&host)?;
    kill_host_and_keeper(&mut host, keeper)?;
    assert!(tree.all_pids().into_iter().all(processes::is_alive), "nobody was there to end them");
    host.restart()?;
    assert_gone(&tree.all_pids());
    Ok(())
}

#[tokio::test]
async fn a_sweep_leaves_the_agents_of_another_host_alone() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let other = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&other).await?;
    AgentTree::start_tree(&host).await?;
    host.restart()?;
    assert_eq!(prompt_for_text(&client, &session, "echo unharmed").await?, "unharmed");
    Ok(())
}

#[tokio::test]
async fn a_host_that_is_terminated_while_an_agent_starts_ends_it_too() -> Result<()> {
    let mut host =
        scripted_host(&["--spawn-children", "--hang-on", "session/new"])?.start_host()?;
    let client = crate::connect_client_of(&host, "scripted").await?;
    let starting = client
        .start_request("session/new", serde_json::json!({ "cwd": "/", "mcpServers": [] }))
        .await;
    while processes::list_descendants(host.pid()).len() < 5 {
        tokio::task::yield_now().await;
    }
    let below = processes::list_descendants(host.pid());
    stop_in_time(&mut host)?;
    assert_gone(&below);
    if let Some(answer) = starting.wait_answer_or_lost().await {
        expect_error(answer)?;
    }
    let session = log::only_session(&host)?;
    let ended = log::list_events(&host, &session, "ended")?;
    let reasons: Vec<_> = ended.iter().map(|event| &event["ending"]["reason"]).collect();
    assert_eq!(reasons, ["host_shutdown"]);
    Ok(())
}

#[tokio::test]
async fn agent_without_a_session_ends_with_its_connection() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let client = crate::connect_client(&host).await?;
    let below = processes::list_descendants(host.pid());
    assert_eq!(below.len(), 2, "keeper and agent");
    client.close().await;
    assert_gone(&below);
    Ok(())
}

/// Kills the host and the keeper at the same moment, so that neither can react to the other's end.
fn kill_host_and_keeper(host: &mut TestHost, keeper: u32) -> Result<()> {
    // The keeper is stopped first, so that it cannot act between the two kills.
    processes::send_sigstop(keeper);
    host.kill()?;
    processes::send_sigkill(keeper);
    assert_gone(&[keeper]);
    Ok(())
}

#[tokio::test]
async fn an_orphan_without_tag_that_was_measured_is_ended_at_the_next_start() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let agent = parse_pids(&prompt_for_text(&client, &session, "pid").await?);
    let said = prompt_for_text(
        &client,
        &session,
        "sh env -i setsid tail -f /dev/null >/dev/null 2>&1 & echo $!",
    )
    .await?;
    let stray: u32 = said.trim().parse()?;
    let below = processes::list_descendants(host.pid());
    let keeper = below
        .iter()
        .copied()
        .find(|pid| processes::list_descendants(*pid).contains(&stray))
        .context("no keeper")?;
    // The figures of the session may count the shell instead of the stray process.
    let record = host.state_dir().join("run").join(keeper.to_string());
    let is_recorded = || {
        let record: Value = serde_json::from_slice(&std::fs::read(&record)?)?;
        let seen = record["seen"].as_array().context("no processes in the record")?;
        Ok(seen.iter().any(|process| process["pid"] == stray).then_some(()))
    };
    polling::poll_until(WAIT_LIMIT, is_recorded)
        .await?
        .context("the host has not seen the stray process")?;
    kill_host_and_keeper(&mut host, keeper)?;
    // The agent exits at the end of its input; after that no parent leads to the stray process.
    assert_gone(&agent);
    assert!(processes::is_alive(stray), "nobody was there to end it");
    host.restart()?;
    assert_gone(&[stray]);
    Ok(())
}

#[tokio::test]
async fn a_host_on_a_copy_of_the_state_directory_leaves_the_agents_of_the_original_alone()
-> Result<()> {
    let original = scripted_host(&[])?.start_host()?;
    let tree = AgentTree::start_tree(&original).await?;
    let mut copy = scripted_host(&[])?.start_host()?;
    for _ in 0..2 {
        copy.kill()?;
        std::fs::remove_dir_all(copy.state_dir())?;
        let copied = shell_command("cp -a \"$1\" \"$2\"")
            .arg(original.state_dir())
            .arg(copy.state_dir())
            .status()?;
        assert!(copied.success());
        // At its first start the copy gets an identity of its own; the second start is an ordinary
        // one.
        copy.restart()?;
        copy.restart()?;
        assert_eq!(
            prompt_for_text(&tree.client, &tree.session, "echo unharmed").await?,
            "unharmed"
        );
        assert!(tree.all_pids().into_iter().all(processes::is_alive), "the original's processes");
    }
    let (client, session) = open_session(&copy).await?;
    assert_eq!(prompt_for_text(&client, &session, "echo usable").await?, "usable");
    Ok(())
}

#[tokio::test]
async fn a_tag_without_a_record_ends_nothing() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let tag = prompt_for_text(&client, &session, "sh echo $WHARF_AGENT_TAG").await?;
    assert!(tag.len() > 20, "{tag}");
    // This process of the user has inherited the variable, as a terminal or an editor may.
    let mut bystander = ChildGuard(
        shell_command("exec tail -f /dev/null")
            .env("WHARF_AGENT_TAG", tag.trim())
            .spawn()?,
    );
    client.close().await;
    assert!(host.terminate()?.success());
    host.restart()?;
    assert_eq!(bystander.0.try_wait()?, None, "it is not an agent's");
    Ok(())
}

/// Waits until the host has recorded this process; returns how long that took.
async fn wait_recorded(host: &TestHost, pid: u32) -> Result<Duration> {
    let (began, run) = (std::time::Instant::now(), host.state_dir().join("run"));
    let mark = format!("\"pid\":{pid},");
    let recorded = polling::poll_until(wharf_testkit::WAIT_LIMIT, || {
        let records = std::fs::read_dir(&run)?
            .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
        Ok(records.into_iter().any(|record| record.contains(&mark)).then_some(()))
    });
    recorded.await?.with_context(|| format!("process {pid} is never recorded"))?;
    Ok(began.elapsed())
}

#[tokio::test]
async fn an_orphan_without_tag_of_an_agent_that_has_just_started_is_ended_at_the_next_start()
-> Result<()> {
    const STRAY_SCRIPT: &str = "sh env -i setsid tail -f /dev/null >/dev/null 2>&1 & echo $!";
    let mut host = scripted_host(&[])?.start_host()?;
    let (other, elsewhere) = open_session(&host).await?;
    let mut soonest = Duration::MAX;
    let mut strays = Vec::new();
    let soon = Duration::from_millis(900);
    // Each round begins when a look has just been taken. On a busy machine not every one is in
    // time.
    for _ in 0..10 {
        if soonest < soon {
            break;
        }
        let earlier: u32 =
            prompt_for_text(&other, &elsewhere, STRAY_SCRIPT).await?.trim().parse()?;
        wait_recorded(&host, earlier).await?;
        let (client, session) = open_session(&host).await?;
        let stray: u32 = prompt_for_text(&client, &session, STRAY_SCRIPT).await?.trim().parse()?;
        soonest = soonest.min(wait_recorded(&host, stray).await?);
        strays.extend([earlier, stray]);
    }
    assert!(soonest < soon, "the first look at a new agent's children comes after {soonest:?}");
    let below = processes::list_descendants(host.pid());
    let keepers: Vec<u32> = below
        .into_iter()
        .filter(|pid| !processes::list_descendants(*pid).is_empty())
        .collect();
    for keeper in &keepers {
        processes::send_sigstop(*keeper);
    }
    host.kill()?;
    for keeper in &keepers {
        processes::send_sigkill(*keeper);
    }
    assert_gone(&keepers);
    assert!(strays.iter().copied().all(processes::is_alive), "they outlive host and keeper");
    host.restart()?;
    assert_gone(&strays);
    Ok(())
}
