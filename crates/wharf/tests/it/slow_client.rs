//! A client that does not read uses bounded memory, delays no other client and misses no update.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use wharf_testkit::processes;

use crate::raw_client::{self, RawClient};
use crate::{cwd, scripted_host};

const UPDATE_COUNT: u64 = 200_000;
/// The largest allowed growth of the host's memory while clients do not read.
const MAX_GROWTH_KIB: u64 = 32 * 1024;
/// The limit allows for a debug build on a busy machine.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads the stream to the end and calls `look` from time to time.
async fn read_all(client: &mut RawClient, mut look: impl FnMut() -> Result<()>) -> Result<()> {
    let mut next = 0;
    while next < UPDATE_COUNT {
        let frame = client
            .next_within(READ_TIMEOUT)
            .await?
            .context("the connection ended within the stream")?;
        if let Some(index) = raw_client::index(&frame) {
            ensure!(index == next, "{index} came where {next} belongs");
            next += 1;
            if next % 1_000 == 0 {
                look()?;
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn client_that_never_reads_slows_no_other_and_gets_everything_later() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let mut reader = RawClient::open(&host).await?;
    let session = reader.new_session(&cwd(&host)?).await?;
    let mut slow = RawClient::open(&host).await?;
    slow.load_session(7, &session, &cwd(&host)?).await?;
    slow.answer(7).await?;
    reader.send_prompt(2, &session, "echo warm").await?;
    reader.answer(2).await?;
    let before = host.rss_kib().context("no memory")?;
    let mut most = before;
    reader.send_prompt(3, &session, &format!("burst {UPDATE_COUNT} 200")).await?;
    read_all(&mut reader, || {
        most = most.max(processes::rss_kib(host.pid()).context("the host is gone")?);
        Ok(())
    })
    .await?;
    let answer = reader.answer(3).await?;
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    ensure!(most - before < MAX_GROWTH_KIB, "the host grew by {} KiB", most - before);

    read_all(&mut slow, || Ok(())).await?;
    reader.send_prompt(4, &session, "echo afterwards").await?;
    let prompt = slow.next().await?.context("the connection ended")?;
    assert!(
        prompt.contains("user_message_chunk") && prompt.contains("echo afterwards"),
        "{prompt}"
    );
    let live = slow.next().await?.context("the connection ended")?;
    assert!(live.contains("\"afterwards\""), "{live}");
    let after = host.rss_kib().context("no memory")?;
    ensure!(
        after.saturating_sub(before) < MAX_GROWTH_KIB,
        "the host grew by {} KiB",
        after - before
    );
    Ok(())
}
