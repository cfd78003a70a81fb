//! `wharf output --style lines`: the lines of AIP-46 (rule 8.4), for programs.

use wharf_api::{OutputLine, OutputLines, SessionInfo, StreamEvent};
use wharf_render::style::Screen;

use crate::client::{HostCall, HostClient, StreamFollower, StreamStart, url_path};
use crate::exit::Exit;
use crate::turn::format_output_line;
use crate::{output, session_state};

/// How many lines are shown by default.
pub(super) const DEFAULT_LINES: usize = 200;

/// Prints the last lines of a session.
pub(super) async fn show_lines(
    client: &HostClient,
    screen: Screen,
    session: &SessionInfo,
    lines: usize,
    json: bool,
) -> anyhow::Result<Exit> {
    let answer = client.send_call(&last_lines_call(&session.id, lines)).await?;
    if json {
        output::print_line(answer.text().trim_end());
    } else {
        print_lines(screen, &answer.json()?);
    }
    Ok(Exit::Ok)
}

/// Prints the last lines of a session, then new ones, until the session ends or the reader is gone.
pub(super) async fn follow_lines(
    client: &HostClient,
    screen: Screen,
    session: &SessionInfo,
    lines: usize,
) -> anyhow::Result<Exit> {
    let past: OutputLines = client.fetch_json(&last_lines_call(&session.id, lines)).await?;
    if !print_lines(screen, &past) || !is_going_on(session) {
        return Ok(Exit::Ok);
    }
    let from = past.last_event_id.map_or(StreamStart::Beginning, StreamStart::After);
    let mut follow =
        StreamFollower::new(client, url_path(&["sessions", &session.id, "stream"]), from);
    // The host ends the stream when the session is over; it stays open while the session sleeps.
    while let Some(event) = follow.next().await? {
        let StreamEvent::Line(line) = event.parse_session_event()? else { continue };
        if output::try_print_line(&format_output_line(
            screen,
            &line.line,
            line.stream == OutputLine::STDERR,
        ))
        .is_err()
        {
            break;
        }
    }
    Ok(Exit::Ok)
}

/// Returns true if the session lives, or wakes at the next prompt.
pub(super) fn is_going_on(session: &SessionInfo) -> bool {
    session.status.is_alive() || session_state::is_asleep(session)
}

fn last_lines_call(session: &str, lines: usize) -> HostCall {
    HostCall::get(format!("{}?lastN={lines}", url_path(&["sessions", session, "output"])))
}

/// Prints the lines. Returns false if the reader is gone.
fn print_lines(screen: Screen, output: &OutputLines) -> bool {
    output
        .lines
        .iter()
        .all(|line| output::try_print_line(&format_output_line(screen, line, false)).is_ok())
}
