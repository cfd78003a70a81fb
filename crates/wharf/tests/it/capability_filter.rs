//! A client receives only the kinds of messages that it declared to understand (rule 3.11).

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::client::TestClient;
use wharf_testkit::host::TestHost;

use crate::{connect_client, connect_client_with, cwd, scripted_host};

/// Connects a client with every capability.
async fn connect_with_all_capabilities(host: &TestHost) -> Result<TestClient> {
    let session = json!({ "notices": {}, "compaction": {}, "configOptions": { "boolean": {} } });
    connect_client_with(host, json!({ "session": session, "plan": {} }), json!({})).await
}

fn session_params(host: &TestHost, session: Option<&str>) -> Result<Value> {
    Ok(json!({ "cwd": cwd(host)?, "mcpServers": [], "sessionId": session }))
}

fn list_option_ids(list: &Value) -> Vec<&str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(|option| option["id"].as_str())
        .collect()
}

fn list_updates(client: &TestClient) -> Vec<String> {
    let frames = client.received_frames().into_iter().filter(|frame| frame.update().is_some());
    frames
        .map(|frame| frame.raw)
        .filter(|raw| !raw.contains("user_message_chunk"))
        .collect()
}

#[tokio::test]
async fn updates_that_a_client_does_not_understand_are_left_out_live_and_in_replays() -> Result<()>
{
    let host = scripted_host(&[])?.start_host()?;
    let (able, plain) = (connect_with_all_capabilities(&host).await?, connect_client(&host).await?);
    let session = able.new_session(&cwd(&host)?).await?;
    plain.load_session(&session, &cwd(&host)?).await?;
    let hidden = [
        r#"{"sessionUpdate":"notice","level":"info","message":"n 1.10"}"#,
        r#"{"sessionUpdate":"compaction_update","compactionId":"c"}"#,
        r#"{"sessionUpdate":"compaction_summary_chunk","compactionId":"c"}"#,
        r#"{"sessionUpdate":"plan_update","id":"p"}"#,
    ];
    for update in hidden {
        able.send_prompt(&session, &format!("rawupdate {update}")).await?;
    }
    able.send_prompt(&session, "unknown-update; echo end").await?;
    plain.expect_text("end").await;
    let (all, some) = (list_updates(&able), list_updates(&plain));
    assert_eq!(all.len(), hidden.len() + 2);
    for update in hidden {
        assert!(all.iter().any(|raw| raw.contains(update)), "{update} is not in {all:?}");
    }
    assert_eq!(some, all[hidden.len()..], "the rest is the same, byte for byte");

    let later = connect_client(&host).await?;
    later.load_session(&session, &cwd(&host)?).await?;
    assert_eq!(list_updates(&later), some);
    let attached = connect_client(&host).await?;
    attached
        .call_method("session/attach", json!({ "sessionId": session, "historyDelivery": "stream" }))
        .await?;
    attached.expect_text("end").await;
    assert_eq!(list_updates(&attached), some);
    Ok(())
}

#[tokio::test]
async fn boolean_options_are_hidden_from_clients_without_boolean_options() -> Result<()> {
    let host = scripted_host(&["--boolean-option"])?.start_host()?;
    let (able, plain) = (connect_with_all_capabilities(&host).await?, connect_client(&host).await?);
    let opened = able.call_method("session/new", session_params(&host, None)?).await?;
    let session = opened["sessionId"].as_str().context("no id")?.to_owned();
    assert_eq!(list_option_ids(&opened["configOptions"]), ["model", "fast"]);
    let opened = plain.call_method("session/new", session_params(&host, None)?).await?;
    assert_eq!(list_option_ids(&opened["configOptions"]), ["model"]);

    for method in ["session/load", "session/resume"] {
        let answer = plain.call_method(method, session_params(&host, Some(&session))?).await?;
        assert_eq!(list_option_ids(&answer["configOptions"]), ["model"], "{method}");
        let answer = able.call_method(method, session_params(&host, Some(&session))?).await?;
        assert_eq!(list_option_ids(&answer["configOptions"]), ["model", "fast"], "{method}");
    }
    for (client, value) in [(&plain, "large"), (&able, "small")] {
        let set = json!({ "sessionId": session, "configId": "model", "value": value });
        let answer = client.call_method("session/set_config_option", set).await?;
        let known: &[&str] = if value == "small" { &["model", "fast"] } else { &["model"] };
        assert_eq!(list_option_ids(&answer["configOptions"]), known);
        for (client, known) in [(&plain, &["model"][..]), (&able, &["model", "fast"])] {
            let told = client.expect_update("the change", |update| {
                update["sessionUpdate"] == "config_option_update"
                    && update["configOptions"][0]["currentValue"] == value
            });
            let told = told.await;
            assert_eq!(
                list_option_ids(&told.update().context("no update")?["configOptions"]),
                known
            );
        }
    }
    Ok(())
}
