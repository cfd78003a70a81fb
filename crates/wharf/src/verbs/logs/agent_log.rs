//! `wharf logs SESSION`: the stderr of a session's agent, and its lines on stdout that are not
//! JSON.

use wharf_api::{AgentLogLine, AgentLogPage, LogStream, SessionInfo};
use wharf_render::style::{Screen, TextStyle};
use wharf_render::text::to_printable_line;

use super::LogsVerb;
use crate::client::{HostCall, HostClient, query_part, url_path};
use crate::exit::Exit;
use crate::format::table::join_with_tabs;
use crate::format::times;
use crate::global::GlobalOptions;
use crate::{output, session_ref, session_state};

/// The most lines that the host gives at once.
const MAX_PAGE_LINES: usize = 5_000;
/// How long one call waits for lines. After it, the state of the session is looked at.
const WAIT: &str = "5s";

pub(super) async fn show_agent_log(
    global: &GlobalOptions,
    verb: &LogsVerb,
    id: &str,
) -> anyhow::Result<Exit> {
    let client = global.connect_client().await?;
    let screen = global.screen();
    let session = session_ref::find_session(&client, Some(id)).await?;
    let path = url_path(&["sessions", &session.id, "logs"]);
    let answer = client
        .send_call(&HostCall::get(format!("{path}?limit={}", verb.lines.min(MAX_PAGE_LINES))))
        .await?;
    if verb.json && !verb.follow {
        output::print_line(answer.text().trim_end());
        return Ok(Exit::Ok);
    }
    let page: AgentLogPage = answer.json()?;
    if !print_lines(screen, verb.json, &page)? {
        return Ok(Exit::Ok);
    }
    if verb.follow {
        return follow_lines(&client, screen, verb.json, (&session.id, &path), page.next).await;
    }
    if page.lines.is_empty() && screen.terminal {
        output::print_note(
            "the agent has written nothing beside the protocol since the host was started",
        );
    }
    Ok(Exit::Ok)
}

/// Prints lines as they come, until the session is over or the reader is gone.
async fn follow_lines(
    client: &HostClient,
    screen: Screen,
    json: bool,
    (session, path): (&str, &str),
    mut next: String,
) -> anyhow::Result<Exit> {
    loop {
        let after = query_part("after", Some(&next));
        let call = HostCall::get(format!("{path}?wait={WAIT}&limit={MAX_PAGE_LINES}{after}"));
        let page: AgentLogPage = client.fetch_json_across_restart(&call).await?;
        if page.gap {
            output::print_note(
                "lines may be missing here: the agent wrote more than is kept, or the host was restarted",
            );
        }
        if !print_lines(screen, json, &page)? {
            return Ok(Exit::Ok);
        }
        let is_quiet = page.lines.is_empty();
        next = page.next;
        if is_quiet {
            let call = HostCall::get(url_path(&["sessions", session]));
            let session: SessionInfo = client.fetch_json_across_restart(&call).await?;
            if !session.status.is_alive() && !session_state::is_asleep(&session) {
                return Ok(Exit::Ok);
            }
        }
    }
}

/// Prints the lines. Returns false if the reader is gone.
fn print_lines(screen: Screen, json: bool, page: &AgentLogPage) -> anyhow::Result<bool> {
    for line in &page.lines {
        let text = if json { serde_json::to_string(line)? } else { format_line(screen, line) };
        if output::try_print_line(&text).is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn format_line(screen: Screen, line: &AgentLogLine) -> String {
    if !screen.terminal {
        return join_with_tabs([line.at.as_str(), line.stream.as_str(), &line.text]);
    }
    let time = screen.paint(TextStyle::Faint, &times::clock_time(&line.at));
    let stream = if line.stream == LogStream::Stderr { "" } else { line.stream.as_str() };
    let stream = screen.paint(TextStyle::Busy, &to_printable_line(stream));
    let gap = if stream.is_empty() { "" } else { " " };
    let cut = if line.cut { screen.paint(TextStyle::Faint, " […]") } else { String::new() };
    format!("{time} {stream}{gap}{}{cut}", to_printable_line(&line.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_safe_for_terminals_and_programs() {
        let line = AgentLogLine {
            at: "2026-11-15T20:34:05.123Z".to_owned(),
            stream: LogStream::Stderr,
            text: "a\tb\u{1b}[2J".to_owned(),
            cut: true,
        };
        assert_eq!(format_line(Screen::PIPE, &line), "2026-11-15T20:34:05.123Z\tstderr\ta b");
        assert_eq!(format_line(Screen::TERMINAL, &line), "20:34:05 a\tb […]");
        let stray = AgentLogLine { stream: LogStream::Stdout, cut: false, ..line };
        assert_eq!(format_line(Screen::TERMINAL, &stray), "20:34:05 stdout a\tb");
    }
}
