//! `wharf sessions` (`ls`, `ps`): the list, once or as it changes.

mod columns;
mod filter;
mod json_fields;
mod watch;

use clap::Args;
use wharf_api::{AttentionState, SessionInfo};

use crate::exit::Exit;
use crate::format::table::{TextTable, join_with_tabs};
use crate::format::{Screen, times};
use crate::global::GlobalOptions;
use crate::session_ref::{self, ListedSession};
use crate::{output, session_state};
use columns::{CellContext, PLAIN_COLUMNS, SessionColumn, TABLE_COLUMNS};
pub(crate) use filter::{FILTER_KEYS, SessionFilter};
use json_fields::JsonFields;

#[derive(Debug, Args)]
pub(crate) struct SessionsVerb {
    /// Ended and archived sessions too, not only those that live, wake at the next prompt or failed to.
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
    /// Only sessions with this value: attention, turn, status, agent, workspace, label, archived, alive, since (2d, or a
    /// time) or before. Can be repeated; all have to hold.
    #[arg(short, long, value_name = "KEY=VALUE")]
    filter: Vec<SessionFilter>,
    /// Only the ids, one per line.
    #[arg(short, long, conflicts_with_all = ["json", "format"])]
    quiet: bool,
    /// These columns, with commas: id,state,title.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', conflicts_with = "json")]
    format: Vec<SessionColumn>,
    /// The JSON of the host: `{"sessions":[…]}`; with --watch one session per line. With fields (id,title,attention) only these
    /// members of each session.
    #[arg(long, value_name = "FIELDS", num_args = 0..=1, default_missing_value = "")]
    json: Option<JsonFields>,
}

impl SessionsVerb {
    /// Returns true if the options select this session.
    fn is_wanted(&self, session: &SessionInfo) -> bool {
        let is = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        let is_listed = self.all || self.filter.iter().any(SessionFilter::includes_ended) || is_current(session);
        is_listed
            && is(&self.agent, &session.adapter_slug)
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

/// Returns true if the list shows the session by default: it lives, sleeps or could not come back, and is not archived.
fn is_current(session: &SessionInfo) -> bool {
    let can_go_on =
        session.status.is_alive() || session_state::is_asleep(session) || session_state::has_failed_to_return(session);
    can_go_on && !session.archived
}

/// Returns the place of a session in the list: those that need a person first, the newest first among equals.
fn sort_key(session: &SessionInfo) -> (u8, std::cmp::Reverse<&str>) {
    let urgency = match session.attention.as_ref().map(|attention| &attention.state) {
        Some(AttentionState::NeedsAnswer) => 0,
        Some(AttentionState::Failed) => 1,
        Some(AttentionState::Finished) => 2,
        Some(AttentionState::Parked | AttentionState::Working | AttentionState::Quiet | AttentionState::Other(_))
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
    let mut listed: Vec<&ListedSession> = all.iter().filter(|listed| verb.is_wanted(&listed.session)).collect();
    listed.sort_by(|a, b| sort_key(&a.session).cmp(&sort_key(&b.session)));
    if let Some(fields) = &verb.json {
        let sessions: Result<Vec<String>, _> = listed.iter().map(|listed| fields.choose(&listed.json)).collect();
        output::print_line(&format!(r#"{{"sessions":[{}]}}"#, sessions?.join(",")));
        return Ok(Exit::Ok);
    }
    let sessions: Vec<&SessionInfo> = listed.iter().map(|listed| &listed.session).collect();
    verb.format_sessions(screen, &sessions).iter().for_each(|line| output::print_line(line));
    if sessions.is_empty() && !verb.quiet {
        output::print_note(&explain_empty_list(&verb, &all));
    }
    Ok(Exit::Ok)
}

/// Returns why nothing is listed, and what to do next.
fn explain_empty_list(verb: &SessionsVerb, all: &[ListedSession]) -> String {
    if verb.is_narrowed() && !all.is_empty() {
        return "no session fits; to see all: wharf sessions -a".to_owned();
    }
    let hidden = |is: fn(&SessionInfo) -> bool| all.iter().filter(|listed| is(&listed.session)).count();
    let (archived, ended) = (hidden(|session| session.archived), hidden(|session| !session.archived));
    let counts = [(ended, "ended"), (archived, "archived")];
    let counts: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
    let more = if counts.is_empty() { String::new() } else { format!(" ({}: -a)", counts.join(", ")) };
    format!("no live sessions{more}. Start one: wharf run demo tour")
}
