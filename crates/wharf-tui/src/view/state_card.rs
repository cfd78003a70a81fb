//! The card of a session whose agent did not start or is gone: the reason and the ways on.

use ratatui_core::layout::Rect;
use ratatui_core::text::Line;
use wharf_api::{EndCause, LoginState, SessionInfo};
use wharf_render::text::{to_printable, wrap_plain};

use super::Canvas;
use super::rows::describe_ways_on;
use crate::failures::FailureKind;
use crate::model::TuiState;
use crate::session_words::has_failed;

/// The most lines of the reason.
const MAX_REASON_LINES: usize = 6;

/// Returns the lines that the card takes, with its heading; `None` if the session needs none.
pub(super) fn card_lines(state: &TuiState, area: Rect) -> Option<u16> {
    let info = failed_session(state)?;
    let lines = u16::try_from(reason_lines(state, info, area.width).len() + 2).unwrap_or(u16::MAX);
    Some(lines.min(area.height))
}

pub(super) fn draw_card(state: &TuiState, area: Rect, canvas: &mut Canvas) {
    let Some(info) = failed_session(state) else { return };
    let kind = FailureKind::of_session(info);
    let agent = &info.adapter_slug;
    let title = match (kind, &info.end_reason) {
        (FailureKind::Login, _) => format!("! {agent} is not signed in"),
        (FailureKind::Limit, _) => format!("! {agent} has reached a limit"),
        (_, Some(EndCause::StartFailed)) => format!("! {agent} did not start"),
        (_, Some(EndCause::Unresponsive)) => format!("! {agent} does not respond"),
        (_, Some(EndCause::LogFull)) => "! the session's log is full".to_owned(),
        (_, Some(_) | None) => format!("! {agent} is gone"),
    };
    let style = match kind {
        FailureKind::Login | FailureKind::Limit => canvas.theme.wants,
        FailureKind::Start | FailureKind::Crash | FailureKind::Error => canvas.theme.bad,
    };
    canvas.write_rule(Rect { height: 1, ..area }, &title, style);
    let lines = reason_lines(state, info, area.width);
    for (line, y) in lines.iter().zip(area.y + 1..area.bottom()) {
        canvas.write_line(area.x + 2, y, area.width.saturating_sub(2), line);
    }
    let last = area.bottom().saturating_sub(1);
    if last > area.y {
        canvas.clear(Rect { y: last, height: 1, ..area });
        canvas.write(
            area.x + 2,
            last,
            area.width.saturating_sub(2),
            &describe_actions(state, info),
            canvas.theme.faint,
        );
    }
}

/// Returns the open session if its agent failed and the next prompt does not simply bring it back.
fn failed_session(state: &TuiState) -> Option<&SessionInfo> {
    state.open_info().filter(|info| has_failed(info))
}

/// Returns the reason in the agent's words. Returns no lines if a login is needed: the heading and
/// the command already say so.
fn reason_lines(state: &TuiState, info: &SessionInfo, width: u16) -> Vec<Line<'static>> {
    if FailureKind::of_session(info) == FailureKind::Login {
        return Vec::new();
    }
    let columns = usize::from(width.saturating_sub(2));
    let mut lines = Vec::new();
    for line in info.message.as_deref().unwrap_or("its agent has ended").lines() {
        lines.extend(wrap_plain(&to_printable(line), state.theme.plain, columns));
    }
    lines.truncate(MAX_REASON_LINES);
    if let Some(code) = info.exit_code {
        lines.push(Line::styled(format!("exit code {code}"), state.theme.faint));
    }
    lines
}

fn describe_actions(state: &TuiState, info: &SessionInfo) -> String {
    if state.options.is_readonly {
        return "its history stays".to_owned();
    }
    let kind = FailureKind::of_session(info);
    let adapter = state.choices.adapters.iter().find(|adapter| adapter.slug == info.adapter_slug);
    let is_out = kind != FailureKind::Login
        && adapter.is_some_and(|adapter| adapter.login == LoginState::No);
    let login = if is_out { " · not signed in: Ctrl-X L logs in" } else { "" };
    format!(
        "{}{login} · wharf logs {}",
        describe_ways_on(kind, &info.adapter_slug, state.list.host_name.as_deref()),
        info.id
    )
}
