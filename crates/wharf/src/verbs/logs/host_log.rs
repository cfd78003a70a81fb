//! `wharf logs`: the host's own log, read from its files. It works without a host: a host that did
//! not start tells there why.

use std::path::{Path, PathBuf};

use serde_json::json;
use wharf_api::HostInfo;
use wharf_render::style::{Screen, TextStyle};
use wharf_render::text::to_printable_line;

use super::LogsVerb;
use super::log_files::{LogFollower, read_last_lines};
use crate::client::HostCall;
use crate::exit::{Exit, Failure};
use crate::global::GlobalOptions;
use crate::log_file::LOG_FILE_NAME;
use crate::output;

pub(super) async fn show_host_log(global: &GlobalOptions, verb: &LogsVerb) -> anyhow::Result<Exit> {
    global
        .refuse_remote("the log of a host is a file on its own machine; name a session to see the log of its agent")?;
    let screen = global.screen();
    let path = find_log_file(global).await?;
    let (lines, follower) = read_last_lines(&path, verb.lines)?;
    if lines.is_empty() && follower.is_none() {
        let words = format!(
            "there is no log at {}: a host in the background writes one there, `wharf serve` logs to its stderr",
            path.display()
        );
        return Err(Failure::new(Exit::NotFound, words).into());
    }
    if verb.json && !verb.follow {
        output::print_line(&json!({ "lines": lines }).to_string());
        return Ok(Exit::Ok);
    }
    if !print_lines(screen, verb.json, &lines) || !verb.follow {
        return Ok(Exit::Ok);
    }
    follow_log(follower.unwrap_or_else(|| LogFollower::new(&path)), screen, verb.json).await
}

/// Returns the file that the running host writes, or would write if it was started in the
/// background. Tells if the running host logs to its stderr: what the file has is then of an
/// earlier host.
async fn find_log_file(global: &GlobalOptions) -> anyhow::Result<PathBuf> {
    let usual = global.state_dir()?.join(LOG_FILE_NAME);
    let Ok(client) = global.connect_if_running().await else { return Ok(usual) };
    let Ok(host) = client.fetch_json::<HostInfo>(&HostCall::get("/host")).await else {
        return Ok(usual);
    };
    match host.log_file {
        Some(file) => Ok(Path::new(&file).to_owned()),
        None => {
            let words = "the running host logs to its own stderr (a terminal, or its service manager's log); this is the log of an earlier one";
            output::print_note(&format!("{words} (pid {})", host.pid));
            Ok(usual)
        }
    }
}

async fn follow_log(mut follower: LogFollower, screen: Screen, json: bool) -> anyhow::Result<Exit> {
    loop {
        let lines = follower.next_lines().await?;
        if !print_lines(screen, json, &lines) {
            return Ok(Exit::Ok);
        }
    }
}

/// Prints the lines. Returns false if the reader is gone.
fn print_lines(screen: Screen, json: bool, lines: &[String]) -> bool {
    let to_text = |line: &String| {
        if json { json!({ "line": line }).to_string() } else { format_line(screen, line) }
    };
    lines.iter().all(|line| output::try_print_line(&to_text(line)).is_ok())
}

/// Returns the line with its level in colour: `2026-11-16T03:20:11.412Z  WARN …`.
fn format_line(screen: Screen, line: &str) -> String {
    let line = to_printable_line(line);
    let level = line.split_whitespace().nth(1).unwrap_or_default();
    let style = match level {
        "ERROR" => TextStyle::Bad,
        "WARN" => TextStyle::Wants,
        "INFO" => TextStyle::Good,
        "DEBUG" | "TRACE" => TextStyle::Faint,
        _ => return line,
    };
    match line.split_once(level) {
        Some((time, rest)) => {
            format!("{}{}{rest}", screen.paint(TextStyle::Faint, time), screen.paint(style, level))
        }
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_time_and_the_level_have_a_colour() {
        let colour = Screen { colour: true, ..Screen::TERMINAL };
        let line = "2026-11-16T03:20:11.412Z  WARN odd \x1b[2JWARN";
        assert_eq!(
            format_line(colour, line),
            "\x1b[2m2026-11-16T03:20:11.412Z  \x1b[0m\x1b[1;33mWARN\x1b[0m odd WARN"
        );
        assert_eq!(format_line(Screen::PIPE, line), "2026-11-16T03:20:11.412Z  WARN odd WARN");
        assert_eq!(format_line(colour, "{\"level\":\"INFO\"}"), "{\"level\":\"INFO\"}");
    }
}
