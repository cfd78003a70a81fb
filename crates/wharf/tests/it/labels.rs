//! Labels that shall name one session: who has a label is decided in one step, on every surface
//! (rule 14.10).

use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use serde_json::{Value, json};
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::cli::{command_for_host, run_failing_wharf, run_wharf, start_kept_session};
use crate::mcp_client::Mcp;
use crate::rest::{output_lines, wait_until_idle};
use crate::rest_settings::patch;
use crate::{cwd, scripted_host};

fn spawn_args(host: &TestHost, on_label: &str) -> Result<Value> {
    Ok(json!({ "adapter": "scripted", "cwd": cwd(host)?, "label": "docs", "onLabel": on_label }))
}

fn id_of(session: &Value) -> Result<String> {
    Ok(session["id"].as_str().context("no id")?.to_owned())
}

/// Returns the ids of the sessions that have the label, the newest first.
async fn list_docs(http: &RestClient) -> Result<Vec<String>> {
    let page = http.get("/sessions?label=docs").await?.expect(200)?;
    page["sessions"].as_array().context("no sessions")?.iter().map(id_of).collect()
}

#[tokio::test]
async fn spawn_decides_who_has_the_label() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let spawn =
        async |on_label: &str| http.post("/sessions/agent", &spawn_args(&host, on_label)?).await;
    let first = id_of(&spawn("refuse").await?.expect(201)?)?;
    let refused = spawn("refuse").await?.expect(409)?;
    assert_eq!((&refused["code"], &refused["sessionId"]), (&json!("label_in_use"), &json!(first)));
    let continued = spawn("continue").await?.expect(200)?;
    assert_eq!(continued["id"], json!(first));
    let second = id_of(&spawn("take").await?.expect(201)?)?;
    assert_eq!(list_docs(&http).await?, std::slice::from_ref(&second));
    let third = id_of(&spawn("share").await?.expect(201)?)?;
    assert_eq!(list_docs(&http).await?, [third.clone(), second.clone()]);
    assert_eq!(id_of(&spawn("continue").await?.expect(200)?)?, third, "the newest");
    let fourth = id_of(&spawn("take").await?.expect(201)?)?;
    assert_eq!(list_docs(&http).await?, [fourth], "all others lose it");
    spawn("steal").await?.expect(422)?;
    Ok(())
}

#[tokio::test]
async fn archived_sessions_and_other_workspaces_hold_no_label() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let first =
        id_of(&http.post("/sessions/agent", &spawn_args(&host, "refuse")?).await?.expect(201)?)?;
    patch(&http, &format!("/sessions/{first}"), &json!({ "archived": true }))
        .await?
        .expect(200)?;
    let second =
        id_of(&http.post("/sessions/agent", &spawn_args(&host, "refuse")?).await?.expect(201)?)?;
    assert_ne!(first, second);
    let elsewhere = host.directory().join("elsewhere");
    std::fs::create_dir(&elsewhere)?;
    run_wharf(&host, &["workspace", "add", "elsewhere", &elsewhere.display().to_string()])?;
    let mut args = spawn_args(&host, "refuse")?;
    args["cwd"] = json!(elsewhere);
    http.post("/sessions/agent", &args).await?.expect(201)?;
    Ok(())
}

#[tokio::test]
async fn killed_session_keeps_its_label_until_it_is_taken() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let first =
        id_of(&http.post("/sessions/agent", &spawn_args(&host, "refuse")?).await?.expect(201)?)?;
    http.post(&format!("/sessions/{first}/kill"), &json!({})).await?.expect(200)?;
    let killed = http.get(&format!("/sessions/{first}")).await?.expect(200)?;
    ensure!(killed["resumable"] == true, "{killed}");
    let refused = http.post("/sessions/agent", &spawn_args(&host, "refuse")?).await?.expect(409)?;
    assert_eq!(refused["sessionId"], json!(first));
    let second =
        id_of(&http.post("/sessions/agent", &spawn_args(&host, "take")?).await?.expect(201)?)?;
    assert_eq!(list_docs(&http).await?, [second]);
    Ok(())
}

#[tokio::test]
async fn requests_that_come_at_once_start_one_session() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let mut args = spawn_args(&host, "continue")?;
    args["prompt"] = json!("echo hello");
    let spawns =
        (0..6).map(|_| async { id_of(&http.post("/sessions/agent", &args).await?.json()) });
    let mut ids: Vec<String> = join_all(spawns).await.into_iter().collect::<Result<_>>()?;
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    wait_until_idle(&http, &ids[0]).await?;
    let hellos = output_lines(&http, &ids[0])
        .await?
        .into_iter()
        .filter(|line| line == "hello")
        .count();
    assert_eq!(hellos, 6, "each prompt reached it");
    let refusing = spawn_args(&host, "refuse")?;
    patch(&http, &format!("/sessions/{}", ids[0]), &json!({ "label": null }))
        .await?
        .expect(200)?;
    let spawns =
        (0..6).map(|_| async { Ok(http.post("/sessions/agent", &refusing).await?.json()) });
    let answers: Vec<Value> = join_all(spawns).await.into_iter().collect::<Result<_>>()?;
    assert_eq!(answers.iter().filter(|answer| answer["code"] == "label_in_use").count(), 5);
    Ok(())
}

#[tokio::test]
async fn session_of_another_agent_is_not_continued() -> Result<()> {
    let host = crate::add_scripted_agent(scripted_host(&[])?, "other", &[])?.start_host()?;
    let http = RestClient::new(&host);
    let first =
        id_of(&http.post("/sessions/agent", &spawn_args(&host, "refuse")?).await?.expect(201)?)?;
    let mut args = spawn_args(&host, "continue")?;
    args["adapter"] = json!("other");
    let refused = http.post("/sessions/agent", &args).await?.expect(409)?;
    assert_eq!((&refused["code"], &refused["sessionId"]), (&json!("label_in_use"), &json!(first)));
    Ok(())
}

#[tokio::test]
async fn change_and_fork_refuse_or_take_a_label() -> Result<()> {
    let host = scripted_host(&["--fork"])?.start_host()?;
    let http = RestClient::new(&host);
    let first =
        id_of(&http.post("/sessions/agent", &spawn_args(&host, "refuse")?).await?.expect(201)?)?;
    let second = start_kept_session(&host, &[])?;
    let path = format!("/sessions/{second}");
    let with = |on_label: &str| json!({ "label": "docs", "onLabel": on_label });
    let refused = patch(&http, &path, &with("refuse")).await?.expect(409)?;
    assert_eq!((&refused["code"], &refused["sessionId"]), (&json!("label_in_use"), &json!(first)));
    patch(&http, &path, &with("take")).await?.expect(200)?;
    assert_eq!(list_docs(&http).await?, std::slice::from_ref(&second));
    patch(&http, &path, &with("refuse")).await?.expect(200)?;
    patch(&http, &path, &with("continue")).await?.expect(422)?;
    let fork = format!("{path}/fork");
    assert_eq!(http.post(&fork, &with("refuse")).await?.expect(409)?["sessionId"], json!(second));
    let copy = id_of(&http.post(&fork, &with("take")).await?.expect(201)?)?;
    assert_eq!(list_docs(&http).await?, [copy]);
    http.post(&fork, &with("continue")).await?.expect(422)?;
    Ok(())
}

#[tokio::test]
async fn mcp_refuses_and_continues_a_label() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    for (round, mut mcp) in Mcp::over_both(&host)?.into_iter().enumerate() {
        let with = |on_label: &str| -> Result<Value> {
            let mut args = spawn_args(&host, on_label)?;
            args["label"] = json!(format!("docs {round}"));
            Ok(args)
        };
        let first = mcp.call_tool("start_agent_session", with("refuse")?).await?;
        let (code, detail) = mcp.call_for_refusal("start_agent_session", with("refuse")?).await?;
        assert_eq!(code, "label_in_use");
        assert!(detail.contains(&id_of(&first)?), "{detail}");
        assert_eq!(
            mcp.call_tool("start_agent_session", with("continue")?).await?["id"],
            first["id"]
        );
    }
    Ok(())
}

#[tokio::test]
async fn command_line_refuses_a_second_session_of_the_same_label() -> Result<()> {
    let host = crate::add_scripted_agent(scripted_host(&[])?, "other", &[])?.start_host()?;
    let http = RestClient::new(&host);
    let first = start_kept_session(&host, &["--label", "docs"])?;
    let told = run_failing_wharf(&host, &["run", "scripted", "--keep", "-l", "docs"], 5)?;
    for word in [first.as_str(), "wharf prompt docs TEXT", "--take-label"] {
        assert!(told.contains(word), "no {word:?} in {told}");
    }
    let second = start_kept_session(&host, &["--label", "docs", "--take-label"])?;
    assert_eq!(list_docs(&http).await?, std::slice::from_ref(&second));
    run_failing_wharf(&host, &["label", &first, "docs"], 5)?;
    run_wharf(&host, &["label", &first, "docs", "--take-label"])?;
    assert_eq!(list_docs(&http).await?, std::slice::from_ref(&first));
    // A label over REST is free: a verb then means the newest that lives, and says so.
    patch(&http, &format!("/sessions/{second}"), &json!({ "label": "docs" }))
        .await?
        .expect(200)?;
    let shown = command_for_host(&host, &["show", "docs", "--json"]).output()?;
    let out = String::from_utf8(shown.stdout)?;
    let err = String::from_utf8_lossy(&shown.stderr).into_owned();
    assert_eq!(serde_json::from_str::<Value>(&out)?["id"], json!(second));
    assert!(err.contains("2 sessions are called \"docs\""), "{err}");
    Ok(())
}

#[tokio::test]
async fn prompt_starts_the_agent_if_no_session_has_the_label() -> Result<()> {
    let host = crate::add_scripted_agent(scripted_host(&[])?, "other", &[])?.start_host()?;
    let http = RestClient::new(&host);
    for text in ["echo one", "echo two"] {
        let words = ["prompt", "docs", "--or-start", "scripted", "--wait", "--text", text];
        let said = run_wharf(&host, &words)?;
        assert_eq!(said.trim(), text.trim_start_matches("echo "));
    }
    let first_docs = list_docs(&http).await?.pop().context("no session")?;
    assert_eq!(list_docs(&http).await?.len(), 1);
    let told = run_failing_wharf(&host, &["prompt", "docs", "--or-start", "other", "x"], 5)?;
    assert!(told.contains("(scripted)") && told.contains("its agent is not other"), "{told}");
    // The host decides, in the workspace of the directory: another one's session is not in the way.
    let elsewhere = host.directory().join("elsewhere");
    std::fs::create_dir(&elsewhere)?;
    run_wharf(&host, &["workspace", "add", "elsewhere", &elsewhere.display().to_string()])?;
    let mut there = command_for_host(
        &host,
        &["prompt", "docs", "--or-start", "other", "--wait", "--text", "echo there"],
    );
    let started = there.current_dir(&elsewhere).env("PWD", &elsewhere).output()?;
    assert_eq!(
        String::from_utf8(started.stdout)?.trim(),
        "there",
        "{}",
        String::from_utf8_lossy(&started.stderr)
    );
    assert_eq!(list_docs(&http).await?.len(), 2);
    for word in [".", first_docs.get(first_docs.len() - 6..).context("a short id")?] {
        let told = run_failing_wharf(&host, &["prompt", word, "--or-start", "other", "x"], 2)?;
        assert!(told.contains("choose another"), "{told}");
    }
    Ok(())
}

#[tokio::test]
async fn killed_session_is_brought_back_by_or_start_and_advised_to_be_resumed_otherwise()
-> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = start_kept_session(&host, &["--label", "docs"])?;
    wait_until_idle(&http, &id).await?;
    run_wharf(&host, &["kill", "docs"])?;
    for words in [
        &["run", "scripted", "-d", "-k", "-l", "docs", "x"][..],
        &["run", "scripted", "-k", "-l", "docs"],
    ] {
        let told = run_failing_wharf(&host, words, 5)?;
        assert!(told.contains("wharf resume docs") && !told.contains("wharf prompt"), "{told}");
    }
    let words = ["prompt", "docs", "--or-start", "scripted", "--wait", "--text", "echo back"];
    assert_eq!(run_wharf(&host, &words)?, "back\n");
    assert_eq!(list_docs(&http).await?, std::slice::from_ref(&id));
    run_wharf(&host, &["kill", "docs"])?;
    run_wharf(&host, &["prompt", "docs", "--or-start", "scripted", "echo again"])?;
    wait_until_idle(&http, &id).await?;
    assert!(output_lines(&http, &id).await?.contains(&"again".to_owned()));
    Ok(())
}

#[tokio::test]
async fn refusal_of_a_label_advises_a_command_that_works_whatever_the_label_is() -> Result<()> {
    let host = crate::add_scripted_agent(scripted_host(&[])?, "other", &[])?.start_host()?;
    for (label, shown, name) in [
        ("a;b", "\"a;b\"", Some("'a;b'")),
        ("-f", "\"-f\"", None),
        ("no\u{200b}t", "\"no[U+200B]t\"", None),
        ("say \"hi\"", "\"say \"hi\"\"", Some("'say \"hi\"'")),
    ] {
        let label_option = format!("--label={label}");
        let id = start_kept_session(&host, &[&label_option])?;
        let name = name.map_or_else(|| id[id.len() - 6..].to_owned(), str::to_owned);
        let told = run_failing_wharf(&host, &["run", "scripted", "--keep", &label_option], 5)?;
        let advice = format!(
            "session {id} (scripted) has the label {shown}; go on with it: wharf prompt {name} TEXT, or"
        );
        assert!(told.contains(&advice), "no {advice} in {told}");
        if label.starts_with('-') {
            continue;
        }
        let told = run_failing_wharf(&host, &["prompt", label, "--or-start", "other", "x"], 5)?;
        let reason =
            format!("session {id} (scripted) has the label {shown}, and its agent is not other");
        assert!(told.contains(&reason), "no {reason} in {told}");
    }
    Ok(())
}
