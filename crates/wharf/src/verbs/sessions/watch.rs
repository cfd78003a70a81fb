//! `wharf sessions --watch`: the table, drawn again at every change, or one line per change for a program.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::value::RawValue;
use wharf_api::{ForgottenSession, SessionInfo, SessionSnapshot, SessionStreamEvent};

use super::{SessionsVerb, format_sessions, plain_row};
use crate::client::{HostClient, SseEvent, StreamFollower, StreamStart};
use crate::exit::Exit;
use crate::format::Screen;
use crate::output;

/// How often the times on the screen are updated.
const REDRAW_INTERVAL: Duration = Duration::from_secs(5);
/// Moves to the upper left corner and clears the screen.
const CLEAR_SCREEN: &str = "\x1b[H\x1b[J";

/// The sessions by id; ids sort by age.
type KnownSessions = BTreeMap<String, SessionInfo>;

pub(super) async fn watch_sessions(client: &HostClient, screen: Screen, verb: &SessionsVerb) -> anyhow::Result<Exit> {
    let mut follow = StreamFollower::new(client, "/sessions/stream".to_owned(), StreamStart::Beginning);
    let mut known = KnownSessions::new();
    let mut clock = tokio::time::interval(REDRAW_INTERVAL);
    loop {
        let shown = tokio::select! {
            event = follow.next() => match event? {
                Some(event) if screen.terminal && !verb.json => {
                    update_known(&mut known, &event)?;
                    draw_table(screen, verb, &known)
                }
                Some(event) => print_changes(&mut known, &event, verb)?,
                None => return Ok(Exit::Ok),
            },
            _ = clock.tick(), if screen.terminal && !verb.json && !known.is_empty() => draw_table(screen, verb, &known),
        };
        if shown.is_err() {
            return Ok(Exit::Ok);
        }
    }
}

/// Applies an event to the known sessions. Returns the sessions in the event with their JSON text.
fn update_known(known: &mut KnownSessions, event: &SseEvent) -> anyhow::Result<Vec<(SessionInfo, Box<RawValue>)>> {
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
        // An unknown event of a newer host.
        SessionStreamEvent::Other => Vec::new(),
    };
    let mut sessions = Vec::new();
    for json in told {
        let session: SessionInfo = wharf_json::read_own(json.get().as_bytes())?;
        known.insert(session.id.clone(), session.clone());
        sessions.push((session, json));
    }
    Ok(sessions)
}

fn draw_table(screen: Screen, verb: &SessionsVerb, known: &KnownSessions) -> std::io::Result<()> {
    let sessions: Vec<&SessionInfo> = known.values().rev().filter(|session| verb.is_wanted(session)).collect();
    let mut picture = format_sessions(screen, &sessions);
    if picture.is_empty() {
        picture.push("no sessions".to_owned());
    }
    output::try_print_line(&format!("{CLEAR_SCREEN}{}", picture.join("\n")))
}

/// Prints one line per session in the event. A session that has just ended is printed once more, so that its end is seen.
fn print_changes(
    known: &mut KnownSessions,
    event: &SseEvent,
    verb: &SessionsVerb,
) -> anyhow::Result<std::io::Result<()>> {
    let before = known.clone();
    let told = event.parse_list_event()?;
    let first = matches!(told, SessionStreamEvent::Snapshot(_));
    for (session, json) in update_known(known, event)? {
        let shown_before = !first && before.get(&session.id).is_some_and(|before| verb.is_wanted(before));
        let line = if verb.json { json.get().to_owned() } else { plain_row(&session) };
        if (verb.is_wanted(&session) || shown_before) && output::try_print_line(&line).is_err() {
            return Ok(Err(std::io::ErrorKind::BrokenPipe.into()));
        }
    }
    if let SessionStreamEvent::Forgotten(ForgottenSession { id }) = told {
        let line = if verb.json { event.data.clone() } else { format!("{id}\tforgotten") };
        return Ok(output::try_print_line(&line));
    }
    Ok(Ok(()))
}
