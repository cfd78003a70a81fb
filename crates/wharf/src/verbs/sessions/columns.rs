//! The columns of the list of sessions: short for a person, whole for a program.

use clap::ValueEnum;
use wharf_api::{AttentionState, KeeperLimitsInfo, SessionInfo};
use wharf_render::style::TextStyle;
use wharf_render::text;
use wharf_render::text::{format_ago, format_duration};

use crate::format::table::{Cell, plain_cell, styled_cell};
use crate::format::times;
use crate::session_state;

/// The width of a directory's path on a terminal.
const PATH_WIDTH: usize = 32;

/// A column of the list, by the name that `--format` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SessionColumn {
    Id,
    State,
    Attention,
    Status,
    Turn,
    Queued,
    Agent,
    Workspace,
    Directory,
    Where,
    Started,
    Output,
    Active,
    Label,
    Name,
    Title,
    What,
    Parent,
    Memory,
    Cpu,
    Clients,
    Archived,
    Kept,
}

/// The table for a person.
pub(super) const TABLE_COLUMNS: &[SessionColumn] = &[
    SessionColumn::Id,
    SessionColumn::State,
    SessionColumn::Agent,
    SessionColumn::Where,
    SessionColumn::Active,
    SessionColumn::Memory,
    SessionColumn::Cpu,
    SessionColumn::What,
];

/// The values for a program. They are part of the interface (docs/cli.md): new ones go to the end.
pub(super) const PLAIN_COLUMNS: &[SessionColumn] = &[
    SessionColumn::Id,
    SessionColumn::Status,
    SessionColumn::Turn,
    SessionColumn::Queued,
    SessionColumn::Agent,
    SessionColumn::Workspace,
    SessionColumn::Directory,
    SessionColumn::Started,
    SessionColumn::Output,
    SessionColumn::Label,
    SessionColumn::Title,
    SessionColumn::Parent,
    SessionColumn::Memory,
    SessionColumn::Cpu,
    SessionColumn::Attention,
    SessionColumn::Archived,
];

/// Facts that the cells of a table share.
#[derive(Debug)]
pub(super) struct CellContext {
    pub(super) home: Option<String>,
    pub(super) now: u64,
}

impl SessionColumn {
    pub(super) const fn heading(self) -> &'static str {
        match self {
            Self::Id => "ID",
            Self::State => "STATE",
            Self::Attention => "ATTENTION",
            Self::Status => "STATUS",
            Self::Turn => "TURN",
            Self::Queued => "QUEUED",
            Self::Agent => "AGENT",
            Self::Workspace => "WORKSPACE",
            Self::Directory => "DIRECTORY",
            Self::Where => "WHERE",
            Self::Started => "STARTED",
            Self::Output => "OUTPUT",
            Self::Active => "ACTIVE",
            Self::Label => "LABEL",
            Self::Name => "NAME",
            Self::Title => "TITLE",
            Self::What => "WHAT",
            Self::Parent => "PARENT",
            Self::Memory => "MEM",
            Self::Cpu => "CPU",
            Self::Clients => "CLIENTS",
            Self::Archived => "ARCHIVED",
            Self::Kept => "KEPT",
        }
    }

    /// Returns the cell for a person. `short_id` is the end of the id that tells it from the
    /// others.
    pub(super) fn to_cell(
        self,
        session: &SessionInfo,
        short_id: &str,
        context: &CellContext,
    ) -> Cell {
        let ago = |at: &str| styled_cell(TextStyle::Faint, format_ago(at, context.now));
        match self {
            Self::Id => styled_cell(TextStyle::Strong, short_id),
            Self::State => {
                let (word, style) = session_state::list_word(session);
                let queued = if session.queued > 0 {
                    format!(" +{}", session.queued)
                } else {
                    String::new()
                };
                let mark = if session.archived { ", archived" } else { "" };
                styled_cell(style, format!("{word}{queued}{mark}"))
            }
            Self::Directory => {
                plain_cell(text::shorten_path(&session.cwd, context.home.as_deref(), PATH_WIDTH))
            }
            Self::Where => plain_cell(place(session, context.home.as_deref())),
            Self::Started => ago(&session.started_at),
            Self::Active => ago(last_active(session)),
            Self::Output => session.last_output_at.as_deref().map_or_else(|| plain_cell(""), ago),
            Self::What => plain_cell(describe(session)),
            Self::Memory => {
                let style = if is_over_limit(session) { TextStyle::Bad } else { TextStyle::Plain };
                let mark = if is_over_limit(session) { "!" } else { "" };
                let size =
                    session.resources.map(|used| text::format_size(used.memory_bytes) + mark);
                styled_cell(style, size.unwrap_or_default())
            }
            Self::Cpu => plain_cell(
                session
                    .resources
                    .map(|used| format_duration(used.cpu_millis))
                    .unwrap_or_default(),
            ),
            Self::Kept => plain_cell(
                keeper_limits(session)
                    .map(|limits| times::format_limit(limits.absence_millis))
                    .unwrap_or_default(),
            ),
            Self::Attention
            | Self::Status
            | Self::Turn
            | Self::Queued
            | Self::Agent
            | Self::Workspace
            | Self::Label
            | Self::Name
            | Self::Title
            | Self::Parent
            | Self::Clients
            | Self::Archived => plain_cell(self.to_value(session)),
        }
    }

    /// Returns the value for a program: ids whole, times in ISO 8601, sizes in bytes.
    pub(super) fn to_value(self, session: &SessionInfo) -> String {
        let some = |value: &Option<String>| value.clone().unwrap_or_default();
        match self {
            Self::Id => session.id.clone(),
            Self::State => session_state::list_word(session).0.to_owned(),
            Self::Attention => session
                .attention
                .as_ref()
                .map(|attention| attention.state.to_string())
                .unwrap_or_default(),
            Self::Status => session.status.to_string(),
            Self::Turn => session.turn.to_string(),
            Self::Queued => session.queued.to_string(),
            Self::Agent => session.adapter_slug.clone(),
            Self::Workspace => session.workspace_slug.clone(),
            Self::Directory => session.cwd.clone(),
            Self::Where => place(session, None),
            Self::Started => session.started_at.clone(),
            Self::Output => some(&session.last_output_at),
            Self::Active => last_active(session).to_owned(),
            Self::Label => some(&session.label),
            Self::Name => some(&session.name),
            Self::Title => some(&session.title),
            Self::What => describe(session),
            Self::Parent => some(&session.parent_session_id),
            Self::Memory => {
                session.resources.map(|used| used.memory_bytes.to_string()).unwrap_or_default()
            }
            Self::Cpu => {
                session.resources.map(|used| used.cpu_millis.to_string()).unwrap_or_default()
            }
            Self::Clients => session.clients.to_string(),
            Self::Archived => if session.archived { "archived" } else { "" }.to_owned(),
            Self::Kept => match keeper_limits(session).map(|limits| limits.absence_millis) {
                Some(Some(millis)) => millis.to_string(),
                Some(None) => "for_ever".to_owned(),
                None => String::new(),
            },
        }
    }
}

fn keeper_limits(session: &SessionInfo) -> Option<KeeperLimitsInfo> {
    session.keeper.as_ref()?.limits
}

/// Returns the time of the last output, or of the start if there is none.
pub(super) fn last_active(session: &SessionInfo) -> &str {
    session.last_output_at.as_deref().unwrap_or(&session.started_at)
}

/// Returns the workspace with a mark, or the directory of a session without one.
fn place(session: &SessionInfo, home: Option<&str>) -> String {
    match session.workspace_slug.as_str() {
        "default" | "" => text::shorten_path(&session.cwd, home, PATH_WIDTH),
        slug => format!("@{slug}"),
    }
}

/// Returns the display name, with a mark if the agent of another session started this one, and what
/// the person has to know: the question, or the failure.
fn describe(session: &SessionInfo) -> String {
    let mark = if session.parent_session_id.is_some() { "↳ " } else { "" };
    let name = session_state::display_name(session).unwrap_or_default();
    let urgent = session
        .attention
        .as_ref()
        .filter(|attention| {
            matches!(attention.state, AttentionState::NeedsAnswer | AttentionState::Failed)
        })
        .and_then(|attention| attention.text.as_deref());
    match urgent {
        Some(text) if name.is_empty() => format!("{mark}{text}"),
        Some(text) => format!("{mark}{name} · {text}"),
        None => format!("{mark}{name}"),
    }
}

fn is_over_limit(session: &SessionInfo) -> bool {
    session.resources.is_some_and(|used| used.over_limit)
}
