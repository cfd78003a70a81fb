//! `wharf sessions` (`ls`, `ps`): the list, once or as it changes.

mod columns;
mod filter;
mod json_fields;
mod watch;

use clap::Args;
use wharf_api::{AttentionState, SessionInfo};
use wharf_render::style::Screen;

use crate::exit::Exit;
use crate::format::table::{TextTable, join_with_tabs};
use crate::format::times;
use crate::global::GlobalOptions;
use crate::session_ref::{self, ListedSession};
use crate::{output, session_state};
use columns::{CellContext, PLAIN_COLUMNS, SessionColumn, TABLE_COLUMNS};
pub(crate) use filter::{FILTER_KEYS, SessionFilter};
use json_fields::JsonFields;

#[derive(Debug, Args)]
pub(crate) struct SessionsVerb {
    /// Ended and archived sessions too, not only those that live, wake at the next prompt or failed
    /// to.
    #[arg(short, long)]
    all: bool,
    /// Go on and show every change.
    #[arg(short, long, conflicts_with = "attach")]
    watch: bool,
    /// Follow the output of this session, as `wharf output -f` does.
    #[arg(long, value_name = "ID", conflicts_with_all = ["json", "all", "quiet", "format", "filter"])]
    attach: Option<String>,
    /// Only sessions of this agent.
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Only sessions of this workspace.
    #[arg(long, value_name = "SLUG")]
    workspace: Option<String>,
    /// Only sessions with this value: attention, turn, status, agent, workspace, label, archived,
    /// alive, since (2d, or a time) or before. Can be repeated; all have to hold.
    #[arg(short, long, value_name = "KEY=VALUE")]
    filter: Vec<SessionFilter>,
    /// Only the ids, one per line.
    #[arg(short, long, conflicts_with_all = ["json", "format"])]
    quiet: bool,
    /// These columns, with commas: id,state,title.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', conflicts_with = "json")]
    format: Vec<SessionColumn>,
    /// The JSON of the host: `{"sessions":[…]}`; with --watch one session per line. With fields
    /// (id,title,attention) only these members of each session.
    #[arg(long, value_name = "FIELDS", num_args = 0..=1, default_missing_value = "")]
    json: Option<JsonFields>,
}

impl SessionsVerb {
    /// Returns true if the options select this session.
    fn is_wanted(&self, session: &SessionInfo) -> bool {
        let is_listed = self.all
            || self.filter.iter().any(SessionFilter::includes_ended)
            || is_current(session);
        is_listed && self.is_selected(session)
    }

    /// Returns true if the options select this session when ended and archived ones are listed,
    /// too.
    fn is_selected(&self, session: &SessionInfo) -> bool {
        let is = |wanted: &Option<String>, value: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == value)
        };
        is(&self.agent, &session.adapter_slug)
            && is(&self.workspace, &session.workspace_slug)
            && self.filter.iter().all(|filter| filter.matches(session))
    }

    fn is_narrowed(&self) -> bool {
        self.agent.is_some() || self.workspace.is_some() || !self.filter.is_empty()
    }

    /// Returns the table for a person, or one line of values per session for a program.
    fn format_sessions(&self, screen: Screen, sessions: &[&SessionInfo]) -> Vec<String> {
        if self.quiet {
            return sessions.iter().map(|session| session.id.clone()).collect();
        }
        if !screen.terminal {
            return sessions.iter().map(|session| self.plain_row(session)).collect();
        }
        if sessions.is_empty() {
            return Vec::new();
        }
        let columns = if self.format.is_empty() { TABLE_COLUMNS } else { &self.format };
        let headings: Vec<&'static str> = columns.iter().map(|column| column.heading()).collect();
        let context = CellContext { home: std::env::var("HOME").ok(), now: times::now_millis() };
        let mut table = TextTable::new(&headings);
        for (session, id) in sessions.iter().zip(session_ref::short_ids(sessions)) {
            table.add_row(columns.iter().map(|column| column.to_cell(session, &id, &context)));
        }
        table.to_lines(screen)
    }

    /// Returns the tab-separated line of a session.
    fn plain_row(&self, session: &SessionInfo) -> String {
        if self.quiet {
            return session.id.clone();
        }
        let columns = if self.format.is_empty() { PLAIN_COLUMNS } else { &self.format };
        let values: Vec<String> = columns.iter().map(|column| column.to_value(session)).collect();
        join_with_tabs(values.iter().map(String::as_str))
    }
}

/// Returns true if the list shows the session by default: it lives, sleeps or could not come back,
/// and is not archived.
fn is_current(session: &SessionInfo) -> bool {
    let can_go_on = session.status.is_alive()
        || session_state::is_asleep(session)
        || session_state::has_failed_to_return(session);
    can_go_on && !session.archived
}

/// Returns the place of a session in the list: those that need a person first, the newest first
/// among equals.
fn sort_key(session: &SessionInfo) -> (u8, std::cmp::Reverse<&str>) {
    let urgency = match session.attention.as_ref().map(|attention| &attention.state) {
        Some(AttentionState::NeedsAnswer) => 0,
        Some(AttentionState::Failed) => 1,
        Some(AttentionState::Finished) => 2,
        Some(
            AttentionState::Parked
            | AttentionState::Working
            | AttentionState::Quiet
            | AttentionState::Other(_),
        )
        | None => 3,
    };
    (urgency, std::cmp::Reverse(&session.id))
}

pub(crate) async fn run(global: &GlobalOptions, verb: SessionsVerb) -> anyhow::Result<Exit> {
    let client = global.connect_client().await?;
    let screen = global.screen();
    if let Some(meant) = &verb.attach {
        let session = session_ref::find_session(&client, Some(meant)).await?;
        return super::output::follow_output(&client, screen, &session).await;
    }
    if verb.watch {
        return watch::watch_sessions(&client, screen, &verb).await;
    }
    let all = session_ref::list_sessions(&client, "").await?;
    let mut listed: Vec<&ListedSession> =
        all.iter().filter(|listed| verb.is_wanted(&listed.session)).collect();
    listed.sort_by(|a, b| sort_key(&a.session).cmp(&sort_key(&b.session)));
    if let Some(fields) = &verb.json {
        let sessions: Result<Vec<String>, _> =
            listed.iter().map(|listed| fields.choose(&listed.json)).collect();
        output::print_line(&format!(r#"{{"sessions":[{}]}}"#, sessions?.join(",")));
        return Ok(Exit::Ok);
    }
    let sessions: Vec<&SessionInfo> = listed.iter().map(|listed| &listed.session).collect();
    verb.format_sessions(screen, &sessions)
        .iter()
        .for_each(|line| output::print_line(line));
    let all: Vec<&SessionInfo> = all.iter().map(|listed| &listed.session).collect();
    if verb.quiet {
        return Ok(Exit::Ok);
    }
    if sessions.is_empty() {
        output::print_note(&explain_empty_list(&verb, &all));
    } else if let Some(left_out) = count_left_out(&verb, &all).filter(|_| screen.terminal) {
        output::print_note(&left_out);
    }
    Ok(Exit::Ok)
}

/// Returns how many sessions the list leaves out that the options select otherwise, and how to see
/// them. An archived session counts as archived alone.
fn count_left_out(verb: &SessionsVerb, all: &[&SessionInfo]) -> Option<String> {
    let left_out = || {
        all.iter()
            .filter(|session| verb.is_selected(session) && !verb.is_wanted(session))
    };
    let archived = left_out().filter(|session| session.archived).count();
    let ended = left_out().count() - archived;
    let counts = [(ended, "ended"), (archived, "archived")]
        .into_iter()
        .filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
    (!counts.is_empty()).then(|| format!("{}: wharf ls -a", counts.join(", ")))
}

/// Returns why the list is empty, and the next step.
fn explain_empty_list(verb: &SessionsVerb, all: &[&SessionInfo]) -> String {
    let left_out = count_left_out(verb, all)
        .map(|counts| format!(" ({counts})"))
        .unwrap_or_default();
    if verb.is_narrowed() && !all.is_empty() {
        let advice =
            if left_out.is_empty() { "; to see all: wharf sessions -a" } else { left_out.as_str() };
        return format!("no session fits{advice}");
    }
    format!("no live sessions{left_out}. Start one: wharf run demo tour")
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Parser)]
    struct Arguments {
        #[command(flatten)]
        verb: SessionsVerb,
    }

    fn verb(arguments: &[&str]) -> SessionsVerb {
        Arguments::parse_from([&["wharf"], arguments].concat()).verb
    }

    fn session(number: u8, status: &str, archived: bool) -> SessionInfo {
        let value = json!({
            "id": format!("sess_01k5zzzzzyaaaabbbbccccdd{number:02}"), "adapterSlug": "demo", "workspaceSlug": "default", "cwd": "/w",
            "status": status, "startedAt": "2026-11-15T20:34:05.123Z", "turn": "idle", "queued": 0, "clients": 0, "lastSeq": 1,
            "resumable": false, "archived": archived,
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn list_says_how_many_sessions_it_leaves_out() {
        let living =
            [session(1, "running", false), session(2, "running", true), session(3, "killed", true)];
        let ended = session(4, "killed", false);
        let left_out =
            |arguments: &[&str], all: &[&SessionInfo]| count_left_out(&verb(arguments), all);
        let all: Vec<&SessionInfo> = living.iter().chain([&ended]).collect();
        assert_eq!(left_out(&[], &all).as_deref(), Some("1 ended, 2 archived: wharf ls -a"));
        assert_eq!(left_out(&[], &all[..1]), None);
        assert_eq!(left_out(&["-a"], &all), None, "nothing is left out");
        assert_eq!(
            left_out(&["--agent", "claude"], &all),
            None,
            "only sessions that the options select"
        );
        assert_eq!(
            left_out(&["-f", "archived=false"], &all).as_deref(),
            Some("1 ended: wharf ls -a")
        );
        let empty = explain_empty_list(&verb(&[]), &all[1..]);
        assert_eq!(
            empty,
            "no live sessions (1 ended, 2 archived: wharf ls -a). Start one: wharf run demo tour"
        );
        assert_eq!(
            explain_empty_list(&verb(&["--agent", "claude"]), &all),
            "no session fits; to see all: wharf sessions -a"
        );
    }

    #[test]
    fn table_marks_archived_sessions() {
        let kept = session(1, "killed", false);
        let archived = session(2, "killed", true);
        let screen = Screen { terminal: true, ..Screen::PIPE };
        let lines = verb(&["-a"]).format_sessions(screen, &[&kept, &archived]);
        assert!(lines[1].contains("killed") && !lines[1].contains("archived"), "{lines:?}");
        assert!(lines[2].contains("killed, archived"), "{lines:?}");
        let lines = verb(&["-a"]).format_sessions(Screen::PIPE, &[&kept, &archived]);
        assert!(!lines[0].contains("archived") && lines[1].ends_with("\tarchived"), "{lines:?}");
    }
}
