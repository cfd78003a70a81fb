//! `wharf sessions --watch`: the table drawn anew at every change, or one line per change for a program.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::value::RawValue;
use wharf_api::{ForgottenSession, SessionInfo, SessionSnapshot, SessionStreamEvent};

use super::{Sessions, lines, plain};
use crate::client::{Client, Event, Follow, Place};
use crate::exit::Exit;
use crate::look::Screen;
use crate::output;

/// How often the times on the screen are brought up to date.
const REDRAW: Duration = Duration::from_secs(5);
/// To the upper left corner, and everything below it cleared.
const CLEAR: &str = "\x1b[H\x1b[J";

/// What is known, by id: ids sort by age.
type Known = BTreeMap<String, SessionInfo>;

pub(super) async fn run(client: &Client, screen: Screen, verb: &Sessions) -> anyhow::Result<Exit> {
    let mut follow = Follow::new(client, "/sessions/stream".to_owned(), Place::Beginning);
    let mut known = Known::new();
    let mut clock = tokio::time::interval(REDRAW);
    loop {
        let shown = tokio::select! {
            event = follow.next() => match event? {
                Some(event) if screen.terminal && !verb.json => {
                    take(&mut known, &event)?;
                    draw(screen, verb, &known)
                }
                Some(event) => tell(&mut known, &event, verb)?,
                None => return Ok(Exit::Ok),
            },
            _ = clock.tick(), if screen.terminal && !verb.json && !known.is_empty() => draw(screen, verb, &known),
        };
        if shown.is_err() {
            return Ok(Exit::Ok);
        }
    }
}

/// Brings what is known up to date; returns the sessions that this is about, as they were written.
fn take(known: &mut Known, event: &Event) -> anyhow::Result<Vec<(SessionInfo, Box<RawValue>)>> {
    let told: Vec<Box<RawValue>> = match event.told_of_all()? {
        SessionStreamEvent::Snapshot(SessionSnapshot { sessions }) => {
            known.clear();
            sessions
        }
        SessionStreamEvent::Session(session) => vec![session],
        SessionStreamEvent::Forgotten(ForgottenSession { id }) => {
            known.remove(&id);
            Vec::new()
        }
        // What a newer host may tell besides.
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

fn draw(screen: Screen, verb: &Sessions, known: &Known) -> std::io::Result<()> {
    let sessions: Vec<&SessionInfo> = known.values().rev().filter(|session| verb.wants(session)).collect();
    let mut picture = lines(screen, &sessions);
    if picture.is_empty() {
        picture.push("no sessions".to_owned());
    }
    output::stream(&format!("{CLEAR}{}", picture.join("\n")))
}

/// One line per session that the event tells of; an ended one is told once more, so that its end is seen.
fn tell(known: &mut Known, event: &Event, verb: &Sessions) -> anyhow::Result<std::io::Result<()>> {
    let before = known.clone();
    let told = event.told_of_all()?;
    let first = matches!(told, SessionStreamEvent::Snapshot(_));
    for (session, json) in take(known, event)? {
        let shown_before = !first && before.get(&session.id).is_some_and(|before| verb.wants(before));
        let line = if verb.json { json.get().to_owned() } else { plain(&session) };
        if (verb.wants(&session) || shown_before) && output::stream(&line).is_err() {
            return Ok(Err(std::io::ErrorKind::BrokenPipe.into()));
        }
    }
    if let SessionStreamEvent::Forgotten(ForgottenSession { id }) = told {
        let line = if verb.json { event.data.clone() } else { format!("{id}\tforgotten") };
        return Ok(output::stream(&line));
    }
    Ok(Ok(()))
}
