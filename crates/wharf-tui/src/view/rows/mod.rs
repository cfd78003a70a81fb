//! Rows as lines: one file per kind. All text that agents and clients wrote is made printable here.

mod ask;
mod diff;
mod end;
mod markdown;
mod prompt;
mod text;
mod tool;

pub(super) use diff::{diff_lines, file_diff_lines};
pub(super) use end::describe_ways_on;

use ratatui_core::text::{Line, Span};
use wharf_api::{LiveOutput, NoticeLevel, RowBody, RowNotice, RowPart, RowPlan, TranscriptRow};
use wharf_render::style::Theme;
use wharf_render::text::{
    TimeZone, format_size, to_printable, to_printable_lines, truncate_to_columns, wrap_plain,
};

use crate::layout::{RowContext, RowFold, RowLayout};

/// How a row is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowLayoutOptions<'a> {
    pub(crate) width: u16,
    pub(crate) theme: Theme,
    /// The person opened or folded the row against its default.
    pub(crate) is_toggled: bool,
    /// The way in which the row stands among others.
    pub(crate) context: &'a RowContext,
    /// The output of the row's command, which is not in the row yet.
    pub(crate) live: Option<&'a LiveOutput>,
    pub(crate) time_zone: TimeZone,
    /// The agent of the session.
    pub(crate) agent: &'a str,
    /// The machine of the host, if it is another one: a login is needed there.
    pub(crate) host_name: Option<&'a str>,
    /// This client may send prompts.
    pub(crate) can_send: bool,
}

impl RowLayoutOptions<'_> {
    const fn columns(&self) -> usize {
        self.width as usize
    }
}

/// Lays out a row as it stands among others. A hidden row has no lines.
///
/// `earlier` is the layout of an older revision of the row with the same look.
pub(crate) fn lay_out_row(
    row: &TranscriptRow,
    look: &RowLayoutOptions<'_>,
    earlier: Option<RowLayout>,
) -> RowLayout {
    let context = look.context;
    let head = match &context.fold {
        RowFold::Hidden => return RowLayout::default(),
        RowFold::Folded(summary) => {
            let lines = vec![run_head("▸", summary, look)];
            return indent_lines(RowLayout { lines, ..RowLayout::default() }, look);
        }
        RowFold::Unfolded(summary) => Some(run_head("▾", summary, look)),
        RowFold::Shown => None,
    };
    let earlier = earlier.filter(|_| head.is_none() && context.indent == 0).map(|mut earlier| {
        earlier
            .lines
            .drain(..usize::from(context.is_first_unread).min(earlier.lines.len()));
        earlier
    });
    let inner = RowLayoutOptions { width: look.width.saturating_sub(context.indent), ..*look };
    let mut layout = lay_out_alone(row, &inner, earlier);
    if let Some(head) = head {
        layout.lines.insert(0, head);
        layout.clock = layout.clock.map(|(line, since)| (line + 1, since));
    }
    indent_lines(layout, look)
}

/// The line of several steps.
fn run_head(mark: &str, summary: &str, look: &RowLayoutOptions<'_>) -> Line<'static> {
    let text = truncate_to_columns(&format!("{mark} {summary}"), look.columns());
    Line::styled(text, look.theme.good)
}

/// Puts blanks before the lines of the row, and the lines that divide it from other rows.
fn indent_lines(mut layout: RowLayout, look: &RowLayoutOptions<'_>) -> RowLayout {
    let context = look.context;
    if layout.lines.is_empty() {
        return layout;
    }
    if context.indent > 0 {
        let blanks = " ".repeat(usize::from(context.indent));
        for line in &mut layout.lines {
            line.spans.insert(0, Span::raw(blanks.clone()));
        }
    }
    if context.has_gap_after {
        layout.lines.push(Line::default());
    }
    if context.is_first_unread {
        let rule = format!("── new {}", "─".repeat(look.columns().saturating_sub(7)));
        layout
            .lines
            .insert(0, Line::styled(truncate_to_columns(&rule, look.columns()), look.theme.wants));
        layout.clock = layout.clock.map(|(line, since)| (line + 1, since));
    }
    layout
}

/// Lays out a row by itself. A row that is not for people (a notice of level `debug`) has no lines.
fn lay_out_alone(
    row: &TranscriptRow,
    look: &RowLayoutOptions<'_>,
    earlier: Option<RowLayout>,
) -> RowLayout {
    let lines = match &row.body {
        RowBody::Prompt(prompt) => prompt::prompt_lines(prompt, &row.at, look),
        RowBody::Message(message) => {
            return text::lay_out_message(message, row.open, look, earlier);
        }
        RowBody::Thought(thought) => text::thought_lines(thought, row, look),
        RowBody::Tool(tool) => return tool::lay_out_tool(tool, row, look),
        RowBody::Plan(plan) => plan_lines(plan, look),
        RowBody::Ask(ask) => ask::ask_lines(ask, look),
        RowBody::Notice(notice) => notice_lines(notice, look),
        RowBody::TurnEnd(end) => end::turn_end_lines(end, look),
        RowBody::Unknown => {
            wrap_plain(&to_printable(&row.summary), look.theme.plain, look.columns())
        }
    };
    RowLayout { lines, ..RowLayout::default() }
}

fn plan_lines(plan: &RowPlan, look: &RowLayoutOptions<'_>) -> Vec<Line<'static>> {
    let mark = if look.is_toggled { "▾" } else { "▸" };
    let mut lines =
        vec![Line::styled(format!("{mark} Plan {}/{}", plan.done, plan.total), look.theme.faint)];
    if look.is_toggled {
        for entry in &plan.entries {
            let text = format!("  {} {}", plan_mark(&entry.status), to_printable(&entry.text));
            lines.extend(wrap_plain(&text, look.theme.plain, look.columns()));
        }
    }
    lines
}

/// Returns the mark of a plan's entry in this state.
pub(super) fn plan_mark(status: &str) -> &'static str {
    match status {
        "completed" => "✓",
        "in_progress" => "▸",
        _ => "·",
    }
}

fn notice_lines(notice: &RowNotice, look: &RowLayoutOptions<'_>) -> Vec<Line<'static>> {
    let style = match notice.level {
        NoticeLevel::Debug => return Vec::new(),
        NoticeLevel::Warning => look.theme.wants,
        NoticeLevel::Error => look.theme.bad,
        NoticeLevel::Info | NoticeLevel::Other(_) => look.theme.faint,
    };
    let by = notice
        .by
        .as_ref()
        .map(|by| format!(" · {}", prompt::actor_name(by)))
        .unwrap_or_default();
    wrap_plain(&format!("─ {}{by}", to_printable(&notice.text)), style, look.columns())
}

/// Returns the text of the parts, printable; other content is named.
fn parts_text(parts: &[RowPart]) -> String {
    let mut text = String::new();
    for part in parts {
        if let RowPart::Text(part) = part {
            text.push_str(&part.text);
        }
        if let Some(name) = name_part(part) {
            let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            text.push_str(&format!("{gap}{name}\n"));
        }
        text.extend(text_tail(part));
    }
    to_printable_lines(&text)
}

/// Returns the end of a text that is too long for its row.
fn text_tail(part: &RowPart) -> Option<&str> {
    match part {
        RowPart::Text(text) => text.cut.as_ref()?.tail.as_deref(),
        RowPart::Blob(_) | RowPart::File(_) | RowPart::Unknown => None,
    }
}

/// Names an image, a file or the rest of a text that is too long for its row.
fn name_part(part: &RowPart) -> Option<String> {
    let name = match part {
        RowPart::Text(text) => {
            format!("[… {} in all · v shows it]", format_size(text.cut.as_ref()?.bytes))
        }
        RowPart::Blob(blob) => {
            let name = blob.name.as_deref().unwrap_or(&blob.media);
            format!("[{name}, {}, {}]", blob.mime, format_size(blob.bytes))
        }
        RowPart::File(file) => format!("[{}]", file.name.as_deref().unwrap_or(&file.uri)),
        RowPart::Unknown => return None,
    };
    Some(to_printable(&name))
}
