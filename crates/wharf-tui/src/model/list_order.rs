//! The order of the list: sessions that need the person first, over all workspaces; then the
//! workspaces.

use std::collections::BTreeMap;

use wharf_api::{AttentionState, SessionInfo};
use wharf_render::text::parse_millis;

use crate::session_words::{display_name, is_asleep};

/// One entry of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListEntry {
    NeedsYou,
    /// A workspace: its name and its directory.
    Workspace {
        name: String,
        directory: String,
    },
    Archive,
    /// A session, by its id.
    Session(String),
}

/// Returns true if the session waits for the person.
pub(crate) fn needs_person(session: &SessionInfo) -> bool {
    let state = session.attention.as_ref().map(|attention| &attention.state);
    matches!(
        state,
        Some(AttentionState::NeedsAnswer | AttentionState::Failed | AttentionState::Finished)
    )
}

/// Returns the mark of a session's attention: colour alone tells nothing.
pub(crate) fn attention_mark(session: &SessionInfo) -> char {
    match session.attention.as_ref().map(|attention| &attention.state) {
        Some(AttentionState::NeedsAnswer) => '?',
        Some(AttentionState::Failed) => '!',
        Some(AttentionState::Finished) => '*',
        Some(AttentionState::Parked) => '~',
        Some(AttentionState::Working) => '»',
        Some(AttentionState::Quiet | AttentionState::Other(_)) | None if is_asleep(session) => 'z',
        Some(AttentionState::Quiet | AttentionState::Other(_)) | None => ' ',
    }
}

/// Returns the entries for these sessions. With a filter only those whose title, agent, workspace
/// or directory has all its words.
pub(crate) fn order_sessions(
    sessions: &BTreeMap<String, SessionInfo>,
    filter: &str,
) -> Vec<ListEntry> {
    let words: Vec<String> = filter.split_whitespace().map(str::to_lowercase).collect();
    let shown: Vec<&SessionInfo> =
        sessions.values().filter(|session| matches_words(session, &words)).collect();
    let (mut waiting, rest): (Vec<&SessionInfo>, Vec<&SessionInfo>) =
        shown.into_iter().partition(|session| needs_person(session));
    waiting.sort_by_cached_key(|session| waiting_key(session));
    let (archived, rest): (Vec<&SessionInfo>, Vec<&SessionInfo>) =
        rest.into_iter().partition(|session| session.archived);
    let mut entries = Vec::new();
    push_group(&mut entries, ListEntry::NeedsYou, &waiting);
    let mut groups: BTreeMap<(&str, &str), Vec<&SessionInfo>> = BTreeMap::new();
    for session in rest {
        groups.entry(group_key(session)).or_default().push(session);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    for (_, group) in &mut groups {
        group.sort_by_cached_key(|session| std::cmp::Reverse(last_activity(session)));
    }
    groups.sort_by_cached_key(|(_, group)| {
        group.first().map(|session| std::cmp::Reverse(last_activity(session)))
    });
    for ((name, directory), group) in groups {
        push_group(
            &mut entries,
            ListEntry::Workspace { name: name.to_owned(), directory: directory.to_owned() },
            &group,
        );
    }
    push_group(&mut entries, ListEntry::Archive, &archived);
    entries
}

fn push_group(entries: &mut Vec<ListEntry>, head: ListEntry, group: &[&SessionInfo]) {
    if !group.is_empty() {
        entries.push(head);
        entries.extend(group.iter().map(|session| ListEntry::Session(session.id.clone())));
    }
}

/// Returns the workspace; sessions of no workspace are grouped by their directory.
fn group_key(session: &SessionInfo) -> (&str, &str) {
    let directory = session.cwd.as_str();
    let name = match session.workspace_slug.as_str() {
        "default" => directory.rsplit('/').find(|part| !part.is_empty()).unwrap_or(directory),
        slug => slug,
    };
    (name, directory)
}

/// Asks come first, the longest waiting on top; then failures and ends, the newest first.
fn waiting_key(session: &SessionInfo) -> (bool, i128) {
    let attention = session.attention.as_ref();
    let since = attention
        .and_then(|attention| parse_millis(&attention.since))
        .unwrap_or_default();
    let asks = attention.is_some_and(|attention| attention.state == AttentionState::NeedsAnswer);
    (!asks, if asks { i128::from(since) } else { -i128::from(since) })
}

/// Returns when the session last did something (milliseconds since 1970).
pub(crate) fn last_activity(session: &SessionInfo) -> u64 {
    let times = [
        session.last_output_at.as_deref(),
        session.ended_at.as_deref(),
        Some(session.started_at.as_str()),
    ];
    times.into_iter().flatten().filter_map(parse_millis).max().unwrap_or_default()
}

fn matches_words(session: &SessionInfo, words: &[String]) -> bool {
    let parts = [
        display_name(session).unwrap_or_default(),
        session.title.as_deref().unwrap_or_default(),
        &session.adapter_slug,
        &session.workspace_slug,
        &session.cwd,
    ];
    let all = parts.join(" ").to_lowercase();
    words.iter().all(|word| all.contains(word))
}
