//! The export for reading and for repositories.

use wharf_api::{FileDiff, RowBody, RowTool, TranscriptRow};

use super::{ExportHead, actor_name, describe_answer, describe_end, parts_text};

pub(super) fn begin(head: &ExportHead) -> String {
    let title = if head.title.is_empty() { &head.session } else { &head.title };
    format!(
        "# {title}\n\n{} in `{}`, started {}\n\nSession `{}`\n",
        head.agent, head.directory, head.started_at, head.session
    )
}

pub(super) fn row(row: &TranscriptRow) -> String {
    match &row.body {
        RowBody::Prompt(prompt) => {
            let quoted = quote(&parts_text(&prompt.parts));
            format!("\n## {} · {}\n\n{quoted}\n", actor_name(&prompt.by), row.at)
        }
        RowBody::Message(text) => format!("\n{}\n", parts_text(&text.parts)),
        RowBody::Thought(text) => format!("\n*Thought*\n\n{}\n", quote(&parts_text(&text.parts))),
        RowBody::Tool(tool) => tool_text(tool, &row.summary),
        RowBody::Plan(plan) => {
            let mark = |status: &str| if status == "completed" { 'x' } else { ' ' };
            let entries = plan.entries.iter().map(|entry| format!("- [{}] {}\n", mark(&entry.status), entry.text));
            format!("\n**Plan**\n\n{}", entries.collect::<String>())
        }
        RowBody::Ask(ask) => format!("\n**{}**: {}\n", row.summary, describe_answer(ask)),
        RowBody::Notice(_) | RowBody::Unknown => format!("\n*{}*\n", row.summary),
        RowBody::TurnEnd(end) => {
            let more = describe_end(end);
            let more = if more.is_empty() { String::new() } else { format!(" · {more}") };
            let stderr = end.stderr.as_deref().map(|text| format!("\n{}", fence("", text))).unwrap_or_default();
            format!("\n*{}{more}*\n{stderr}\n---\n", row.summary)
        }
    }
}

fn tool_text(tool: &RowTool, summary: &str) -> String {
    let mut text = format!("\n**{summary}**\n");
    if let Some(command) = tool.command.as_deref().filter(|command| *command != tool.title) {
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
    text.lines().map(|line| format!("> {line}\n")).collect()
}

/// Returns the text in a code block whose fence is longer than any in the text.
fn fence(language: &str, text: &str) -> String {
    let longest = text.lines().map(|line| line.trim_start().bytes().take_while(|byte| *byte == b'`').count()).max();
    let fence = "`".repeat(longest.unwrap_or_default().max(2) + 1);
    format!("\n{fence}{language}\n{}\n{fence}\n", text.trim_end_matches('\n'))
}
