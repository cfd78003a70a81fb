//! The card of a session whose agent did not start or is gone: the reason and the ways on.

use ratatui_core::layout::Rect;
use ratatui_core::text::Line;
use wharf_api::{EndCause, LoginState, SessionInfo, SessionStatus};

use super::Canvas;
use crate::model::TuiState;
use crate::session_words::is_asleep;
use crate::text::{to_printable, wrap_plain};

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
    let title = match &info.end_reason {
        Some(EndCause::StartFailed) => format!("! {} did not start", info.adapter_slug),
        Some(EndCause::Unresponsive) => format!("! {} does not respond", info.adapter_slug),
        Some(EndCause::LogFull) => "! the session's log is full".to_owned(),
        Some(_) | None => format!("! {} is gone", info.adapter_slug),
    };
    canvas.write_rule(Rect { height: 1, ..area }, &title, canvas.theme.bad);
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
pub(super) fn failed_session(state: &TuiState) -> Option<&SessionInfo> {
    let info = state.open_info()?;
    let is_failed = matches!(info.status, SessionStatus::Error | SessionStatus::Exited);
    let is_over = matches!(info.end_reason, Some(EndCause::Finished | EndCause::Closed | EndCause::User));
    (is_failed && !is_over && !is_asleep(info)).then_some(info)
}

fn reason_lines(state: &TuiState, info: &SessionInfo, width: u16) -> Vec<Line<'static>> {
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
    let adapter = state.choices.adapters.iter().find(|adapter| adapter.slug == info.adapter_slug);
    let is_out = adapter.is_some_and(|adapter| adapter.login == LoginState::No);
    let login = if is_out { "not signed in: Ctrl-X L logs in · " } else { "Ctrl-X L logs in · " };
    format!("Ctrl-X R tries again · {login}wharf logs {}", info.id)
}
