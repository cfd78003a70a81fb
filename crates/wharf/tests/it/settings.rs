//! Current settings of an agent: reported to every client in every spelling, and restored after a
//! return (rules 12.9, 12.12).

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::TempDir;
use wharf_testkit::client::{ReceivedFrame, TestClient};
use wharf_testkit::host::TestHost;

use crate::recording::Recording;
use crate::{connect_client, cwd, join_session, log, open_session, prompt_for_text};

/// An agent that keeps its settings in files, as real agents do.
struct PersistentAgent {
    folder: TempDir,
    recording: Recording,
}

impl PersistentAgent {
    fn new() -> Result<Self> {
        Ok(Self {
            folder: TempDir::with_prefix("wharf-settings-")?,
            recording: Recording::new()?,
        })
    }

    fn start_host(&self, flags: &[&str]) -> Result<TestHost> {
        let folder = self.folder.path().to_str().context("the path is not UTF-8")?;
        let options = self.recording.host_options(&[&["--settings", folder], flags].concat())?;
        options.without_keepers(crate::AGENT_COMES_BACK).start_host()
    }

    /// Changes the settings that the agent has stored, as its own configuration or another program
    /// could.
    fn change_settings(&self, change: impl Fn(&mut Value)) -> Result<()> {
        for file in std::fs::read_dir(self.folder.path())? {
            let path = file?.path();
            let mut kept: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
            change(&mut kept);
            std::fs::write(&path, kept.to_string())?;
        }
        Ok(())
    }
}

async fn set_mode(client: &TestClient, session: &str, mode: &str) -> Result<()> {
    client
        .call_method("session/set_mode", json!({ "sessionId": session, "modeId": mode }))
        .await?;
    Ok(())
}

async fn set_option(client: &TestClient, session: &str, option: &str, value: &str) -> Result<()> {
    let params = json!({ "sessionId": session, "configId": option, "value": value });
    client.call_method("session/set_config_option", params).await?;
    Ok(())
}

async fn set_model(client: &TestClient, session: &str, model: &str) -> Result<()> {
    client
        .call_method("session/set_model", json!({ "sessionId": session, "modelId": model }))
        .await?;
    Ok(())
}

/// Returns the current values in an answer: mode, model, and the options by their ids.
fn current_values(answer: &Value) -> (Value, Value, Value) {
    let options = answer["configOptions"].as_array().into_iter().flatten();
    let options = options
        .map(|o| (o["id"].as_str().unwrap_or_default().to_owned(), o["currentValue"].clone()));
    let (mode, model) = (&answer["modes"]["currentModeId"], &answer["models"]["currentModelId"]);
    (mode.clone(), model.clone(), Value::Object(options.collect()))
}

/// Returns the settings that were set again at the last start.
fn list_restored_settings(recording: &Recording) -> Result<Vec<Value>> {
    let sets = recording.since_start()?.into_iter();
    let sets = sets.filter(|message| {
        message["method"].as_str().is_some_and(|name| name.starts_with("session/set_"))
    });
    Ok(sets.map(|message| message["params"].clone()).collect())
}

#[tokio::test]
async fn agents_rights_are_not_changed_on_return_when_it_kept_its_mode() -> Result<()> {
    for (first, chosen) in [("auto", "ask"), ("ask", "auto")] {
        for by_option in [false, true] {
            let agent = PersistentAgent::new()?;
            let mut host = agent.start_host(&["--mode-option", "--first-mode", first])?;
            let (client, session) = open_session(&host).await?;
            match by_option {
                false => set_mode(&client, &session, chosen).await?,
                true => set_option(&client, &session, "mode", chosen).await?,
            }
            host.restart()?;
            let second = crate::connect_client(&host).await?;
            let said = prompt_for_text(&second, &session, "settings").await?;
            assert_eq!(
                said,
                format!("mode={chosen} model=small effort=low"),
                "{first} {by_option}"
            );
            assert_eq!(
                list_restored_settings(&agent.recording)?,
                Vec::<Value>::new(),
                "{first} {by_option}"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn mode_is_set_again_once_when_the_agent_forgot_it() -> Result<()> {
    let recording = Recording::new()?;
    let mut host = recording
        .host_options(&["--mode-option", "--first-mode", "auto"])?
        .start_host()?;
    let (client, session) = open_session(&host).await?;
    set_mode(&client, &session, "ask").await?;
    host.restart()?;
    let second = join_session(&host, &session).await?;
    assert_eq!(
        prompt_for_text(&second, &session, "settings").await?,
        "mode=ask model=small effort=low"
    );
    let sets = list_restored_settings(&recording)?;
    assert_eq!(sets.iter().map(|set| &set["modeId"]).collect::<Vec<_>>(), ["ask"], "{sets:?}");
    let loaded = second.load_session(&session, &cwd(&host)?).await?;
    assert_eq!(
        current_values(&loaded),
        (json!("ask"), Value::Null, json!({ "model": "small", "mode": "ask" }))
    );
    Ok(())
}

#[tokio::test]
async fn mode_is_taken_from_the_option_alone_when_the_agent_has_no_modes() -> Result<()> {
    let recording = Recording::new()?;
    let mut host = recording
        .host_options(&["--only-options", "--first-mode", "auto"])?
        .start_host()?;
    let (client, session) = open_session(&host).await?;
    set_option(&client, &session, "mode", "ask").await?;
    host.restart()?;
    let second = crate::connect_client(&host).await?;
    assert_eq!(
        prompt_for_text(&second, &session, "settings").await?,
        "mode=ask model=small effort=low"
    );
    Ok(())
}

#[tokio::test]
async fn joiners_are_told_one_value_in_both_spellings() -> Result<()> {
    let agent = PersistentAgent::new()?;
    let mut host = agent.start_host(&["--mode-option", "--models", "--first-mode", "auto"])?;
    let (client, session) = open_session(&host).await?;
    set_mode(&client, &session, "ask").await?;
    set_model(&client, &session, "large").await?;
    let expected = (json!("ask"), json!("large"), json!({ "model": "large", "mode": "ask" }));
    let second = crate::connect_client(&host).await?;
    assert_eq!(current_values(&second.load_session(&session, &cwd(&host)?).await?), expected);
    set_option(&second, &session, "mode", "auto").await?;
    set_option(&second, &session, "model", "small").await?;
    let expected = (json!("auto"), json!("small"), json!({ "model": "small", "mode": "auto" }));
    for again in [false, true] {
        if again {
            host.restart()?;
        }
        let third = crate::connect_client(&host).await?;
        let start = json!({ "sessionId": session, "cwd": cwd(&host)?, "mcpServers": [] });
        assert_eq!(
            current_values(&third.call_method("session/resume", start).await?),
            expected,
            "{again}"
        );
    }
    Ok(())
}

/// Returns the kinds of settings updates among these frames, in order.
fn list_settings_updates(frames: &[ReceivedFrame]) -> Vec<String> {
    let kinds = frames
        .iter()
        .filter_map(ReceivedFrame::update)
        .filter_map(|update| update["sessionUpdate"].as_str());
    kinds
        .filter(|kind| matches!(*kind, "current_mode_update" | "config_option_update"))
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn change_is_told_once_in_each_spelling_however_the_agent_reports_it() -> Result<()> {
    for report in [&[][..], &["--report", "before"], &["--report", "after"], &["--report", "both"]]
    {
        let host = crate::scripted_host(&[&["--mode-option"], report].concat())?.start_host()?;
        let (first, session) = open_session(&host).await?;
        let second = join_session(&host, &session).await?;
        for (round, mode) in ["auto", "ask", "auto"].into_iter().enumerate() {
            match round {
                1 => set_option(&first, &session, "mode", mode).await?,
                _ => set_mode(&first, &session, mode).await?,
            }
            for kind in ["current_mode_update", "config_option_update"] {
                // The two may arrive in any order, so each is searched among all received frames.
                let count = round + 1;
                let come = |client: &TestClient| {
                    list_settings_updates(&client.received_frames())
                        .iter()
                        .filter(|k| *k == kind)
                        .count()
                };
                let found = wharf_testkit::polling::poll_until(wharf_testkit::WAIT_LIMIT, || {
                    Ok((come(&second) >= count).then_some(()))
                });
                found.await?.with_context(|| format!("{report:?} {mode}: no {kind}"))?;
            }
        }
        let mut kinds = list_settings_updates(&second.received_frames());
        kinds.sort();
        let (modes, options) = (["current_mode_update"; 3], ["config_option_update"; 3]);
        assert_eq!(kinds, [options, modes].concat(), "{report:?}");
        let logged = log::list_events(&host, &session, "agent_updated")?;
        assert_eq!(
            logged.len(),
            6,
            "{report:?}: nothing else was told, from the beginning on: {logged:?}"
        );
        for update in second.received_frames().iter().filter_map(ReceivedFrame::update) {
            let option = &update["configOptions"][1];
            assert!(option.is_null() || option["id"] == "mode", "{update}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn setting_is_in_the_log_when_its_answer_has_come() -> Result<()> {
    let host = crate::scripted_host(&["--mode-option", "--models"])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let newest = |host: &TestHost| -> Result<Value> {
        let events = log::list_events(host, &session, "settings_changed")?;
        Ok(events.last().context("no fact")?["settings"].clone())
    };
    let value = |settings: &Value, of: &str| {
        let known = settings.as_array().into_iter().flatten().find(|one| one["of"] == of).cloned();
        known.unwrap_or_default()["value"].clone()
    };
    set_mode(&client, &session, "auto").await?;
    assert_eq!(value(&newest(&host)?, "mode"), "auto");
    set_model(&client, &session, "large").await?;
    assert_eq!(value(&newest(&host)?, "model"), "large");
    set_option(&client, &session, "mode", "ask").await?;
    assert_eq!(value(&newest(&host)?, "mode"), "ask");
    Ok(())
}

#[tokio::test]
async fn model_of_set_model_is_reported_and_restored_on_return() -> Result<()> {
    let recording = Recording::new()?;
    let mut host = recording.host_options(&["--models"])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    set_model(&first, &session, "large").await?;
    let expected = (json!("ask"), json!("large"), json!({ "model": "large" }));
    let second = connect_client(&host).await?;
    assert_eq!(current_values(&second.load_session(&session, &cwd(&host)?).await?), expected);
    host.restart()?;
    let third = connect_client(&host).await?;
    assert_eq!(current_values(&third.load_session(&session, &cwd(&host)?).await?), expected);
    assert_eq!(
        prompt_for_text(&third, &session, "settings").await?,
        "mode=ask model=large effort=low"
    );
    assert_eq!(list_restored_settings(&recording)?.len(), 1, "both spellings are one setting");
    Ok(())
}

#[tokio::test]
async fn model_spellings_are_kept_apart_when_their_values_differ() -> Result<()> {
    for keeps in [false, true] {
        let agent = PersistentAgent::new()?;
        let flags = ["--split-models"];
        let mut host = if keeps {
            agent.start_host(&flags)?
        } else {
            agent.recording.host_options(&flags)?.start_host()?
        };
        let (first, session) = open_session(&host).await?;
        set_model(&first, &session, "large[high]").await?;
        host.restart()?;
        let second = connect_client(&host).await?;
        assert_eq!(
            prompt_for_text(&second, &session, "settings").await?,
            "mode=ask model=large effort=high",
            "{keeps}"
        );
        let sets = list_restored_settings(&agent.recording)?;
        assert!(sets.iter().all(|set| set["modelId"] == "large[high]"), "{keeps}: {sets:?}");
    }
    Ok(())
}

#[tokio::test]
async fn options_are_compared_again_after_each_that_is_set() -> Result<()> {
    let agent = PersistentAgent::new()?;
    let mut host = agent.start_host(&["--only-options", "--effort-option"])?;
    let (first, session) = open_session(&host).await?;
    set_option(&first, &session, "effort", "high").await?;
    host.kill()?;
    // Setting the mode back also sets the effort to low.
    agent.change_settings(|kept| kept["mode"] = "auto".into())?;
    host.restart()?;
    let second = connect_client(&host).await?;
    assert_eq!(
        prompt_for_text(&second, &session, "settings").await?,
        "mode=ask model=small effort=high"
    );
    let sets = list_restored_settings(&agent.recording)?;
    let sets: Vec<&Value> = sets.iter().map(|set| &set["configId"]).collect();
    assert_eq!(sets, ["mode", "effort"]);
    Ok(())
}

#[tokio::test]
async fn mode_beside_odd_json_is_restored_and_reported() -> Result<()> {
    let odd = [r#""_meta":{"x":1e400},"#, r#""_meta":{"x":"\ud83d"},"#];
    for odd in odd {
        let mut host = crate::scripted_host(&[])?
            .without_keepers(crate::AGENT_COMES_BACK)
            .start_host()?;
        let (first, session) = open_session(&host).await?;
        let update = format!(
            r#"rawupdate {{{odd}"sessionUpdate":"current_mode_update","currentModeId":"auto"}}"#
        );
        first.send_prompt(&session, &update).await?;
        host.restart()?;
        let second = connect_client(&host).await?;
        let loaded = second.load_session(&session, &cwd(&host)?).await?;
        assert_eq!(current_values(&loaded).0, "auto", "{odd}");
        assert!(
            prompt_for_text(&second, &session, "settings").await?.starts_with("mode=auto "),
            "{odd}"
        );
    }
    Ok(())
}
