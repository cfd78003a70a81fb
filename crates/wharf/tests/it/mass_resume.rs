//! Many sessions come back at once: a few at a time, needed ones first, and no client waits for all
//! of them.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use wharf_testkit::cold_sessions::ColdSessions;
use wharf_testkit::{WAIT_LIMIT, polling};

use crate::{add_section, connect_client_of, log, prompt_for_text, scripted_host};

const SESSION_COUNT: usize = 200;
const MAX_STARTS_AT_ONCE: i64 = 4;

/// Returns how many agents were started and came up, and the largest number that were starting at
/// the same time.
fn count_starts(file: &Path) -> Result<(usize, usize, i64)> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let (mut begun, mut up, mut at_once, mut most) = (0, 0, 0_i64, 0);
    for line in text.lines() {
        match line {
            "+" => (begun, at_once) = (begun + 1, at_once + 1),
            "-" => (up, at_once) = (up + 1, at_once - 1),
            odd => anyhow::bail!("{odd}"),
        }
        most = most.max(at_once);
    }
    Ok((begun, up, most))
}

#[tokio::test]
async fn two_hundred_sessions_with_waiting_prompts_come_back_a_few_at_a_time() -> Result<()> {
    let folder = tempfile::TempDir::new()?;
    let count = folder.path().join("count");
    let flags = ["--count", count.to_str().context("not UTF-8")?];
    let options = add_section(
        add_section(scripted_host(&flags)?, "replay_quiet = \"10ms\""),
        "[limits]\nstarts = 4",
    );
    let mut host = options.start_host()?;
    assert!(host.terminate()?.success());
    let cwd = host.directory().to_owned();
    let cold = ColdSessions {
        count: SESSION_COUNT,
        agent: "scripted",
        cwd: &cwd,
        events: 0,
        waiting: Some("echo waited"),
    };
    let sessions = cold.write_to(&host.state_dir())?;
    host.restart()?;

    // The prompt of this session was queued last, but a client asks for it.
    let last = sessions.last().context("no session")?;
    // The client uses another agent, so that the agent of its `initialize` is not counted.
    let client = connect_client_of(&host, "demo").await?;
    client.initialize().await?;
    let (_, up_before, _) = count_starts(&count)?;
    prompt_for_text(&client, last, "echo here").await?;
    let (_, up, _) = count_starts(&count)?;
    let up = up - up_before;
    ensure!(client.chunk_texts() == ["waited", "here"], "{:?}", client.chunk_texts());
    ensure!(up < SESSION_COUNT / 2, "the client was served after {up} others");

    let all = polling::poll_until(4 * WAIT_LIMIT, || {
        Ok((count_starts(&count)?.1 >= SESSION_COUNT).then_some(()))
    })
    .await?;
    ensure!(all.is_some(), "begun, up, at once: {:?}", count_starts(&count)?);
    for session in &sessions {
        log::expect_event(&host, session, "prompt_ended", |event| event["prompt"] == "waiting")
            .await?;
        ensure!(
            log::list_events(&host, session, "agent_starting")?.len() == 2,
            "{session} was started more than once"
        );
    }
    let (_, _, most) = count_starts(&count)?;
    ensure!((2..=MAX_STARTS_AT_ONCE).contains(&most), "{most} agents were starting at once");
    // The other sessions came back in the order in which their prompts were queued.
    let begun = |session: &String| -> Result<u64> {
        let starts = log::list_events(&host, session, "agent_starting")?;
        starts.last().and_then(|event| event["at"].as_u64()).context("no time")
    };
    let quarter = SESSION_COUNT / 4;
    ensure!(begun(&sessions[0])? < begun(&sessions[quarter])?, "not the oldest first");
    ensure!(begun(&sessions[quarter])? < begun(&sessions[3 * quarter])?, "not the older first");
    ensure!(begun(last)? < begun(&sessions[3 * quarter])?, "nobody was preferred");
    Ok(())
}
