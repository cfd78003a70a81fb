//! The verbs that read transcripts: `search`, `export`, `usage` and `changes`.

use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::WAIT_LIMIT;
use wharf_testkit::host::TestHost;

use crate::cli::{
    command_for_host, expect_output, run_failing_wharf, run_wharf, start_docs_session,
    start_kept_session,
};
use crate::cwd;
use crate::rest::wait_until_idle;
use crate::rows::run_prompt;

/// A secret of a known form.
const SECRET: &str = "sk-ant-api03-Zq8Lk2Vw9Xy7Tb4Nc6Hd";

/// Runs the verb until its JSON says that all sessions are searched.
fn search_all(host: &TestHost, arguments: &[&str]) -> Result<Value> {
    let began = Instant::now();
    loop {
        let page: Value =
            serde_json::from_str(&run_wharf(host, &[&["search", "--json"], arguments].concat())?)?;
        if page["pending"] == 0 {
            return Ok(page);
        }
        ensure!(began.elapsed() < WAIT_LIMIT, "{page} is not complete");
    }
}

#[tokio::test]
async fn search_joins_pages_and_narrows_by_session_and_kind() -> Result<()> {
    let (host, http, id) = start_docs_session(&[]).await?;
    // More hits than one page of the host has.
    let script = (0..70)
        .map(|number| format!("echo wombat {number}; think hm"))
        .collect::<Vec<_>>()
        .join("; ");
    run_prompt(&http, &id, &script).await?;
    run_prompt(&http, &id, &script).await?;
    let all = search_all(&host, &["wombat", "--kind", "message", "-n", "1000"])?;
    let hits = all["hits"].as_array().context("no hits")?;
    let rows: std::collections::BTreeSet<&str> =
        hits.iter().filter_map(|hit| hit["row"].as_str()).collect();
    assert_eq!((hits.len(), rows.len()), (140, 140), "each hit once");
    assert_eq!(all["nextCursor"], Value::Null);
    let some =
        search_all(&host, &["wombat", "--session", "docs", "-n", "2", "--agent", "scripted"])?;
    assert_eq!(some["hits"].as_array().map(Vec::len), Some(2));
    assert!(some["nextCursor"].is_string(), "{some}");
    let plain = run_wharf(&host, &["search", "wombat 69", "--kind", "message"])?;
    let columns: Vec<&str> = plain.lines().next().context("no hit")?.split('\t').collect();
    assert_eq!(
        (columns.len(), columns[0], columns[2], columns[8]),
        (9, id.as_str(), "message", "wombat 69"),
        "{plain}"
    );
    assert_eq!(run_wharf(&host, &["search", "wombat", "--agent", "nobody"])?, "");
    run_failing_wharf(&host, &["search", "wombat", "--kind", "hologram"], 2)?;
    run_failing_wharf(&host, &["search", "wombat", "-n", "0"], 2)?;
    run_failing_wharf(&host, &["search", "wombat", "--session", "nobody"], 4)?;
    Ok(())
}

#[tokio::test]
async fn export_is_the_hosts_document_and_replaces_no_file() -> Result<()> {
    let (host, http, id) = start_docs_session(&[]).await?;
    run_prompt(&http, &id, &format!("echo key {SECRET}")).await?;
    for format in ["md", "json", "html"] {
        let document = http.get(&format!("/sessions/{id}/export?format={format}")).await?.body;
        assert_eq!(
            run_wharf(&host, &["export", "docs", "--format", format])?,
            document,
            "{format}"
        );
    }
    assert!(!run_wharf(&host, &["export", "docs"])?.contains(SECRET));
    assert!(run_wharf(&host, &["export", "docs", "--raw"])?.contains(SECRET));
    let file = host.directory().join("docs.md");
    let save = |more: &[&str]| {
        command_for_host(&host, &[&["export", "docs", "-o", "docs.md"], more].concat()).output()
    };
    assert_eq!(expect_output(save(&[])?, 0)?, "");
    assert_eq!(std::fs::metadata(&file)?.permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_to_string(&file)?, run_wharf(&host, &["export", "docs"])?);
    std::fs::write(&file, "mine")?;
    expect_output(save(&[])?, 2)?;
    assert_eq!(std::fs::read_to_string(&file)?, "mine");
    expect_output(save(&["--force"])?, 0)?;
    assert_ne!(std::fs::read_to_string(&file)?, "mine");
    run_failing_wharf(&host, &["export", "nobody"], 4)?;
    run_failing_wharf(&host, &["export", "docs", "--force"], 2)?;
    Ok(())
}

#[tokio::test]
async fn usage_shows_only_what_agents_reported() -> Result<()> {
    let (host, http, id) = start_docs_session(&[]).await?;
    run_prompt(&http, &id, "usage 0.25 EUR").await?;
    run_prompt(&http, &id, "echo silent").await?;
    let silent = start_kept_session(&host, &[])?;
    wait_until_idle(&http, &silent).await?;
    let answer = http.get("/usage").await?.expect(200)?;
    assert_eq!(serde_json::from_str::<Value>(&run_wharf(&host, &["usage", "--json"])?)?, answer);
    let lines = run_wharf(&host, &["usage"])?;
    let rows: Vec<Vec<&str>> = lines.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows.len(), 2, "{lines}");
    assert_eq!(
        (rows[0][0], &rows[0][3..9]),
        (silent.as_str(), &[""; 6][..]),
        "nothing was reported: {lines}"
    );
    assert_eq!((rows[1][0], rows[1][7], rows[1][8]), (id.as_str(), "0.25", "EUR"), "{lines}");
    let turns = run_wharf(&host, &["usage", "docs"])?;
    let turns: Vec<Vec<&str>> = turns.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(turns.len(), 2, "{turns:?}");
    assert_eq!(
        (turns[0][0], turns[0][9], turns[0][11]),
        ("1", "0.25", "usage 0.25 EUR"),
        "{turns:?}"
    );
    assert_eq!(
        (turns[1][0], &turns[1][5..11], turns[1][11]),
        ("2", &[""; 6][..], "echo silent"),
        "{turns:?}"
    );
    let told: Value = serde_json::from_str(&run_wharf(&host, &["usage", "docs", "--json"])?)?;
    assert_eq!(told["turns"].as_array().map(Vec::len), Some(2), "{told}");
    assert_eq!(told["usage"], answer["sessions"][1]["usage"]);
    Ok(())
}

#[tokio::test]
async fn changes_are_those_of_completed_tool_calls_and_can_be_shown_as_a_diff() -> Result<()> {
    let (host, http, id) = start_docs_session(&[]).await?;
    let tool = |status: &str, path: &str, old: &str, new: &str| {
        let diff = json!({ "type": "diff", "path": path, "oldText": old, "newText": new });
        let update = json!({ "sessionUpdate": "tool_call", "toolCallId": format!("{path}{new}"), "title": "Edit", "kind": "edit",
            "status": status, "content": [diff] });
        format!("rawupdate {update}")
    };
    let path = format!("{}/a.txt", cwd(&host)?);
    run_prompt(&http, &id, &tool("completed", &path, "one\n", "two\n")).await?;
    run_prompt(&http, &id, &tool("failed", &path, "two\n", "never\n")).await?;
    let last = run_prompt(&http, &id, &tool("completed", "/b.txt", "", "b\n")).await?;
    let answer = http.get(&format!("/sessions/{id}/changes")).await?.expect(200)?;
    assert_eq!(
        serde_json::from_str::<Value>(&run_wharf(&host, &["changes", "docs", "--json"])?)?,
        answer
    );
    let lines = run_wharf(&host, &["changes", "docs"])?;
    let rows: Vec<Vec<&str>> =
        lines.lines().map(|line| line.split('\t').take(4).collect()).collect();
    assert_eq!(rows, [["changed", "/b.txt", "1", "0"], ["changed", "a.txt", "1", "1"]], "{lines}");
    for turn in ["3", "last", last.as_str()] {
        let lines = run_wharf(&host, &["changes", "docs", "--turn", turn])?;
        assert!(lines.contains("/b.txt") && !lines.contains("a.txt"), "{turn}: {lines}");
    }
    let diff = run_wharf(&host, &["changes", "docs", "--diff"])?;
    assert_eq!(diff, "--- a.txt\n+++ a.txt\n@@\n-one\n+two\n--- /b.txt\n+++ /b.txt\n@@\n+b\n");
    assert_eq!(
        run_wharf(&host, &["changes", "docs", "--diff", "--turn", "1"])?,
        "--- a.txt\n+++ a.txt\n@@\n-one\n+two\n"
    );
    run_failing_wharf(&host, &["changes", "docs", "--turn", "4"], 4)?;
    run_failing_wharf(&host, &["changes", "docs", "--turn", "0"], 2)?;
    Ok(())
}
