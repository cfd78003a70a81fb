//! The settings of a session's agent over REST: reading and setting them (rules 17.1, 17.2).

use anyhow::Result;
use serde_json::{Value, json};
use wharf_testkit::http::{RestAnswer, RestClient};

use crate::rest::{caller_with_role, spawn_session};
use crate::{join_session, prompt_for_text, scripted_host};

/// Sends a PATCH with a JSON body.
pub(crate) async fn patch(http: &RestClient, path: &str, body: &Value) -> Result<RestAnswer> {
    http.send("PATCH", path, &[("content-type", "application/json")], &body.to_string())
        .await
}

fn settings_path(id: &str) -> String {
    format!("/sessions/{id}/settings")
}

#[tokio::test]
async fn settings_show_everything_that_can_be_chosen() -> Result<()> {
    let host = scripted_host(&["--models", "--effort-option", "--boolean-option", "--commands"])?
        .start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let client = join_session(&host, &id).await?;
    client
        .expect_update("the commands", |update| {
            update["sessionUpdate"] == "available_commands_update"
        })
        .await;
    let settings = http.get(&settings_path(&id)).await?.expect(200)?;
    let values = |ids: [&str; 2]| ids.map(|id| json!({ "id": id, "name": id })).to_vec();
    assert_eq!(settings["modes"], json!({ "current": "ask", "all": values(["ask", "auto"]) }));
    assert_eq!(
        settings["models"],
        json!({ "current": "small", "all": values(["small", "large"]) })
    );
    let options = json!([
        { "id": "model", "name": "Model", "category": "model", "type": "select", "current": "small", "all": values(["small", "large"]) },
        { "id": "effort", "name": "Effort", "type": "select", "current": "low", "all": values(["low", "high"]) },
        { "id": "fast", "name": "Fast", "type": "boolean", "current": true, "all": [] },
    ]);
    assert_eq!(settings["options"], options);
    assert_eq!(settings["accepts"], json!(["image", "audio", "embedded"]));
    assert!(
        settings["commands"].as_array().is_some_and(|commands| !commands.is_empty()),
        "{settings}"
    );
    assert!(settings["commands"][0]["name"].is_string(), "{settings}");
    Ok(())
}

#[tokio::test]
async fn change_is_set_in_the_agent_and_told_to_other_clients() -> Result<()> {
    let host = scripted_host(&["--models", "--effort-option"])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let client = join_session(&host, &id).await?;
    let change = json!({ "mode": "auto", "model": "large", "options": { "effort": "high" } });
    let set = patch(&http, &settings_path(&id), &change).await?.expect(200)?;
    let current =
        [&set["modes"]["current"], &set["models"]["current"], &set["options"][1]["current"]];
    assert_eq!(current, ["auto", "large", "high"]);
    assert_eq!(http.get(&settings_path(&id)).await?.expect(200)?, set);
    client
        .expect_update("the mode", |update| update["currentModeId"] == "auto")
        .await;
    assert_eq!(
        prompt_for_text(&client, &id, "settings").await?,
        "mode=auto model=large effort=high"
    );
    Ok(())
}

#[tokio::test]
async fn mode_and_model_are_set_as_options_when_the_agent_has_no_other_spelling() -> Result<()> {
    let host = scripted_host(&["--only-options"])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let set = patch(&http, &settings_path(&id), &json!({ "mode": "auto", "model": "large" }))
        .await?
        .expect(200)?;
    assert_eq!([&set["modes"]["current"], &set["models"]["current"]], ["auto", "large"]);
    let client = join_session(&host, &id).await?;
    assert_eq!(
        prompt_for_text(&client, &id, "settings").await?,
        "mode=auto model=large effort=low"
    );
    Ok(())
}

#[tokio::test]
async fn change_survives_a_restart_of_the_host_and_wakes_a_sleeping_session() -> Result<()> {
    let mut host = scripted_host(&[])?.without_keepers(crate::AGENT_COMES_BACK).start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    patch(&http, &settings_path(&id), &json!({ "mode": "auto" }))
        .await?
        .expect(200)?;
    host.restart()?;
    let http = RestClient::new(&host);
    let asleep = http.get(&settings_path(&id)).await?.expect(200)?;
    assert_eq!(asleep["modes"]["current"], "auto");
    assert_ne!(
        http.get(&format!("/sessions/{id}")).await?.expect(200)?["status"],
        "running",
        "reading wakes nothing"
    );
    let set = patch(&http, &settings_path(&id), &json!({ "options": { "model": "large" } }))
        .await?
        .expect(200)?;
    assert_eq!(set["options"][0]["current"], "large");
    let client = join_session(&host, &id).await?;
    assert_eq!(
        prompt_for_text(&client, &id, "settings").await?,
        "mode=auto model=large effort=low"
    );
    Ok(())
}

#[tokio::test]
async fn refusals_name_the_setting_and_what_was_set_before() -> Result<()> {
    let host = scripted_host(&["--refuse-same", "--effort-option"])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let refused = async |body: Value| -> Result<(u16, Value)> {
        let answer = patch(&http, &settings_path(&id), &body).await?;
        Ok((answer.status, answer.json()))
    };
    let (status, problem) = refused(json!({ "mode": "yolo" })).await?;
    assert_eq!((status, &problem["code"]), (422, &json!("setting_not_offered")));
    assert_eq!(problem["offered"], json!(["ask", "auto"]));
    let (status, problem) = refused(json!({ "options": { "colour": "red" } })).await?;
    assert_eq!((status, &problem["code"]), (422, &json!("setting_not_offered")));
    assert_eq!(problem["offered"], json!(["model", "effort"]));
    let (status, problem) =
        refused(json!({ "mode": "auto", "options": { "effort": "low" } })).await?;
    assert_eq!((status, &problem["code"]), (422, &json!("agent_refused")));
    assert_eq!(problem["agentError"]["data"], json!({ "current": "low" }));
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(
        detail.contains("already in that effort")
            && detail.contains(r#"set before that: mode "auto""#),
        "{detail}"
    );
    let settings = http.get(&settings_path(&id)).await?.expect(200)?;
    assert_eq!(settings["modes"]["current"], "auto");
    for wrong in [json!({}), json!({ "mode": 7 }), json!({ "options": [] })] {
        assert_eq!(refused(wrong.clone()).await?.0, 422, "{wrong}");
    }
    Ok(())
}

#[tokio::test]
async fn change_fails_when_the_agent_dies_and_is_refused_to_observers_and_for_killed_sessions()
-> Result<()> {
    let host = scripted_host(&["--die-on", "session/set_mode"])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let observer = caller_with_role(&host, "observer")?;
    let mode = json!({ "mode": "auto" });
    observer.get(&settings_path(&id)).await?.expect(200)?;
    assert_eq!(
        patch(&observer, &settings_path(&id), &mode).await?.status_and_code(),
        (403, "observer".to_owned())
    );
    let answer = patch(&http, &settings_path(&id), &mode).await?;
    assert_eq!(answer.status_and_code(), (502, "agent_exited".to_owned()));
    http.post_empty(&format!("/sessions/{id}/kill")).await?.expect(200)?;
    assert_eq!(
        patch(&http, &settings_path(&id), &mode).await?.status_and_code(),
        (409, "killed".to_owned())
    );
    assert_eq!(http.get(&settings_path(&id)).await?.expect(200)?["modes"]["current"], "ask");
    Ok(())
}
