//! Exports of a session (rule 13.9).

use anyhow::{Context, Result};
use serde_json::{Value, json};

use wharf_testkit::http::RestClient;

use crate::rest::{send_prompt, spawn_session, wait_until_idle};
use crate::scripted_host;

/// A secret of a known form.
const SECRET: &str = "sk-ant-api03-Zq8Lk2Vw9Xy7Tb4Nc6Hd";

/// Reads all rows, a page at a time.
async fn read_rows(http: &RestClient, id: &str) -> Result<Vec<Value>> {
    let mut pages = Vec::new();
    let mut query = String::new();
    loop {
        let page = http.get(&format!("/sessions/{id}/rows?limit=200{query}")).await?.expect(200)?;
        pages.insert(0, page["rows"].as_array().context("no rows")?.clone());
        match page["before"].as_str() {
            Some(before) => query = format!("&before={before}"),
            None => return Ok(pages.concat()),
        }
    }
}

#[tokio::test]
async fn export_holds_every_row_in_each_format() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    // More rows than one page has.
    for _ in 0..3 {
        send_prompt(&http, &id, &"think a; echo <b>; ".repeat(60)).await?;
        wait_until_idle(&http, &id).await?;
    }
    let rows = read_rows(&http, &id).await?;
    assert!(rows.len() > 200, "{} rows", rows.len());
    let export = http.get(&format!("/sessions/{id}/export?format=json")).await?.expect(200)?;
    assert_eq!(
        (&export["rows"], &export["fold"]),
        (&Value::Array(rows.clone()), &wharf_api::FOLD_NUMBER.into())
    );
    let html = http.get(&format!("/sessions/{id}/export?format=html")).await?;
    assert_eq!(html.header("content-disposition"), Some("attachment"));
    let text = &html.body;
    assert_eq!(text.matches("<article").count(), rows.len());
    assert!(!text.contains("<b>"), "text of the agent is not escaped");
    let markdown = http.get(&format!("/sessions/{id}/export")).await?.body;
    assert_eq!(markdown.matches("\n## ").count(), 3, "a heading for each prompt");
    assert_eq!(
        http.get(&format!("/sessions/{id}/export?format=pdf"))
            .await?
            .status_and_code()
            .0,
        422
    );
    Ok(())
}

/// Lets the agent tell the secret in rows of all kinds that carry an agent's text.
async fn tell_secret(http: &RestClient, id: &str) -> Result<()> {
    let tool = json!({ "sessionUpdate": "tool_call", "toolCallId": "t1", "title": format!("Try {SECRET}"), "kind": "execute",
        "status": "completed", "rawInput": { "command": format!("login {SECRET}") }, "locations": [{ "path": format!("/{SECRET}") }],
        "content": [
            { "type": "content", "content": { "type": "text", "text": format!("output {SECRET}") } },
            { "type": "diff", "path": "env", "oldText": null, "newText": format!("KEY={SECRET}\n") },
        ] });
    let plan = json!({ "sessionUpdate": "plan", "entries": [{ "content": format!("use {SECRET}"), "status": "pending" }] });
    for script in [
        format!("echo {SECRET}; think {SECRET}"),
        format!("rawupdate {tool}"),
        format!("rawupdate {plan}"),
    ] {
        send_prompt(http, id, &script).await?;
        wait_until_idle(http, id).await?;
    }
    Ok(())
}

#[tokio::test]
async fn secrets_are_only_in_a_raw_export() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    tell_secret(&http, &id).await?;
    for format in ["md", "json", "html"] {
        let hidden = http.get(&format!("/sessions/{id}/export?format={format}")).await?.body;
        let shown =
            http.get(&format!("/sessions/{id}/export?format={format}&raw=true")).await?.body;
        assert!(!hidden.contains(SECRET) && hidden.contains("sk-[redacted]"), "{hidden}");
        assert!(!shown.contains("[redacted]"), "{shown}");
    }
    let export = http
        .get(&format!("/sessions/{id}/export?format=json&raw=true"))
        .await?
        .expect(200)?;
    let rows = export["rows"].as_array().context("no rows")?;
    for (kind, place) in [
        ("prompt", "/parts/0/text"),
        ("message", "/parts/0/text"),
        ("thought", "/parts/0/text"),
        ("tool", "/title"),
        ("tool", "/command"),
        ("tool", "/input/command"),
        ("tool", "/locations/0/path"),
        ("tool", "/diffs/0/hunks/0/lines/0"),
        ("plan", "/entries/0/text"),
        ("plan", "/summary"),
    ] {
        let row = rows
            .iter()
            .find(|row| row["kind"] == kind)
            .with_context(|| format!("no row of kind {kind}"))?;
        let text = row.pointer(place).and_then(Value::as_str);
        assert!(text.is_some_and(|text| text.contains(SECRET)), "{kind} {place}: {row}");
    }
    // The rows that others read are those from before.
    assert!(!http.get(&format!("/sessions/{id}/rows")).await?.body.contains(SECRET));
    Ok(())
}

#[tokio::test]
async fn a_change_of_redact_output_makes_all_rows_anew() -> Result<()> {
    let mut host = scripted_host(&["--resume"])?.start_host()?;
    let mut http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    tell_secret(&http, &id).await?;
    let path = format!("/sessions/{id}/rows");
    let hidden = http.get(&path).await?.expect(200)?["rows"].clone();
    assert!(!hidden.to_string().contains(SECRET), "{hidden}");
    let config = host.options_mut().config.clone().unwrap_or_default();
    host.options_mut().config = Some(format!("redact_output = false\n{config}"));
    host.restart()?;
    http = RestClient::new(&host);
    let shown = http.get(&path).await?.expect(200)?["rows"].clone();
    assert!(
        shown.to_string().contains(SECRET) && !shown.to_string().contains("[redacted]"),
        "{shown}"
    );
    host.options_mut().config = Some(config);
    host.restart()?;
    http = RestClient::new(&host);
    let again = http.get(&path).await?.expect(200)?["rows"].clone();
    let rows = hidden.as_array().context("no rows")?;
    assert_eq!(&again.as_array().context("no rows")?[..rows.len()], rows);
    Ok(())
}
