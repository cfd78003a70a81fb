//! AIP-46 over HTTP: asks of agents, and the queue.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::http::{RestAnswer, RestClient};

use crate::rest::{output_lines, send_prompt, spawn_session, wait_for_session, wait_until_idle};
use crate::tokens::create_token;
use crate::{add_section, log, scripted_host};

#[tokio::test]
async fn asks_are_listed_and_answered_once() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    assert_eq!(
        http.get(&format!("/sessions/{id}/asks")).await?.expect(200)?,
        json!({ "asks": [] })
    );
    send_prompt(&http, &id, "ask").await?;
    wait_for_session(&http, &id, "a question", |session| session["turn"] == "awaiting_input")
        .await?;
    let asks = http.get(&format!("/sessions/{id}/asks")).await?.expect(200)?;
    let ask = &asks["asks"][0];
    assert_eq!(
        (&ask["kind"], &ask["options"][0]["optionId"]),
        (&json!("permission"), &json!("allow_once")),
        "{ask}"
    );
    assert!(
        ask["openedAt"].is_string() && ask["toolCall"].is_object() && ask["params"].is_object(),
        "{ask}"
    );
    let number = ask["askId"].as_u64().context("no id")?;
    let path = format!("/sessions/{id}/asks/{number}");
    let wrong = http.post(&path, &json!({ "optionId": "none" })).await?;
    assert_eq!(wrong.status_and_code(), (422, "option_not_offered".to_owned()));
    assert_eq!(wrong.json()["legacyCode"], "invalid_option", "the word of the last release");
    assert!(
        wrong.json()["offered"]
            .as_array()
            .is_some_and(|offered| offered.contains(&json!("allow_once")))
    );
    for (body, code) in [
        (json!({}), "invalid_params"),
        (json!({ "optionId": "allow_once", "cancel": true }), "invalid_params"),
        (json!({ "action": "accept" }), "invalid_params"),
        (json!({ "action": "perhaps" }), "invalid_params"),
    ] {
        assert_eq!(
            http.post(&path, &body).await?.status_and_code(),
            (422, code.to_owned()),
            "{body}"
        );
    }
    let taken = http.post(&path, &json!({ "optionId": "allow_once" })).await?.expect(200)?;
    assert_eq!(taken, json!({ "ok": true, "askId": number }));
    let late = http.post(&path, &json!({ "optionId": "allow_once" })).await?;
    assert_eq!(late.status_and_code(), (409, "already_answered".to_owned()));
    wait_until_idle(&http, &id).await?;
    assert!(output_lines(&http, &id).await?.contains(&"chosen: allow_once".to_owned()));
    for unknown in ["999999", "x", "-1", "18446744073709551616"] {
        let answer = http
            .post(&format!("/sessions/{id}/asks/{unknown}"), &json!({ "cancel": true }))
            .await?;
        assert_eq!(answer.status_and_code(), (404, "unknown_ask".to_owned()), "{unknown}");
    }
    Ok(())
}

#[tokio::test]
async fn ask_is_cancelled_over_rest_when_no_other_client_could_answer() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    send_prompt(&http, &id, "ask").await?;
    wait_for_session(&http, &id, "a question", |session| session["turn"] == "awaiting_input")
        .await?;
    let asks = http.get(&format!("/sessions/{id}/asks")).await?.expect(200)?;
    let path = format!("/sessions/{id}/asks/{}", asks["asks"][0]["askId"]);
    http.post(&path, &json!({ "cancel": true })).await?.expect(200)?;
    wait_until_idle(&http, &id).await?;
    assert!(output_lines(&http, &id).await?.iter().any(|line| line.contains("cancelled")));
    Ok(())
}

#[tokio::test]
async fn the_queue_is_listed_changed_and_emptied() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let queue = format!("/sessions/{id}/queue");
    let running = send_prompt(&http, &id, "hang").await?["promptId"].clone();
    let mut waiting = Vec::new();
    for text in ["echo one", "echo two", "echo three"] {
        let body = json!({ "prompt": text, "queue": true });
        let taken = http.post(&format!("/sessions/{id}/prompt"), &body).await?.expect(200)?;
        waiting.push(taken["promptId"].as_str().context("no id")?.to_owned());
    }
    let listed = http.get(&queue).await?.expect(200)?;
    assert_eq!(
        (&listed["queue"][1]["text"], &listed["queue"][1]["position"]),
        (&json!("echo two"), &json!(1))
    );
    assert_eq!(listed["queue"][1]["sender"], "wharf-testkit");
    let patch = async |prompt: &str, body: Value| -> Result<RestAnswer> {
        http.send(
            "PATCH",
            &format!("{queue}/{prompt}"),
            &[("content-type", "application/json")],
            &body.to_string(),
        )
        .await
    };
    patch(&waiting[2], json!({ "position": 0, "prompt": "echo first" }))
        .await?
        .expect(200)?;
    let removed = http.delete(&format!("{queue}/{}", waiting[0])).await?.expect(200)?;
    assert_eq!(removed, json!({ "ok": true, "promptId": waiting[0] }));
    let texts = http.get(&queue).await?.expect(200)?;
    let texts: Vec<&Value> = texts["queue"]
        .as_array()
        .context("no list")?
        .iter()
        .map(|one| &one["text"])
        .collect();
    assert_eq!(texts, [&json!("echo first"), &json!("echo two")]);
    let long = format!("echo {}", "é".repeat(5_000));
    patch(&waiting[1], json!({ "prompt": long })).await?.expect(200)?;
    let listed = http.get(&queue).await?.expect(200)?;
    let shown = listed["queue"][1]["text"].as_str().context("no text")?;
    assert!(
        shown.len() < 4_200 && shown.ends_with("é…") && listed["queue"][1]["shortened"] == true,
        "{shown}"
    );
    let whole = http.get(&format!("{queue}/{}", waiting[1])).await?.expect(200)?;
    assert_eq!(
        (&whole["text"], &whole["position"], &whole["shortened"]),
        (&json!(long), &json!(1), &Value::Null)
    );
    assert_eq!(
        http.get(&format!("{queue}/{}", waiting[0])).await?.status_and_code(),
        (404, "unknown_prompt".to_owned())
    );
    patch(&waiting[1], json!({ "prompt": "echo two" })).await?.expect(200)?;
    let running = running.as_str().context("no id")?;
    assert_eq!(
        patch(running, json!({ "position": 0 })).await?.status_and_code(),
        (409, "already_started".to_owned())
    );
    assert_eq!(
        http.delete(&format!("{queue}/{running}")).await?.status_and_code(),
        (409, "already_started".to_owned())
    );
    assert_eq!(
        patch("prm_none", json!({ "position": 0 })).await?.status_and_code(),
        (404, "unknown_prompt".to_owned())
    );
    assert_eq!(
        http.delete(&format!("{queue}/{}", waiting[0])).await?.status_and_code(),
        (404, "unknown_prompt".to_owned())
    );
    assert_eq!(
        patch(&waiting[1], json!({})).await?.status_and_code(),
        (422, "invalid_params".to_owned())
    );
    http.post_empty(&format!("/sessions/{id}/interrupt")).await?.expect(200)?;
    let mut events = http.open_stream(&format!("/sessions/{id}/stream"), None).await?;
    events.expect_line("first").await?;
    events.expect_line("two").await?;
    Ok(())
}

#[tokio::test]
async fn attachments_of_a_waiting_prompt_stay_when_its_text_is_changed() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    send_prompt(&http, &id, "hang").await?;
    let image = json!({ "type": "image", "mimeType": "image/png", "data": "aGk=" });
    let link = json!({ "type": "resource_link", "name": "notes.md", "uri": "file:///notes.md" });
    let body =
        json!({ "prompt": [image, { "type": "text", "text": "echo one" }, link], "queue": true });
    let taken = http.post(&format!("/sessions/{id}/prompt"), &body).await?.expect(200)?;
    let queue = format!("/sessions/{id}/queue");
    let path = format!("{queue}/{}", taken["promptId"].as_str().context("no id")?);
    let read =
        async || -> Result<Value> { Ok(http.get(&queue).await?.expect(200)?["queue"][0].clone()) };
    let entry = read().await?;
    assert_eq!(
        (&entry["text"], &entry["attachments"]),
        (&json!("echo one"), &json!(["image", "notes.md"]))
    );
    let patch = async |body: Value| -> Result<Value> {
        let headers = [("content-type", "application/json")];
        http.send("PATCH", &path, &headers, &body.to_string()).await?.expect(200)
    };
    patch(json!({ "prompt": "echo two", "keepAttachments": true })).await?;
    let entry = read().await?;
    assert_eq!(
        (&entry["text"], &entry["attachments"]),
        (&json!("echo two"), &json!(["image", "notes.md"]))
    );
    let changed = log::list_events(&host, &id, "prompt_updated")?;
    let blocks = &changed[0]["frame"]["params"]["prompt"];
    assert_eq!(
        *blocks,
        json!([{ "type": "text", "text": "echo two" }, image, link]),
        "{changed:?}"
    );
    patch(json!({ "prompt": "echo three" })).await?;
    let entry = read().await?;
    assert_eq!((&entry["text"], entry.get("attachments")), (&json!("echo three"), None));
    Ok(())
}

#[tokio::test]
async fn a_full_queue_is_429() -> Result<()> {
    let host = add_section(scripted_host(&[])?, "[limits]\nqueue = 2").start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    send_prompt(&http, &id, "hang").await?;
    let body = json!({ "prompt": "echo x", "queue": true });
    let path = format!("/sessions/{id}/prompt");
    http.post(&path, &body).await?.expect(200)?;
    http.post(&path, &body).await?.expect(200)?;
    assert_eq!(http.post(&path, &body).await?.status_and_code(), (429, "queue_full".to_owned()));
    Ok(())
}

#[tokio::test]
async fn a_repeated_prompt_with_the_same_key_is_the_same_prompt() -> Result<()> {
    let mut host = scripted_host(&["--resume"])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let (path, body, key) = (
        format!("/sessions/{id}/prompt"),
        json!({ "prompt": "echo once" }),
        ("idempotency-key", "k"),
    );
    let first = http.post_with(&path, key, &body).await?.expect(200)?;
    assert!(first.get("duplicate").is_none(), "{first}");
    wait_until_idle(&http, &id).await?;
    let again = http.post_with(&path, key, &body).await?.expect(200)?;
    assert_eq!((&again["promptId"], &again["duplicate"]), (&first["promptId"], &json!(true)));
    host.restart()?;
    let http = RestClient::new(&host);
    let after = http.post_with(&path, key, &body).await?.expect(200)?;
    assert_eq!(after["promptId"], first["promptId"], "after a restart of the host too");
    assert_eq!(output_lines(&http, &id).await?.iter().filter(|line| *line == "once").count(), 1);
    Ok(())
}

#[tokio::test]
async fn idempotency_key_belongs_to_its_sender_and_one_prompt() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let other = RestClient::with_token(&host, &create_token(&host, &["--role", "controller"])?.1);
    let (path, key) = (format!("/sessions/{id}/prompt"), ("idempotency-key", "1"));
    let [mine, theirs] =
        ["echo mine", "echo theirs"].map(|text| json!({ "prompt": text, "queue": true }));
    let first = other.post_with(&path, key, &theirs).await?.expect(200)?;
    let second = http.post_with(&path, key, &mine).await?.expect(200)?;
    assert!(
        first["promptId"] != second["promptId"] && second.get("duplicate").is_none(),
        "{first} {second}"
    );
    assert_eq!(
        http.post_with(&path, key, &theirs).await?.status_and_code(),
        (422, "idempotency_key_reused".to_owned())
    );
    assert_eq!(
        other.post_with(&path, key, &theirs).await?.expect(200)?["promptId"],
        first["promptId"]
    );
    wait_until_idle(&http, &id).await?;
    let said: Vec<String> = output_lines(&http, &id)
        .await?
        .into_iter()
        .filter(|line| !line.contains("turn-end"))
        .collect();
    assert_eq!(said, ["theirs", "mine"]);
    Ok(())
}
