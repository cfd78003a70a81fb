//! An agent that disables its own keeper: its processes are ended all the same, and other sessions
//! do not wait.

use anyhow::{Context, Result};
use serde_json::json;
use wharf_testkit::client::TestClient;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;
use wharf_testkit::processes;

use crate::{
    TREE_ENDS_WITHIN, connect_client, open_session, parse_pids, prompt_for_text, scripted_host,
    stop_in_time,
};

/// With one open file the keeper cannot list processes any more.
const LIMIT_KEEPER_FILES: &str = "prlimit --pid $KEEPER --nofile=1:1";
/// A stopped keeper does nothing at all.
const STOP_KEEPER: &str = "kill -STOP $KEEPER";

/// A session whose agent has disabled its keeper and started a child in a session of its own.
struct StuckTree {
    client: TestClient,
    session: String,
    processes: Vec<u32>,
}

impl StuckTree {
    async fn start_tree(host: &TestHost, attack: &str) -> Result<Self> {
        let (client, session) = open_session(host).await?;
        let keeper = r#"KEEPER=$(sed -n 's/^PPid:\t//p' /proc/$PPID/status)"#;
        let child = "env -i setsid sh -c 'trap \"\" TERM HUP; exec tail -f /dev/null' >/dev/null 2>&1 & echo $!";
        let said = prompt_for_text(
            &client,
            &session,
            &format!("sh {keeper}; echo $KEEPER; {attack}; {child}"),
        )
        .await?;
        let mut processes: Vec<u32> =
            said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert_eq!(processes.len(), 2, "{said}");
        assert!(
            processes::list_descendants(host.pid()).contains(&processes[0]),
            "the keeper is below the host: {said}"
        );
        processes.extend(parse_pids(&prompt_for_text(&client, &session, "pid").await?));
        assert!(processes.iter().copied().all(processes::is_alive));
        Ok(Self { client, session, processes })
    }
}

fn assert_gone(pids: &[u32]) {
    assert_eq!(processes::wait_gone(pids, TREE_ENDS_WITHIN), Ok(()));
}

#[tokio::test]
async fn killing_a_session_ends_its_processes_although_the_keeper_is_disabled() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    for attack in [LIMIT_KEEPER_FILES, STOP_KEEPER] {
        let tree = StuckTree::start_tree(&host, attack).await?;
        RestClient::new(&host)
            .post_empty(&format!("/sessions/{}/kill", tree.session))
            .await?
            .expect(200)?;
        assert_gone(&tree.processes);
    }
    Ok(())
}

#[tokio::test]
async fn deleting_a_session_ends_and_deletes_it_although_the_keeper_is_disabled() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    for attack in [LIMIT_KEEPER_FILES, STOP_KEEPER] {
        let tree = StuckTree::start_tree(&host, attack).await?;
        let path = format!("/sessions/{}", tree.session);
        let http = RestClient::new(&host);
        let deleted = tokio::time::timeout(TREE_ENDS_WITHIN, http.delete(&path))
            .await
            .context("DELETE hangs")??;
        assert_eq!(deleted.expect(200)?["ok"], json!(true));
        assert_gone(&tree.processes);
    }
    Ok(())
}

#[tokio::test]
async fn stopping_the_host_ends_all_trees_in_time_although_keepers_are_disabled() -> Result<()> {
    let mut host = scripted_host(&[])?.without_keepers(crate::PROCESSES_END).start_host()?;
    let trees = [
        StuckTree::start_tree(&host, LIMIT_KEEPER_FILES).await?,
        StuckTree::start_tree(&host, STOP_KEEPER).await?,
    ];
    let (_other, _session) = open_session(&host).await?;
    let below = processes::list_descendants(host.pid());
    stop_in_time(&mut host)?;
    assert_gone(&below);
    assert!(trees.iter().flat_map(|tree| &tree.processes).all(|pid| below.contains(pid)));
    Ok(())
}

#[tokio::test]
async fn a_disabled_keeper_does_not_hold_up_other_sessions() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let tree = StuckTree::start_tree(&host, STOP_KEEPER).await?;
    let (other, other_session) = open_session(&host).await?;
    let http = RestClient::new(&host);
    let stuck = tokio::spawn({
        let (http, path) = (http.clone(), format!("/sessions/{}", tree.session));
        async move { http.delete(&path).await }
    });
    assert_eq!(prompt_for_text(&other, &other_session, "echo unharmed").await?, "unharmed");
    let deleted = http.delete(&format!("/sessions/{other_session}")).await?;
    assert_eq!(deleted.expect(200)?["ok"], json!(true));
    assert!(!stuck.is_finished(), "the other session was deleted first");
    assert_eq!(stuck.await??.expect(200)?["ok"], json!(true));
    assert_gone(&tree.processes);
    Ok(())
}

#[tokio::test]
async fn an_agent_that_exits_behind_a_disabled_keeper_leaves_nothing_and_comes_back() -> Result<()>
{
    let host = scripted_host(&["--resume"])?.start_host()?;
    for attack in [LIMIT_KEEPER_FILES, STOP_KEEPER] {
        let tree = StuckTree::start_tree(&host, attack).await?;
        crate::expect_error(tree.client.send_prompt(&tree.session, "crash 7").await)?;
        assert_gone(&tree.processes);
        assert_eq!(prompt_for_text(&tree.client, &tree.session, "echo back").await?, "back");
    }
    Ok(())
}

#[tokio::test]
async fn an_agent_without_a_session_does_not_outlive_the_host_behind_a_stopped_keeper() -> Result<()>
{
    let mut host = scripted_host(&["--ignore-eof", "--ignore-term"])?.start_host()?;
    let _client = connect_client(&host).await?;
    let below = processes::list_descendants(host.pid());
    assert_eq!(below.len(), 2, "keeper and agent");
    let keeper = below
        .iter()
        .copied()
        .find(|pid| !processes::list_descendants(*pid).is_empty())
        .context("no keeper")?;
    processes::send_sigstop(keeper);
    stop_in_time(&mut host)?;
    assert_gone(&below);
    Ok(())
}
