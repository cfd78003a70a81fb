//! Search over the transcripts of all sessions (rule 13.11).

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::WAIT_LIMIT;
use wharf_testkit::cold_sessions::ColdSessions;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::identity::CallingAgent;
use crate::mcp_client::Mcp;
use crate::rest::{caller_with_role, send_prompt, spawn_session, wait_for_session};
use crate::rest_settings::patch;
use crate::rows::run_prompt;
use crate::scopes::{register_workspace, start_session, workspace_caller};
use crate::{cwd, scripted_host};

/// A secret of a known form.
const SECRET: &str = "sk-ant-api03-Zq8Lk2Vw9Xy7Tb4Nc6Hd";

/// Returns the text as a value in a query.
fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

/// Searches until all sessions are in the index.
async fn search(http: &RestClient, query: &str, more: &str) -> Result<Value> {
    let began = Instant::now();
    loop {
        let page = http.get(&format!("/search?q={}{more}", encode(query))).await?.expect(200)?;
        if page["pending"] == 0 {
            return Ok(page);
        }
        ensure!(began.elapsed() < WAIT_LIMIT, "{page} is not complete");
    }
}

/// Returns the kinds of the hits.
async fn found_kinds(http: &RestClient, query: &str, more: &str) -> Result<Vec<String>> {
    let page = search(http, query, more).await?;
    let hits = page["hits"].as_array().context("no hits")?;
    Ok(hits.iter().filter_map(|hit| hit["kind"].as_str().map(str::to_owned)).collect())
}

/// Starts a session with rows of all kinds that are searched.
async fn start_searched_session() -> Result<(TestHost, RestClient, String)> {
    let host = scripted_host(&["--resume"])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let path = format!("{}/src/bandicoot_store.rs", cwd(&host)?);
    let tool = json!({ "sessionUpdate": "tool_call", "toolCallId": "t1", "title": "Measure the Größe", "kind": "execute",
        "status": "completed", "rawInput": { "command": "cargo bench dunnart" }, "locations": [{ "path": path }],
        "content": [{ "type": "content", "content": { "type": "text", "text": "output of a possum" } }] });
    run_prompt(&http, &id, "echo the wombat digs; think about a numbat").await?;
    run_prompt(&http, &id, &format!("rawupdate {tool}")).await?;
    Ok((host, http, id))
}

#[tokio::test]
async fn event_that_changes_no_row_leaves_no_session_behind() -> Result<()> {
    let (_host, http, id) = start_searched_session().await?;
    search(&http, "wombat", "").await?;
    patch(&http, &format!("/sessions/{id}"), &json!({ "label": "zoo" }))
        .await?
        .expect(200)?;
    search(&http, "wombat", "").await?;
    Ok(())
}

#[tokio::test]
async fn prompts_messages_titles_commands_and_paths_are_found() -> Result<()> {
    let (_host, http, id) = start_searched_session().await?;
    // The prompt of a scripted agent spells out the answer.
    assert_eq!(
        found_kinds(&http, "wombat", "").await?,
        ["message", "prompt"],
        "the newest row comes first"
    );
    assert_eq!(found_kinds(&http, "wombat", "&kinds=message").await?, ["message"]);
    for query in ["grosse", "MEASURE the", "\"cargo bench\" dunn", "src/bandicoot_sto", "bandicoot"]
    {
        assert_eq!(found_kinds(&http, query, "&kinds=tool,ask").await?, ["tool"], "{query}");
    }
    for query in ["possum", "numbat"] {
        assert_eq!(
            found_kinds(&http, query, "&kinds=tool,message").await?,
            Vec::<String>::new(),
            "{query}"
        );
    }
    assert_eq!(found_kinds(&http, "\"digs wombat\"", "").await?, Vec::<String>::new());
    let page = search(&http, "womb", "&kinds=message").await?;
    let hit = &page["hits"][0];
    assert_eq!(
        (&page["fold"], &hit["session"], &hit["summary"]),
        (&json!(wharf_api::FOLD_NUMBER), &json!(id), &json!("the wombat digs"))
    );
    let snippet =
        json!([{ "text": "the " }, { "text": "wombat", "match": true }, { "text": " digs" }]);
    assert_eq!(hit["snippet"], snippet);
    let row = hit["row"].as_str().context("no row")?;
    let around = http.get(&format!("/sessions/{id}/rows?around={row}")).await?.expect(200)?;
    let rows = around["rows"].as_array().context("no rows")?;
    assert!(
        rows.iter().any(|found| found["id"] == hit["row"] && found["at"] == hit["at"]),
        "{around}"
    );
    Ok(())
}

#[tokio::test]
async fn rows_of_a_running_turn_are_found() -> Result<()> {
    let (_host, http, id) = start_searched_session().await?;
    send_prompt(&http, &id, "echo quoll; ask").await?;
    wait_for_session(&http, &id, "a question", |session| session["turn"] == "awaiting_input")
        .await?;
    assert_eq!(found_kinds(&http, "quoll", "").await?, ["message", "prompt"]);
    Ok(())
}

#[tokio::test]
async fn hits_come_in_pages_without_gaps_or_repeats() -> Result<()> {
    let (host, http, _) = start_searched_session().await?;
    let other = spawn_session(&http, &host).await?;
    run_prompt(&http, &other, "echo wombat; think a; echo wombat; think b; echo wombat").await?;
    let all = search(&http, "wombat", "&limit=100").await?["hits"].clone();
    assert_eq!(all.as_array().map(Vec::len), Some(6), "{all}");
    let (mut hits, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = search(&http, "wombat", &format!("&limit=2{cursor}")).await?;
        hits.extend(page["hits"].as_array().context("no hits")?.clone());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(Value::Array(hits), all);
    assert_eq!(found_kinds(&http, "wombat", &format!("&session={other}")).await?.len(), 4);
    for (more, hits) in [
        ("workspace=default", 6),
        ("workspace=none", 0),
        ("adapter=scripted", 6),
        ("archived=true", 0),
    ] {
        assert_eq!(found_kinds(&http, "wombat", &format!("&{more}")).await?.len(), hits, "{more}");
    }
    Ok(())
}

#[tokio::test]
async fn odd_queries_are_answered_or_refused() -> Result<()> {
    let (_host, http, _) = start_searched_session().await?;
    for query in [
        "wombat AND digs",
        "wombat NEAR(",
        "wombat OR",
        "NOT wombat",
        "words:wombat",
        "-wombat",
        "{tags}",
        "wombat ^\"",
        "wombat)",
        "'; DROP TABLE row",
        "🎉",
        "解析器",
        "wombat\u{0}",
        "%",
        "s1",
        "kprompt",
    ] {
        let answer = http.get(&format!("/search?q={}", encode(query))).await?;
        let expected = if query == "%" { 422 } else { 200 };
        assert_eq!(answer.status, expected, "{query:?}: {}", answer.body);
    }
    let (long, words) = ("x".repeat(10_000), "x ".repeat(40));
    for query in ["", " ", "\"", "\"\"", "*", "()", long.as_str(), words.as_str()] {
        let answer = http.get(&format!("/search?q={}", encode(query))).await?;
        assert_eq!(answer.status_and_code(), (422, "invalid_params".to_owned()), "{query:?}");
    }
    for (query, refusal) in [
        ("q=x&limit=0", (422, "invalid_params")),
        ("q=x&kinds=thought", (422, "invalid_params")),
        ("q=x&cursor=here", (422, "invalid_params")),
        ("q=x&cursor=f9.12", (409, "fold_changed")),
        ("q=x&session=sess_none", (404, "unknown_session")),
        ("q=x&agent=demo", (400, "unknown_parameter")),
        ("limit=3", (422, "invalid_params")),
    ] {
        let (status, code) = http.get(&format!("/search?{query}")).await?.status_and_code();
        assert_eq!((status, code.as_str()), refusal, "{query}");
    }
    assert_eq!(found_kinds(&http, "wombat", "").await?.len(), 2, "the database is as it was");
    Ok(())
}

#[tokio::test]
async fn secrets_are_not_found() -> Result<()> {
    let (_host, http, id) = start_searched_session().await?;
    run_prompt(&http, &id, &format!("echo the key {SECRET} of the dingo")).await?;
    assert_eq!(found_kinds(&http, "dingo", "").await?, ["message", "prompt"]);
    for query in [SECRET, "Zq8Lk2Vw9Xy7Tb4Nc6Hd", "zq8lk"] {
        let page = search(&http, query, "").await?;
        assert_eq!(page["hits"], json!([]), "{page}");
    }
    Ok(())
}

#[tokio::test]
async fn callers_find_only_rows_of_sessions_that_they_see() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let owner = RestClient::new(&host);
    for slug in ["quokka", "here"] {
        register_workspace(&host, slug).await?;
        let session = start_session(&owner, &json!({ "workspaceSlug": slug })).await?;
        run_prompt(
            &owner,
            session["id"].as_str().context("no id")?,
            &format!("echo wombat in {slug}"),
        )
        .await?;
    }
    let agent = CallingAgent::new(&host).await?;
    agent.sh("echo wombat of the agent").await?;
    let workspaces = async |http: &RestClient| -> Result<Vec<String>> {
        let page = search(http, "wombat", "&kinds=message").await?;
        let hits = page["hits"].as_array().context("no hits")?;
        Ok(hits
            .iter()
            .filter_map(|hit| hit["workspaceSlug"].as_str().map(str::to_owned))
            .collect())
    };
    assert_eq!(workspaces(&owner).await?, ["default", "here", "quokka"]);
    assert_eq!(
        workspaces(&caller_with_role(&host, "observer")?).await?,
        ["default", "here", "quokka"]
    );
    assert_eq!(workspaces(&workspace_caller(&host, "here")?).await?, ["here"]);
    assert_eq!(workspaces(&agent.http(&host).await?).await?, ["default"]);
    let hidden = search(&owner, "quokka", "&kinds=message").await?["hits"][0]["session"].clone();
    let hidden = hidden.as_str().context("no session")?;
    let answer = workspace_caller(&host, "here")?
        .get(&format!("/search?q=wombat&session={hidden}"))
        .await?;
    assert_eq!(answer.status_and_code(), (404, "unknown_session".to_owned()));
    Ok(())
}

#[tokio::test]
async fn hits_are_the_same_after_a_kill_a_lost_database_and_none_after_a_deletion() -> Result<()> {
    let (mut host, http, id) = start_searched_session().await?;
    let queries = ["wombat", "grosse", "bandicoot", "echo"];
    let find_all = async |http: &RestClient| -> Result<Vec<Value>> {
        let mut found = Vec::new();
        for query in queries {
            found.push(search(http, query, "").await?["hits"].clone());
        }
        Ok(found)
    };
    let before = find_all(&http).await?;
    host.restart()?;
    assert_eq!(find_all(&RestClient::new(&host)).await?, before, "after kill -9");
    host.terminate()?;
    for file in ["transcript.db", "transcript.db-wal", "transcript.db-shm"] {
        let _ = std::fs::remove_file(host.state_dir().join(file));
    }
    host.restart()?;
    let http = RestClient::new(&host);
    assert_eq!(find_all(&http).await?, before, "after the database was lost");
    http.delete(&format!("/sessions/{id}")).await?.expect(200)?;
    assert_eq!(find_all(&http).await?, vec![json!([]); queries.len()]);
    for file in ["transcript.db", "transcript.db-wal"] {
        let bytes = std::fs::read(host.state_dir().join(file))?;
        for word in [&b"wombat"[..], b"bandicoot", b"grosse"] {
            assert!(
                !bytes.windows(word.len()).any(|window| window == word),
                "{file} still has {word:?}"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn sessions_that_nobody_opened_are_found_in_time_and_missing_ones_are_counted() -> Result<()>
{
    const SESSIONS: usize = 40;
    let mut host = scripted_host(&[])?.start_host()?;
    host.terminate()?;
    let directory = host.directory().to_owned();
    let cold = ColdSessions {
        count: SESSIONS,
        agent: "scripted",
        cwd: &directory,
        events: 0,
        waiting: None,
    };
    cold.write_to(&host.state_dir())?;
    host.restart()?;
    let http = RestClient::new(&host);
    let (began, mut is_first) = (Instant::now(), true);
    loop {
        let page = http.get("/search?q=first&kinds=message&limit=100").await?.expect(200)?;
        let hits = page["hits"].as_array().context("no hits")?.len();
        let pending = page["pending"].as_u64().context("no count")?;
        ensure!(!is_first || pending > 0, "the first search can hardly have found all");
        is_first = false;
        // A session that is not counted as pending is found.
        ensure!(hits + usize::try_from(pending)? >= SESSIONS, "{hits} hits, {pending} pending");
        if pending == 0 {
            assert_eq!(hits, SESSIONS);
            return Ok(());
        }
        ensure!(began.elapsed() < WAIT_LIMIT, "{pending} sessions are left");
    }
}

#[tokio::test]
async fn mcp_finds_the_same_hits() -> Result<()> {
    let (host, http, id) = start_searched_session().await?;
    let page = search(&http, "wombat", "").await?;
    for mut mcp in Mcp::over_both(&host)? {
        let output = mcp
            .call_tool("search_agent_sessions", json!({ "query": "wombat", "sessionId": id }))
            .await?;
        assert_eq!(output, page);
        for arguments in [json!({ "query": "" }), json!({ "query": "x", "limit": 31 })] {
            assert_eq!(
                mcp.call_for_refusal("search_agent_sessions", arguments).await?.0,
                "invalid_params"
            );
        }
    }
    Ok(())
}
