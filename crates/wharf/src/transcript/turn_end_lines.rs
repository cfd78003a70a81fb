//! The end of a turn in one line: duration, tokens, cost, context and changed files, as far as they
//! are known.

use wharf_api::{ContextUse, RowTurnEnd, TokenUsage, TurnOutcome};
use wharf_render::style::{Screen, TextStyle};
use wharf_render::text::{format_duration, to_printable};

use super::diff_lines::last_lines;
use crate::verbs::usage::format_cost;

/// The most lines of the agent's stderr.
const MAX_STDERR_LINES: usize = 20;

/// Returns the end of a turn as lines, with the reason of a failure and the agent's last words.
pub(super) fn turn_end_lines(end: &RowTurnEnd, screen: Screen) -> Vec<String> {
    let numbers = describe_turn_numbers(end);
    let numbers = if numbers.is_empty() { numbers } else { format!(" · {numbers}") };
    let (word, style) = describe_outcome(end);
    let message = end
        .message
        .as_deref()
        .map(|message| format!(": {}", to_printable(message)))
        .unwrap_or_default();
    let mut lines = vec![screen.paint(style, &format!("── {word}{message}{numbers}"))];
    lines.extend(
        end.stderr
            .iter()
            .flat_map(|stderr| last_lines(stderr, MAX_STDERR_LINES, screen)),
    );
    lines
}

fn describe_outcome(end: &RowTurnEnd) -> (String, TextStyle) {
    let reason = to_printable(&end.reason.replace('_', " "));
    match &end.outcome {
        TurnOutcome::Done => ("done".to_owned(), TextStyle::Faint),
        TurnOutcome::Stopped => (format!("stopped ({reason})"), TextStyle::Wants),
        TurnOutcome::Refused => ("refused by the agent".to_owned(), TextStyle::Wants),
        TurnOutcome::Cancelled => ("cancelled".to_owned(), TextStyle::Faint),
        TurnOutcome::CutOff => {
            let again = if end.next.as_ref().is_some_and(|next| next.requeued) {
                ", to be repeated"
            } else {
                ""
            };
            (format!("cut off ({reason}{again})"), TextStyle::Wants)
        }
        TurnOutcome::Failed | TurnOutcome::Other(_) => {
            (format!("failed ({reason})"), TextStyle::Bad)
        }
    }
}

/// Returns duration, usage and changed files of a turn. Leaves out unknown values.
pub(crate) fn describe_turn_numbers(end: &RowTurnEnd) -> String {
    let duration = end.duration_ms.map(format_duration);
    let usage = describe_usage(end.usage.as_ref(), end.context.as_ref());
    let files = (!end.files.is_empty()).then(|| {
        let (added, removed) =
            end.files.iter().fold((0, 0), |(a, r), file| (a + file.added, r + file.removed));
        let word = if end.files.len() == 1 { "file" } else { "files" };
        format!("{} {word} +{added} −{removed}", end.files.len())
    });
    duration.into_iter().chain(usage).chain(files).collect::<Vec<_>>().join(" · ")
}

/// Returns tokens, cost and context, as far as the agent reported them.
pub(crate) fn describe_usage(
    usage: Option<&TokenUsage>,
    context: Option<&ContextUse>,
) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(usage) = usage {
        let tokens = [(usage.input, "in"), (usage.output, "out"), (usage.cached, "cached")];
        let show_count = |count: u64| usage.mark_count(&format_count(count));
        let known = tokens
            .iter()
            .filter_map(|(count, what)| count.map(|count| format!("{} {what}", show_count(count))));
        let known: Vec<String> = known.collect();
        match (known.is_empty(), usage.total) {
            (false, _) => parts.push(format!("tokens {}", known.join(", "))),
            (true, Some(total)) => parts.push(format!("tokens {}", show_count(total))),
            (true, None) => {}
        }
        let cost = usage.cost.as_ref().map(|cost| to_printable(&format_cost(cost)));
        parts.extend(cost);
    }
    if let Some(context) = context.filter(|context| context.size > 0) {
        parts.push(format!("context {} %", context.used.saturating_mul(100) / context.size));
    }
    (!parts.is_empty()).then(|| parts.join(" · "))
}

/// Returns a number like `850`, `18.2k` or `1.3M`.
fn format_count(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}.{}k", count / 1_000, count % 1_000 / 100),
        _ => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn end(value: serde_json::Value) -> RowTurnEnd {
        let mut whole = json!({ "reason": "end_turn", "outcome": "done", "durationMs": null, "usage": null,
            "context": null, "tools": { "count": 0, "failed": 0 }, "files": [], "message": null, "stderr": null,
            "next": null });
        whole.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn end_tells_only_the_numbers_that_are_known() {
        assert_eq!(turn_end_lines(&end(json!({})), Screen::PIPE), ["── done"]);
        let usage = json!({ "input": 18_250, "output": 900, "cached": null, "total": null,
            "cost": { "amount": 0.071, "currency": "USD" } });
        let files = json!([{ "path": "a", "added": 3, "removed": 1 }]);
        let known = end(
            json!({ "durationMs": 61_200, "usage": usage, "context": { "used": 57, "size": 200 },
            "files": files }),
        );
        let told =
            "── done · 1m01s · tokens 18.2k in, 900 out · 0.0710 USD · context 28 % · 1 file +3 −1";
        assert_eq!(turn_end_lines(&known, Screen::PIPE), [told]);
    }

    #[test]
    fn doubtful_numbers_are_marked() {
        let usage = json!({ "input": 18_250, "output": 900, "cached": null, "total": null, "cost": null,
            "atLeast": true, "guessed": true });
        let marked = turn_end_lines(&end(json!({ "usage": usage })), Screen::PIPE);
        assert_eq!(marked, ["── done · tokens ≥18.2k? in, ≥900? out"]);
    }

    #[test]
    fn failure_has_its_reason_and_the_last_words() {
        let failed = end(
            json!({ "outcome": "failed", "reason": "agent_exited", "message": "it\u{1b}[2J ended",
            "stderr": "one\ntwo\n", "durationMs": 100 }),
        );
        assert_eq!(
            turn_end_lines(&failed, Screen::PIPE),
            ["── failed (agent exited): it ended · 0.1s", "  | one", "  | two"]
        );
    }
}
