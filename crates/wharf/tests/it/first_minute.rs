//! The first minute of a new user: the tour to its question, an answer elsewhere, `kill -9`, and
//! all is still there.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::WAIT_LIMIT;
use wharf_testkit::host::{HostOptions, TestHost};
use wharf_testkit::http::{RestClient, TestEventStream};

use crate::cli::run_wharf;
use crate::rest::{send_prompt, wait_until_idle};
use crate::rows::{RowReader, read_all_rows};
use crate::wharf_binary;

/// Starts a session of the demo agent with the prompt `tour`.
async fn start_tour(http: &RestClient, host: &TestHost) -> Result<String> {
    let body = json!({ "adapter": "demo", "cwd": host.directory(), "prompt": "tour" });
    let session = http.post("/sessions/agent", &body).await?.expect(201)?;
    Ok(session["id"].as_str().context("no id")?.to_owned())
}

/// Applies events until a row fits, and returns it.
async fn follow_until(
    events: &mut TestEventStream,
    reader: &mut RowReader,
    fits: impl Fn(&Value) -> bool,
) -> Result<Value> {
    let follow = async {
        loop {
            if let Some(row) = reader.rows().into_iter().find(|row| fits(row)) {
                return Ok(row);
            }
            let event = events.next().await?.context("the stream has ended")?;
            reader.apply(&event)?;
        }
    };
    // Beats come for ever.
    tokio::time::timeout(WAIT_LIMIT, follow)
        .await
        .context("the row does not come")?
}

#[tokio::test]
async fn tour_is_answered_elsewhere_and_survives_kill_9() -> Result<()> {
    let options = HostOptions { binary: Some(wharf_binary()), ..HostOptions::default() };
    let mut host = options.with_variable("WHARF_DEMO_PACE", "instant").start_host()?;
    let http = RestClient::new(&host);
    let id = start_tour(&http, &host).await?;
    let stream = format!("/sessions/{id}/rows/stream");
    let mut watcher = RowReader::default();
    let mut events = http.open_stream(&stream, None).await?;
    let asked = follow_until(&mut events, &mut watcher, |row| row["kind"] == "ask").await?;
    assert_eq!(asked["state"], "open");
    let diff = &asked["subject"]["diffs"][0];
    assert_eq!(
        (&diff["path"], &diff["added"], &diff["removed"]),
        (&json!("hello.py"), &json!(2), &json!(2))
    );

    run_wharf(&host, &["answer", &id, "allow"])?;
    let answered =
        follow_until(&mut events, &mut watcher, |row| row["state"] == "answered").await?;
    assert_eq!(
        (&answered["id"], &answered["answer"]["option"]),
        (&asked["id"], &json!("allow_once"))
    );
    let end = follow_until(&mut events, &mut watcher, |row| row["kind"] == "turn_end").await?;
    assert_eq!((&end["outcome"], &end["usage"]["total"]), (&json!("done"), &json!(1890)));
    wait_until_idle(&http, &id).await?;
    let before = read_all_rows(&http, &id, 200).await?;
    let kinds: Vec<&str> = before.iter().filter_map(|row| row["kind"].as_str()).collect();
    let expected = [
        "prompt", "thought", "plan", "tool", "tool", "message", "tool", "ask", "message",
        "message", "turn_end",
    ];
    assert_eq!(
        kinds.iter().filter(|kind| **kind != "notice").copied().collect::<Vec<_>>(),
        expected
    );

    host.restart()?;
    let http = RestClient::new(&host);
    let after = read_all_rows(&http, &id, 200).await?;
    assert_eq!(after[..before.len()], before);
    let output = run_wharf(&host, &["output", &id])?;
    assert!(output.contains("answer in the other one."), "{output}");
    send_prompt(&http, &id, "echo still here").await?;
    wait_until_idle(&http, &id).await?;
    let rows = read_all_rows(&http, &id, 200).await?;
    assert!(
        rows.iter()
            .any(|row| row["kind"] == "message" && row["summary"] == "still here"),
        "{rows:?}"
    );
    Ok(())
}
