//! Formats the question of an agent as lines: the action to allow, and the possible answers.

use wharf_api::{AskAnswer, AskState, AskSubject, RowActor, RowAsk};
use wharf_render::style::{Screen, TextStyle};
use wharf_render::text::{format_duration, to_printable, to_printable_line};

use super::diff_lines::{bound_lines, diff_lines};
use super::row_lines::actor_name;

/// The most lines of a command: whoever allows it must be able to read it.
const MAX_COMMAND_LINES: usize = 200;
/// The most lines of the diffs of an ask.
const MAX_DIFF_LINES: usize = 80;
/// The most lines of other text.
const MAX_TEXT_LINES: usize = 20;
/// The most paths that are named.
const MAX_PATHS: usize = 20;

/// Returns what the ask is about: its title, then command, directory, paths, diffs and text. Paths
/// outside of the session's directory are marked.
pub(crate) fn ask_subject(subject: &AskSubject, screen: Screen) -> Vec<String> {
    let mut lines =
        vec![screen.paint(TextStyle::Wants, &format!("? {}", to_printable(&subject.title)))];
    if let Some(command) = &subject.command {
        let mut marks = std::iter::once("  $ ").chain(std::iter::repeat("    "));
        let shown = command
            .lines()
            .map(|line| format!("{}{}", marks.next().unwrap_or_default(), to_printable_line(line)));
        lines.extend(bound_lines(shown.collect(), MAX_COMMAND_LINES, screen));
    }
    if let Some(cwd) = &subject.cwd {
        lines.push(format!("  in {}", to_printable(cwd)));
    }
    let inside = |path: &&String| {
        !subject.outside.contains(*path) && !subject.diffs.iter().any(|diff| diff.path == **path)
    };
    let inside: Vec<String> = subject
        .paths
        .iter()
        .filter(inside)
        .map(|path| format!("  {}", to_printable(path)))
        .collect();
    lines.extend(bound_lines(inside, MAX_PATHS, screen));
    let outside = subject.outside.iter().map(|path| {
        screen.paint(
            TextStyle::Bad,
            &format!("  OUTSIDE the session's directory: {}", to_printable(path)),
        )
    });
    lines.extend(outside);
    lines.extend(diff_lines(&subject.diffs, screen, MAX_DIFF_LINES));
    if let Some(text) = subject.text.as_deref().filter(|text| text.trim() != subject.title.trim()) {
        let text = text.trim_end().lines().map(|line| format!("  {}", to_printable_line(line)));
        lines.extend(bound_lines(text.collect(), MAX_TEXT_LINES, screen));
    }
    if !subject.detailed {
        lines.push("  The agent sent no details.".to_owned());
    }
    lines
}

/// Returns the answers with their numbers, and the letter that means one by its kind.
pub(crate) fn ask_choices<'a>(
    options: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<String> {
    let mut used = Vec::new();
    let options = options.into_iter().enumerate();
    options
        .map(|(place, (name, kind))| {
            let letter = match kind {
                "allow_once" => " (y)",
                "allow_always" => " (always)",
                "reject_once" => " (n)",
                _ => "",
            };
            let letter = if used.contains(&kind) { "" } else { letter };
            used.push(kind);
            format!("  {}) {}{letter}", place + 1, option_words(name, kind))
        })
        .collect()
}

/// Returns the agent's name of an option. A name that only repeats the kind is replaced by words,
/// as in rows.
fn option_words(name: &str, kind: &str) -> String {
    match name {
        "allow_once" if name == kind => "Allow once".to_owned(),
        "allow_always" if name == kind => "Always allow".to_owned(),
        "reject_once" if name == kind => "Reject".to_owned(),
        "reject_always" if name == kind => "Always reject".to_owned(),
        _ => to_printable(name),
    }
}

/// Returns what became of an ask, in one line.
pub(super) fn describe_answer(ask: &RowAsk) -> String {
    let answer = ask.answer.as_ref();
    let chosen = answer.and_then(|answer| answer.name.as_deref().or(answer.option.as_deref()));
    let what = match &ask.state {
        AskState::Open => "not answered yet".to_owned(),
        AskState::Answered => to_printable(chosen.unwrap_or("answered")),
        AskState::Declined => "declined".to_owned(),
        AskState::Cancelled => "cancelled".to_owned(),
        AskState::Withdrawn => "withdrawn by the agent".to_owned(),
        AskState::AgentGone => "not answered: the agent is gone".to_owned(),
        AskState::Other(newer) => to_printable(newer),
    };
    match answer {
        Some(AskAnswer { by, after, .. }) => {
            let by = by
                .as_ref()
                .map(|by: &RowActor| format!("{}, ", actor_name(by)))
                .unwrap_or_default();
            format!("{what} ({by}after {})", format_duration(*after))
        }
        None => what,
    }
}
