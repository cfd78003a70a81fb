//! Tool calls as cards of one line, which open to their input, diff and output.

use ratatui_core::text::{Line, Span};
use wharf_api::{RowTool, ToolState, TranscriptRow};
use wharf_render::text::{
    display_width, expand_tabs, format_duration, parse_millis, to_printable, to_printable_line,
    truncate_to_columns, wrap_plain,
};

use super::{RowLayoutOptions, diff_lines, parts_text};
use crate::layout::{RowLayout, has_tool_failed};

/// The last lines of the output of a tool call that failed or runs.
const TAIL_LINES: usize = 6;
/// The lines of output of an opened card.
const MAX_OUTPUT_LINES: usize = 200;
/// The lines of the input of an opened card.
const MAX_INPUT_LINES: usize = 20;
/// The room for the running time of a tool call, which is drawn over the card.
const CLOCK_COLUMNS: usize = 8;
/// The columns of the word for the kind.
const KIND_COLUMNS: usize = 6;
/// A shorter time is not told.
const MIN_TOLD_MILLIS: u64 = 1_000;

/// Lays out a tool call. A call that failed or runs shows the end of its output without being
/// opened.
pub(super) fn lay_out_tool(
    tool: &RowTool,
    row: &TranscriptRow,
    look: &RowLayoutOptions<'_>,
) -> RowLayout {
    let is_open = tool.state.is_open();
    let has_failed = has_tool_failed(tool);
    let mut lines = vec![head_line(tool, row, has_failed, look)];
    if look.is_toggled {
        lines.extend(input_lines(tool, look));
        lines.extend(diff_lines(&tool.diffs, look.width, look.theme));
        lines.extend(output_lines(tool, MAX_OUTPUT_LINES, "v shows all", look));
    } else if has_failed || is_open {
        lines.extend(output_lines(tool, TAIL_LINES, "Enter opens", look));
    }
    if let Some(children) =
        tool.children.as_ref().filter(|children| !look.is_toggled && children.count > 0)
    {
        let failed = if children.failed > 0 {
            format!(" · {} failed", children.failed)
        } else {
            String::new()
        };
        let word = if children.count == 1 { "step" } else { "steps" };
        let text =
            format!("  └ {} {word}{failed} · {}", children.count, to_printable(&children.latest));
        lines.push(Line::styled(truncate_to_columns(&text, look.columns()), look.theme.faint));
    }
    let clock = parse_millis(&tool.started_at).filter(|_| is_open).map(|since| (0, since));
    RowLayout { lines, clock, ..RowLayout::default() }
}

/// The card in one line: mark, kind, subject, and on the right the changed lines, the exit code and
/// the time.
fn head_line(
    tool: &RowTool,
    row: &TranscriptRow,
    has_failed: bool,
    look: &RowLayoutOptions<'_>,
) -> Line<'static> {
    let theme = look.theme;
    let (mark, style) = match &tool.state {
        _ if has_failed => ("✗", theme.bad),
        ToolState::Completed => ("✓", theme.good),
        ToolState::Cancelled | ToolState::CutOff => ("–", theme.faint),
        ToolState::Pending
        | ToolState::Running
        | ToolState::Paused
        | ToolState::Failed
        | ToolState::Other(_) => ("»", theme.busy),
    };
    let kind = kind_word(tool)
        .map(|word| format!("{word:<KIND_COLUMNS$} "))
        .unwrap_or_default();
    let facts = describe_facts(tool);
    let room = look.columns().saturating_sub(2 + display_width(&kind));
    let right = if tool.state.is_open() { CLOCK_COLUMNS } else { display_width(&facts) };
    let subject = truncate_to_columns(&describe_subject(tool, row), room.saturating_sub(right + 1));
    let blanks = room.saturating_sub(display_width(&subject) + display_width(&facts));
    let mut spans = vec![
        Span::styled(format!("{mark} "), style),
        Span::styled(kind, theme.strong),
        Span::styled(subject, theme.plain),
    ];
    if !tool.state.is_open() && !facts.is_empty() {
        spans.extend([Span::raw(" ".repeat(blanks)), Span::styled(facts, theme.faint)]);
    }
    Line::from(spans)
}

/// Returns a word for the kind of a tool call that ACP knows.
fn kind_word(tool: &RowTool) -> Option<&'static str> {
    let word = match tool.tool_kind.as_deref()? {
        "read" => "Read",
        "edit" => "Edit",
        "delete" => "Delete",
        "move" => "Move",
        "search" => "Search",
        "execute" => "Run",
        "think" => "Think",
        "fetch" => "Fetch",
        _ => return None,
    };
    Some(word)
}

/// Returns the command, or the title without the word that stands before it already.
fn describe_subject(tool: &RowTool, row: &TranscriptRow) -> String {
    if let Some(command) = &tool.command {
        let mut lines = command.trim().lines();
        let first = to_printable(lines.next().unwrap_or_default());
        return if lines.next().is_some() { format!("{first} …") } else { first };
    }
    let title = to_printable(if tool.title.trim().is_empty() { &row.summary } else { &tool.title });
    let Some(word) = kind_word(tool) else { return title };
    let said = title.get(..word.len()).filter(|start| start.eq_ignore_ascii_case(word));
    let rest = said.and_then(|_| title.get(word.len()..)).filter(|rest| rest.starts_with(' '));
    rest.map_or_else(|| title.clone(), |rest| rest.trim_start().to_owned())
}

/// Returns the changed lines, the exit code or signal, and the time.
fn describe_facts(tool: &RowTool) -> String {
    let mut facts = Vec::new();
    if !tool.diffs.is_empty() {
        let (added, removed) = tool
            .diffs
            .iter()
            .fold((0, 0), |(a, r), diff| (a + diff.added, r + diff.removed));
        facts.push(format!("+{added} −{removed}"));
    }
    if let Some(output) = &tool.output {
        facts.extend(output.exit_code.filter(|code| *code != 0).map(|code| format!("exit {code}")));
        facts.extend(output.signal.as_deref().map(to_printable));
    }
    match &tool.state {
        ToolState::Cancelled => facts.push("cancelled".to_owned()),
        ToolState::CutOff => facts.push("cut off".to_owned()),
        ToolState::Pending
        | ToolState::Running
        | ToolState::Paused
        | ToolState::Completed
        | ToolState::Failed
        | ToolState::Other(_) => {}
    }
    let took = tool
        .ended_at
        .as_deref()
        .and_then(parse_millis)
        .zip(parse_millis(&tool.started_at));
    let took = took
        .map(|(end, start)| end.saturating_sub(start))
        .filter(|took| *took >= MIN_TOLD_MILLIS);
    facts.extend(took.map(format_duration));
    facts.join(" · ")
}

/// Returns the command with its directory, or the input as JSON where no diff tells the same.
fn input_lines(tool: &RowTool, look: &RowLayoutOptions<'_>) -> Vec<Line<'static>> {
    let mut text = String::new();
    if let Some(command) = &tool.command {
        text.push_str(&format!("$ {}\n", command.trim_end()));
        text.extend(tool.cwd.as_deref().map(|directory| format!("in {directory}\n")));
    } else if let Some(input) = tool.input.as_ref().filter(|_| tool.diffs.is_empty()) {
        text.push_str(&serde_json::to_string_pretty(input).unwrap_or_default());
    } else if let Some(cut) = &tool.input_cut {
        text.push_str(&format!("[input of {} bytes]", cut.bytes));
    }
    let all: Vec<&str> = text.lines().collect();
    let mut lines: Vec<Line<'static>> =
        all.iter().take(MAX_INPUT_LINES).map(|line| barred_line(line, look)).collect();
    if all.len() > MAX_INPUT_LINES {
        lines.push(barred_line(
            &format!("… {} more lines · v shows all", all.len() - MAX_INPUT_LINES),
            look,
        ));
    }
    lines
}

/// Returns the last lines of the output, each behind a bar, and how many there are above them.
fn output_lines(
    tool: &RowTool,
    limit: usize,
    hint: &str,
    look: &RowLayoutOptions<'_>,
) -> Vec<Line<'static>> {
    let live = look.live.map(|live| live.text.as_str());
    let output = tool.output.as_ref().filter(|output| !output.text.trim().is_empty());
    let text = live.or(output.map(|output| output.text.as_str()));
    let text = text.map_or_else(|| parts_text(&tool.parts), str::to_owned);
    let all: Vec<&str> = text.trim_end().lines().collect();
    let skipped = all.len().saturating_sub(limit);
    let missing = output
        .filter(|_| live.is_none())
        .and_then(|output| output.cut.as_ref()?.missing_lines)
        .unwrap_or(0);
    let mut lines: Vec<Line<'static>> = Vec::new();
    if let Some(error) = tool.error.as_deref().filter(|_| all.is_empty()) {
        lines.extend(wrap_plain(
            &format!("  │ {}", to_printable(error)),
            look.theme.bad,
            look.columns(),
        ));
    }
    let above = u64::try_from(skipped).unwrap_or_default() + missing;
    if above > 0 {
        lines.push(barred_line(&format!("… {above} more lines · {hint}"), look));
    }
    lines.extend(all.iter().skip(skipped).map(|line| barred_line(line, look)));
    lines
}

fn barred_line(line: &str, look: &RowLayoutOptions<'_>) -> Line<'static> {
    let text = expand_tabs(&to_printable_line(line));
    let text = truncate_to_columns(&text, look.columns().saturating_sub(4));
    Line::styled(format!("  │ {text}"), look.theme.faint)
}
