//! `wharf doctor` reports working and broken parts and the next step; it changes nothing.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;
use wharf_testkit::host::TestHost;

use crate::program::wharf_command;
use crate::{add_section, scripted_host};

/// Returns the findings and the exit code.
fn run_doctor(
    state: &Path,
    config: &Path,
    variables: &[(&str, &str)],
) -> Result<(Value, Option<i32>)> {
    let mut command = wharf_command(&["doctor", "--json"]);
    command
        .env("WHARF_STATE_DIR", state)
        .env("WHARF_CONFIG", config)
        .envs(variables.iter().copied());
    let output = command.output()?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((serde_json::from_str(&told).with_context(|| format!("{output:?}"))?, output.status.code()))
}

fn run_doctor_for_host(
    host: &TestHost,
    variables: &[(&str, &str)],
) -> Result<(Value, Option<i32>)> {
    run_doctor(&host.state_dir(), &host.directory().join("config.toml"), variables)
}

fn find_check<'a>(told: &'a Value, check: &str) -> &'a Value {
    let all = told["findings"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().find(|finding| finding["check"] == check).unwrap_or(&Value::Null)
}

#[test]
fn doctor_reports_a_working_machine_and_the_running_host() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (told, code) = run_doctor_for_host(&host, &[])?;
    assert_eq!((&told["usable"], code), (&Value::Bool(true), Some(0)), "{told:#}");
    let says = find_check(&told, "host")["says"].as_str().unwrap_or_default();
    assert!(
        says.contains(env!("CARGO_PKG_VERSION")) && says.contains(&host.pid().to_string()),
        "{says}"
    );
    for check in ["settings", "host", "state", "socket", "disk", "default agent", "processes"] {
        let finding = find_check(&told, check);
        // A busy disk is slow for a moment.
        let is_slow_disk =
            check == "disk" && finding["says"].to_string().contains("a synced write");
        assert!(finding["level"] == "ok" || is_slow_disk, "{check}: {told:#}");
    }
    Ok(())
}

#[test]
fn doctor_reports_a_wrong_setting_and_still_checks_the_rest() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (state, config) = (folder.path().join("state"), folder.path().join("config.toml"));
    for (text, word) in [
        ("cancel_timout = \"1s\"", "cancel_timeout"),
        ("[agents.claud.sandbox]\nmode = \"landlock\"", "claud"),
        ("[sandbox]\nhidden = [\"secrets\"]", "secrets"),
    ] {
        std::fs::write(&config, text)?;
        let (told, code) = run_doctor(&state, &config, &[])?;
        let settings = find_check(&told, "settings");
        assert_eq!((&settings["level"], code), (&Value::from("broken"), Some(1)), "{told:#}");
        assert!(settings["says"].as_str().is_some_and(|says| says.contains(word)), "{settings}");
        assert!(settings["advice"].is_string());
        assert_eq!(
            (&find_check(&told, "host")["level"], &find_check(&told, "state")["level"]),
            (&"note".into(), &"note".into())
        );
    }
    assert!(!state.exists(), "nothing is made");
    Ok(())
}

#[test]
fn doctor_reports_an_unavailable_sandbox() -> Result<()> {
    let host = add_section(scripted_host(&[])?, "[sandbox]\nmode = \"landlock\"").start_host()?;
    let (told, code) = run_doctor_for_host(&host, &[("WHARF_WITHOUT_LANDLOCK", "1")])?;
    assert_eq!((&told["usable"], code), (&Value::Bool(false), Some(1)), "{told:#}");
    let finding = find_check(&told, "sandbox");
    assert_eq!(finding["level"], "broken");
    assert!(
        finding["advice"].as_str().is_some_and(|advice| advice.contains("Linux 6.2")),
        "{finding}"
    );
    Ok(())
}
