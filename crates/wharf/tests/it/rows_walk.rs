//! Random prompts and random kills of the host: rows and exports are the same by pages, by
//! following the stream and without the derived database (rules 13.5, 13.8).

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::host::TestHost;
use wharf_testkit::http::{RestClient, TestEventStream};
use wharf_testkit::random::TestRandom;

use crate::rows::{RowReader, read_all_rows, run_prompt, start_session};

const KILLS: usize = 4;

/// Returns a script of a few random steps, with a tool call that another script may end.
fn random_script(dice: &mut TestRandom) -> String {
    let steps = [
        "echo one",
        "think two",
        "tool",
        "plan",
        "stream 20 1",
        "tick 20 2000",
        "tool-open slow",
        "tool-done slow",
    ];
    let count = 1 + dice.next_below(5);
    (0..count).map(|_| dice.pick_one(&steps)).collect::<Vec<_>>().join("; ")
}

/// Applies whole batches until so many have come or a turn has ended. The events of a batch without
/// its end are sent again after a reconnect.
async fn apply_batches(
    events: &mut TestEventStream,
    reader: &mut RowReader,
    count: u64,
) -> Result<()> {
    for _ in 0..count {
        let (mut batch, mut is_complete) = (Vec::new(), false);
        while !is_complete {
            let event = events.next().await?.context("the stream has ended")?;
            is_complete = event.id.is_some();
            batch.push(event);
        }
        batch.iter().try_for_each(|event| reader.apply(event))?;
        if batch
            .iter()
            .any(|event| event.name == "row" && event.data["kind"] == "turn_end")
        {
            break;
        }
    }
    Ok(())
}

/// Follows the stream until the reader has these rows.
async fn follow_to(
    http: &RestClient,
    id: &str,
    reader: &mut RowReader,
    rows: &[Value],
) -> Result<()> {
    let mut events = http
        .open_stream(&format!("/sessions/{id}/rows/stream"), reader.position())
        .await?;
    while reader.rows() != rows {
        let event = events.next().await?.context("the stream has ended")?;
        ensure!(event.name != "beat", "rows are missing or differ: {:?}", reader.rows());
        reader.apply(&event)?;
    }
    Ok(())
}

async fn read_exports(http: &RestClient, id: &str) -> Result<Vec<String>> {
    let mut exports = Vec::new();
    for format in ["md", "json", "html"] {
        exports.push(http.get(&format!("/sessions/{id}/export?format={format}")).await?.body);
    }
    Ok(exports)
}

fn delete_database(host: &TestHost) {
    for name in ["transcript.db", "transcript.db-wal", "transcript.db-shm"] {
        let _ = std::fs::remove_file(host.state_dir().join(name));
    }
}

#[tokio::test]
async fn rows_after_random_kills_are_the_same_by_pages_by_stream_and_without_the_database()
-> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    let (mut host, http, id) = start_session().await?;
    run_prompt(&http, &id, "echo begin").await?;
    let mut reader = RowReader::default();
    for _ in 0..KILLS {
        let http = RestClient::new(&host);
        let mut events = http
            .open_stream(&format!("/sessions/{id}/rows/stream"), reader.position())
            .await?;
        let prompt = json!({ "prompt": random_script(&mut dice), "queue": true });
        http.post(&format!("/sessions/{id}/prompt"), &prompt).await?.expect(200)?;
        apply_batches(&mut events, &mut reader, 1 + dice.next_below(6)).await?;
        host.kill()?;
        if dice.is_once_in(3) {
            delete_database(&host);
        }
        host.restart()?;
    }
    let http = RestClient::new(&host);
    // It is the last one in the queue: prompts that a kill cut off before their turn come first.
    let last = json!({ "prompt": "tool-done slow; echo end", "queue": true });
    let last = http
        .post(&format!("/sessions/{id}/prompt?wait=60s"), &last)
        .await?
        .expect(200)?;
    assert_eq!(last["turn"]["outcome"], "done", "{last}");
    let limit = 1 + usize::try_from(dice.next_below(40))?;
    let rows = read_all_rows(&http, &id, limit).await?;
    follow_to(&http, &id, &mut reader, &rows).await?;
    // The first restart records that the agent is gone; the second one has nothing to record.
    host.kill()?;
    host.restart()?;
    let http = RestClient::new(&host);
    let (rows, exports) = (read_all_rows(&http, &id, 200).await?, read_exports(&http, &id).await?);
    follow_to(&http, &id, &mut reader, &rows).await?;
    host.kill()?;
    delete_database(&host);
    host.restart()?;
    let http = RestClient::new(&host);
    assert_eq!(read_all_rows(&http, &id, limit).await?, rows);
    assert_eq!(read_exports(&http, &id).await?, exports);
    Ok(())
}
