//! A session without rows: that it opens, how its start failed, or what can be said in it.

use std::time::Duration;

use ratatui_core::layout::Rect;
use ratatui_core::style::Style;
use wharf_api::SessionStatus;
use wharf_render::text::{shorten_path, to_printable};

use super::Canvas;
use crate::model::{OpenSession, RowsLink, TuiState};
use crate::session_words::has_failed;

/// "Opening" is not shown for a session that opens at once.
const OPENING_SHOWN_AFTER: Duration = Duration::from_millis(150);
/// The commands of the agent that are shown as hints.
const MAX_HINTED_COMMANDS: usize = 3;

pub(super) fn draw_empty_transcript(
    state: &TuiState,
    open: &OpenSession,
    area: Rect,
    canvas: &mut Canvas,
) {
    let theme = canvas.theme;
    let lines: Vec<(String, Style)> = match &open.link {
        RowsLink::Opening { since } if state.now.elapsed < *since + OPENING_SHOWN_AFTER => return,
        RowsLink::Opening { .. } => vec![("opening…".to_owned(), theme.faint)],
        RowsLink::Live | RowsLink::Lost => {
            let (text, is_failure) = describe_start(state);
            let first = (text, if is_failure { theme.bad } else { theme.plain });
            std::iter::once(first)
                .chain(command_hints(open).into_iter().map(|hint| (hint, theme.faint)))
                .collect()
        }
    };
    let width = area.width.saturating_sub(2);
    let height = u16::try_from(lines.len()).unwrap_or(area.height).min(area.height);
    for ((text, style), y) in lines.iter().zip(area.bottom() - height..area.bottom()) {
        canvas.write(area.x + 1, y, width, text, *style);
    }
}

/// Returns the agent and its directory, or the reason why it did not start, unless a card below
/// tells it.
fn describe_start(state: &TuiState) -> (String, bool) {
    let Some(info) = state.open_info() else { return (String::new(), false) };
    let directory =
        shorten_path(&info.cwd, state.options.home.as_deref(), usize::from(state.size.width) / 2);
    match (&info.status, &info.message) {
        (SessionStatus::Running | SessionStatus::Starting, _) | (_, None) => {
            (format!("{} in {directory} · nothing was said yet", info.adapter_slug), false)
        }
        (_, Some(_)) if has_failed(info) => {
            (format!("{} in {directory}", info.adapter_slug), false)
        }
        (status, Some(message)) => {
            (format!("{} in {directory} · {status}: {message}", info.adapter_slug), true)
        }
    }
}

/// Returns commands that a prompt may begin with.
fn command_hints(open: &OpenSession) -> Vec<String> {
    let settings = open.rows.state().and_then(|state| state.settings.as_deref());
    let commands = settings.map(|settings| settings.commands.as_slice()).unwrap_or_default();
    let describe = |command: &wharf_api::AgentCommandInfo| {
        let text = command.description.as_deref().or(command.hint.as_deref()).unwrap_or_default();
        to_printable(&format!("/{}  {text}", command.name)).trim_end().to_owned()
    };
    commands.iter().take(MAX_HINTED_COMMANDS).map(describe).collect()
}
