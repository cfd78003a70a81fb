//! The list of sessions: first those that need the person, then the workspaces.

use ratatui_core::layout::Rect;
use wharf_api::SessionInfo;
use wharf_render::text::{
    format_age, parse_millis, shorten_path, to_printable, truncate_to_columns, wrap_plain,
};

use super::{Canvas, divide_screen};
use crate::composer::lay_out_editor;
use crate::failures::login_command;
use crate::model::{ListEntry, PaneFocus, TuiState, attention_mark, last_activity, needs_person};
use crate::rows::last_line;
use crate::session_words::display_name;

/// The columns before the text of a session: the bar of the selection and the mark.
const MARK_COLUMNS: u16 = 3;
/// The columns of the agent's name.
const MAX_AGENT_COLUMNS: usize = 12;

pub(super) fn draw_list(state: &TuiState, area: Rect, canvas: &mut Canvas) {
    let is_focused = state.focus == PaneFocus::List && state.overlays.is_empty();
    draw_head(state, Rect { height: 1, ..area }, is_focused, canvas);
    if state.size.width > area.width {
        for y in area.top()..area.bottom() {
            canvas.write(area.right(), y, 1, "│", canvas.theme.faint);
        }
    }
    let body = list_body(state, area);
    if state.list.entries().is_empty() {
        draw_empty(state, body, canvas);
    } else {
        draw_entries(state, body, is_focused, canvas);
    }
    if let Some(filter) = &state.list.filter {
        let y = area.bottom().saturating_sub(1);
        let used = canvas.write(area.x, y, area.width, "/ ", canvas.theme.faint);
        let laid = lay_out_editor(filter.text(), filter.cursor(), usize::from(u16::MAX));
        let text = laid.lines.first().map(String::as_str).unwrap_or_default();
        canvas.write(area.x + used, y, area.width.saturating_sub(used), text, canvas.theme.plain);
        if is_focused {
            let column = u16::try_from(laid.cursor.1)
                .unwrap_or(u16::MAX)
                .min(area.width.saturating_sub(used + 1));
            canvas.place_cursor(area.x + used + column, y);
        }
    }
}

fn draw_head(state: &TuiState, area: Rect, is_focused: bool, canvas: &mut Canvas) {
    let left = canvas.write_right(area, &state.list.describe_waiting(None), canvas.theme.wants);
    let style = if is_focused { canvas.theme.strong } else { canvas.theme.faint };
    let host = state
        .list
        .host_name
        .as_ref()
        .map(|name| format!(" · host: {name}"))
        .unwrap_or_default();
    canvas.write(area.x, area.y, left, &format!(" Sessions{host}"), style);
}

fn draw_empty(state: &TuiState, area: Rect, canvas: &mut Canvas) {
    let text = match (&state.list.filter, state.list.is_loaded) {
        (Some(filter), true) if !filter.is_empty() => {
            format!(
                "no session has “{}” in its title, agent, workspace or directory · Esc shows all",
                filter.text()
            )
        }
        (_, true) => "no sessions yet · n starts one".to_owned(),
        (_, false) => String::new(),
    };
    let lines = wrap_plain(
        &to_printable(&text),
        canvas.theme.faint,
        usize::from(area.width.saturating_sub(2)),
    );
    for (line, y) in lines.iter().zip(area.top()..area.bottom()) {
        canvas.write_line(area.x + 1, y, area.width.saturating_sub(1), line);
    }
}

/// The lines of an entry.
const fn entry_lines(entry: &ListEntry) -> usize {
    match entry {
        ListEntry::Session(_) => 2,
        ListEntry::NeedsYou | ListEntry::Workspace { .. } | ListEntry::Archive => 1,
    }
}

/// Returns the sessions of the list that are on the screen.
pub(crate) fn listed_sessions(state: &TuiState) -> Vec<&SessionInfo> {
    let Some(area) = divide_screen(state).list else { return Vec::new() };
    let shown = visible_entries(state, list_body(state, area)).into_iter();
    shown
        .filter_map(|(_, entry)| match entry {
            ListEntry::Session(id) => state.list.get(id),
            ListEntry::NeedsYou | ListEntry::Workspace { .. } | ListEntry::Archive => None,
        })
        .collect()
}

/// Returns the part of the list below its head and above the filter.
fn list_body(state: &TuiState, area: Rect) -> Rect {
    let filter_lines = u16::from(state.list.filter.is_some());
    Rect {
        y: area.y + 1,
        height: area.height.saturating_sub(1 + filter_lines),
        ..area
    }
}

/// Returns the entries that fit the area, each with its first line.
fn visible_entries(state: &TuiState, area: Rect) -> Vec<(u16, &ListEntry)> {
    let entries = state.list.entries();
    let selected = state.list.selected.as_deref();
    let is_selected = |entry: &ListEntry| matches!(entry, ListEntry::Session(id) if Some(id.as_str()) == selected);
    // The selected session stays in view.
    let end: usize = match entries.iter().position(is_selected) {
        Some(at) => entries.iter().take(at + 1).map(entry_lines).sum(),
        None => 0,
    };
    let mut skip = end.saturating_sub(usize::from(area.height));
    let mut y = area.y;
    let mut visible = Vec::new();
    for entry in entries {
        if skip > 0 {
            skip = skip.saturating_sub(entry_lines(entry));
            continue;
        }
        if y >= area.bottom() {
            break;
        }
        visible.push((y, entry));
        y += u16::try_from(entry_lines(entry)).unwrap_or(1);
    }
    visible
}

fn draw_entries(state: &TuiState, area: Rect, is_focused: bool, canvas: &mut Canvas) {
    let selected = state.list.selected.as_deref();
    for (y, entry) in visible_entries(state, area) {
        let line = Rect { y, height: 1, ..area };
        match entry {
            ListEntry::NeedsYou => draw_heading("NEEDS YOU", "", line, canvas),
            ListEntry::Workspace { name, directory } => {
                let home = state.options.home.as_deref();
                let room = usize::from(area.width / 2);
                draw_heading(
                    &name.to_uppercase(),
                    &shorten_path(directory, home, room),
                    line,
                    canvas,
                );
            }
            ListEntry::Archive => draw_heading("ARCHIVE", "", line, canvas),
            ListEntry::Session(id) => {
                if let Some(session) = state.list.get(id) {
                    let area = Rect { y, height: (area.bottom() - y).min(2), ..area };
                    let is_selected = Some(id.as_str()) == selected;
                    draw_session(state, session, area, is_selected.then_some(is_focused), canvas);
                }
            }
        }
    }
}

fn draw_heading(name: &str, detail: &str, area: Rect, canvas: &mut Canvas) {
    let used =
        canvas.write(area.x + 1, area.y, area.width.saturating_sub(1), name, canvas.theme.strong);
    let rest = area.width.saturating_sub(used + 3);
    canvas.write(area.x + used + 3, area.y, rest, detail, canvas.theme.faint);
}

/// Draws a session in two lines. `selection` is true if the list has the focus too.
fn draw_session(
    state: &TuiState,
    session: &SessionInfo,
    area: Rect,
    selection: Option<bool>,
    canvas: &mut Canvas,
) {
    let theme = canvas.theme;
    let attention = session.attention.as_ref();
    let at = shown_since(session);
    let draft = if state.drafts.has_text(&session.id) { "✎ " } else { "" };
    let age = format!("{draft}{}", format_age(at, state.now.unix_millis));
    let left = canvas.write_right(Rect { height: 1, ..area }, &age, theme.faint);
    if let Some(is_focused) = selection {
        canvas.write(area.x, area.y, 1, "▌", if is_focused { theme.strong } else { theme.faint });
    }
    let mark = attention_mark(session);
    let mark_style = match mark {
        '?' => theme.wants,
        '!' => theme.bad,
        '*' => theme.good,
        '»' => theme.busy,
        _ => theme.plain,
    };
    canvas.write(area.x + 1, area.y, 1, &mark.to_string(), mark_style);
    if attention.is_some_and(|attention| attention.unread) {
        canvas.write(area.x + 2, area.y, 1, "•", theme.strong);
    }
    let mut x = area.x + MARK_COLUMNS;
    let mut room = left.saturating_sub(MARK_COLUMNS + 1);
    if needs_person(session) {
        let workspace = workspace_name(session);
        let used = canvas.write(x, area.y, room.min(10), workspace, theme.faint) + 1;
        x += used;
        room = room.saturating_sub(used);
    }
    let name = display_name(session).unwrap_or(&session.adapter_slug);
    canvas.write(
        x,
        area.y,
        room,
        name,
        if selection.is_some() { theme.strong } else { theme.plain },
    );
    if area.height > 1 {
        let detail = describe_last_line(state, session);
        let is_muted = attention.is_some_and(|attention| attention.muted);
        let detail = match (is_muted, detail.is_empty()) {
            (false, _) => detail,
            (true, true) => "muted".to_owned(),
            (true, false) => format!("muted · {detail}"),
        };
        let line = Rect { y: area.y + 1, height: 1, ..area };
        let agent = truncate_to_columns(&to_printable(&session.adapter_slug), MAX_AGENT_COLUMNS);
        let left = canvas.write_right(line, &agent, theme.faint);
        let room = left.saturating_sub(MARK_COLUMNS + 1);
        canvas.write(area.x + MARK_COLUMNS, line.y, room, &detail, theme.faint);
    }
}

/// Returns the instant whose age the list shows: since when the session needs the person, else when
/// it last did something (milliseconds since 1970).
pub(crate) fn shown_since(session: &SessionInfo) -> u64 {
    let attention = session.attention.as_ref().filter(|_| needs_person(session));
    let since = attention.and_then(|attention| parse_millis(&attention.since));
    since.unwrap_or_else(|| last_activity(session))
}

/// Returns the line below the title: the reason of the attention, else the newest line.
fn describe_last_line(state: &TuiState, session: &SessionInfo) -> String {
    let attention = session.attention.as_ref();
    let needs_login = attention.is_some_and(|attention| attention.why.as_deref() == Some("login"));
    let login =
        needs_login.then(|| format!("not signed in: {}", login_command(&session.adapter_slug)));
    let reason = login.or_else(|| attention.and_then(|attention| attention.text.clone()));
    let newest = || match state.open.as_ref().filter(|open| open.id == session.id) {
        Some(open) => open.rows.iter().rev().find_map(|(_, row)| last_line(row)),
        None => state.list.last_lines.get(&session.id).map(str::to_owned),
    };
    reason.or_else(newest).unwrap_or_default()
}

/// Returns the workspace of a session; without one the last part of its directory.
fn workspace_name(session: &SessionInfo) -> &str {
    match session.workspace_slug.as_str() {
        "default" => session.cwd.rsplit('/').find(|part| !part.is_empty()).unwrap_or("/"),
        slug => slug,
    }
}
