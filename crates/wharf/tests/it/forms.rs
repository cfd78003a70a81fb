//! Forms (`elicitation/create`) without an ACP client that shows them: by default cancelled, with `forms = "anyone"` open for
//! REST, MCP and the command line (rule 3.11).

use anyhow::{Context, Result};
use serde_json::json;
use wharf_testkit::http::RestClient;

use crate::rest::{output_lines, send_prompt, spawn_session, wait_for_session, wait_until_idle};
use crate::scripted_host;

#[tokio::test]
async fn a_form_waits_for_anyone_where_the_setting_says_so() -> Result<()> {
    for answer in [
        json!({ "action": "accept", "content": { "name": "ann" } }),
        json!({ "action": "decline" }),
        json!({ "cancel": true }),
    ] {
        let host = scripted_host(&[])?.with_setting("forms", "anyone").start_host()?;
        let http = RestClient::new(&host);
        let id = spawn_session(&http, &host).await?;
        send_prompt(&http, &id, "elicit").await?;
        wait_for_session(&http, &id, "a form", |session| session["turn"] == "awaiting_input").await?;
        let asks = http.get(&format!("/sessions/{id}/asks")).await?.expect(200)?;
        assert_eq!(asks["asks"][0]["kind"], "elicitation", "{asks}");
        let ask = &asks["asks"][0]["askId"];
        http.post(&format!("/sessions/{id}/asks/{ask}"), &answer).await?.expect(200)?;
        wait_until_idle(&http, &id).await?;
        let lines = output_lines(&http, &id).await?;
        let action = answer["action"].as_str().unwrap_or("cancel");
        let told = lines.iter().find(|line| line.contains(action)).context("no answer")?;
        assert_eq!(told.contains("ann"), action == "accept", "{lines:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_form_is_cancelled_at_once_by_default() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    send_prompt(&http, &id, "elicit").await?;
    wait_until_idle(&http, &id).await?;
    let lines = output_lines(&http, &id).await?;
    assert!(lines.iter().any(|line| line.contains("cancel")), "{lines:?}");
    Ok(())
}
