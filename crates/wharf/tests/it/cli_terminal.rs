//! The command line on a real terminal of a given size.

use anyhow::{Context, Result};
use serde_json::Value;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;
use wharf_testkit::processes;

use crate::cli::{run_wharf, start_kept_session};
use crate::program::{Lines, start_and_read_lines, terminal_command};
use crate::rest::{wait_for_session, wait_until_idle};
use crate::{parse_pids, scripted_host, wharf_binary};

/// Begins every picture of a watched table.
const CLEAR_SCREEN: &str = "\x1b[H\x1b[J";

/// Starts a verb on a terminal with so many rows and columns.
fn start_on_terminal(
    host: &TestHost,
    (rows, columns): (u16, u16),
    arguments: &str,
) -> Result<Lines> {
    let binary = wharf_binary();
    let line = format!(
        "stty rows {rows} cols {columns}; exec {} --no-start {arguments}",
        binary.display()
    );
    let mut command = terminal_command(&line);
    command
        .env("WHARF_STATE_DIR", host.state_dir())
        .env("HOME", "/nonexistent")
        .env("TERM", "xterm");
    start_and_read_lines(command)
}

/// Returns the lines of the first complete picture that has this text.
fn find_picture(lines: &mut Lines, text: &str) -> Result<Vec<String>> {
    let mut picture: Vec<String> = Vec::new();
    loop {
        let line = lines.next()?;
        let begins = line.split_once(CLEAR_SCREEN).map(|(_, rest)| rest.to_owned());
        match begins {
            Some(_) if picture.iter().any(|line| line.contains(text)) => return Ok(picture),
            Some(first) => picture = vec![first],
            None => picture.push(line),
        }
    }
}

#[test]
fn watched_table_fits_a_screen_that_is_lower_than_it() -> Result<()> {
    const ROWS: u16 = 8;
    let host = scripted_host(&[])?.start_host()?;
    for number in 0..12 {
        start_kept_session(&host, &["--label", &format!("one-{number}")])?;
    }
    let mut watching = start_on_terminal(&host, (ROWS, 70), "sessions --watch")?;
    find_picture(&mut watching, "one-11")?;
    start_kept_session(&host, &["--label", "newest"])?;
    let picture = find_picture(&mut watching, "newest")?;
    // The line break after the last line takes one line of the screen.
    assert!(picture.len() < usize::from(ROWS), "{} lines: {picture:#?}", picture.len());
    assert!(picture.first().context("no header")?.contains("STATE"), "{picture:#?}");
    assert!(picture[1].contains("newest"), "{picture:#?}");
    assert!(picture.last().context("no end")?.contains("more"), "{picture:#?}");
    Ok(())
}

#[test]
fn question_before_killing_all_sessions_is_asked_on_a_terminal() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let id = start_kept_session(&host, &["--label", "kept"])?;
    // The terminal's input ends at once, which is no consent.
    let mut asking = start_on_terminal(&host, (24, 80), "kill --all")?;
    let said = asking.read_rest()?.join("\n");
    assert!(
        said.contains(&id) && said.contains("[y/N]") && said.contains("nothing is killed"),
        "{said}"
    );
    assert_eq!(asking.code()?, Some(5));
    assert_eq!(run_wharf(&host, &["ls", "-q"])?, format!("{id}\n"));
    Ok(())
}

#[test]
fn install_commands_are_whole_on_a_narrow_terminal() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let listed: Value = serde_json::from_str(&run_wharf(&host, &["agents", "--json"])?)?;
    let shown = start_on_terminal(&host, (24, 80), "agents --color never")?
        .read_rest()?
        .join("\n");
    let missing = listed["adapters"]
        .as_array()
        .context("no adapters")?
        .iter()
        .filter(|known| known["installed"] == false);
    for hint in missing.filter_map(|known| known["installHint"].as_str()) {
        assert!(shown.contains(hint), "{hint} is cut:\n{shown}");
    }
    Ok(())
}

#[tokio::test]
async fn session_that_sleeps_is_shown_in_one_state() -> Result<()> {
    let host = scripted_host(&["--resume"])?.start_host()?;
    let http = RestClient::new(&host);
    let id = start_kept_session(&host, &["--label", "docs"])?;
    wait_until_idle(&http, &id).await?;
    let said = run_wharf(&host, &["prompt", &id, "--wait", "pid"])?;
    let pid = said.lines().flat_map(parse_pids).next().context("no pid")?;
    assert!(processes::send_sigkill(pid));
    wait_for_session(&http, &id, "the agent's end", |session| session["status"] == "error").await?;
    let shown = start_on_terminal(&host, (24, 80), "show docs --color never")?.read_rest()?;
    let rows: Vec<(&str, &str)> =
        shown.iter().filter_map(|line| line.trim_end().split_once("  ")).collect();
    let value = |wanted: &str| {
        rows.iter()
            .find(|(name, _)| name.trim() == wanted)
            .map(|(_, value)| value.trim())
    };
    assert_eq!(
        (value("state"), value("status"), value("resumable")),
        (Some("asleep"), None, None),
        "{shown:#?}"
    );
    assert_eq!(value("next"), Some("the next prompt wakes it"), "{shown:#?}");
    Ok(())
}
