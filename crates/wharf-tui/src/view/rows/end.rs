//! The end of a turn in one line: outcome, duration, tokens, cost and changed files.

use ratatui_core::text::Line;
use wharf_api::{RowTurnEnd, TurnOutcome};

use super::RowLayoutOptions;
use crate::text::{format_duration, to_printable, to_printable_line, truncate_to_columns, wrap_plain};

/// The last lines of the agent's stderr at a failure.
const MAX_STDERR_LINES: usize = 10;

pub(super) fn turn_end_lines(end: &RowTurnEnd, look: &RowLayoutOptions<'_>) -> Vec<Line<'static>> {
    let theme = look.theme;
    let style = match &end.outcome {
        TurnOutcome::Done | TurnOutcome::Cancelled => theme.faint,
        TurnOutcome::Stopped | TurnOutcome::Refused | TurnOutcome::CutOff => theme.wants,
        TurnOutcome::Failed | TurnOutcome::Other(_) => theme.bad,
    };
    let mut parts = vec![end.outcome.as_str().replace('_', " ")];
    parts.extend(end.message.as_deref().map(to_printable));
    parts.extend(end.duration_ms.map(format_duration));
    parts.extend(end.usage.as_ref().and_then(|usage| usage.total).map(|total| format!("{total} tokens")));
    if !end.files.is_empty() {
        let (added, removed) = end.files.iter().fold((0, 0), |(a, r), file| (a + file.added, r + file.removed));
        let word = if end.files.len() == 1 { "file" } else { "files" };
        parts.push(format!("{} {word} +{added} −{removed}", end.files.len()));
    }
    let mut lines = wrap_plain(&format!("── {}", parts.join(" · ")), style, look.columns());
    for line in last_lines(end.stderr.as_deref().unwrap_or_default(), MAX_STDERR_LINES) {
        let text = format!("  │ {}", crate::text::expand_tabs(&to_printable_line(line)));
        lines.push(Line::styled(truncate_to_columns(&text, look.columns()), theme.faint));
    }
    lines
}

fn last_lines(text: &str, limit: usize) -> Vec<&str> {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let skipped = lines.len().saturating_sub(limit);
    lines.into_iter().skip(skipped).collect()
}
