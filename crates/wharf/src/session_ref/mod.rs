//! Finds the session that an argument names: by its id or a part of it, by its label or title, or
//! by the current directory.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use serde_json::value::RawValue;
use wharf_api::{RawSessionPage, SessionInfo};
use wharf_render::text::{format_ago, quote, to_printable};

use crate::client::{HostCall, HostClient, url_path};
use crate::exit::{Exit, Failure};
use crate::format::times;
use crate::{output, session_state};

/// An id is `sess_`, ten characters of time and sixteen random characters.
const ID_PREFIX: &str = "sess_";
const ID_TIME_CHARS: usize = 10;
const ID_CHARS: usize = 31;
/// A shorter abbreviation is more likely a typing error.
const MIN_ABBREVIATION_CHARS: usize = 3;
/// The characters of a short id, enough to be unique on most machines.
const SHORT_ID_CHARS: usize = 6;
/// The largest page that the host returns.
const PAGE_SESSIONS: usize = 1_000;
/// How many matches of an ambiguous abbreviation are listed.
const MAX_NAMED_MATCHES: usize = 10;

/// A session with its JSON text.
#[derive(Clone, Debug)]
pub(crate) struct ListedSession {
    pub(crate) session: SessionInfo,
    pub(crate) json: Box<RawValue>,
}

/// Lists the sessions of the host, newest first. `query` filters them: `&adapter=claude`.
pub(crate) async fn list_sessions(
    client: &HostClient,
    query: &str,
) -> anyhow::Result<Vec<ListedSession>> {
    let mut listed = Vec::new();
    let mut cursor = String::new();
    loop {
        let call = HostCall::get(format!("/sessions?limit={PAGE_SESSIONS}{query}{cursor}"));
        let page: RawSessionPage = client.fetch_json(&call).await?;
        for json in page.sessions {
            listed.push(ListedSession {
                session: wharf_json::read_own(json.get().as_bytes())?,
                json,
            });
        }
        match page.next_cursor {
            Some(next) => cursor = format!("&cursor={}", crate::connect::percent_encode(&next)),
            None => return Ok(listed),
        }
    }
}

/// Returns the session that `meant` names. `None` and `.` name the newest session of the current
/// directory.
pub(crate) async fn find_session(
    client: &HostClient,
    meant: Option<&str>,
) -> anyhow::Result<SessionInfo> {
    if let Some(id) = meant.filter(|id| id.starts_with(ID_PREFIX) && id.len() == ID_CHARS) {
        return client.send_call(&HostCall::get(url_path(&["sessions", id]))).await?.json();
    }
    if meant.is_none_or(|meant| meant == ".") {
        refuse_current_directory(client)?;
    }
    let sessions: Vec<SessionInfo> = list_sessions(client, "")
        .await?
        .into_iter()
        .map(|listed| listed.session)
        .collect();
    match pick_session(&sessions, meant, &current_dirs()) {
        Ok(found) => {
            if let Some(label) = meant {
                tell_other_holders(&sessions, found, label);
            }
            Ok(found.clone())
        }
        Err(NoSingleMatch::None) => Err(no_match(meant).into()),
        Err(NoSingleMatch::Many(found)) => Err(many_matches(meant.unwrap_or("."), &found).into()),
    }
}

/// Refuses a word as the label of a new session that means a session already: `.`, or a part of an
/// id.
pub(crate) async fn check_new_label(client: &HostClient, word: &str) -> anyhow::Result<()> {
    let listed = list_sessions(client, "").await?.into_iter().map(|listed| listed.session);
    Ok(refuse_other_meaning(&listed.collect::<Vec<_>>(), word)?)
}

fn refuse_other_meaning(sessions: &[SessionInfo], word: &str) -> Result<(), Failure> {
    let refused = |meaning: String| {
        let words = format!(
            "{} is {meaning}, and no label of a session to start; choose another one",
            quote(word)
        );
        Err(Failure::new(Exit::Usage, words))
    };
    if word == "." || word.starts_with(ID_PREFIX) {
        return refused("the name of a session that is there".to_owned());
    }
    if sessions.iter().any(|session| session.label.as_deref() == Some(word)) {
        return Ok(());
    }
    match sessions.iter().find(|session| is_abbreviation(word, &session.id)) {
        Some(session) => refused(format!("a part of the id of {}", session.id)),
        None => Ok(()),
    }
}

/// Returns the name of the session for a hint: its label, if a verb with it means this session, or
/// the end of its id.
pub(crate) async fn find_hint_name(client: &HostClient, session: &SessionInfo) -> String {
    let Some(label) = session.label.as_deref() else { return short_id(&session.id).to_owned() };
    let query = format!("&label={}", crate::connect::percent_encode(label));
    let listed = list_sessions(client, &query).await.unwrap_or_default();
    let sessions: Vec<SessionInfo> = listed.into_iter().map(|listed| listed.session).collect();
    hint_name(&sessions, session)
}

/// Returns the name of the session for a hint, out of these sessions (newest first).
pub(crate) fn hint_name(sessions: &[SessionInfo], session: &SessionInfo) -> String {
    let is_plain =
        |label: &&str| *label != "." && !label.starts_with('-') && to_printable(label) == **label;
    let is_meant = |label: &&str| {
        pick_session(sessions, Some(label), &[]).is_ok_and(|found| found.id == session.id)
    };
    let label = session.label.as_deref().filter(is_plain).filter(is_meant);
    label.map_or_else(
        || short_id(&session.id).to_owned(),
        |label| shell_words::quote(label).into_owned(),
    )
}

/// Says which session a label means that several have.
fn tell_other_holders(sessions: &[SessionInfo], found: &SessionInfo, label: &str) {
    let is_rival =
        |session: &&SessionInfo| is_called(session, label) && is_alive_or_usable(session, found);
    let count = sessions.iter().filter(is_rival).count();
    if count > 1 && is_called(found, label) {
        let short = short_id(&found.id);
        let label = quote(label);
        let words = format!(
            "note: {count} sessions are called {label}; this is {short}, the newest (see: wharf sessions)"
        );
        output::print_note(&words);
    }
}

/// Returns true if the person could have meant `session` as well as `found`.
fn is_alive_or_usable(session: &SessionInfo, found: &SessionInfo) -> bool {
    is_usable(session) && (session.status.is_alive() || !found.status.is_alive())
}

/// Returns true if the session can be prompted.
fn is_usable(session: &SessionInfo) -> bool {
    !session.archived && (session.status.is_alive() || session.resumable)
}

/// Returns the newest session that lives, else the newest that can be prompted, of these (newest
/// first). An archived session is meant only if no other can be (rule 14.10).
fn newest_usable<'a>(sessions: &[&'a SessionInfo]) -> Option<&'a SessionInfo> {
    let mut found = sessions.iter().filter(|session| is_usable(session));
    let newest = found.clone().next();
    let alive = found.find(|session| session.status.is_alive());
    alive
        .or(newest)
        .or_else(|| sessions.iter().find(|session| session.status.is_alive()))
        .copied()
}

fn is_called(session: &SessionInfo, word: &str) -> bool {
    [&session.label, &session.name].iter().any(|name| name.as_deref() == Some(word))
}

/// Returns the newest session of the current directory, or of this agent there; running ones first.
pub(crate) async fn find_newest_here(
    client: &HostClient,
    agent: Option<&str>,
) -> anyhow::Result<SessionInfo> {
    refuse_current_directory(client)?;
    let listed = list_sessions(client, "").await?.into_iter().map(|listed| listed.session);
    let sessions: Vec<SessionInfo> = listed
        .filter(|session| agent.is_none_or(|agent| session.adapter_slug == agent))
        .collect();
    match pick_session(&sessions, None, &current_dirs()) {
        Ok(found) => Ok(found.clone()),
        Err(_) => Err(no_match(None).into()),
    }
}

/// Fails for a host on another machine: the current directory is none of its directories.
fn refuse_current_directory(client: &HostClient) -> Result<(), Failure> {
    if !client.is_remote() {
        return Ok(());
    }
    let words = format!(
        "the session of the current directory cannot be meant: the host is at {}; name one (see: wharf sessions)",
        client.address()
    );
    Err(Failure::new(Exit::Usage, words))
}

/// Returns true if a session has this label or name.
pub(crate) async fn is_label(client: &HostClient, word: &str) -> anyhow::Result<bool> {
    let sessions = list_sessions(client, "").await?;
    Ok(sessions.iter().any(|listed| is_called(&listed.session, word)))
}

/// Returns the current directory, as the shell names it and as the system does.
fn current_dirs() -> Vec<PathBuf> {
    let logical = std::env::var_os("PWD").map(PathBuf::from);
    let real = std::env::current_dir().ok();
    logical.into_iter().chain(real).collect()
}

/// The reason why an argument does not name exactly one session.
#[derive(Debug, PartialEq)]
pub(crate) enum NoSingleMatch<'a> {
    None,
    Many(Vec<&'a SessionInfo>),
}

/// Returns the one session that `meant` names, out of these (newest first).
pub(crate) fn pick_session<'a>(
    sessions: &'a [SessionInfo],
    meant: Option<&str>,
    here: &[PathBuf],
) -> Result<&'a SessionInfo, NoSingleMatch<'a>> {
    let Some(meant) = meant.filter(|meant| *meant != ".") else {
        let mut local = sessions
            .iter()
            .filter(|session| here.iter().any(|dir| Path::new(&session.cwd) == dir));
        let first = local.clone().next();
        return local
            .find(|session| session.status.is_alive())
            .or(first)
            .ok_or(NoSingleMatch::None);
    };
    let whole = |session: &&SessionInfo| {
        session.id == meant || session.id.strip_prefix(ID_PREFIX) == Some(meant)
    };
    if let Some(session) = sessions.iter().find(whole) {
        return Ok(session);
    }
    let mut found: Vec<&SessionInfo> =
        sessions.iter().filter(|session| is_called(session, meant)).collect();
    if found.is_empty() {
        found = sessions.iter().filter(|session| is_abbreviation(meant, &session.id)).collect();
    } else if let Some(newest) = newest_usable(&found) {
        return Ok(newest);
    }
    if found.is_empty() {
        found = sessions
            .iter()
            .filter(|session| session.title.as_deref() == Some(meant))
            .collect();
    }
    match found[..] {
        [] => Err(NoSingleMatch::None),
        [one] => Ok(one),
        _ => Err(NoSingleMatch::Many(found)),
    }
}

/// Returns true if `short` is the beginning of the id or of its random part, or the end of the id.
fn is_abbreviation(short: &str, id: &str) -> bool {
    let short = short.to_lowercase();
    let short = short.strip_prefix(ID_PREFIX).unwrap_or(&short);
    let body = id.strip_prefix(ID_PREFIX).unwrap_or(id);
    let random = body.get(ID_TIME_CHARS..).unwrap_or_default();
    short.len() >= MIN_ABBREVIATION_CHARS
        && (body.starts_with(short) || random.starts_with(short) || body.ends_with(short))
}

fn no_match(meant: Option<&str>) -> Failure {
    let words = match meant {
        None | Some(".") => {
            "no session was started in this directory; name one (see: wharf sessions --all) or start one: wharf run"
                .to_owned()
        }
        Some(meant) => {
            let meant = quote(meant);
            format!("no session is called {meant} or has an id that begins or ends so; see: wharf sessions --all")
        }
    };
    Failure::new(Exit::NotFound, words)
}

fn many_matches(meant: &str, found: &[&SessionInfo]) -> Failure {
    let mut words = format!("{} fits {} sessions; which one?", quote(meant), found.len());
    let now = times::now_millis();
    for session in found.iter().take(MAX_NAMED_MATCHES) {
        let (state, _) = session_state::state_word(session);
        let called = session_state::display_name(session)
            .map(|called| format!("  {}", to_printable(called)))
            .unwrap_or_default();
        let ago = format_ago(&session.started_at, now);
        words.push_str(&format!(
            "\n  {}  {}  {state}  {ago}{called}",
            session.id, session.adapter_slug
        ));
    }
    if found.len() > MAX_NAMED_MATCHES {
        words.push_str(&format!("\n  and {} more", found.len() - MAX_NAMED_MATCHES));
    }
    Failure::new(Exit::Usage, words)
}

/// Returns the ends of the ids, long enough to be different.
pub(crate) fn short_ids(sessions: &[&SessionInfo]) -> Vec<String> {
    let end = |id: &str, length: usize| {
        id.get(id.len().saturating_sub(length)..).unwrap_or(id).to_owned()
    };
    let mut length = SHORT_ID_CHARS;
    loop {
        let ends: Vec<String> = sessions.iter().map(|session| end(&session.id, length)).collect();
        let mut sorted = ends.clone();
        sorted.sort_unstable();
        if length >= ID_CHARS || sorted.windows(2).all(|pair| pair.first() != pair.last()) {
            return ends;
        }
        length += 1;
    }
}

/// Returns the end of one id, for messages about one session.
pub(crate) fn short_id(id: &str) -> &str {
    id.get(id.len().saturating_sub(SHORT_ID_CHARS)..).unwrap_or(id)
}
