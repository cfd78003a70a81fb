//! `wharf sessions`: the list, once or as it changes.

mod watch;

use clap::Args;
use serde_json::value::RawValue;
use wharf_api::SessionInfo;

use crate::connect::percent_encoded;
use crate::exit::Exit;
use crate::global::Global;
use crate::look::table::{Table, cell, styled, tabbed};
use crate::look::{Screen, Style, text, times};
use crate::which::{self, Listed};
use crate::{output, state};

/// Of a directory's path, on a terminal.
const PATH_WIDTH: usize = 32;

#[derive(Debug, Args)]
pub(crate) struct Sessions {
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

impl Sessions {
    fn query(&self) -> String {
        let filter = |name: &str, value: &Option<String>| {
            value.as_ref().map(|value| format!("&{name}={}", percent_encoded(value))).unwrap_or_default()
        };
        filter("adapter", &self.agent) + &filter("workspace", &self.workspace)
    }

    /// Is it one that was asked for?
    fn wants(&self, session: &SessionInfo) -> bool {
        let is = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        let can_go_on = session.status.is_alive() || state::sleeps(session) || state::needs_care(session);
        let matters = self.all || can_go_on;
        matters && is(&self.agent, &session.adapter_slug) && is(&self.workspace, &session.workspace_slug)
    }
}

pub(crate) async fn run(global: &Global, verb: Sessions) -> anyhow::Result<Exit> {
    let client = global.client().await?;
    let screen = global.screen();
    if let Some(meant) = &verb.attach {
        return super::output::follow(&client, screen, Some(meant), super::output::SHOWN).await;
    }
    if verb.watch {
        return watch::run(&client, screen, &verb).await;
    }
    let listed = which::list(&client, &verb.query()).await?;
    let listed: Vec<Listed> = listed.into_iter().filter(|listed| verb.wants(&listed.session)).collect();
    if verb.json {
        output::line(&as_json(&listed));
        return Ok(Exit::Ok);
    }
    let sessions: Vec<&SessionInfo> = listed.iter().map(|listed| &listed.session).collect();
    lines(screen, &sessions).iter().for_each(|line| output::line(line));
    if sessions.is_empty() && screen.terminal {
        let more = if verb.all { "" } else { "; ended ones: wharf sessions --all" };
        output::note(&format!("no sessions; start one with: wharf run AGENT PROMPT{more}"));
    }
    Ok(Exit::Ok)
}

/// As the host writes a page of its list.
fn as_json(listed: &[Listed]) -> String {
    let sessions: Vec<&str> = listed.iter().map(|listed| RawValue::get(&listed.json)).collect();
    format!(r#"{{"sessions":[{}]}}"#, sessions.join(","))
}

/// A table for a person, one line of values each for a program.
fn lines(screen: Screen, sessions: &[&SessionInfo]) -> Vec<String> {
    if !screen.terminal {
        return sessions.iter().map(|session| plain(session)).collect();
    }
    if sessions.is_empty() {
        return Vec::new();
    }
    let home = std::env::var("HOME").ok();
    let now = times::now();
    let mut table = Table::new(&["ID", "STATE", "AGENT", "WHERE", "ACTIVE", "MEM", "CPU", "WHAT"]);
    for (session, id) in sessions.iter().zip(which::short_ids(sessions)) {
        let (word, style) = state::of(session);
        let waiting = if session.queued > 0 { format!("{word} +{}", session.queued) } else { word.to_owned() };
        let place = match session.workspace_slug.as_str() {
            "default" | "" => text::short_path(&session.cwd, home.as_deref(), PATH_WIDTH),
            slug => format!("@{slug}"),
        };
        let active = session.last_output_at.as_ref().unwrap_or(&session.started_at);
        table.row([
            styled(Style::Strong, id),
            styled(style, waiting),
            cell(&session.adapter_slug),
            cell(place),
            styled(Style::Faint, times::ago(active, now)),
            styled(if over(session) { Style::Bad } else { Style::Plain }, memory(session)),
            cell(session.resources.map(|used| times::spent(used.cpu_millis)).unwrap_or_default()),
            cell(what(session)),
        ]);
    }
    table.lines(screen)
}

/// What people call it, with a mark for one that another one's agent started.
fn what(session: &SessionInfo) -> String {
    let mark = if session.parent_session_id.is_some() { "↳ " } else { "" };
    format!("{mark}{}", state::called(session).unwrap_or_default())
}

fn over(session: &SessionInfo) -> bool {
    session.resources.is_some_and(|used| used.over_limit)
}

/// Memory in use, with a mark if that is over the limit.
fn memory(session: &SessionInfo) -> String {
    let mark = if over(session) { "!" } else { "" };
    session.resources.map(|used| text::size(used.memory_bytes) + mark).unwrap_or_default()
}

/// The columns are a promise: see docs/cli.md.
fn plain(session: &SessionInfo) -> String {
    tabbed([
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
