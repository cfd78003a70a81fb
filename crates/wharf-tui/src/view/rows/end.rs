//! The end of a turn in one line: outcome, duration, tokens, cost and changed files.

use ratatui_core::text::Line;
use wharf_api::{RowTurnEnd, TokenUsage, TurnOutcome};
use wharf_render::text::{
    expand_tabs, format_cost, format_count, format_duration, to_printable, to_printable_line,
    truncate_to_columns, wrap_plain,
};

use super::RowLayoutOptions;
use crate::failures::{FailureKind, login_command};
use crate::layout::FailureDetail;

/// The last lines of the agent's stderr at a failure.
const MAX_STDERR_LINES: usize = 10;

pub(super) fn turn_end_lines(end: &RowTurnEnd, look: &RowLayoutOptions<'_>) -> Vec<Line<'static>> {
    let theme = look.theme;
    let style = match &end.outcome {
        TurnOutcome::Done | TurnOutcome::Cancelled => theme.faint,
        TurnOutcome::Stopped | TurnOutcome::Refused | TurnOutcome::CutOff => theme.wants,
        TurnOutcome::Failed | TurnOutcome::Other(_) => theme.bad,
    };
    let kind = FailureKind::of_turn(end);
    let style = match (kind, look.context.failure) {
        (Some(_), FailureDetail::InCard) => theme.faint,
        (Some(FailureKind::Login | FailureKind::Limit), _) => theme.wants,
        (Some(FailureKind::Start | FailureKind::Crash | FailureKind::Error) | None, _) => style,
    };
    let text = format!("── {}", describe_end(end, kind, look).join(" · "));
    let mut lines = wrap_plain(&text, style, look.columns());
    let is_requeued = end.next.as_ref().is_some_and(|next| next.requeued);
    if let Some(kind) = kind
        && look.context.failure == FailureDetail::WaysOn
        && look.can_send
        && !is_requeued
    {
        let ways_on = format!("   {}", describe_ways_on(kind, look.agent, look.host_name));
        lines.extend(wrap_plain(&ways_on, theme.plain, look.columns()));
    }
    if kind == Some(FailureKind::Login) {
        return lines;
    }
    for line in last_lines(end.stderr.as_deref().unwrap_or_default(), MAX_STDERR_LINES) {
        let text = format!("  │ {}", expand_tabs(&to_printable_line(line)));
        lines.push(Line::styled(truncate_to_columns(&text, look.columns()), theme.faint));
    }
    lines
}

/// Returns the ways on after a failure: the command that helps, and the key that tries again.
pub(in crate::view) fn describe_ways_on(
    kind: FailureKind,
    agent: &str,
    host_name: Option<&str>,
) -> String {
    if kind != FailureKind::Login {
        return "Ctrl-X A tries again".to_owned();
    }
    let command = to_printable(&login_command(agent));
    match host_name {
        Some(host) => format!("run {command} on {}, then Ctrl-X A tries again", to_printable(host)),
        None => format!("{command} (Ctrl-X L), then Ctrl-X A tries again"),
    }
}

fn describe_end(
    end: &RowTurnEnd,
    kind: Option<FailureKind>,
    look: &RowLayoutOptions<'_>,
) -> Vec<String> {
    let mut parts = vec![end.outcome.as_str().replace('_', " ")];
    let is_told_below = kind.is_some() && look.context.failure == FailureDetail::InCard;
    // The agent's reason says more than the outcome unless the turn simply ended.
    let has_own_reason =
        matches!(end.outcome, TurnOutcome::Stopped | TurnOutcome::Failed) && end.message.is_none();
    if has_own_reason
        && !is_told_below
        && kind != Some(FailureKind::Login)
        && end.reason != end.outcome.as_str()
    {
        parts.push(to_printable(&end.reason).replace('_', " "));
    }
    let agent = to_printable(look.agent);
    match kind {
        _ if is_told_below => {}
        Some(FailureKind::Login) => parts.push(format!("{agent} is not signed in")),
        Some(FailureKind::Limit) => {
            let words =
                end.message.as_deref().map(|message| format!(": {}", to_printable(message)));
            parts.push(format!("{agent} has reached a limit{}", words.unwrap_or_default()));
        }
        Some(FailureKind::Start | FailureKind::Crash | FailureKind::Error) | None => {
            parts.extend(end.message.as_deref().map(to_printable));
        }
    }
    parts.extend(end.duration_ms.map(format_duration));
    parts.extend(end.usage.as_ref().and_then(describe_tokens));
    parts.extend(end.usage.as_ref().and_then(|usage| usage.cost.as_ref()).map(format_cost));
    if end.tools.failed > 0 {
        parts.push(format!("{} of {} tool calls failed", end.tools.failed, end.tools.count));
    }
    if !end.files.is_empty() {
        let (added, removed) =
            end.files.iter().fold((0, 0), |(a, r), file| (a + file.added, r + file.removed));
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
    let show_count = |count: u64| usage.mark_count(&format_count(count));
    match (usage.input, usage.output, usage.total) {
        (Some(input), Some(output), _) => {
            Some(format!("{} in, {} out", show_count(input), show_count(output)))
        }
        (_, _, total) => total.map(|total| format!("{} tokens", show_count(total))),
    }
}

fn last_lines(text: &str, limit: usize) -> Vec<&str> {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let skipped = lines.len().saturating_sub(limit);
    lines.into_iter().skip(skipped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubtful_numbers_are_marked() {
        let usage = TokenUsage {
            input: Some(18_250),
            output: Some(900),
            ..TokenUsage::default()
        };
        let marked = TokenUsage { at_least: true, guessed: true, ..usage.clone() };
        let shown = [usage, marked].map(|usage| describe_tokens(&usage).unwrap());
        assert_eq!(shown, ["18.2k in, 900 out", "≥18.2k? in, ≥900? out"]);
    }
}
