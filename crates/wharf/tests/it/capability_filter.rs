//! A client receives only the kinds of messages that it declared to understand (rule 3.11).

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::client::Client;
use wharf_testkit::host::Host;

use crate::{client, client_with, cwd, scripted};

/// Connects a client with every capability.
async fn able(host: &Host) -> Result<Client> {
    let session = json!({ "notices": {}, "compaction": {}, "configOptions": { "boolean": {} } });
    client_with(host, json!({ "session": session, "plan": {} }), json!({})).await
}

fn at(host: &Host, session: Option<&str>) -> Result<Value> {
    Ok(json!({ "cwd": cwd(host)?, "mcpServers": [], "sessionId": session }))
}

fn options(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(|option| option["id"].as_str()).collect()
}

fn updates(client: &Client) -> Vec<String> {
    let frames = client.transcript().into_iter().filter(|frame| frame.update().is_some());
    frames.map(|frame| frame.raw).filter(|raw| !raw.contains("user_message_chunk")).collect()
}

#[tokio::test]
async fn updates_that_a_client_does_not_understand_are_left_out_live_and_in_replays() -> Result<()> {
    let host = scripted(&[])?.start()?;
    let (able, plain) = (able(&host).await?, client(&host).await?);
    let session = able.new_session(&cwd(&host)?).await?;
    plain.load_session(&session, &cwd(&host)?).await?;
    let hidden = [
        r#"{"sessionUpdate":"notice","level":"info","message":"n 1.10"}"#,
        r#"{"sessionUpdate":"compaction_update","compactionId":"c"}"#,
        r#"{"sessionUpdate":"compaction_summary_chunk","compactionId":"c"}"#,
        r#"{"sessionUpdate":"plan_update","id":"p"}"#,
    ];
    for update in hidden {
        able.prompt(&session, &format!("rawupdate {update}")).await?;
    }
    able.prompt(&session, "unknown-update; echo end").await?;
    plain.expect_text("end").await;
    let (all, some) = (updates(&able), updates(&plain));
    assert_eq!(all.len(), hidden.len() + 2);
    for update in hidden {
        assert!(all.iter().any(|raw| raw.contains(update)), "{update} is not in {all:?}");
    }
    assert_eq!(some, all[hidden.len()..], "the rest is the same, byte for byte");

    let later = client(&host).await?;
    later.load_session(&session, &cwd(&host)?).await?;
    assert_eq!(updates(&later), some);
    let attached = client(&host).await?;
    attached.request("session/attach", json!({ "sessionId": session, "historyDelivery": "stream" })).await?;
    attached.expect_text("end").await;
    assert_eq!(updates(&attached), some);
    Ok(())
}

#[tokio::test]
async fn boolean_options_are_hidden_from_clients_without_boolean_options() -> Result<()> {
    let host = scripted(&["--boolean-option"])?.start()?;
    let (able, plain) = (able(&host).await?, client(&host).await?);
    let opened = able.request("session/new", at(&host, None)?).await?;
    let session = opened["sessionId"].as_str().context("no id")?.to_owned();
    assert_eq!(options(&opened["configOptions"]), ["model", "fast"]);
    let opened = plain.request("session/new", at(&host, None)?).await?;
    assert_eq!(options(&opened["configOptions"]), ["model"]);

    for method in ["session/load", "session/resume"] {
        let answer = plain.request(method, at(&host, Some(&session))?).await?;
        assert_eq!(options(&answer["configOptions"]), ["model"], "{method}");
        let answer = able.request(method, at(&host, Some(&session))?).await?;
        assert_eq!(options(&answer["configOptions"]), ["model", "fast"], "{method}");
    }
    for (client, value) in [(&plain, "large"), (&able, "small")] {
        let set = json!({ "sessionId": session, "configId": "model", "value": value });
        let answer = client.request("session/set_config_option", set).await?;
        let known: &[&str] = if value == "small" { &["model", "fast"] } else { &["model"] };
        assert_eq!(options(&answer["configOptions"]), known);
        for (client, known) in [(&plain, &["model"][..]), (&able, &["model", "fast"])] {
            let told = client.expect_update("the change", |update| {
                update["sessionUpdate"] == "config_option_update" && update["configOptions"][0]["currentValue"] == value
            });
            let told = told.await;
            assert_eq!(options(&told.update().context("no update")?["configOptions"]), known);
        }
    }
    Ok(())
}
