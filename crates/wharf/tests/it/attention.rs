//! Attention: which sessions want something from a person, and what each person has seen (chapter
//! 14 of the specification).

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::client::TestClient;
use wharf_testkit::http::{RestAnswer, RestClient};
use wharf_testkit::{WAIT_LIMIT, polling};

use crate::rest::{send_prompt, spawn_session, wait_for_session};
use crate::rest_settings::patch;
use crate::tokens::{create_token, run_token};
use crate::{connect_client, cwd, scripted_host, stop_reason};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

async fn put(http: &RestClient, path: &str, body: &Value) -> Result<RestAnswer> {
    http.send("PUT", path, &JSON, &body.to_string()).await
}

async fn change(http: &RestClient, id: &str, body: &Value) -> Result<RestAnswer> {
    http.send("PATCH", &format!("/sessions/{id}"), &JSON, &body.to_string()).await
}

pub(crate) async fn mark_seen(http: &RestClient, id: &str, up_to: &Value) -> Result<RestAnswer> {
    put(http, &format!("/sessions/{id}/seen"), &json!({ "upTo": up_to })).await
}

/// Waits for this state of attention and returns the attention.
async fn wait_for_attention(http: &RestClient, id: &str, state: &str) -> Result<Value> {
    let session =
        wait_for_session(http, id, state, |session| session["attention"]["state"] == state).await?;
    Ok(session["attention"].clone())
}

async fn attention(http: &RestClient, id: &str) -> Result<Value> {
    Ok(http.get(&format!("/sessions/{id}")).await?.expect(200)?["attention"].clone())
}

async fn list_ids(http: &RestClient, query: &str) -> Result<Vec<String>> {
    let page = http.get(&format!("/sessions?{query}")).await?.expect(200)?;
    let sessions = page["sessions"].as_array().context("no list")?;
    sessions
        .iter()
        .map(|session| Ok(session["id"].as_str().context("no id")?.to_owned()))
        .collect()
}

#[tokio::test]
async fn finished_turn_is_unread_for_each_person_until_that_person_has_seen_it() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let owner = RestClient::new(&host);
    let ann = RestClient::with_token(
        &host,
        &create_token(&host, &["--role", "observer", "--label", "ann"])?.1,
    );
    let bob = RestClient::with_token(
        &host,
        &create_token(&host, &["--role", "controller", "--label", "bob"])?.1,
    );
    let (_, phone) = create_token(&host, &["--role", "observer", "--person", "ann"])?;
    let phone = RestClient::with_token(&host, &phone);
    let id = spawn_session(&owner, &host).await?;
    assert_eq!(attention(&owner, &id).await?["state"], "quiet");
    send_prompt(&owner, &id, "echo hello").await?;
    let finished = wait_for_attention(&owner, &id, "finished").await?;
    assert_eq!(
        (&finished["why"], &finished["unread"], &finished["count"]),
        (&json!("done"), &json!(true), &json!(0))
    );
    assert!(finished["seen"].is_string(), "the owner's prompt is an act: {finished}");
    for person in [&ann, &bob, &phone] {
        let mut unseen = finished.clone();
        unseen["seen"] = Value::Null;
        assert_eq!(attention(person, &id).await?, unseen);
    }
    // Reading, listing and streaming are not seeing.
    owner.get(&format!("/sessions/{id}/output")).await?.expect(200)?;
    assert_eq!(attention(&owner, &id).await?["state"], "finished");
    let mark = mark_seen(&ann, &id, &finished["row"]).await?.expect(200)?;
    assert_eq!(mark, json!({ "ok": true, "id": id, "seen": finished["row"] }));
    assert_eq!(attention(&ann, &id).await?["seen"], finished["row"]);
    for (person, state) in
        [(&ann, "quiet"), (&phone, "quiet"), (&owner, "finished"), (&bob, "finished")]
    {
        assert_eq!(attention(person, &id).await?["state"], state);
    }
    let lower = mark_seen(&ann, &id, &json!("1-1")).await?.expect(200)?;
    assert_eq!(lower["seen"], finished["row"], "marks never fall");
    // An act counts as seen, for its person alone.
    send_prompt(&bob, &id, "error").await?;
    let failed = wait_for_attention(&ann, &id, "failed").await?;
    assert_eq!(failed["why"], "error");
    for (query, found) in
        [("attention=failed", true), ("attention=finished", false), ("attention=quiet", false)]
    {
        assert_eq!(list_ids(&bob, query).await?.contains(&id), found, "{query}");
    }
    let session = owner.get(&format!("/sessions/{id}")).await?.expect(200)?;
    assert_eq!(session["lastOutcome"], "failed");
    mark_seen(&owner, &id, &failed["row"]).await?.expect(200)?;
    let seen = owner.get(&format!("/sessions/{id}")).await?.expect(200)?;
    assert_eq!(
        (&seen["attention"]["state"], &seen["lastOutcome"]),
        (&json!("quiet"), &json!("failed"))
    );
    Ok(())
}

#[tokio::test]
async fn change_of_settings_over_rest_counts_as_seen() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let owner = RestClient::new(&host);
    let id = spawn_session(&owner, &host).await?;
    send_prompt(&owner, &id, "echo hello").await?;
    wait_for_attention(&owner, &id, "finished").await?;
    patch(&owner, &format!("/sessions/{id}/settings"), &json!({ "mode": "auto" }))
        .await?
        .expect(200)?;
    assert_eq!(attention(&owner, &id).await?["state"], "quiet");
    Ok(())
}

#[tokio::test]
async fn ask_that_names_only_its_tool_call_is_told_with_its_command() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let update = |update: Value| json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "$SESSION", "update": update } });
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "t1", "title": "Terminal",
        "rawInput": { "command": "rm -rf build" } });
    let later =
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "pending" });
    let options = json!([{ "optionId": "yes", "name": "Yes", "kind": "allow_once" }]);
    let ask = json!({ "jsonrpc": "2.0", "id": 77, "method": "session/request_permission",
        "params": { "sessionId": "$SESSION", "toolCall": { "toolCallId": "t1" }, "options": options } });
    let lines = host.directory().join("lines");
    std::fs::write(&lines, format!("{}\n{}\n{ask}\n", update(call), update(later)))?;
    send_prompt(&http, &id, &format!("rawfile {}; hang", lines.display())).await?;
    let attention = wait_for_attention(&http, &id, "needs_answer").await?;
    assert_eq!(attention["text"], "rm -rf build", "{attention}");
    Ok(())
}

#[tokio::test]
async fn ask_is_told_to_all_until_it_is_answered_elsewhere() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let owner = RestClient::new(&host);
    let ann = RestClient::with_token(&host, &create_token(&host, &["--role", "observer"])?.1);
    let ids = [spawn_session(&owner, &host).await?, spawn_session(&owner, &host).await?];
    for id in &ids {
        send_prompt(&owner, id, "ask").await?;
        let asks = wait_for_attention(&ann, id, "needs_answer").await?;
        assert_eq!(
            (&asks["why"], &asks["count"], &asks["via"]),
            (&json!("permission"), &json!(1), &Value::Null)
        );
        assert!(asks["text"].is_string() && asks["unread"] == true, "{asks}");
        mark_seen(&ann, id, &asks["row"]).await?.expect(200)?;
        let seen = attention(&ann, id).await?;
        assert_eq!(
            (&seen["state"], &seen["unread"]),
            (&json!("needs_answer"), &json!(false)),
            "looking ends no ask"
        );
    }
    let all = ann.get("/asks").await?.expect(200)?;
    let listed: Vec<_> = all["asks"]
        .as_array()
        .context("no list")?
        .iter()
        .map(|ask| &ask["sessionId"])
        .collect();
    assert_eq!(listed, [&json!(ids[0]), &json!(ids[1])], "the longest waiting first");
    let own = ann.get(&format!("/sessions/{}/asks", ids[0])).await?.expect(200)?;
    assert_eq!(
        (&all["asks"][0]["askId"], &all["asks"][0]["options"]),
        (&own["asks"][0]["askId"], &own["asks"][0]["options"])
    );
    assert_eq!(all["asks"][0]["sessionTitle"], "scripted");
    let one = ann.get("/asks?limit=1").await?.expect(200)?;
    assert_eq!((one["asks"].as_array().map(Vec::len), &one["truncated"]), (Some(1), &json!(true)));
    let path = format!("/sessions/{}/asks/{}", ids[0], own["asks"][0]["askId"]);
    owner.post(&path, &json!({ "optionId": "allow_once" })).await?.expect(200)?;
    wait_for_attention(&ann, &ids[0], "finished").await?;
    Ok(())
}

#[tokio::test]
async fn turn_that_a_person_cancels_tells_nothing() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let owner = RestClient::new(&host);
    let id = spawn_session(&owner, &host).await?;
    send_prompt(&owner, &id, "hang").await?;
    assert_eq!(wait_for_attention(&owner, &id, "working").await?["why"], "turn");
    owner.post_empty(&format!("/sessions/{id}/interrupt")).await?.expect(200)?;
    let session =
        wait_for_session(&owner, &id, "an idle session", |session| session["turn"] == "idle")
            .await?;
    assert_eq!(
        (&session["attention"]["state"], &session["lastOutcome"]),
        (&json!("quiet"), &json!("cancelled"))
    );
    Ok(())
}

#[tokio::test]
async fn marks_and_facts_are_the_same_after_kill_9_and_without_the_index() -> Result<()> {
    let mut host =
        scripted_host(&["--resume"])?.without_keepers(crate::TURN_IS_CUT).start_host()?;
    let owner = RestClient::new(&host);
    let (seen, unseen, asking) = (
        spawn_session(&owner, &host).await?,
        spawn_session(&owner, &host).await?,
        spawn_session(&owner, &host).await?,
    );
    for (id, prompt, state) in [
        (&seen, "echo a; usage 0.25 EUR", "finished"),
        (&unseen, "error", "failed"),
        (&asking, "ask", "needs_answer"),
    ] {
        send_prompt(&owner, id, prompt).await?;
        wait_for_attention(&owner, id, state).await?;
    }
    let row = attention(&owner, &seen).await?["row"].clone();
    mark_seen(&owner, &seen, &row).await?.expect(200)?;
    put(&owner, &format!("/sessions/{seen}/mute"), &json!({ "muted": true }))
        .await?
        .expect(200)?;
    change(&owner, &seen, &json!({ "title": "Mine", "label": "red", "archived": true }))
        .await?
        .expect(200)?;
    let path = host.state_dir().join("people.json");
    let written = || Ok(std::fs::read_to_string(&path).ok().filter(|text| text.contains("muted")));
    polling::poll_until(WAIT_LIMIT, written)
        .await?
        .context("the marks are not written")?;
    host.kill()?;
    for is_index_kept in [true, false] {
        if !is_index_kept {
            host.terminate()?;
            for name in ["index.db", "index.db-wal", "index.db-shm"] {
                let _ = std::fs::remove_file(host.state_dir().join(name));
            }
        }
        host.restart()?;
        let owner = RestClient::new(&host);
        let session = owner.get(&format!("/sessions/{seen}")).await?.expect(200)?;
        assert_eq!(
            (&session["attention"]["state"], &session["attention"]["muted"]),
            (&json!("quiet"), &json!(true))
        );
        assert_eq!(
            (&session["title"], &session["label"], &session["archived"]),
            (&json!("Mine"), &json!("red"), &json!(true))
        );
        assert_eq!(session["context"], json!({ "used": 100, "size": 1000 }));
        assert_eq!(session["usage"]["cost"], json!({ "amount": 0.25, "currency": "EUR" }));
        assert_eq!(session["usage"]["input"], Value::Null);
        assert_eq!(wait_for_attention(&owner, &unseen, "failed").await?["why"], "error");
        let cut = wait_for_attention(&owner, &asking, "failed").await?;
        assert_eq!((&cut["why"], &cut["count"]), (&json!("host_restarted"), &json!(0)));
        let event =
            owner.get(&format!("/sessions/{asking}/events?limit=1000")).await?.expect(200)?;
        let ended = event["events"]
            .as_array()
            .context("no events")?
            .iter()
            .find(|event| event["id"] == cut["row"]);
        assert_eq!(ended.map(|event| &event["kind"]), Some(&json!("prompt_ended")), "{cut}");
        assert_eq!(owner.get("/asks").await?.expect(200)?["asks"], json!([]));
    }
    Ok(())
}

#[tokio::test]
async fn archived_session_that_asks_leaves_the_archive() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let owner = RestClient::new(&host);
    let ann = RestClient::with_token(&host, &create_token(&host, &["--role", "observer"])?.1);
    let id = spawn_session(&owner, &host).await?;
    send_prompt(&owner, &id, "echo hello").await?;
    wait_for_attention(&ann, &id, "finished").await?;
    let changed = change(&owner, &id, &json!({ "archived": true })).await?.expect(200)?;
    assert_eq!(changed["archived"], true);
    assert_eq!(attention(&ann, &id).await?["state"], "quiet");
    assert_eq!(
        (list_ids(&ann, "archived=true").await?, list_ids(&ann, "archived=false").await?),
        (vec![id.clone()], vec![])
    );
    send_prompt(&owner, &id, "ask").await?;
    wait_for_attention(&ann, &id, "needs_answer").await?;
    assert_eq!(list_ids(&ann, "archived=false").await?, [id.as_str()]);
    assert_eq!(
        change(&ann, &id, &json!({ "archived": true })).await?.status_and_code(),
        (403, "observer".to_owned())
    );
    Ok(())
}

#[tokio::test]
async fn users_title_beats_the_agents_over_rest_and_acp() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let owner = RestClient::new(&host);
    let client = connect_client(&host).await?;
    let id = client.new_session(&cwd(&host)?).await?;
    let stored = client
        .call_method("session/set_title", json!({ "sessionId": id, "title": " Mine " }))
        .await?;
    assert_eq!(stored, json!({ "title": "Mine" }));
    send_prompt(&owner, &id, "title The agent's").await?;
    let session =
        wait_for_session(&owner, &id, "the end", |session| session["lastOutcome"] == "done")
            .await?;
    assert_eq!(session["title"], "Mine");
    for wrong in [
        json!({ "title": "" }),
        json!({ "title": "a\nb" }),
        json!({ "title": "x".repeat(201) }),
        json!({ "title": 7 }),
    ] {
        assert_eq!(change(&owner, &id, &wrong).await?.status, 422, "{wrong}");
    }
    let changed = change(&owner, &id, &json!({ "title": null })).await?.expect(200)?;
    assert_eq!(changed["title"], "The agent's");
    for wrong in ["", "a\nb"] {
        let refused = client
            .call_method("session/set_title", json!({ "sessionId": id, "title": wrong }))
            .await;
        assert_eq!(refused.unwrap_err().code, -32602, "{wrong:?}");
    }
    let cleared = client
        .call_method("session/set_title", json!({ "sessionId": id, "title": null }))
        .await?;
    assert_eq!(cleared, json!({ "title": "The agent's" }));
    let listed = client.call_method("session/list", json!({})).await?;
    let own = &listed["sessions"][0]["_meta"]["wharf"];
    assert_eq!((&own["archived"], &own["lastOutcome"]), (&json!(false), &json!("done")), "{own}");
    assert_eq!(own["attention"], attention(&owner, &id).await?);
    Ok(())
}

/// The markers `title` and `archive` promise what upstream's words do.
#[tokio::test]
async fn acp_client_archives_lists_and_unarchives_a_session() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let owner = RestClient::new(&host);
    let client = TestClient::connect(&host.ws_url(), host.token()).await?;
    let markers = client.initialize().await?["agentCapabilities"]["sessionCapabilities"].take();
    assert_eq!(
        (&markers["title"], &markers["archive"], &markers["setTitle"]),
        (&json!({}), &json!({}), &Value::Null)
    );
    let kept = client.new_session(&cwd(&host)?).await?;
    let id = client.new_session(&cwd(&host)?).await?;
    let list = async |filter: Value| -> Result<Vec<(String, bool)>> {
        let listed = client.call_method("session/list", filter).await?;
        let entry = |entry: &Value| {
            Some((entry["sessionId"].as_str()?.to_owned(), entry["archived"].as_bool()?))
        };
        listed["sessions"]
            .as_array()
            .context("no list")?
            .iter()
            .map(entry)
            .collect::<Option<_>>()
            .context("no `archived`")
    };
    for _ in 0..2 {
        assert_eq!(
            client.call_method("session/archive", json!({ "sessionId": id })).await?,
            json!({})
        );
    }
    let former = client
        .call_method("session/archive", json!({ "sessionId": id, "archived": false }))
        .await;
    assert!(former.is_err(), "the former way to get a session back archives none: {former:?}");
    let session = owner.get(&format!("/sessions/{id}")).await?.expect(200)?;
    assert_eq!(
        (&session["archived"], &session["status"]),
        (&json!(true), &json!("running")),
        "its agent is left alone"
    );
    assert_eq!(
        stop_reason(client.send_prompt(&id, "echo still here").await)?,
        "end_turn",
        "and so are its clients"
    );
    let both = [(id.clone(), true), (kept.clone(), false)];
    assert_eq!(list(json!({})).await?, both[1..]);
    assert_eq!(list(json!({ "archived": null })).await?, both[1..]);
    assert_eq!(list(json!({ "archived": "exclude" })).await?, both[1..]);
    assert_eq!(list(json!({ "archived": "include" })).await?, both);
    assert_eq!(list(json!({ "archived": "only" })).await?, both[..1]);
    for wrong in [json!("all"), json!(true), json!([])] {
        let refused = client.call_method("session/list", json!({ "archived": wrong })).await;
        assert_eq!(refused.unwrap_err().code, -32602, "{wrong}");
    }
    let by_http = owner.get("/acp/sessions?archived=only").await?.expect(200)?;
    assert_eq!(by_http["sessions"][0]["sessionId"], json!(id));
    assert_eq!(by_http["sessions"].as_array().map(Vec::len), Some(1));
    for _ in 0..2 {
        assert_eq!(
            client.call_method("session/unarchive", json!({ "sessionId": id })).await?,
            json!({})
        );
    }
    assert_eq!(list(json!({ "archived": "only" })).await?, []);
    for method in ["session/archive", "session/unarchive"] {
        let unknown = client.call_method(method, json!({ "sessionId": "sess_unknown" })).await;
        assert_eq!(unknown.unwrap_err().code, -32002, "{method}");
    }
    Ok(())
}

#[tokio::test]
async fn sessions_are_listed_by_turn_and_time() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let owner = RestClient::new(&host);
    let idle = spawn_session(&owner, &host).await?;
    let busy = spawn_session(&owner, &host).await?;
    send_prompt(&owner, &busy, "hang").await?;
    wait_for_attention(&owner, &busy, "working").await?;
    assert_eq!(list_ids(&owner, "turn=running").await?, [busy.as_str()]);
    assert_eq!(list_ids(&owner, "turn=idle").await?, [idle.as_str()]);
    let both = [busy.clone(), idle.clone()];
    assert_eq!(
        list_ids(&owner, "since=2020-01-01T00:00:00Z&before=2100-01-01T00:00:00Z").await?,
        both
    );
    assert_eq!(list_ids(&owner, "since=2100-01-01T00:00:00Z").await?, [""; 0]);
    let started = owner.get(&format!("/sessions/{busy}")).await?.expect(200)?["startedAt"].clone();
    let before = format!("before={}", started.as_str().context("no time")?);
    assert_eq!(list_ids(&owner, &before).await?, [idle.as_str()]);
    for wrong in ["attention=loud", "turn=never", "since=yesterday", "archived=maybe"] {
        assert_eq!(owner.get(&format!("/sessions?{wrong}")).await?.status, 422, "{wrong}");
    }
    Ok(())
}

#[tokio::test]
async fn marks_end_with_their_session_and_with_the_last_token_of_their_person() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let owner = RestClient::new(&host);
    let (token, text) = create_token(&host, &["--role", "observer", "--label", "ann"])?;
    let ann = RestClient::with_token(&host, &text);
    let (first, second) =
        (spawn_session(&owner, &host).await?, spawn_session(&owner, &host).await?);
    for id in [&first, &second] {
        put(&ann, &format!("/sessions/{id}/mute"), &json!({ "muted": true }))
            .await?
            .expect(200)?;
        mark_seen(&owner, id, &json!("1-1")).await?.expect(200)?;
    }
    for wrong in ["1-999999", "7-1", "x", "1-0"] {
        let refused = mark_seen(&owner, &first, &json!(wrong)).await?;
        assert_eq!(refused.status_and_code(), (409, "unknown_event".to_owned()), "{wrong}");
    }
    let path = host.state_dir().join("people.json");
    let holds = async |texts: [(&str, bool); 3]| {
        let fits = |people: &String| texts.iter().all(|(text, is)| people.contains(text) == *is);
        polling::poll_until(WAIT_LIMIT, || Ok(std::fs::read_to_string(&path).ok().filter(fits)))
            .await
    };
    holds([(&token, true), (&first, true), (&second, true)])
        .await?
        .context("not written")?;
    owner.delete(&format!("/sessions/{first}")).await?.expect(200)?;
    holds([(&token, true), (&first, false), (&second, true)])
        .await?
        .context("the session's marks stay")?;
    assert!(run_token(&host, &["revoke", &token])?.status.success());
    holds([(&token, false), ("owner", true), (&second, true)])
        .await?
        .context("the person stays")?;
    let refused = run_token(&host, &["create", "--role", "observer", "--person", "ann"])?;
    assert!(!refused.status.success(), "there is no such person any more");
    Ok(())
}

#[tokio::test]
async fn usage_is_summed_within_one_currency() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let owner = RestClient::new(&host);
    for prompt in
        ["usage 0.1 EUR", "usage 0.2 EUR; usage 0.2 EUR", "usage 3 USD", "usage", "echo none"]
    {
        let id = spawn_session(&owner, &host).await?;
        send_prompt(&owner, &id, prompt).await?;
        wait_for_attention(&owner, &id, "finished").await?;
    }
    let usage = owner.get("/usage?limit=2").await?.expect(200)?;
    assert_eq!(usage["sessions"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        (&usage["sessions"][0]["usage"], &usage["sessions"][0]["context"]),
        (&Value::Null, &Value::Null)
    );
    let expected = json!({
        "sessions": 5, "reporting": 3, "input": null, "output": null, "cached": null, "total": null,
        "costs": [{ "amount": 0.3, "currency": "EUR" }, { "amount": 3.0, "currency": "USD" }],
    });
    assert_eq!(usage["total"], expected);
    let page = owner.get("/metrics").await?.body;
    assert!(
        page.lines()
            .any(|line| line.starts_with("wharf_reported_cost{currency=\"USD\"} 3")),
        "{page}"
    );
    let next = owner
        .get(&format!(
            "/usage?limit=2&cursor={}",
            usage["nextCursor"].as_str().context("no cursor")?
        ))
        .await?;
    assert_eq!(next.expect(200)?["total"], expected, "the sum is that of all pages");
    Ok(())
}
