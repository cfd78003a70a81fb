//! Keeps rows below their limit (rule 13.1).
//!
//! Each text of a row has a limit of its own, so a row is far below the limit of all but for an
//! agent that fills many of them. The size is estimated first, by lengths alone; only a row that
//! may be too large is measured.

use wharf_api::{AskSubject, FileDiff, RowActor, RowAsk, RowBody, RowPart, RowTool, TranscriptRow};

use crate::limits::{
    MAX_FORM_BYTES, MAX_INPUT_BYTES, MAX_LOCATIONS, MAX_ROW_BYTES, MAX_WORD_BYTES,
};
use crate::messages::part_address;
use crate::plain_text::join_lines;
use crate::tool_output::shrink_output;

/// The names and addresses of links in a row that has no room for longer ones.
const SHORT_LINK_BYTES: usize = 40;
/// The text of an ask's subject in a row that has no room for more.
const SHORT_TEXT_BYTES: usize = 1024;
/// The members of a row, or of an object in it, without their texts.
const MEMBER_BYTES: usize = 256;

/// Leaves out what makes a row larger than its limit. Returns the whole texts that are to be kept,
/// by the name of their part; `None` if the row is not too large.
pub(crate) fn fit_row(row: &mut TranscriptRow) -> Option<Vec<(String, String)>> {
    if estimate_bytes(row) <= MAX_ROW_BYTES || json_bytes(row) <= MAX_ROW_BYTES {
        return None;
    }
    let mut whole_texts = Vec::new();
    for round in 0..16 {
        let id = &row.id;
        match &mut row.body {
            RowBody::Prompt(prompt) => shorten_links(&mut prompt.parts),
            RowBody::Message(text) | RowBody::Thought(text) => shorten_links(&mut text.parts),
            RowBody::Tool(tool) => whole_texts.extend(shorten_tool(tool, id, round)),
            RowBody::Plan(plan) => plan.entries.truncate(plan.entries.len() * 3 / 4),
            RowBody::Ask(ask) => shorten_ask(ask, round),
            RowBody::TurnEnd(end) => end.files.truncate(end.files.len() * 3 / 4),
            RowBody::Notice(_) | RowBody::Unknown => {}
        }
        if json_bytes(row) <= MAX_ROW_BYTES {
            break;
        }
    }
    Some(whole_texts)
}

fn shorten_links(parts: &mut [RowPart]) {
    for part in parts {
        match part {
            RowPart::Blob(blob) => shorten(&mut blob.name),
            RowPart::File(file) => {
                file.uri = join_lines(&file.uri, SHORT_LINK_BYTES);
                shorten(&mut file.name);
            }
            RowPart::Text(_) | RowPart::Unknown => {}
        }
    }
}

fn shorten(name: &mut Option<String>) {
    if let Some(name) = name {
        *name = join_lines(name, SHORT_LINK_BYTES);
    }
}

/// Shortens a tool call: first its input, then links, then lines of diffs, then output. The whole
/// input and output are kept.
fn shorten_tool(tool: &mut RowTool, row_id: &str, round: usize) -> Option<(String, String)> {
    match round {
        0 => {
            let text = tool.input.take()?.to_string();
            let whole = Some(part_address(row_id, "input"));
            tool.input_cut = Some(wharf_api::RowCut {
                bytes: text.len() as u64,
                missing_lines: None,
                tail: None,
                whole,
            });
            Some(("input".to_owned(), text))
        }
        1 => {
            shorten_links(&mut tool.parts);
            None
        }
        2 => {
            tool.diffs.iter_mut().for_each(clear_lines);
            None
        }
        3 => tool.output.as_mut().and_then(|output| shrink_output(output, row_id)),
        _ => None,
    }
}

/// Leaves out the lines of a diff. An address of its texts stays.
fn clear_lines(diff: &mut FileDiff) {
    let lines: usize =
        diff.hunks.drain(..).flat_map(|hunk| hunk.lines).map(|line| line.len()).sum();
    let cut = diff.cut.get_or_insert_default();
    cut.bytes = cut.bytes.max(lines as u64);
}

/// Shortens an ask. Its options stay, since they are to be chosen from, and so do paths outside of
/// the session's directory.
fn shorten_ask(ask: &mut RowAsk, round: usize) {
    let subject = &mut ask.subject;
    match round {
        0 => subject.diffs.iter_mut().for_each(clear_lines),
        1 => subject
            .text
            .iter_mut()
            .for_each(|text| text.truncate(text.floor_char_boundary(SHORT_TEXT_BYTES))),
        2 => {
            // The paths of the diffs are among the paths.
            subject.diffs.clear();
            subject.paths.truncate(MAX_LOCATIONS);
            subject.outside.truncate(MAX_LOCATIONS);
        }
        _ => ask
            .options
            .iter_mut()
            .for_each(|option| option.name = join_lines(&option.name, MAX_WORD_BYTES)),
    }
}

/// Returns no less than the bytes of a row as JSON.
fn estimate_bytes(row: &TranscriptRow) -> usize {
    let head = [Some(&row.id), row.turn.as_ref(), row.parent.as_ref()]
        .into_iter()
        .flatten()
        .map(|id| 6 * id.len());
    let body = match &row.body {
        RowBody::Prompt(prompt) => {
            let actors = [Some(&prompt.by), prompt.edited_by.as_ref()];
            parts_bytes(&prompt.parts)
                + actors.into_iter().flatten().map(actor_bytes).sum::<usize>()
        }
        RowBody::Message(text) | RowBody::Thought(text) => {
            parts_bytes(&text.parts) + text_bytes(text.message_id.as_ref())
        }
        RowBody::Tool(tool) => tool_bytes(tool),
        RowBody::Plan(plan) => {
            let texts = |entry: &wharf_api::RowPlanEntry| {
                2 * (entry.text.len() + entry.status.len()) + text_bytes(entry.priority.as_ref())
            };
            plan.entries.iter().map(|entry| MEMBER_BYTES + texts(entry)).sum()
        }
        RowBody::Ask(ask) => ask_bytes(ask),
        RowBody::Notice(notice) => {
            2 * notice.text.len() + notice.by.as_ref().map_or(0, actor_bytes) + MEMBER_BYTES
        }
        RowBody::TurnEnd(end) => {
            let files =
                end.files.iter().map(|file| MEMBER_BYTES + 2 * file.path.len()).sum::<usize>();
            let error = end.error.as_ref().map_or(0, |error| error.to_string().len());
            let texts = [Some(&end.reason), end.message.as_ref(), end.stderr.as_ref()];
            files + error + texts.into_iter().map(text_bytes).sum::<usize>() + 4 * MEMBER_BYTES
        }
        RowBody::Unknown => 0,
    };
    head.sum::<usize>() + 2 * row.summary.len() + body + 4 * MEMBER_BYTES
}

/// Control characters never reach a text of a row, so a byte takes at most two.
fn text_bytes(text: Option<&String>) -> usize {
    text.map_or(0, |text| 2 * text.len())
}

fn actor_bytes(actor: &RowActor) -> usize {
    let words = [&actor.name, &actor.client, &actor.token, &actor.parent_session];
    words.into_iter().map(|word| text_bytes(word.as_ref())).sum::<usize>() + MEMBER_BYTES
}

fn parts_bytes(parts: &[RowPart]) -> usize {
    let texts = |part: &RowPart| match part {
        RowPart::Text(text) => {
            2 * text.text.len() + text_bytes(text.cut.as_ref().and_then(|cut| cut.tail.as_ref()))
        }
        RowPart::Blob(blob) => text_bytes(blob.name.as_ref()),
        RowPart::File(file) => 2 * file.uri.len() + text_bytes(file.name.as_ref()),
        RowPart::Unknown => 0,
    };
    parts.iter().map(|part| MEMBER_BYTES + texts(part)).sum()
}

fn diffs_bytes(diffs: &[FileDiff]) -> usize {
    let lines = |diff: &FileDiff| {
        let hunks = diff
            .hunks
            .iter()
            .map(|hunk| hunk.lines.iter().map(|line| 4 + 2 * line.len()).sum::<usize>());
        hunks.map(|bytes| MEMBER_BYTES + bytes).sum::<usize>()
    };
    diffs.iter().map(|diff| MEMBER_BYTES + 2 * diff.path.len() + lines(diff)).sum()
}

fn tool_bytes(tool: &RowTool) -> usize {
    let texts = [
        &tool.tool_kind,
        &tool.input_path,
        &tool.command,
        &tool.cwd,
        &tool.error,
        &tool.child_session,
    ];
    let words = texts.into_iter().chain([&tool.name]);
    let words = words.map(|word| text_bytes(word.as_ref())).sum::<usize>();
    let state = 2 * (tool.tool_call_id.len() + tool.title.len() + tool.state.as_str().len());
    let locations = tool
        .locations
        .iter()
        .map(|location| 64 + 2 * location.path.len())
        .sum::<usize>();
    let output = tool
        .output
        .as_ref()
        .map_or(0, |output| 2 * output.text.len() + text_bytes(output.signal.as_ref()));
    let input = if tool.input.is_some() { MAX_INPUT_BYTES } else { 0 };
    let asks = tool.asks.iter().map(|ask| ask.len() + 4).sum::<usize>();
    let children = tool.children.as_ref().map_or(0, |children| 2 * children.latest.len());
    words
        + state
        + locations
        + output
        + input
        + asks
        + children
        + diffs_bytes(&tool.diffs)
        + parts_bytes(&tool.parts)
        + 6 * MEMBER_BYTES
}

fn ask_bytes(ask: &RowAsk) -> usize {
    let options = ask.options.iter().map(|option| {
        MEMBER_BYTES + 6 * option.option_id.len() + 2 * (option.name.len() + option.kind.len())
    });
    let form = ask.form.as_ref().map_or(0, |form| {
        MEMBER_BYTES
            + text_bytes(form.url.as_ref())
            + if form.schema.is_some() { MAX_FORM_BYTES } else { 0 }
    });
    let answer = ask.answer.as_ref().map_or(0, |answer| {
        let option = answer.option.as_ref().map_or(0, |option| 6 * option.len());
        MEMBER_BYTES
            + option
            + text_bytes(answer.name.as_ref())
            + answer.by.as_ref().map_or(0, actor_bytes)
    });
    subject_bytes(&ask.subject)
        + options.sum::<usize>()
        + form
        + answer
        + text_bytes(ask.tool.as_ref())
        + MEMBER_BYTES
}

fn subject_bytes(subject: &AskSubject) -> usize {
    let texts = [
        Some(&subject.title),
        subject.command.as_ref(),
        subject.cwd.as_ref(),
        subject.text.as_ref(),
    ];
    let paths = subject.paths.iter().chain(&subject.outside).map(|path| 4 + 2 * path.len());
    texts.into_iter().map(text_bytes).sum::<usize>()
        + paths.sum::<usize>()
        + diffs_bytes(&subject.diffs)
        + MEMBER_BYTES
}

/// Returns the bytes of a value as JSON.
pub(crate) fn json_bytes(value: &impl serde::Serialize) -> usize {
    let mut counter = ByteCounter(0);
    serde_json::to_writer(&mut counter, value).map_or(usize::MAX, |()| counter.0)
}

struct ByteCounter(usize);

impl std::io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Panics if a row is larger than estimated: it might pass its limit unseen.
#[cfg(test)]
#[track_caller]
pub(crate) fn check_estimate(row: &TranscriptRow) {
    let estimated = estimate_bytes(row);
    let measured = json_bytes(row);
    assert!(
        estimated >= measured,
        "{} bytes, but {estimated} estimated: {}",
        measured,
        row.body.kind()
    );
    assert!(measured <= MAX_ROW_BYTES, "the {} has {measured} bytes", row.body.kind());
}
