//! `wharf output`: the transcript of a session for people and for programs.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::http::RestClient;

use crate::cli::{command_for_host, run_failing_wharf, run_wharf, start_docs_session};
use crate::program::start_and_read_lines;
use crate::rest::{send_prompt, wait_for_session};
use crate::rows::run_prompt;

/// Returns all rows of a session by way of the REST interface.
async fn read_rows(http: &RestClient, id: &str) -> Result<Vec<Value>> {
    let page = http.get(&format!("/sessions/{id}/rows?limit=200")).await?.expect(200)?;
    Ok(page["rows"].as_array().context("no rows")?.clone())
}

#[tokio::test]
async fn transcript_has_prompts_with_sender_and_time_plans_tools_and_answers() -> Result<()> {
    let (host, http, id) = start_docs_session(&[]).await?;
    run_prompt(&http, &id, "think hm; plan; tool; echo **done** \x1b[31mred").await?;
    let rows = read_rows(&http, &id).await?;
    let prompt = rows.iter().find(|row| row["kind"] == "prompt").context("no prompt")?;
    let shown = run_wharf(&host, &["output", "docs"])?;
    let sender = prompt["by"]["name"].as_str().context("no sender")?;
    let at = prompt["at"].as_str().context("no time")?;
    assert!(shown.contains(&format!("{sender} · {at}\n> think hm; plan; tool; echo")), "{shown}");
    for part in ["[thought] hm", "Plan ", "**done** red", "── done"] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    assert!(!shown.contains('\x1b'), "{shown:?}");
    let timed = run_wharf(&host, &["output", "docs", "-t"])?;
    let timed_rows = timed.lines().filter(|line| line.starts_with("20")).count();
    assert!(timed_rows >= 4, "{timed}");
    let last: Vec<&str> = shown.lines().rev().take(2).collect();
    assert_eq!(
        run_wharf(&host, &["output", "docs", "-n", "2"])?,
        format!("{}\n{}\n", last[1], last[0])
    );
    run_failing_wharf(&host, &["output", "docs", "-n", "0"], 2)?;
    Ok(())
}

#[tokio::test]
async fn transcript_of_many_rows_is_complete() -> Result<()> {
    let (host, http, id) = start_docs_session(&[]).await?;
    // Several pages of rows, and more lines than AIP-46's view of a log gives at once.
    let script = (0..250)
        .map(|number| format!("echo answer {number}; think hm"))
        .collect::<Vec<_>>()
        .join("; ");
    for _ in 0..2 {
        run_prompt(&http, &id, &script).await?;
    }
    let shown = run_wharf(&host, &["output", "docs", "--text"])?;
    let answers: Vec<&str> = shown.lines().filter(|line| !line.is_empty()).collect();
    let expected: Vec<String> =
        (0..2).flat_map(|_| (0..250).map(|number| format!("answer {number}"))).collect();
    assert_eq!(answers, expected);
    let all: Value = serde_json::from_str(&run_wharf(&host, &["output", "docs", "--json"])?)?;
    let ids: Vec<&str> = all["rows"]
        .as_array()
        .context("no rows")?
        .iter()
        .filter_map(|row| row["id"].as_str())
        .collect();
    let mut unique = ids.clone();
    unique.dedup();
    assert!(
        ids.len() > 1_000 && unique.len() == ids.len(),
        "{} rows, {} of them unique",
        ids.len(),
        unique.len()
    );
    let newest = read_rows(&http, &id).await?;
    assert_eq!(ids.last().copied(), newest.last().and_then(|row| row["id"].as_str()));
    Ok(())
}

#[tokio::test]
async fn number_counts_rows_with_json_and_lines_without() -> Result<()> {
    let (host, http, id) = start_docs_session(&[]).await?;
    // A page has 200 rows; the newest one has far more than 300 lines.
    let script = (0..250)
        .map(|number| format!("echo answer {number}; think hm"))
        .collect::<Vec<_>>()
        .join("; ");
    run_prompt(&http, &id, &script).await?;
    run_prompt(&http, &id, &format!("echo {}", "line\n".repeat(400))).await?;
    for count in [1, 300, 450] {
        let all: Value = serde_json::from_str(&run_wharf(
            &host,
            &["output", "docs", "--json", "-n", &count.to_string()],
        )?)?;
        assert_eq!(all["rows"].as_array().map(Vec::len), Some(count));
    }
    let lines = run_wharf(&host, &["output", "docs", "-n", "300"])?;
    assert_eq!(lines.lines().count(), 300);
    Ok(())
}

#[tokio::test]
async fn turns_times_and_texts_are_selected() -> Result<()> {
    let (host, http, id) = start_docs_session(&[]).await?;
    let long = "x".repeat(100_000);
    run_prompt(&http, &id, "think hm; echo one").await?;
    let second = run_prompt(&http, &id, &format!("echo two {long}")).await?;
    assert_eq!(run_wharf(&host, &["output", "docs", "--turn", "1", "--text"])?, "one\n");
    for turn in ["2", "last", second.as_str()] {
        let text = run_wharf(&host, &["output", "docs", "--turn", turn, "--text"])?;
        assert_eq!(text, format!("two {long}\n"), "a long answer is whole");
    }
    let first = run_wharf(&host, &["output", "docs", "--turn", "1"])?;
    assert!(first.contains("> think hm; echo one") && !first.contains("two"), "{first}");
    assert!(run_wharf(&host, &["output", "docs", "--since", "1h"])?.contains("one"));
    assert_eq!(run_wharf(&host, &["output", "docs", "--since", "2999-01-01"])?, "");
    let rows = read_rows(&http, &id).await?;
    let begin = rows
        .iter()
        .filter(|row| row["kind"] == "prompt")
        .nth(1)
        .and_then(|row| row["at"].as_str());
    let since =
        run_wharf(&host, &["output", "docs", "--since", begin.context("no second prompt")?])?;
    assert!(!since.contains("> think hm") && since.contains("> echo two"), "{}", &since[..200]);
    run_failing_wharf(&host, &["output", "docs", "--turn", "3"], 4)?;
    run_failing_wharf(&host, &["output", "docs", "--since", "yesterday"], 2)?;
    run_failing_wharf(&host, &["output", "docs", "--turn", "1", "-f"], 2)?;
    Ok(())
}

#[tokio::test]
async fn open_ask_is_shown_with_its_subject_and_answers() -> Result<()> {
    let (host, http, id) = start_docs_session(&[]).await?;
    send_prompt(&http, &id, "echo before; ask").await?;
    wait_for_session(&http, &id, "an ask", |session| session["turn"] == "awaiting_input").await?;
    let shown = run_wharf(&host, &["output", "docs"])?;
    assert!(
        shown.contains("before\n") && shown.contains("\n? ") && shown.contains("\n  1) "),
        "{shown}"
    );
    Ok(())
}

#[tokio::test]
async fn lines_of_before_stay_reachable() -> Result<()> {
    let (host, http, id) = start_docs_session(&[]).await?;
    run_prompt(&http, &id, "think hm; echo one").await?;
    let lines = run_wharf(&host, &["output", "docs", "--style", "lines"])?;
    assert_eq!(lines, "[thought] hm\none\n── turn-end (end_turn) ──\n");
    assert_eq!(
        run_wharf(&host, &["output", "docs", "--style", "lines", "-n", "1"])?,
        "── turn-end (end_turn) ──\n"
    );
    let answer = http.get(&format!("/sessions/{id}/output")).await?.expect(200)?;
    let json: Value = serde_json::from_str(&run_wharf(
        &host,
        &["output", "docs", "--style", "lines", "--json"],
    )?)?;
    assert_eq!(json, answer);
    for wrong in [&["-t"][..], &["--text"], &["--since", "1h"], &["--turn", "1"], &["--json", "-f"]]
    {
        run_failing_wharf(&host, &[&["output", "docs", "--style", "lines"], wrong].concat(), 2)?;
    }
    Ok(())
}

#[tokio::test]
async fn following_goes_past_a_sleep_and_a_restart_and_ends_with_the_session() -> Result<()> {
    let (mut host, http, id) = start_docs_session(&["--resume"]).await?;
    run_prompt(&http, &id, "echo first").await?;
    let mut following = start_and_read_lines(command_for_host(&host, &["output", "docs", "-f"]))?;
    let mut json =
        start_and_read_lines(command_for_host(&host, &["output", "docs", "-f", "--json"]))?;
    following.find(|line| line == "first")?;
    json.find(|line| line.contains(r#""text":"first""#))?;
    host.restart()?;
    let http = RestClient::new(&host);
    run_prompt(&http, &id, "echo second").await?;
    following.find(|line| line == "second")?;
    json.find(|line| line.contains(r#""text":"second""#))?;
    http.post(&format!("/sessions/{id}/kill"), &json!({})).await?.expect(200)?;
    let rest = following.read_rest()?;
    assert!(
        !rest.iter().any(|line| line == "first" || line == "second"),
        "each row comes once: {rest:?}"
    );
    assert_eq!(following.code()?, Some(0));
    let rest = json.read_rest()?;
    assert!(
        !rest.iter().any(|line| line.contains(r#""text":"first""#)),
        "each row comes once: {rest:?}"
    );
    Ok(())
}
