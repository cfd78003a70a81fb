//! Which session is meant: by its id or part of it, by its label, or by the directory that one is in.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;
use wharf_api::SessionInfo;

use crate::client::{Call, Client, path};
use crate::exit::{Exit, Failure};
use crate::look::text::printable;
use crate::look::times;
use crate::state;

/// An id is `sess_`, ten characters of time and sixteen at random.
const PREFIX: &str = "sess_";
const TIME: usize = 10;
const WHOLE: usize = 31;
/// A shorter abbreviation is more likely a slip of the finger.
const SHORTEST: usize = 3;
/// So many letters of an id tell sessions apart on most machines.
const SHOWN: usize = 6;
/// The most that the host gives at once.
const PAGE: usize = 1_000;
/// Of those that an abbreviation fits, so many are named.
const NAMED: usize = 10;

/// A [`wharf_api::SessionPage`], each session as it was written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    sessions: Vec<Box<RawValue>>,
    next_cursor: Option<String>,
}

/// A session, and the JSON that told of it.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) session: SessionInfo,
    pub(crate) json: Box<RawValue>,
}

/// Every session of the host, newest first. `query` narrows it: `&adapter=claude`.
pub(crate) async fn list(client: &Client, query: &str) -> anyhow::Result<Vec<Listed>> {
    let mut listed = Vec::new();
    let mut cursor = String::new();
    loop {
        let page: Page = client.call(&Call::get(format!("/sessions?limit={PAGE}{query}{cursor}"))).await?.json()?;
        for json in page.sessions {
            listed.push(Listed { session: wharf_json::read_own(json.get().as_bytes())?, json });
        }
        match page.next_cursor {
            Some(next) => cursor = format!("&cursor={}", crate::connect::percent_encoded(&next)),
            None => return Ok(listed),
        }
    }
}

/// The session that is meant. `None` and `.` mean the one of the current directory.
pub(crate) async fn session(client: &Client, meant: Option<&str>) -> anyhow::Result<SessionInfo> {
    if let Some(id) = meant.filter(|id| id.starts_with(PREFIX) && id.len() == WHOLE) {
        return client.call(&Call::get(path(&["sessions", id]))).await?.json();
    }
    let sessions: Vec<SessionInfo> = list(client, "").await?.into_iter().map(|listed| listed.session).collect();
    match pick(&sessions, meant, &here()) {
        Ok(found) => Ok(found.clone()),
        Err(NotOne::None) => Err(nothing(meant).into()),
        Err(NotOne::Many(found)) => Err(several(meant.unwrap_or("."), &found).into()),
    }
}

/// The current directory, by all its names.
fn here() -> Vec<PathBuf> {
    let logical = std::env::var_os("PWD").map(PathBuf::from);
    let real = std::env::current_dir().ok();
    logical.into_iter().chain(real).collect()
}

/// Why it is not one session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotOne<'a> {
    None,
    Many(Vec<&'a SessionInfo>),
}

/// The one session that is meant, of these (newest first).
pub(crate) fn pick<'a>(
    sessions: &'a [SessionInfo],
    meant: Option<&str>,
    here: &[PathBuf],
) -> Result<&'a SessionInfo, NotOne<'a>> {
    let Some(meant) = meant.filter(|meant| *meant != ".") else {
        let mut local = sessions.iter().filter(|session| here.iter().any(|dir| Path::new(&session.cwd) == dir));
        let first = local.clone().next();
        return local.find(|session| session.status.is_alive()).or(first).ok_or(NotOne::None);
    };
    let whole = |session: &&SessionInfo| session.id == meant || session.id.strip_prefix(PREFIX) == Some(meant);
    if let Some(session) = sessions.iter().find(whole) {
        return Ok(session);
    }
    let called =
        |session: &&SessionInfo| [&session.label, &session.name].iter().any(|word| word.as_deref() == Some(meant));
    let mut found: Vec<&SessionInfo> = sessions.iter().filter(called).collect();
    if found.is_empty() {
        found = sessions.iter().filter(|session| abbreviates(meant, &session.id)).collect();
    } else if let [alive] = found.iter().copied().filter(|session| session.status.is_alive()).collect::<Vec<_>>()[..] {
        // A label that is used again means the one at work.
        return Ok(alive);
    }
    match found[..] {
        [] => Err(NotOne::None),
        [one] => Ok(one),
        _ => Err(NotOne::Many(found)),
    }
}

/// Is it the beginning of the id or of its random part, or the end?
fn abbreviates(short: &str, id: &str) -> bool {
    let short = short.to_lowercase();
    let (short, body) = (short.strip_prefix(PREFIX).unwrap_or(&short), id.strip_prefix(PREFIX).unwrap_or(id));
    let random = body.get(TIME..).unwrap_or_default();
    short.len() >= SHORTEST && (body.starts_with(short) || random.starts_with(short) || body.ends_with(short))
}

fn nothing(meant: Option<&str>) -> Failure {
    let words = match meant {
        None | Some(".") => {
            "no session was started in this directory; name one (see: wharf sessions --all) or start one: wharf run"
                .to_owned()
        }
        Some(meant) => {
            format!("no session is called {meant:?} or has an id that begins or ends so; see: wharf sessions --all")
        }
    };
    Failure::new(Exit::NotFound, words)
}

fn several(meant: &str, found: &[&SessionInfo]) -> Failure {
    let mut words = format!("{meant:?} fits {} sessions; which one?", found.len());
    let now = times::now();
    for session in found.iter().take(NAMED) {
        let (state, _) = state::of(session);
        let called = state::called(session).map(|called| format!("  {}", printable(called))).unwrap_or_default();
        let ago = times::ago(&session.started_at, now);
        words.push_str(&format!("\n  {}  {}  {state}  {ago}{called}", session.id, session.adapter_slug));
    }
    if found.len() > NAMED {
        words.push_str(&format!("\n  and {} more", found.len() - NAMED));
    }
    Failure::new(Exit::Usage, words)
}

/// The end of the id, as long as it takes to tell it from the others.
pub(crate) fn short_ids(sessions: &[&SessionInfo]) -> Vec<String> {
    let end = |id: &str, length: usize| id.get(id.len().saturating_sub(length)..).unwrap_or(id).to_owned();
    let mut length = SHOWN;
    loop {
        let ends: Vec<String> = sessions.iter().map(|session| end(&session.id, length)).collect();
        let mut sorted = ends.clone();
        sorted.sort_unstable();
        if length >= WHOLE || sorted.windows(2).all(|pair| pair.first() != pair.last()) {
            return ends;
        }
        length += 1;
    }
}

/// The end of one id, for a person who reads about one session.
pub(crate) fn short(id: &str) -> &str {
    id.get(id.len().saturating_sub(SHOWN)..).unwrap_or(id)
}
