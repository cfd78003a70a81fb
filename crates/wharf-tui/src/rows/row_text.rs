//! Rows as plain text: for the clipboard, the pager and finding.

use wharf_api::{FileDiff, RowBody, RowPart, RowTool, TranscriptRow};

/// More of a line than any list shows.
const MAX_LINE_CHARS: usize = 200;
/// The end of a line that still grows: it fits the list beside a transcript.
const MAX_GROWING_CHARS: usize = 30;

/// Returns everything that a row says.
pub(crate) fn row_text(row: &TranscriptRow) -> String {
    match &row.body {
        RowBody::Prompt(prompt) => join_parts(&prompt.parts),
        RowBody::Message(text) | RowBody::Thought(text) => join_parts(&text.parts),
        RowBody::Tool(tool) => tool_text(tool),
        RowBody::Plan(plan) => {
            let lines =
                plan.entries.iter().map(|entry| format!("[{}] {}\n", entry.status, entry.text));
            lines.collect()
        }
        RowBody::Ask(ask) => {
            let subject = &ask.subject;
            let pieces =
                [Some(subject.title.as_str()), subject.command.as_deref(), subject.text.as_deref()];
            let mut text = pieces.into_iter().flatten().collect::<Vec<_>>().join("\n");
            text.extend(subject.diffs.iter().map(|diff| format!("\n{}", diff_text(diff))));
            text
        }
        RowBody::Notice(notice) => notice.text.clone(),
        RowBody::TurnEnd(end) => {
            let pieces =
                [Some(row.summary.as_str()), end.message.as_deref(), end.stderr.as_deref()];
            pieces.into_iter().flatten().collect::<Vec<_>>().join("\n")
        }
        RowBody::Unknown => row.summary.clone(),
    }
}

/// Returns the newest line of a row: the last line of a text, or the end of that line while the
/// text grows; else the row in one line. Returns `None` for ends of turns, plans and notices, which
/// accompany the agent's work.
pub(crate) fn last_line(row: &TranscriptRow) -> Option<String> {
    let line = match &row.body {
        RowBody::Message(text) | RowBody::Thought(text) => {
            let last_part = text.parts.iter().rev().find_map(|part| match part {
                RowPart::Text(part) => Some(part.text.trim_end()).filter(|text| !text.is_empty()),
                RowPart::Blob(_) | RowPart::File(_) | RowPart::Unknown => None,
            });
            last_part.and_then(|text| text.rsplit('\n').next()).unwrap_or(&row.summary)
        }
        RowBody::Plan(_) | RowBody::TurnEnd(_) | RowBody::Notice(_) => return None,
        RowBody::Prompt(_) | RowBody::Tool(_) | RowBody::Ask(_) | RowBody::Unknown => &row.summary,
    };
    let is_growing = row.open && matches!(row.body, RowBody::Message(_) | RowBody::Thought(_));
    let line: String = match line.char_indices().rev().nth(MAX_GROWING_CHARS).filter(|_| is_growing)
    {
        Some((start, _)) => format!("…{}", line.get(start..).unwrap_or_default().trim_start()),
        None => line.chars().take(MAX_LINE_CHARS).collect(),
    };
    Some(line).filter(|line| !line.trim().is_empty())
}

/// Returns the command or the title, the diffs and the output.
fn tool_text(tool: &RowTool) -> String {
    let mut pieces = vec![tool.command.clone().unwrap_or_else(|| tool.title.clone())];
    pieces.extend(tool.diffs.iter().map(diff_text));
    pieces.extend(tool.output.as_ref().map(|output| output.text.clone()));
    pieces.push(join_parts(&tool.parts));
    pieces.extend(tool.error.clone());
    pieces.retain(|piece| !piece.trim().is_empty());
    pieces.join("\n")
}

/// Returns a diff in the format of `diff -u`.
pub(crate) fn diff_text(diff: &FileDiff) -> String {
    let mut text = format!("--- {0}\n+++ {0}\n", diff.path);
    for hunk in &diff.hunks {
        let range =
            |range: Option<[u64; 2]>| range.map(|[first, count]| format!("{first},{count}"));
        match (range(hunk.old), range(hunk.new)) {
            (Some(old), Some(new)) => text.push_str(&format!("@@ -{old} +{new} @@\n")),
            (_, _) => text.push_str("@@\n"),
        }
        text.extend(hunk.lines.iter().map(|line| format!("{line}\n")));
    }
    text
}

/// Returns the texts of the parts; images and files are named.
pub(crate) fn join_parts(parts: &[RowPart]) -> String {
    let mut text = String::new();
    for part in parts {
        match part {
            RowPart::Text(part) => text.push_str(&part.text),
            RowPart::Blob(blob) => {
                text.push_str(&format!("\n[{}]\n", blob.name.as_deref().unwrap_or(&blob.media)))
            }
            RowPart::File(file) => text.push_str(&format!("\n[{}]\n", file.uri)),
            RowPart::Unknown => {}
        }
    }
    text
}
