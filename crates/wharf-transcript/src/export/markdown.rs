//! The export for reading and for repositories.

use wharf_api::{FileDiff, RowBody, RowTool, TranscriptRow};

use super::escape_html::escape_html;
use super::{
    ExportHead, actor_name, command_beside, describe_answer, describe_end, parts_text, show_time,
};

pub(super) fn begin(head: &ExportHead) -> String {
    let title = if head.title.is_empty() { &head.session } else { &head.title };
    let text = format!(
        "# {}\n\n{} in {}, started {}\n\nSession `{}`\n",
        escape_line(title),
        escape_line(&head.agent),
        inline_code(&head.directory),
        show_time(&head.started_at),
        head.session
    );
    escape_html(&text).into_owned()
}

pub(super) fn row(row: &TranscriptRow) -> String {
    // Text of agents and people may be Markdown, but never HTML.
    escape_html(&row_text(row)).into_owned()
}

fn row_text(row: &TranscriptRow) -> String {
    match &row.body {
        RowBody::Prompt(prompt) => {
            let again = if prompt.again { " (again)" } else { "" };
            let quoted = quote(&parts_text(&prompt.parts));
            format!(
                "\n## {}{again} · {}\n\n{quoted}",
                escape_line(actor_name(&prompt.by)),
                show_time(&row.at)
            )
        }
        RowBody::Message(text) => format!("\n{}\n", parts_text(&text.parts).trim()),
        RowBody::Thought(text) => format!("\n*Thought*\n\n{}", quote(&parts_text(&text.parts))),
        RowBody::Tool(tool) => tool_text(tool, &row.summary),
        RowBody::Plan(plan) => {
            let mark = |status: &str| if status == "completed" { 'x' } else { ' ' };
            let entries = plan
                .entries
                .iter()
                .map(|entry| format!("- [{}] {}\n", mark(&entry.status), entry.text));
            format!("\n**Plan**\n\n{}", entries.collect::<String>())
        }
        RowBody::Ask(ask) => {
            let answer = escape_line(&describe_answer(ask));
            let detail = ask.subject.text.as_deref().filter(|_| ask.tool.is_none());
            let detail = detail
                .filter(|text| !row.summary.contains(text.trim()))
                .map(|text| format!("\n{}", quote(text)));
            format!("\n{} {answer}\n{}", strong(&row.summary), detail.unwrap_or_default())
        }
        RowBody::Notice(_) | RowBody::Unknown => format!("\n{}\n", emphasis(&row.summary)),
        RowBody::TurnEnd(end) => {
            let more = describe_end(end);
            let more = if more.is_empty() { String::new() } else { format!(" · {more}") };
            let stderr = end.stderr.as_deref().map(|text| fence("", text)).unwrap_or_default();
            format!("\n{}\n{stderr}\n---\n", emphasis(&format!("{}{more}", row.summary)))
        }
    }
}

/// Returns a line of an agent in bold. Characters of Markdown in it are escaped, so that commands
/// and paths stay as they are.
fn strong(line: &str) -> String {
    format!("**{}**", escape_line(line))
}

fn emphasis(line: &str) -> String {
    format!("*{}*", escape_line(line))
}

fn escape_line(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for c in line.chars() {
        if matches!(c, '\\' | '*' | '_' | '`' | '[' | ']' | '<') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Returns the text as inline code, whatever backticks are in it.
fn inline_code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let marks = "`".repeat(longest + 1);
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{marks}{space}{}{space}{marks}", text.replace(['\n', '\r'], " "))
}

fn tool_text(tool: &RowTool, summary: &str) -> String {
    let mut text = format!("\n{}\n", strong(summary));
    if let Some(command) = command_beside(tool, summary) {
        text.push_str(&fence("sh", command));
    }
    for diff in &tool.diffs {
        text.push_str(&fence("diff", &diff_text(diff)));
    }
    if let Some(output) = tool.output.as_ref().filter(|output| !output.text.is_empty()) {
        text.push_str(&fence("", &output.text));
    }
    let parts = parts_text(&tool.parts);
    if !parts.trim().is_empty() {
        text.push_str(&fence("", &parts));
    }
    text
}

/// Returns a diff as `diff` prints it; line numbers only where they are known.
pub(super) fn diff_text(diff: &FileDiff) -> String {
    let mut text = format!("--- {0}\n+++ {0}\n", diff.path);
    for hunk in &diff.hunks {
        match (hunk.old, hunk.new) {
            (Some([old, old_lines]), Some([new, new_lines])) => {
                text.push_str(&format!("@@ -{old},{old_lines} +{new},{new_lines} @@\n"));
            }
            _ => text.push_str("@@\n"),
        }
        hunk.lines.iter().for_each(|line| text.push_str(&format!("{line}\n")));
    }
    if diff.cut.is_some() {
        text.push_str("[… more …]\n");
    }
    text
}

fn quote(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("> {line}\n")).collect()
}

/// Returns the text in a code block whose fence is longer than any in the text.
fn fence(language: &str, text: &str) -> String {
    let lines = text.split(['\n', '\r']);
    let longest = lines
        .map(|line| line.trim_start().bytes().take_while(|byte| *byte == b'`').count())
        .max();
    let fence = "`".repeat(longest.unwrap_or_default().max(2) + 1);
    format!("\n{fence}{language}\n{}\n{fence}\n", text.trim_end_matches('\n'))
}
