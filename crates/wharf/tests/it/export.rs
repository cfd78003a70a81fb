//! Exports of a session (rule 13.9).

use anyhow::{Context, Result};
use serde_json::Value;

use wharf_testkit::http::RestClient;

use crate::rest::{send_prompt, spawn_session, wait_until_idle};
use crate::scripted_host;

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
    assert_eq!((&export["rows"], &export["fold"]), (&Value::Array(rows.clone()), &wharf_api::FOLD_NUMBER.into()));
    let html = http.get(&format!("/sessions/{id}/export?format=html")).await?;
    assert_eq!(html.header("content-disposition"), Some("attachment"));
    let text = &html.body;
    assert_eq!(text.matches("<article").count(), rows.len());
    assert!(!text.contains("<b>"), "text of the agent is not escaped");
    let markdown = http.get(&format!("/sessions/{id}/export")).await?.body;
    assert_eq!(markdown.matches("\n## ").count(), 3, "a heading for each prompt");
    assert_eq!(http.get(&format!("/sessions/{id}/export?format=pdf")).await?.status_and_code().0, 422);
    Ok(())
}
