//! `wharf sessions`: the list, once or as it changes.

mod watch;

use clap::Args;
use serde_json::value::RawValue;
use wharf_api::SessionInfo;

use crate::connect::percent_encode;
use crate::exit::Exit;
use crate::format::table::{TextTable, join_with_tabs, plain_cell, styled_cell};
use crate::format::{Screen, TextStyle, text, times};
use crate::global::GlobalOptions;
use crate::session_ref::{self, ListedSession};
use crate::{output, session_state};

/// The width of a directory's path on a terminal.
const PATH_WIDTH: usize = 32;

#[derive(Debug, Args)]
pub(crate) struct SessionsVerb {
    /// Ended sessions too, not only those that live, wake at the next prompt or failed to.
    #[arg(short, long)]
    all: bool,
    /// Go on and show every change.
    #[arg(short, long, conflicts_with = "attach")]
    watch: bool,
    /// Follow the output of this session, as `wharf output -f` does.
    #[arg(long, value_name = "ID", conflicts_with_all = ["json", "all"])]
    attach: Option<String>,
    /// Only sessions of this agent.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only sessions of this workspace.
    #[arg(long, value_name = "SLUG")]
    workspace: Option<String>,
    /// The JSON of the host: `{"sessions":[…]}`; with --watch one session per line.
    #[arg(long)]
    json: bool,
}

impl SessionsVerb {
    fn to_query(&self) -> String {
        let filter = |name: &str, value: &Option<String>| {
            value.as_ref().map(|value| format!("&{name}={}", percent_encode(value))).unwrap_or_default()
        };
        filter("adapter", &self.agent) + &filter("workspace", &self.workspace)
    }

    /// Returns true if the options select this session.
    fn is_wanted(&self, session: &SessionInfo) -> bool {
        let is = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        let can_go_on = session.status.is_alive()
            || session_state::is_asleep(session)
            || session_state::has_failed_to_return(session);
        let matters = self.all || can_go_on;
        matters && is(&self.agent, &session.adapter_slug) && is(&self.workspace, &session.workspace_slug)
    }
}

pub(crate) async fn run(global: &GlobalOptions, verb: SessionsVerb) -> anyhow::Result<Exit> {
    let client = global.connect_client().await?;
    let screen = global.screen();
    if let Some(meant) = &verb.attach {
        return super::output::follow_output(&client, screen, Some(meant), super::output::DEFAULT_LINES).await;
    }
    if verb.watch {
        return watch::watch_sessions(&client, screen, &verb).await;
    }
    let listed = session_ref::list_sessions(&client, &verb.to_query()).await?;
    let listed: Vec<ListedSession> = listed.into_iter().filter(|listed| verb.is_wanted(&listed.session)).collect();
    if verb.json {
        output::print_line(&to_json(&listed));
        return Ok(Exit::Ok);
    }
    let sessions: Vec<&SessionInfo> = listed.iter().map(|listed| &listed.session).collect();
    format_sessions(screen, &sessions).iter().for_each(|line| output::print_line(line));
    if sessions.is_empty() && screen.terminal {
        let more = if verb.all { "" } else { "; ended ones: wharf sessions --all" };
        output::print_note(&format!("no sessions; start one with: wharf run AGENT PROMPT{more}"));
    }
    Ok(Exit::Ok)
}

/// Returns the JSON of the sessions as the host writes a page.
fn to_json(listed: &[ListedSession]) -> String {
    let sessions: Vec<&str> = listed.iter().map(|listed| RawValue::get(&listed.json)).collect();
    format!(r#"{{"sessions":[{}]}}"#, sessions.join(","))
}

/// Returns a table for a person, or one line of values per session for a program.
fn format_sessions(screen: Screen, sessions: &[&SessionInfo]) -> Vec<String> {
    if !screen.terminal {
        return sessions.iter().map(|session| plain_row(session)).collect();
    }
    if sessions.is_empty() {
        return Vec::new();
    }
    let home = std::env::var("HOME").ok();
    let now = times::now_millis();
    let mut table = TextTable::new(&["ID", "STATE", "AGENT", "WHERE", "ACTIVE", "MEM", "CPU", "WHAT"]);
    for (session, id) in sessions.iter().zip(session_ref::short_ids(sessions)) {
        let (word, style) = session_state::state_word(session);
        let waiting = if session.queued > 0 { format!("{word} +{}", session.queued) } else { word.to_owned() };
        let place = match session.workspace_slug.as_str() {
            "default" | "" => text::shorten_path(&session.cwd, home.as_deref(), PATH_WIDTH),
            slug => format!("@{slug}"),
        };
        let active = session.last_output_at.as_ref().unwrap_or(&session.started_at);
        table.add_row([
            styled_cell(TextStyle::Strong, id),
            styled_cell(style, waiting),
            plain_cell(&session.adapter_slug),
            plain_cell(place),
            styled_cell(TextStyle::Faint, times::format_ago(active, now)),
            styled_cell(if is_over_limit(session) { TextStyle::Bad } else { TextStyle::Plain }, memory_column(session)),
            plain_cell(session.resources.map(|used| times::format_duration(used.cpu_millis)).unwrap_or_default()),
            plain_cell(name_column(session)),
        ]);
    }
    table.to_lines(screen)
}

/// Returns the display name, with a mark if the agent of another session started this one.
fn name_column(session: &SessionInfo) -> String {
    let mark = if session.parent_session_id.is_some() { "↳ " } else { "" };
    format!("{mark}{}", session_state::display_name(session).unwrap_or_default())
}

fn is_over_limit(session: &SessionInfo) -> bool {
    session.resources.is_some_and(|used| used.over_limit)
}

/// Returns the memory in use, with a mark if it is over the limit.
fn memory_column(session: &SessionInfo) -> String {
    let mark = if is_over_limit(session) { "!" } else { "" };
    session.resources.map(|used| text::format_size(used.memory_bytes) + mark).unwrap_or_default()
}

/// Returns the tab-separated line of a session. The columns are part of the interface: see docs/cli.md.
fn plain_row(session: &SessionInfo) -> String {
    join_with_tabs([
        session.id.as_str(),
        session.status.as_str(),
        session.turn.as_str(),
        &session.queued.to_string(),
        &session.adapter_slug,
        &session.workspace_slug,
        &session.cwd,
        &session.started_at,
        session.last_output_at.as_deref().unwrap_or_default(),
        session.label.as_deref().unwrap_or_default(),
        session.title.as_deref().unwrap_or_default(),
        session.parent_session_id.as_deref().unwrap_or_default(),
        &session.resources.map(|used| used.memory_bytes.to_string()).unwrap_or_default(),
        &session.resources.map(|used| used.cpu_millis.to_string()).unwrap_or_default(),
    ])
}
