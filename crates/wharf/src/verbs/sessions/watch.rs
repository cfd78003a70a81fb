//! `wharf sessions --watch`: the table, drawn again at every change, or one line per change for a
//! program.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use serde_json::value::RawValue;
use tokio::signal::unix::{SignalKind, signal};
use wharf_api::{ForgottenSession, SessionInfo, SessionSnapshot, SessionStreamEvent};
use wharf_render::style::Screen;

use super::{SessionsVerb, sort_key};
use crate::client::{HostClient, SseEvent, StreamFollower, StreamStart};
use crate::exit::Exit;
use crate::format::terminal_size;
use crate::output;

/// How often the times on the screen are updated.
const REDRAW_INTERVAL: Duration = Duration::from_secs(5);
/// Moves to the upper left corner and clears the screen.
const CLEAR_SCREEN: &str = "\x1b[H\x1b[J";
/// A line that is too wide is cut instead of continued on the next line, which would move the
/// header out of the screen.
const WRAP_OFF: &str = "\x1b[?7l";
const WRAP_ON: &str = "\x1b[?7h";

/// The sessions by id; ids sort by age.
type KnownSessions = BTreeMap<String, SessionInfo>;

pub(super) async fn watch_sessions(
    client: &HostClient,
    screen: Screen,
    verb: &SessionsVerb,
) -> anyhow::Result<Exit> {
    let mut follow =
        StreamFollower::new(client, "/sessions/stream".to_owned(), StreamStart::Beginning);
    let mut known = KnownSessions::new();
    let mut clock = tokio::time::interval(REDRAW_INTERVAL);
    let mut resized =
        signal(SignalKind::window_change()).context("watching the size of the terminal")?;
    let draws = screen.terminal && verb.json.is_none();
    loop {
        let shown = tokio::select! {
            event = follow.next() => match event? {
                Some(event) if draws => {
                    update_known(&mut known, &event)?;
                    draw_table(screen, verb, &known)
                }
                Some(event) => print_changes(&mut known, &event, verb)?,
                None => return Ok(Exit::Ok),
            },
            _ = clock.tick(), if draws && !known.is_empty() => draw_table(screen, verb, &known),
            Some(()) = resized.recv(), if draws => draw_table(screen, verb, &known),
        };
        if shown.is_err() {
            return Ok(Exit::Ok);
        }
    }
}

/// Applies an event to the known sessions. Returns the sessions in the event with their JSON text.
fn update_known(
    known: &mut KnownSessions,
    event: &SseEvent,
) -> anyhow::Result<Vec<(SessionInfo, Box<RawValue>)>> {
    let told: Vec<Box<RawValue>> = match event.parse_list_event()? {
        SessionStreamEvent::Snapshot(SessionSnapshot { sessions }) => {
            known.clear();
            sessions
        }
        SessionStreamEvent::Session(session) => vec![session],
        SessionStreamEvent::Forgotten(ForgottenSession { id }) => {
            known.remove(&id);
            Vec::new()
        }
        // `Other` is an event of a newer host.
        SessionStreamEvent::Stopping(_) | SessionStreamEvent::Other => Vec::new(),
    };
    let mut sessions = Vec::new();
    for json in told {
        let session: SessionInfo = wharf_json::read_own(json.get().as_bytes())?;
        known.insert(session.id.clone(), session.clone());
        sessions.push((session, json));
    }
    Ok(sessions)
}

/// Draws the table so that it fits the screen as it is now.
fn draw_table(screen: Screen, verb: &SessionsVerb, known: &KnownSessions) -> std::io::Result<()> {
    let mut sessions: Vec<&SessionInfo> =
        known.values().filter(|session| verb.is_wanted(session)).collect();
    sessions.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
    let (width, height) = terminal_size();
    let mut picture = verb.format_sessions(Screen { width, ..screen }, &sessions);
    if picture.is_empty() {
        picture.push("no sessions".to_owned());
    }
    let picture = fit_lines(picture, height);
    output::try_print_line(&format!("{CLEAR_SCREEN}{WRAP_OFF}{}{WRAP_ON}", picture.join("\n")))
}

/// Returns as many lines as fit a screen of this height, and a line that counts the others. The
/// last line of the screen stays free: the line break at the end of the picture would move the
/// first line out of sight.
fn fit_lines(mut lines: Vec<String>, height: usize) -> Vec<String> {
    let room = height.saturating_sub(1).max(1);
    if lines.len() > room {
        let kept = room.saturating_sub(1).max(1);
        let left = lines.len() - kept;
        lines.truncate(kept);
        if kept < room {
            lines.push(format!("… and {left} more"));
        }
    }
    lines
}

/// Prints one line per session in the event. A session that has just ended is printed once more, so
/// that its end is seen.
fn print_changes(
    known: &mut KnownSessions,
    event: &SseEvent,
    verb: &SessionsVerb,
) -> anyhow::Result<std::io::Result<()>> {
    let before = known.clone();
    let told = event.parse_list_event()?;
    let first = matches!(told, SessionStreamEvent::Snapshot(_));
    for (session, json) in update_known(known, event)? {
        let shown_before =
            !first && before.get(&session.id).is_some_and(|before| verb.is_wanted(before));
        let line = match &verb.json {
            Some(fields) => fields.choose(&json)?,
            None => verb.plain_row(&session),
        };
        if (verb.is_wanted(&session) || shown_before) && output::try_print_line(&line).is_err() {
            return Ok(Err(std::io::ErrorKind::BrokenPipe.into()));
        }
    }
    if let SessionStreamEvent::Forgotten(ForgottenSession { id }) = told {
        let line =
            if verb.json.is_some() { event.data.clone() } else { format!("{id}\tforgotten") };
        return Ok(output::try_print_line(&line));
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_is_lower_than_the_screen() {
        let lines = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>();
        assert_eq!(fit_lines(lines(4), 5), lines(4));
        assert_eq!(fit_lines(lines(5), 5), ["0", "1", "2", "… and 2 more"]);
        assert_eq!(fit_lines(lines(5), 2), ["0"]);
        assert_eq!(fit_lines(lines(5), 0), ["0"]);
    }
}
