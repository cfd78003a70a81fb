//! The files that a session has changed (rule 13.10).

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::host::{HostOptions, TestHost};
use wharf_testkit::http::RestClient;

use crate::mcp_client::Mcp;
use crate::rest::{send_prompt, spawn_session, wait_for_session, wait_until_idle};
use crate::{cwd, scripted_host, wharf_binary};

/// Runs a prompt whose only act is a tool call with these members, and returns the prompt's id.
async fn run_tool_call(http: &RestClient, id: &str, more: Value) -> Result<String> {
    let mut update = json!({ "sessionUpdate": "tool_call", "toolCallId": "edit-1", "title": "Edit", "kind": "edit" });
    for (name, value) in more.as_object().into_iter().flatten() {
        update[name] = value.clone();
    }
    let sent = send_prompt(http, id, &format!("rawupdate {update}")).await?;
    wait_until_idle(http, id).await?;
    Ok(sent["promptId"].as_str().context("no id")?.to_owned())
}

async fn read_changes(http: &RestClient, id: &str, query: &str) -> Result<Value> {
    http.get(&format!("/sessions/{id}/changes{query}")).await?.expect(200)
}

/// Returns the ids of the tool rows of a turn, the newest first.
async fn tool_rows(http: &RestClient, id: &str, turn: &str) -> Result<Vec<Value>> {
    let page = http
        .get(&format!("/sessions/{id}/rows?turn={turn}&kinds=tool"))
        .await?
        .expect(200)?;
    let rows = page["rows"].as_array().context("no rows")?;
    Ok(rows.iter().rev().map(|row| row["id"].clone()).collect())
}

async fn start_session() -> Result<(TestHost, RestClient, String)> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    Ok((host, http, id))
}

#[tokio::test]
async fn changed_files_add_up_over_turns_and_survive_a_crash() -> Result<()> {
    let (mut host, http, id) = start_session().await?;
    let cwd = http.get(&format!("/sessions/{id}")).await?.expect(200)?["cwd"]
        .as_str()
        .context("no cwd")?
        .to_owned();
    let diff = |path: &str, old: Option<&str>, new: &str| json!({ "type": "diff", "path": path, "oldText": old, "newText": new });
    let made = diff(&format!("{cwd}/made.txt"), None, "1\n2\n3\n");
    let one =
        run_tool_call(&http, &id, json!({ "status": "completed", "content": [made] })).await?;
    let edited = diff(&format!("{cwd}/made.txt"), Some("2\n"), "two\ntwo\n");
    let other = diff("/other.txt", Some("a\n"), "");
    let two =
        run_tool_call(&http, &id, json!({ "status": "completed", "content": [edited, other] }))
            .await?;
    let (rows_one, rows_two) =
        (tool_rows(&http, &id, &one).await?, tool_rows(&http, &id, &two).await?);
    let all = read_changes(&http, &id, "").await?;
    let at = all["files"][0]["changedAt"].clone();
    let made = json!({ "path": "made.txt", "status": "created", "added": 5, "removed": 1, "exact": true,
        "rows": [rows_two[0], rows_one[0]], "rowCount": 2, "turns": [two, one], "turnCount": 2, "changedAt": at });
    let other = json!({ "path": "/other.txt", "status": "changed", "added": 0, "removed": 1, "exact": true,
        "rows": rows_two, "rowCount": 1, "turns": [two], "turnCount": 1, "changedAt": at });
    let last =
        http.get(&format!("/sessions/{id}/rows?limit=1")).await?.expect(200)?["asOf"].clone();
    let expected = json!({ "fold": wharf_api::FOLD_NUMBER, "session": id, "asOf": last, "files": [other, made], "total": 2, "added": 5,
        "removed": 2, "partial": false });
    assert_eq!(all, expected);
    let first = read_changes(&http, &id, &format!("?turn={one}&limit=1")).await?;
    assert_eq!(
        (&first["total"], &first["files"][0]["added"], &first["files"][0]["turns"]),
        (&json!(1), &json!(3), &json!([one]))
    );
    let newest = read_changes(&http, &id, "?limit=1").await?;
    assert_eq!(
        (newest["files"].as_array().map(Vec::len), &newest["total"], &newest["added"]),
        (Some(1), &json!(2), &json!(5))
    );
    let unknown = http.get(&format!("/sessions/{id}/changes?turn=prm_none")).await?;
    assert_eq!(unknown.status_and_code(), (404, "unknown_prompt".to_owned()));
    for query in ["limit=0", "limit=1001"] {
        assert_eq!(
            http.get(&format!("/sessions/{id}/changes?{query}")).await?.status_and_code().0,
            422,
            "{query}"
        );
    }
    for mut mcp in Mcp::over_both(&host)? {
        let arguments = json!({ "sessionId": id, "format": "changes", "turn": two });
        let answer = mcp.call_tool("get_agent_session_output", arguments).await?;
        assert_eq!(answer["changes"], read_changes(&http, &id, &format!("?turn={two}")).await?);
        let unfit = json!({ "sessionId": id, "format": "changes", "whole": true });
        assert_eq!(
            mcp.call_for_refusal("get_agent_session_output", unfit).await?.0,
            "invalid_params"
        );
    }
    host.kill()?;
    host.restart()?;
    let after = read_changes(&RestClient::new(&host), &id, "").await?;
    assert_eq!((&after["files"], &after["total"]), (&expected["files"], &expected["total"]));
    Ok(())
}

#[tokio::test]
async fn failed_and_unfinished_tool_calls_have_changed_nothing() -> Result<()> {
    let (_host, http, id) = start_session().await?;
    let content = json!([{ "type": "diff", "path": "/a", "oldText": "a\n", "newText": "b\n" }]);
    for status in ["pending", "in_progress", "failed"] {
        run_tool_call(&http, &id, json!({ "status": status, "content": content })).await?;
    }
    assert_eq!(read_changes(&http, &id, "").await?["files"], json!([]));
    let late = json!({ "sessionUpdate": "tool_call", "status": "in_progress", "toolCallId": "late", "content": content });
    run_tool_call(&http, &id, late).await?;
    send_prompt(&http, &id, "tool-done late").await?;
    wait_until_idle(&http, &id).await?;
    let changes = read_changes(&http, &id, "").await?;
    assert_eq!(
        (&changes["files"][0]["path"], &changes["total"]),
        (&json!("/a"), &json!(1)),
        "its end came a turn later"
    );
    Ok(())
}

#[tokio::test]
async fn edit_of_the_demo_agent_counts_only_if_it_was_allowed() -> Result<()> {
    let host =
        HostOptions { binary: Some(wharf_binary()), ..HostOptions::default() }.start_host()?;
    let http = RestClient::new(&host);
    let args = json!({ "adapter": "demo", "cwd": cwd(&host)? });
    let session = http.post("/sessions/agent", &args).await?.expect(201)?;
    let id = session["id"].as_str().context("no id")?;
    for (option, changed) in [("reject", 0), ("allow", 1)] {
        send_prompt(&http, id, "edit").await?;
        wait_for_session(&http, id, "a question", |session| session["turn"] == "awaiting_input")
            .await?;
        let asks = http.get(&format!("/sessions/{id}/asks")).await?.expect(200)?;
        let ask = &asks["asks"][0];
        let options = ask["options"].as_array().context("no options")?;
        let kind = format!("{option}_once");
        let chosen = options
            .iter()
            .find(|choice| choice["kind"] == kind.as_str())
            .context("no such option")?;
        assert_eq!(
            read_changes(&http, id, "").await?["total"],
            0,
            "nothing is changed before the answer"
        );
        let answer = json!({ "optionId": chosen["optionId"] });
        http.post(&format!("/sessions/{id}/asks/{}", ask["askId"]), &answer)
            .await?
            .expect(200)?;
        wait_until_idle(&http, id).await?;
        let changes = read_changes(&http, id, "").await?;
        assert_eq!(changes["total"], changed, "{option}");
    }
    let changes = read_changes(&http, id, "").await?;
    let file = &changes["files"][0];
    assert_eq!(
        (&file["path"], &file["status"], &file["added"], &file["removed"]),
        (&json!("hello.txt"), &json!("changed"), &json!(1), &json!(1))
    );
    Ok(())
}
