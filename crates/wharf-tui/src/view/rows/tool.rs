//! Tool calls as cards of one line, which open to their diff and output; asks as the line of their answer.

use ratatui_core::text::{Line, Span};
use wharf_api::{AskState, RowAsk, RowTool, ToolState, TranscriptRow};

use super::prompt::actor_name;
use super::{RowLayoutOptions, diff_lines, parts_text};
use crate::text::{
    display_width, format_duration, parse_millis, to_printable, to_printable_line, truncate_to_columns, wrap_plain,
};

/// The last lines of the output of a tool call that failed or runs.
const TAIL_LINES: usize = 6;
/// The lines of output of an opened card.
const MAX_OUTPUT_LINES: usize = 200;

pub(super) fn tool_lines(tool: &RowTool, row: &TranscriptRow, look: &RowLayoutOptions<'_>) -> Vec<Line<'static>> {
    let code = tool.output.as_ref().and_then(|output| output.exit_code).unwrap_or_default();
    let has_failed = tool.state == ToolState::Failed || code != 0;
    let mut lines = vec![head_line(tool, row, has_failed, look)];
    if look.is_toggled {
        lines.extend(diff_lines(&tool.diffs, look.width, look.theme));
        lines.extend(output_lines(tool, MAX_OUTPUT_LINES, look));
    } else if has_failed || tool.state.is_open() {
        lines.extend(output_lines(tool, TAIL_LINES, look));
    }
    lines
}

fn head_line(tool: &RowTool, row: &TranscriptRow, has_failed: bool, look: &RowLayoutOptions<'_>) -> Line<'static> {
    let theme = look.theme;
    let (mark, style) = match &tool.state {
        _ if has_failed => ("✗", theme.bad),
        ToolState::Completed => ("✓", theme.good),
        ToolState::Cancelled | ToolState::CutOff => ("–", theme.faint),
        ToolState::Pending | ToolState::Running | ToolState::Paused | ToolState::Failed | ToolState::Other(_) => {
            ("»", theme.busy)
        }
    };
    let took = tool.ended_at.as_deref().and_then(parse_millis).zip(parse_millis(&tool.started_at));
    let took = took.map(|(end, start)| format_duration(end.saturating_sub(start))).unwrap_or_default();
    let room = look.columns().saturating_sub(2);
    let title = truncate_to_columns(&to_printable(&row.summary), room.saturating_sub(display_width(&took) + 1));
    let blanks = room.saturating_sub(display_width(&title) + display_width(&took));
    let spans = vec![
        Span::styled(format!("{mark} "), style),
        Span::styled(title, theme.plain),
        Span::raw(" ".repeat(blanks)),
        Span::styled(took, theme.faint),
    ];
    Line::from(spans)
}

/// Returns the last lines of the output, each behind a bar.
fn output_lines(tool: &RowTool, limit: usize, look: &RowLayoutOptions<'_>) -> Vec<Line<'static>> {
    let live = look.live.map(|live| live.text.as_str());
    let output = tool.output.as_ref().map(|output| output.text.as_str()).filter(|text| !text.trim().is_empty());
    let text = live.or(output).map_or_else(|| parts_text(&tool.parts), str::to_owned);
    let all: Vec<&str> = text.trim_end().lines().collect();
    let skipped = all.len().saturating_sub(limit);
    let mut lines = Vec::new();
    if skipped > 0 {
        lines.push(Line::styled(format!("  │ … {skipped} lines above"), look.theme.faint));
    }
    for line in all.iter().skip(skipped) {
        let text = crate::text::expand_tabs(&to_printable_line(line));
        let text = truncate_to_columns(&text, look.columns().saturating_sub(4));
        lines.push(Line::styled(format!("  │ {text}"), look.theme.faint));
    }
    lines
}

/// An open ask is in the dock; here stands the question, and later its answer.
pub(super) fn ask_lines(ask: &RowAsk, look: &RowLayoutOptions<'_>) -> Vec<Line<'static>> {
    let title = to_printable(&ask.subject.title);
    let text = format!("? {title} → {}", describe_answer(ask));
    let style = if ask.state == AskState::Open { look.theme.wants } else { look.theme.faint };
    wrap_plain(&text, style, look.columns())
}

fn describe_answer(ask: &RowAsk) -> String {
    let answer = ask.answer.as_ref();
    let chosen = answer.and_then(|answer| answer.name.as_deref().or(answer.option.as_deref()));
    let what = match &ask.state {
        AskState::Open => return "waits for an answer".to_owned(),
        AskState::Answered => to_printable(chosen.unwrap_or("answered")),
        AskState::Declined => "declined".to_owned(),
        AskState::Cancelled => "cancelled".to_owned(),
        AskState::Withdrawn => "withdrawn by the agent".to_owned(),
        AskState::AgentGone => "not answered: the agent is gone".to_owned(),
        AskState::Other(newer) => to_printable(newer),
    };
    let by = answer.and_then(|answer| answer.by.as_ref()).map(|by| format!(" · {}", actor_name(by)));
    let after = answer.map(|answer| format!(" · {}", format_duration(answer.after)));
    format!("{what}{}{}", by.unwrap_or_default(), after.unwrap_or_default())
}
