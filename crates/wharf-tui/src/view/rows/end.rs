//! The end of a turn in one line: outcome, duration, tokens, cost and changed files.

use ratatui_core::text::Line;
use wharf_api::{RowTurnEnd, TokenUsage, TurnOutcome};

use super::RowLayoutOptions;
use crate::text::{
    expand_tabs, format_cost, format_count, format_duration, to_printable, to_printable_line, truncate_to_columns,
    wrap_plain,
};

/// The last lines of the agent's stderr at a failure.
const MAX_STDERR_LINES: usize = 10;

pub(super) fn turn_end_lines(end: &RowTurnEnd, look: &RowLayoutOptions<'_>) -> Vec<Line<'static>> {
    let theme = look.theme;
    let style = match &end.outcome {
        TurnOutcome::Done | TurnOutcome::Cancelled => theme.faint,
        TurnOutcome::Stopped | TurnOutcome::Refused | TurnOutcome::CutOff => theme.wants,
        TurnOutcome::Failed | TurnOutcome::Other(_) => theme.bad,
    };
    let text = format!("── {}", describe_end(end).join(" · "));
    let mut lines = wrap_plain(&text, style, look.columns());
    for line in last_lines(end.stderr.as_deref().unwrap_or_default(), MAX_STDERR_LINES) {
        let text = format!("  │ {}", expand_tabs(&to_printable_line(line)));
        lines.push(Line::styled(truncate_to_columns(&text, look.columns()), theme.faint));
    }
    lines
}

fn describe_end(end: &RowTurnEnd) -> Vec<String> {
    let mut parts = vec![end.outcome.as_str().replace('_', " ")];
    // The agent's reason says more than the outcome unless the turn simply ended.
    let has_own_reason = matches!(end.outcome, TurnOutcome::Stopped | TurnOutcome::Failed) && end.message.is_none();
    if has_own_reason && end.reason != end.outcome.as_str() {
        parts.push(to_printable(&end.reason).replace('_', " "));
    }
    parts.extend(end.message.as_deref().map(to_printable));
    parts.extend(end.duration_ms.map(format_duration));
    parts.extend(end.usage.as_ref().and_then(describe_tokens));
    parts.extend(end.usage.as_ref().and_then(|usage| usage.cost.as_ref()).map(format_cost));
    if end.tools.failed > 0 {
        parts.push(format!("{} of {} tool calls failed", end.tools.failed, end.tools.count));
    }
    if !end.files.is_empty() {
        let (added, removed) = end.files.iter().fold((0, 0), |(a, r), file| (a + file.added, r + file.removed));
        let word = if end.files.len() == 1 { "file" } else { "files" };
        parts.push(format!("{} {word} +{added} −{removed}", end.files.len()));
    }
    if end.next.as_ref().is_some_and(|next| next.requeued) {
        parts.push("the prompt waits again".to_owned());
    }
    parts
}

/// Returns the tokens that the agent reported: in and out, or all.
fn describe_tokens(usage: &TokenUsage) -> Option<String> {
    match (usage.input, usage.output, usage.total) {
        (Some(input), Some(output), _) => Some(format!("{} in, {} out", format_count(input), format_count(output))),
        (_, _, total) => total.map(|total| format!("{} tokens", format_count(total))),
    }
}

fn last_lines(text: &str, limit: usize) -> Vec<&str> {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let skipped = lines.len().saturating_sub(limit);
    lines.into_iter().skip(skipped).collect()
}
