//! Exports: rows as documents that people keep, piece by piece, so that a long transcript is never
//! in memory as a whole.

mod escape_html;
mod html;
mod json;
mod markdown;

use wharf_api::{
    AskAnswer, AskState, NoticeLevel, RowActor, RowAsk, RowBody, RowPart, RowTool, RowTurnEnd,
    TranscriptRow,
};

use crate::turn_end::show_duration;

/// The format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    Markdown,
    Json,
    /// One file without scripts, which loads nothing.
    Html,
}

/// The facts about the session that stand at the top of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportHead {
    pub session: String,
    pub title: String,
    pub agent: String,
    pub directory: String,
    pub started_at: String,
}

impl ExportFormat {
    /// Returns the beginning of the document.
    pub fn begin(self, head: &ExportHead) -> String {
        match self {
            Self::Markdown => markdown::begin(head),
            Self::Json => json::begin(head),
            Self::Html => html::begin(head),
        }
    }

    /// Returns one row; `is_first` tells that no row stands before it.
    pub fn row(self, row: &TranscriptRow, is_first: bool) -> String {
        match self {
            Self::Markdown | Self::Html if is_noise(row) => String::new(),
            Self::Markdown => markdown::row(row),
            Self::Json => json::row(row, is_first),
            Self::Html => html::row(row),
        }
    }

    /// Returns the end of the document.
    pub const fn end(self) -> &'static str {
        match self {
            Self::Markdown => "",
            Self::Json => "\n]}\n",
            Self::Html => "</main></body></html>\n",
        }
    }

    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Markdown => "text/markdown; charset=utf-8",
            Self::Json => "application/json",
            Self::Html => "text/html; charset=utf-8",
        }
    }
}

/// Returns the name of a client.
fn actor_name(actor: &RowActor) -> &str {
    match (&actor.name, &actor.client) {
        (Some(name), _) => name,
        (None, Some(client)) => client,
        (None, None) if actor.agent => "agent",
        (None, None) => "unknown",
    }
}

/// Returns a part as text; bytes and files are named.
fn part_text(part: &RowPart) -> String {
    match part {
        RowPart::Text(text) => match &text.cut {
            Some(cut) => {
                let tail = cut.tail.as_deref().map(|tail| format!("\n{tail}")).unwrap_or_default();
                format!("{}\n[… {} bytes in all …]{tail}", text.text, cut.bytes)
            }
            None => text.text.clone(),
        },
        RowPart::Blob(blob) => format!("[{}, {}, {} bytes]", blob.media, blob.mime, blob.bytes),
        RowPart::File(file) => format!("[file {}]", file.name.as_deref().unwrap_or(&file.uri)),
        RowPart::Unknown => String::new(),
    }
}

fn parts_text(parts: &[RowPart]) -> String {
    parts.iter().map(part_text).collect::<Vec<_>>().join("\n")
}

/// Returns who settled an ask and when, and the paths that a reader should look at. The answer
/// itself stands in the summary.
fn describe_answer(ask: &RowAsk) -> String {
    let mut words = Vec::new();
    if let Some(AskAnswer { by, after, .. }) = &ask.answer {
        let by = by.as_ref().map(|by| format!("by {} ", actor_name(by))).unwrap_or_default();
        words.push(format!("{by}after {}", show_duration(*after)));
    } else if ask.state == AskState::Open {
        words.push("waits for an answer".to_owned());
    }
    if !ask.subject.outside.is_empty() {
        words.push(format!(
            "outside of the session's directory: {}",
            ask.subject.outside.join(", ")
        ));
    }
    words.join(" · ")
}

/// Returns the usage and the changed files of a turn's end. Zeros of agents that count nothing are
/// left out.
fn describe_end(end: &RowTurnEnd) -> String {
    let mut words = Vec::new();
    if let Some(usage) = &end.usage {
        let count = |name: &str, count: Option<u64>| {
            let count = count.filter(|count| *count > 0)?;
            Some(format!("{} {name} tokens", usage.mark_count(&count.to_string())))
        };
        words.extend(
            [count("input", usage.input), count("output", usage.output)]
                .into_iter()
                .flatten(),
        );
        let cost = usage.cost.as_ref().filter(|cost| cost.amount > 0.0);
        words.extend(cost.map(|cost| format!("{} {}", cost.format_amount(), cost.currency)));
    }
    words.extend(
        end.files
            .iter()
            .map(|file| format!("{} +{} −{}", file.path, file.added, file.removed)),
    );
    words.join(" · ")
}

/// Returns true for rows that only help to find faults: documents for people leave them out.
fn is_noise(row: &TranscriptRow) -> bool {
    matches!(&row.body, RowBody::Notice(notice) if notice.level == NoticeLevel::Debug)
}

/// Returns the command of a tool call, unless its summary tells it already.
fn command_beside<'a>(tool: &'a RowTool, summary: &str) -> Option<&'a str> {
    tool.command
        .as_deref()
        .filter(|command| command.contains('\n') || !summary.contains(command))
}

/// Returns an ISO 8601 time as people read it, in seconds.
fn show_time(at: &str) -> String {
    match (at.get(..10), at.get(11..19), at.ends_with('Z')) {
        (Some(day), Some(time), true) => format!("{day} {time} UTC"),
        _ => at.to_owned(),
    }
}

#[cfg(test)]
mod tests;
