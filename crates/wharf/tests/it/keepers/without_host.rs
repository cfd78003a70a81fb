//! Faults while an agent is without a host, and limits of that time. No process is left, and
//! nothing is lost that could be kept.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::client::TestClient;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;
use wharf_testkit::pauses::PauseWatch;
use wharf_testkit::random::TestRandom;
use wharf_testkit::small_disk::{DiskFiller, SmallDisk};
use wharf_testkit::{WAIT_LIMIT, polling, processes};

use super::{KeepingHost, pause_for_yields, pick_yields};
use crate::program::run_failing_serve;
use crate::rest::wait_for_session;
use crate::{
    TREE_ENDS_WITHIN, add_section, connect_client, cwd, join_session, log, open_session,
    parse_pids, prompt_for_text, scripted_host, start_from_shell,
};

/// The longest time that a start of the host may take beside a keeper that does not answer.
const START_LIMIT: Duration = Duration::from_secs(15);
const KEEPERS_AT_ONCE: usize = 64;
const START_KILLS: u32 = 6;
/// The time for which an idle keeper is watched.
const IDLE_WATCH: Duration = Duration::from_secs(2);
const IDLE_PERIODS: usize = 5;

fn assert_gone(pids: &[u32]) {
    assert_eq!(processes::wait_gone(pids, TREE_ENDS_WITHIN), Ok(()));
}

/// Checks that the session was ended with its turn at the host's start, and works with a new agent.
async fn expect_session_back(host: &TestHost, session: &str) -> Result<()> {
    let ended = log::expect_event(host, session, "ended", |_| true).await?;
    assert_eq!(ended["ending"]["reason"], "host_restarted", "{ended}");
    let ends = log::list_events(host, session, "prompt_ended")?;
    let last = ends.last().context("the prompt has no end")?;
    assert_eq!(last["end"]["how"], "host_restarted");
    let client = join_session(host, session).await?;
    let before = client.chunk_texts().len();
    client.send_prompt(session, "echo back").await?;
    assert_eq!(client.chunk_texts().get(before..).unwrap_or_default().concat(), "back");
    Ok(())
}

/// Checks that the session goes on with the same process of its agent.
async fn expect_same_agent(host: &TestHost, session: &str, agent: &[u32]) -> Result<()> {
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

/// Starts a session with a tree of children and a turn that hangs. Returns the session and every
/// process of it.
async fn start_hanging_tree(host: &KeepingHost) -> Result<(TestClient, String, Vec<u32>)> {
    let (client, session) = open_session(host).await?;
    prompt_for_text(&client, &session, "spawn").await?;
    let _hanging = client.start_prompt(&session, "echo hangs; hang").await;
    client.expect_text("hangs").await;
    let tree = host.kept_processes();
    assert!(tree.len() >= 5, "keeper, agent and three children: {tree:?}");
    Ok((client, session, tree))
}

#[derive(Clone, Copy, Debug)]
enum KeeperFault {
    KilledAfterHost,
    KilledWithHost,
    OtherProtocol,
    WrongSecret,
    NoSocket,
}

#[tokio::test]
async fn agent_whose_keeper_fails_without_a_host_is_ended_at_the_next_start() -> Result<()> {
    use KeeperFault::{KilledAfterHost, KilledWithHost, NoSocket, OtherProtocol, WrongSecret};
    for fault in [KilledAfterHost, KilledWithHost, OtherProtocol, WrongSecret, NoSocket] {
        let ended = end_behind_faulty_keeper(fault).await;
        ended.with_context(|| format!("{fault:?}"))?;
    }
    Ok(())
}

async fn end_behind_faulty_keeper(fault: KeeperFault) -> Result<()> {
    let mut host = KeepingHost::start(scripted_host(&["--ignore-eof", "--ignore-term"])?)?;
    let (_client, session, tree) = start_hanging_tree(&host).await?;
    let keeper = host.only_keeper()?;
    match fault {
        KeeperFault::KilledWithHost => {
            // A stopped keeper cannot act between the two kills.
            processes::send_sigstop(keeper);
            host.kill()?;
            processes::send_sigkill(keeper);
        }
        KeeperFault::KilledAfterHost => {
            host.kill()?;
            processes::send_sigkill(keeper);
        }
        KeeperFault::OtherProtocol | KeeperFault::WrongSecret => {
            host.kill()?;
            let path = host.state_dir().join("run").join(keeper.to_string());
            let mut record: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
            let (member, value) = match fault {
                KeeperFault::OtherProtocol => ("protocol", json!(999)),
                KeeperFault::WrongSecret
                | KeeperFault::KilledAfterHost
                | KeeperFault::KilledWithHost
                | KeeperFault::NoSocket => ("secret", json!("wrong")),
            };
            ensure!(record["kept"][member] != Value::Null, "{record}");
            record["kept"][member] = value;
            std::fs::write(&path, record.to_string())?;
        }
        KeeperFault::NoSocket => {
            host.kill()?;
            std::fs::remove_file(host.state_dir().join("run/keepers-1").join(keeper.to_string()))?;
        }
    }
    let pauses = PauseWatch::start();
    host.restart()?;
    pauses.expect_within(START_LIMIT, "the start")?;
    assert_gone(&tree);
    let run = host.state_dir().join("run");
    let left = [run.join(keeper.to_string()), run.join("keepers-1").join(keeper.to_string())];
    ensure!(!left.iter().any(|path| path.exists()), "the keeper's record or socket is left");
    expect_session_back(&host, &session).await
}

#[tokio::test]
async fn stopped_keeper_is_continued_and_its_agent_taken_over() -> Result<()> {
    let mut host = KeepingHost::start(scripted_host(&[])?)?;
    let (client, session) = open_session(&host).await?;
    let agent = parse_pids(&prompt_for_text(&client, &session, "pid").await?);
    host.kill()?;
    processes::send_sigstop(host.only_keeper()?);
    host.restart()?;
    expect_same_agent(&host, &session, &agent).await?;
    host.stop_all().await
}

#[tokio::test]
async fn resources_of_an_agent_are_measured_after_it_was_taken_over() -> Result<()> {
    let mut host = KeepingHost::start(scripted_host(&[])?)?;
    let (client, session) = open_session(&host).await?;
    assert_eq!(prompt_for_text(&client, &session, "echo once").await?, "once");
    host.restart()?;
    let client = join_session(&host, &session).await?;
    prompt_for_text(&client, &session, "spawn").await?;
    // Keeper, agent, and the children that were started since.
    let http = RestClient::new(&host);
    let is_measured = |session: &Value| session["resources"]["processes"].as_u64() >= Some(5);
    wait_for_session(&http, &session, "the processes", is_measured).await?;
    let record = || {
        let path = host.state_dir().join("run").join(host.only_keeper()?.to_string());
        Ok::<Value, anyhow::Error>(serde_json::from_slice(&std::fs::read(path)?)?)
    };
    let is_seen = || Ok((record()?["seen"].as_array().map_or(0, Vec::len) >= 4).then_some(()));
    polling::poll_until(WAIT_LIMIT, is_seen)
        .await?
        .context("the children are not in the record")?;
    ensure!(record()?["first_turn_millis"].is_u64(), "{}", record()?);
    host.stop_all().await
}

#[tokio::test]
async fn output_and_exit_code_of_an_agent_that_exits_without_a_host_are_kept() -> Result<()> {
    let mut host = KeepingHost::start(scripted_host(&["--no-load"])?)?;
    let (client, session) = open_session(&host).await?;
    let agent = parse_pids(&prompt_for_text(&client, &session, "pid").await?);
    let go = host.directory().join("go");
    let script =
        format!("echo begun; await {}; stream 500 200; stderr last words; crash 7", go.display());
    let _running = client.start_prompt(&session, &script).await;
    client.expect_text("begun").await;
    host.kill()?;
    std::fs::write(&go, "")?;
    assert_gone(&agent);
    let keeper = host.only_keeper()?;
    ensure!(processes::is_alive(keeper), "the keeper waits to tell of the exit");
    host.restart()?;
    let ended = log::expect_event(&host, &session, "ended", |_| true).await?;
    assert_eq!(
        (&ended["ending"]["status"], &ended["ending"]["exit_code"]),
        (&json!("exited"), &json!(7)),
        "{ended}"
    );
    let client = join_session(&host, &session).await?;
    let indices: Vec<u64> = client
        .received_frames()
        .iter()
        .filter_map(|frame| frame.chunk_index())
        .collect();
    assert!(indices.into_iter().eq(0..500), "output is lost or doubled");
    host.expect_nothing_left(&[keeper]).await?;
    host.stop_all().await
}

#[tokio::test]
async fn agent_is_ended_when_no_host_comes_in_time() -> Result<()> {
    let section = "[keeper]\nabsence = \"5s\"\nidle_absence = \"5s\"";
    let options = add_section(scripted_host(&["--ignore-eof", "--ignore-term"])?, section);
    let mut host = KeepingHost::start(options)?;
    let (_client, session, tree) = start_hanging_tree(&host).await?;
    host.kill()?;
    ensure!(tree.iter().copied().all(processes::is_alive), "not kept at all");
    assert_gone(&tree);
    host.restart()?;
    expect_session_back(&host, &session).await
}

#[tokio::test]
async fn agent_that_no_host_can_find_any_more_is_ended() -> Result<()> {
    let mut host = KeepingHost::start(scripted_host(&["--ignore-eof", "--ignore-term"])?)?;
    let (_client, session, tree) = start_hanging_tree(&host).await?;
    std::fs::remove_dir_all(host.state_dir().join("run"))?;
    ensure!(tree.iter().copied().all(processes::is_alive), "its host is still there");
    host.kill()?;
    assert_gone(&tree);
    host.restart()?;
    expect_session_back(&host, &session).await
}

/// Returns the largest position of the keeper's files in memory.
fn largest_file_position(keeper: u32) -> Result<u64> {
    let mut largest = 0;
    for entry in std::fs::read_dir(format!("/proc/{keeper}/fd"))?.flatten() {
        if std::fs::read_link(entry.path())
            .is_ok_and(|target| target.to_string_lossy().contains("memfd:"))
        {
            let name = entry.file_name();
            let info =
                std::fs::read_to_string(Path::new(&format!("/proc/{keeper}/fdinfo")).join(name))?;
            let position =
                info.lines().find_map(|line| line.strip_prefix("pos:")?.trim().parse().ok());
            largest = largest.max(position.unwrap_or_default());
        }
    }
    Ok(largest)
}

#[tokio::test]
async fn agent_is_held_back_at_the_output_limit_and_nothing_is_lost() -> Result<()> {
    const LIMIT_BYTES: u64 = 256 << 10;
    const UPDATES: u64 = 10_000;
    let options = add_section(scripted_host(&[])?, "[keeper]\noutput = \"256KiB\"");
    let mut host = KeepingHost::start(options)?;
    let marker = host.directory().join("done");
    let (client, session) = open_session(&host).await?;
    let go = host.directory().join("go");
    let (steps, end) =
        (format!("echo begun; await {}", go.display()), format!("save {} now", marker.display()));
    let script = format!("{steps}; stream {UPDATES} 200; {end}; echo whole");
    let _running = client.start_prompt(&session, &script).await;
    client.expect_text("begun").await;
    host.kill()?;
    std::fs::write(&go, "")?;
    let keeper = host.only_keeper()?;
    let is_full = || Ok((largest_file_position(keeper)? >= LIMIT_BYTES).then_some(()));
    polling::poll_until(WAIT_LIMIT, is_full)
        .await?
        .context("the limit is never reached")?;
    let spooled = largest_file_position(keeper)?;
    ensure!(spooled < LIMIT_BYTES + (128 << 10), "{spooled} bytes are kept");
    ensure!(!marker.exists(), "the agent was not held back");
    host.restart()?;
    let client = join_session(&host, &session).await?;
    client.expect_text("whole").await;
    let indices: Vec<u64> = client
        .received_frames()
        .iter()
        .filter_map(|frame| frame.chunk_index())
        .collect();
    assert!(indices.into_iter().eq(0..UPDATES), "output is lost or doubled");
    host.stop_all().await
}

#[tokio::test]
async fn disk_that_fills_up_without_a_host_loses_nothing() -> Result<()> {
    const UPDATES: u64 = 4_000;
    if !SmallDisk::is_possible() {
        return Ok(());
    }
    let options = add_section(scripted_host(&[])?, "[limits]\nreserve = \"1MiB\"").with_disk("10m");
    let mut host = KeepingHost::start(options)?;
    let (client, session) = open_session(&host).await?;
    // Not in the state directory, whose disk is full then.
    let go = tempfile::tempdir()?;
    let file = go.path().join("go");
    let script = format!("echo begun; await {}; stream {UPDATES} 500; echo whole", file.display());
    let _running = client.start_prompt(&session, &script).await;
    client.expect_text("begun").await;
    host.kill()?;
    std::fs::write(&file, "")?;
    let filler = DiskFiller::fill_disk(&host.state_dir())?;
    host.restart()?;
    log::expect_event(&host, &session, "paused", |event| event["why"] == "storage_full").await?;
    drop(filler);
    let client = join_session(&host, &session).await?;
    client.expect_text("whole").await;
    let indices: Vec<u64> = client
        .received_frames()
        .iter()
        .filter_map(|frame| frame.chunk_index())
        .collect();
    assert!(indices.into_iter().eq(0..UPDATES), "output is lost or doubled");
    log::expect_event(&host, &session, "prompt_ended", |event| {
        event["end"]["stop_reason"] == "end_turn"
    })
    .await?;
    host.stop_all().await
}

#[tokio::test]
async fn sixty_four_agents_are_taken_over_at_once() -> Result<()> {
    // Most shells allow fewer open files than so many agents take.
    let (options, _folder) = start_from_shell(scripted_host(&[])?, "ulimit -Sn 200")?;
    let mut host = KeepingHost::start(options)?;
    let client = connect_client(&host).await?;
    let mut sessions = Vec::new();
    for number in 0..KEEPERS_AT_ONCE {
        let session = client.new_session(&cwd(&host)?).await?;
        let _running = client
            .start_prompt(&session, &format!("echo begun {number}; wait; echo ended {number}"))
            .await;
        client.expect_text(&format!("begun {number}")).await;
        sessions.push(session);
    }
    host.kill()?;
    let began = Instant::now();
    host.restart()?;
    println!("{KEEPERS_AT_ONCE} keepers: the host listened {:?} after its start", began.elapsed());
    let client = connect_client(&host).await?;
    for (number, session) in sessions.iter().enumerate() {
        client.load_session(session, &cwd(&host)?).await?;
        client.send_notification("_go", json!({ "sessionId": session })).await;
        client.expect_text(&format!("ended {number}")).await;
        assert_eq!(log::list_events(&host, session, "ended")?.len(), 0);
    }
    host.stop_all().await
}

#[tokio::test]
async fn second_host_on_the_state_directory_is_refused_and_takes_no_agent() -> Result<()> {
    let mut host = KeepingHost::start(scripted_host(&[])?)?;
    let (client, session) = open_session(&host).await?;
    let agent = parse_pids(&prompt_for_text(&client, &session, "pid").await?);
    for _ in 0..2 {
        let error = run_failing_serve(&host.state_dir(), &["--listen", "127.0.0.1:0"])?;
        ensure!(error.contains("in use by the host"), "{error}");
        host.restart()?;
        expect_same_agent(&host, &session, &agent).await?;
    }
    host.stop_all().await
}

#[tokio::test]
async fn kills_of_the_host_while_sessions_start_leave_no_orphan() -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    let mut host = KeepingHost::start(scripted_host(&[])?)?;
    let mut processes_seen = Vec::new();
    for _ in 0..START_KILLS {
        let client = connect_client(&host).await?;
        let _starting: Vec<_> = [
            client
                .start_request("session/new", json!({ "cwd": cwd(&host)?, "mcpServers": [] }))
                .await,
            client
                .start_request("session/new", json!({ "cwd": cwd(&host)?, "mcpServers": [] }))
                .await,
        ]
        .into();
        // The kill comes between the first fork of a keeper and the end of both starts.
        let kept = host.kept_processes().len();
        let wanted = usize::try_from(dice.next_below(5))?;
        let has_begun = || {
            Ok((processes::list_descendants(host.pid()).len() >= kept.min(2) + wanted)
                .then_some(()))
        };
        polling::poll_until(Duration::from_secs(2), has_begun).await?;
        pause_for_yields(pick_yields(&mut dice)).await;
        processes_seen.extend(processes::list_descendants(host.pid()));
        processes_seen.extend(host.kept_processes());
        host.restart()?;
        let kept = host.kept_processes();
        let others: Vec<u32> =
            processes_seen.iter().copied().filter(|pid| !kept.contains(pid)).collect();
        assert_gone(&others);
    }
    processes_seen.extend(host.kept_processes());
    let (client, session) = open_session(&host).await?;
    assert_eq!(prompt_for_text(&client, &session, "echo usable").await?, "usable");
    host.stop_all().await?;
    assert_gone(&processes_seen);
    Ok(())
}

/// Returns how often the threads of a process have slept or were interrupted.
fn count_switches(pid: u32) -> Result<u64> {
    let mut count = 0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let status = std::fs::read_to_string(thread?.path().join("status"))?;
        let lines = status.lines().filter_map(|line| line.split_once("ctxt_switches:"));
        count += lines.filter_map(|(_, number)| number.trim().parse::<u64>().ok()).sum::<u64>();
    }
    Ok(count)
}

#[tokio::test]
async fn idle_keeper_never_wakes_with_or_without_a_host() -> Result<()> {
    let mut host = KeepingHost::start(scripted_host(&[])?)?;
    let (client, session) = open_session(&host).await?;
    assert_eq!(prompt_for_text(&client, &session, "echo warm").await?, "warm");
    let keeper = host.only_keeper()?;
    let watch = async || -> Result<()> {
        // The keeper still has the last change to handle, late on a busy machine. A keeper that
        // wakes by itself wakes in each of the periods.
        for _ in 0..IDLE_PERIODS {
            let before = count_switches(keeper)?;
            let has_woken = || Ok((count_switches(keeper)? != before).then_some(()));
            if polling::poll_until(IDLE_WATCH, has_woken).await?.is_none() {
                return Ok(());
            }
        }
        anyhow::bail!("the keeper wakes again and again")
    };
    watch().await.context("with a host")?;
    host.kill()?;
    watch().await.context("without a host")?;
    host.restart()?;
    watch().await.context("with the next host")?;
    host.stop_all().await
}
