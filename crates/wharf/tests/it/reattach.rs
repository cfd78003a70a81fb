//! Attaching while updates arrive: no gap and no duplicate.

use anyhow::{Result, ensure};
use serde_json::json;
use wharf_testkit::client::TestClient;

use crate::{connect_client, cwd, open_session, scripted_host};

/// Returns the numbers of the ticks that a client received.
fn list_ticks(client: &TestClient) -> Vec<u64> {
    let number = |text: &String| text.strip_prefix("tick ")?.split(' ').next()?.parse().ok();
    client.chunk_texts().iter().filter_map(number).collect()
}

fn check_whole(ticks: &[u64]) -> Result<()> {
    let odd = ticks.windows(2).find(|pair| pair[0] + 1 != pair[1]);
    ensure!(odd.is_none(), "{odd:?} in {ticks:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reattach_without_history_leaves_no_gap_and_no_duplicate() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let second = connect_client(&host).await?;
    let start = json!({ "sessionId": session, "cwd": cwd(&host)?, "mcpServers": [], "historyPolicy": "none" });
    second.call_method("session/resume", start.clone()).await?;
    let running = first.start_prompt(&session, "tick 2000 300").await;
    let mut joined = 0;
    while list_ticks(&second).last().is_none_or(|last| *last < 1_900) {
        let method = ["session/resume", "session/attach"][joined % 2];
        second.call_method(method, start.clone()).await?;
        joined += 1;
    }
    running.wait_answer().await?;
    second
        .expect("the last tick", |frame| {
            frame.chunk_text().is_some_and(|text| text.starts_with("tick 1999 "))
        })
        .await;
    ensure!(joined > 5, "joined {joined} times");
    check_whole(&list_ticks(&second))?;
    assert_eq!(list_ticks(&second).len(), 2_000);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simultaneous_implicit_attaches_attach_once() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let running = first.start_prompt(&session, "tick 3000 300").await;
    first.expect("a tick", |frame| frame.chunk_text().is_some()).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        let late = connect_client(&host).await?;
        let params = json!({ "sessionId": session, "modeId": "ask" });
        let mut calls = Vec::new();
        for _ in 0..4 {
            calls.push(late.start_request("session/set_mode", params.clone()).await);
            calls.push(late.start_request("_wharf/queue/list", params.clone()).await);
        }
        for call in calls {
            call.wait_answer().await?;
        }
        clients.push(late);
    }
    running.wait_answer().await?;
    first.send_prompt(&session, "echo the end").await?;
    let mut seen = 0;
    for late in clients {
        late.expect_text("the end").await;
        let ticks = list_ticks(&late);
        check_whole(&ticks)?;
        ensure!(ticks.last().is_none_or(|last| *last == 2_999), "{ticks:?}");
        seen += ticks.len();
    }
    ensure!(seen > 1_000, "all came too late");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn detach_and_immediate_attach_give_no_duplicates() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let running = first.start_prompt(&session, "tick 3000 300").await;
    let second = connect_client(&host).await?;
    let named = json!({ "sessionId": session });
    let list = json!({ "sessionId": session, "modeId": "ask" });
    let mut left = 0;
    while list_ticks(&second).last().is_none_or(|last| *last < 2_900) {
        let coming = second.start_request("session/set_mode", list.clone()).await;
        let leaving = second.start_request("session/detach", named.clone()).await;
        let back = second.start_request("_wharf/queue/list", named.clone()).await;
        // Either may come first: a detach before the attach is refused, and a detached client gets
        // no answer from the agent.
        let _ = (coming.wait_answer().await, leaving.wait_answer().await);
        back.wait_answer().await?;
        left += 1;
    }
    running.wait_answer().await?;
    let seen = list_ticks(&second);
    ensure!(left > 5, "left {left} times");
    ensure!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
    // The client is attached, in whichever order attach and detach were handled.
    first.send_prompt(&session, "echo the end").await?;
    second.expect_text("the end").await;
    Ok(())
}
