//! The text of a row that search looks at.

use wharf_api::{AskSubject, RowBody, RowPart, RowTool, TranscriptRow};

use super::words::split_words;

/// The most bytes of a row's words. Text beyond is not found.
const MAX_INDEXED_BYTES: usize = 32 * 1024;
/// Stands between two texts of a row, so that no phrase spans both. No query has it as a word.
const TEXT_BREAK: &str = "¶";

/// The kinds of rows that search looks at.
///
/// Thoughts are left out: they say the same as the messages and tool calls that follow, at greater
/// length, and would fill the results. Plans repeat themselves with every change; notices and ends
/// of turns are the host's own words. Output of tools and diffs are contents of files, for which
/// there are better tools.
pub const SEARCHED_KINDS: &[&str] = &["prompt", "message", "tool", "ask"];

/// Returns the texts of a row that search looks at, in the order in which a person would read them.
pub(super) fn searched_texts(row: &TranscriptRow) -> Vec<&str> {
    match &row.body {
        RowBody::Prompt(prompt) => part_texts(&prompt.parts),
        RowBody::Message(message) => part_texts(&message.parts),
        RowBody::Tool(tool) => tool_texts(tool),
        RowBody::Ask(ask) => subject_texts(&ask.subject),
        RowBody::Thought(_)
        | RowBody::Plan(_)
        | RowBody::Notice(_)
        | RowBody::TurnEnd(_)
        | RowBody::Unknown => Vec::new(),
    }
}

fn part_texts(parts: &[RowPart]) -> Vec<&str> {
    let mut texts = Vec::new();
    for part in parts {
        match part {
            RowPart::Text(text) => {
                texts.push(text.text.as_str());
                texts.extend(text.cut.as_ref().and_then(|cut| cut.tail.as_deref()));
            }
            RowPart::Blob(blob) => texts.extend(blob.name.as_deref()),
            RowPart::File(file) => {
                texts.extend(file.name.as_deref());
                texts.push(&file.uri);
            }
            RowPart::Unknown => {}
        }
    }
    texts
}

fn tool_texts(tool: &RowTool) -> Vec<&str> {
    let mut texts = vec![tool.title.as_str()];
    texts.extend(tool.command.as_deref());
    texts.extend(tool.name.as_deref());
    texts.extend(tool.locations.iter().map(|location| location.path.as_str()));
    texts.extend(tool.diffs.iter().map(|diff| diff.path.as_str()));
    drop_repeated(texts)
}

fn subject_texts(subject: &AskSubject) -> Vec<&str> {
    let mut texts = vec![subject.title.as_str()];
    texts.extend(subject.command.as_deref());
    texts.extend(subject.text.as_deref());
    texts.extend(subject.paths.iter().map(String::as_str));
    texts.extend(subject.diffs.iter().map(|diff| diff.path.as_str()));
    drop_repeated(texts)
}

/// Leaves out texts that came before: a title often is the command, and a diff has the path of a
/// location.
fn drop_repeated(texts: Vec<&str>) -> Vec<&str> {
    let mut kept: Vec<&str> = Vec::new();
    for text in texts {
        if !text.is_empty() && !kept.contains(&text) {
            kept.push(text);
        }
    }
    kept
}

/// Returns the words of a row, separated by spaces, as an index takes them; empty if search does
/// not look at the row.
pub fn index_words(row: &TranscriptRow) -> String {
    let mut words = String::new();
    for text in searched_texts(row) {
        if !words.is_empty() {
            words.push(' ');
            words.push_str(TEXT_BREAK);
        }
        for span in split_words(text) {
            if words.len() + span.word.len() > MAX_INDEXED_BYTES {
                return words;
            }
            if !words.is_empty() {
                words.push(' ');
            }
            words.push_str(&span.word);
        }
    }
    words
}
