//! Messages and thoughts of the agent.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use wharf_acp::{ChunkMembers, ChunkUpdate};
use wharf_api::{RowBody, RowPart, RowText, RowTextPart, TranscriptRow};
use wharf_json::{Json, ReadError, TextChunk};

use crate::content::{
    ContentBlock, PartList, read_block, read_block_members, read_blocks, set_addresses,
    summarise_parts,
};
use crate::fold::FoldStep;
use crate::limits::{MAX_PARTS, MAX_SUMMARY_CHARS, MAX_TEXT_BYTES};
use crate::text_rules::{TextRules, clean_word};
use crate::text_stream::TextStream;
use crate::text_tail::{grow_tail, set_tail};
use crate::{RowKey, RowNumber, RowStore};

/// The row of a cut text counts its bytes again only after they have grown by one part in this
/// many. Each count changes the row, and readers then fetch the row again.
const CUT_COUNT_STEP: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TextKind {
    Message,
    Thought,
    /// A prompt that the agent reported and no client sent.
    AgentPrompt,
}

/// A text that the next chunk may continue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TextRun {
    kind: TextKind,
    message_id: Option<String>,
    /// `None` until there is something to show.
    row: Option<RowNumber>,
    /// The part that grows, if it is a text.
    part: Option<usize>,
    /// The bytes of all texts of the row.
    shown_bytes: usize,
    /// The bytes of the growing part, shown or not.
    part_bytes: u64,
    stream: TextStream,
    /// True once the summary cannot change any more.
    is_summarised: bool,
}

impl TextRun {
    pub(crate) fn new(kind: TextKind, message_id: Option<String>, texts: &TextRules) -> Self {
        Self {
            kind,
            message_id,
            row: None,
            part: None,
            shown_bytes: 0,
            part_bytes: 0,
            stream: TextStream::new(texts),
            is_summarised: false,
        }
    }

    pub(crate) fn is_agent_prompt(&self) -> bool {
        self.kind == TextKind::AgentPrompt
    }
}

/// Takes a chunk of a message or a thought.
pub(crate) fn append_chunk(
    step: &mut FoldStep<'_, impl RowStore>,
    kind: TextKind,
    chunk: ChunkUpdate<'_>,
) -> Result<(), ReadError> {
    let ChunkMembers { message_id, content, type_and_text } = chunk.read()?;
    let Some(content) = content else { return Ok(()) };
    let message_id = message_id.and_then(Json::text);
    // An id that the run has is clean already.
    let goes_on =
        |run: &TextRun| run.kind == kind && run.message_id.as_deref() == message_id.as_deref();
    if !step.fold.run.as_ref().is_some_and(goes_on) {
        continue_run(step, kind, message_id.map(|id| clean_word(&id)));
    }
    let block = read_block_members(content, type_and_text?, &step.fold.texts, step.rows)?;
    append_block(step, block);
    Ok(())
}

/// Appends content to the open run: text grows its row, other content is a part of its own.
pub(crate) fn append_content(
    step: &mut FoldStep<'_, impl RowStore>,
    content: Json<'_>,
) -> Result<(), ReadError> {
    let block = read_block(content, &step.fold.texts, step.rows)?;
    append_block(step, block);
    Ok(())
}

fn append_block(step: &mut FoldStep<'_, impl RowStore>, block: Option<ContentBlock<'_>>) {
    match block {
        Some(ContentBlock::Text(chunk)) => append_text(step, &chunk),
        Some(ContentBlock::Part(part)) => add_part(step, part),
        None => {}
    }
}

/// Makes the run of this message the open one.
fn continue_run(
    step: &mut FoldStep<'_, impl RowStore>,
    kind: TextKind,
    message_id: Option<String>,
) {
    if let Some(run) = &step.fold.run
        && run.kind == kind
        && run.message_id == message_id
    {
        return;
    }
    end_run(step);
    let mut run = TextRun::new(kind, message_id.clone(), &step.fold.texts);
    // In v2 a message has one row, which grows wherever it stands.
    if step.fold.agent.speaks_v2
        && let Some(id) = message_id
        && let Some(number) = step.rows.find(&RowKey::Message { start: step.fold.agent.start, id })
    {
        run.row = Some(number);
        run.shown_bytes = step.rows.row_mut(number).map_or(0, text_bytes);
    }
    step.fold.run = Some(run);
}

pub(crate) fn read_message_id(update: Json<'_>) -> Result<Option<String>, ReadError> {
    let id = update.member("messageId")?.and_then(Json::text);
    Ok(id.map(|id| clean_word(&id)))
}

/// Appends text to the open run.
pub(crate) fn append_text(step: &mut FoldStep<'_, impl RowStore>, chunk: &TextChunk<'_>) {
    let Some(run) = &mut step.fold.run else { return };
    let mut shown = String::with_capacity(chunk.text.len());
    run.stream.push(chunk, &mut shown);
    show_text(step, shown);
}

/// Begins a run with text that is shown already, and the state of its stream.
pub(crate) fn begin_run(
    step: &mut FoldStep<'_, impl RowStore>,
    kind: TextKind,
    stream: TextStream,
    shown: String,
) {
    step.fold.run = Some(TextRun { stream, ..TextRun::new(kind, None, &step.fold.texts) });
    show_text(step, shown);
}

/// Shows text at the end of the open run.
fn show_text(step: &mut FoldStep<'_, impl RowStore>, shown: String) {
    if shown.is_empty() {
        return;
    }
    if let Some(run) = step.fold.run.as_ref().filter(|run| run.row.is_none()) {
        let message_id = run.message_id.clone();
        let number =
            step.create(new_body(run, RowPart::Text(RowTextPart::default())), String::new(), true);
        name_message(step, message_id, number);
        if let Some(run) = &mut step.fold.run {
            (run.row, run.part) = (Some(number), Some(0));
        }
    }
    grow_text(step, shown);
}

/// Lets later updates find the row by the agent's id of the message.
fn name_message(
    step: &mut FoldStep<'_, impl RowStore>,
    message_id: Option<String>,
    number: RowNumber,
) {
    if let Some(id) = message_id {
        step.rows.set_key(RowKey::Message { start: step.fold.agent.start, id }, number);
    }
}

fn new_body(run: &TextRun, part: RowPart) -> RowBody {
    let text = RowText {
        parts: vec![part.clone()],
        message_id: run.message_id.clone(),
    };
    match run.kind {
        TextKind::Message => RowBody::Message(text),
        TextKind::Thought => RowBody::Thought(text),
        TextKind::AgentPrompt => RowBody::Prompt(wharf_api::RowPrompt {
            by: wharf_api::RowActor { agent: true, ..wharf_api::RowActor::default() },
            parts: vec![part],
            ..wharf_api::RowPrompt::default()
        }),
    }
}

/// Appends shown text to the row of the open run.
fn grow_text(step: &mut FoldStep<'_, impl RowStore>, shown: String) {
    let Some(run) = &mut step.fold.run else { return };
    let Some(number) = run.row else { return };
    let Some(row) = step.rows.row_mut(number) else { return };
    let Some(parts) = body_parts_mut(&mut row.body) else { return };
    if run.part.is_none() && parts.len() >= MAX_PARTS {
        // Text after the last part joins it.
        let Some(RowPart::Text(last)) = parts.last() else { return };
        run.part_bytes = last.cut.as_ref().map_or(last.text.len() as u64, |cut| cut.bytes);
        run.part = Some(parts.len() - 1);
    }
    let is_new_part = run.part.is_none();
    if is_new_part {
        drop_tails(parts);
        parts.push(RowPart::Text(RowTextPart::default()));
        run.part_bytes = 0;
    }
    let part = *run.part.get_or_insert(parts.len() - 1);
    let Some(RowPart::Text(text)) = parts.get_mut(part) else { return };
    // Once a text is cut it stays cut: a later, shorter piece must not follow the gap.
    let room = if text.cut.is_some() { 0 } else { MAX_TEXT_BYTES.saturating_sub(run.shown_bytes) };
    let end = shown.floor_char_boundary(room);
    text.text.push_str(&shown[..end]);
    run.shown_bytes += end;
    run.part_bytes += shown.len() as u64;
    let is_cut = end < shown.len();
    let whole_before = (is_cut && text.cut.is_none()).then(|| text.text.clone());
    let mut is_changed = is_new_part || whole_before.is_some();
    if is_cut {
        let cut = text.cut.get_or_insert_default();
        is_changed |= grow_tail(cut, text.text.len(), run.part_bytes, &shown[end..]);
        is_changed |= run.part_bytes >= cut.bytes + cut.bytes / CUT_COUNT_STEP;
        if is_changed {
            cut.bytes = run.part_bytes;
        }
        cut.whole.get_or_insert_with(|| part_address(&row.id, part));
    }
    if !run.is_summarised {
        let summary = summarise_parts(parts, &step.fold.texts);
        run.is_summarised = summary.chars().count() >= MAX_SUMMARY_CHARS;
        is_changed |= row.summary != summary;
        row.summary = summary;
    }
    match whole_before {
        Some(before) => {
            step.rows.set_whole_text(number, &part_name(part), &(before + &shown[end..]))
        }
        None if is_cut => step.rows.append_whole_text(number, &part_name(part), &shown),
        None => {}
    }
    if is_changed {
        step.change(number, |_| ());
    } else {
        step.note_append(number, part, shown, is_cut);
    }
}

/// Leaves out the ends of texts before a new one: a row has room for one.
fn drop_tails(parts: &mut [RowPart]) {
    for part in parts {
        if let RowPart::Text(RowTextPart { cut: Some(cut), .. }) = part {
            cut.tail = None;
        }
    }
}

/// Writes the bytes of the growing text into its row, if they were not written when it grew last.
fn settle_cut(step: &mut FoldStep<'_, impl RowStore>) {
    let Some(TextRun { row: Some(number), part: Some(part), part_bytes, .. }) = &step.fold.run
    else {
        return;
    };
    let number = *number;
    let part = *part;
    let part_bytes = *part_bytes;
    let find_cut = |row: &mut TranscriptRow| match parts_mut(row)?.get_mut(part)? {
        RowPart::Text(text) => {
            text.cut.as_mut().map(|cut| std::mem::replace(&mut cut.bytes, part_bytes))
        }
        RowPart::Blob(_) | RowPart::File(_) | RowPart::Unknown => None,
    };
    if step
        .rows
        .row_mut(number)
        .and_then(find_cut)
        .is_some_and(|before| before != part_bytes)
    {
        step.change(number, |_| ());
    }
}

/// Adds content other than text to the row of the open run.
fn add_part(step: &mut FoldStep<'_, impl RowStore>, part: RowPart) {
    flush_text(step);
    let Some(run) = step.fold.run.clone() else { return };
    let texts = step.fold.texts.clone();
    let number = match run.row {
        Some(number) => {
            step.change(number, |row| {
                // The last part is kept for text.
                if let Some(parts) = parts_mut(row).filter(|parts| parts.len() + 1 < MAX_PARTS) {
                    parts.push(part);
                    let summary = summarise_parts(parts, &texts);
                    row.summary = summary;
                }
            });
            number
        }
        None => {
            let summary = summarise_parts(std::slice::from_ref(&part), &texts);
            let number = step.create(new_body(&run, part), summary, true);
            name_message(step, run.message_id, number);
            number
        }
    };
    if let Some(run) = &mut step.fold.run {
        (run.row, run.part, run.is_summarised) = (Some(number), None, false);
    }
}

/// Shows the text that the filter still holds.
fn flush_text(step: &mut FoldStep<'_, impl RowStore>) {
    let Some(run) = &mut step.fold.run else { return };
    let mut shown = String::new();
    run.stream.finish(&mut shown);
    show_text(step, shown);
    settle_cut(step);
}

/// Ends the open run: its row does not grow any more.
pub(crate) fn end_run(step: &mut FoldStep<'_, impl RowStore>) {
    flush_text(step);
    let Some(number) = step.fold.run.take().and_then(|run| run.row) else { return };
    step.change(number, |row| row.open = false);
}

/// Takes a whole message of v2: it replaces the parts of the row that has its id.
pub(crate) fn replace_message(
    step: &mut FoldStep<'_, impl RowStore>,
    kind: TextKind,
    update: Json<'_>,
) -> Result<(), ReadError> {
    end_run(step);
    let message_id = read_message_id(update)?;
    let key = message_id
        .clone()
        .map(|id| RowKey::Message { start: step.fold.agent.start, id });
    let found = key.as_ref().and_then(|key| step.rows.find(key));
    // A message without content keeps the content that it has.
    let Some(content) = update.member("content")? else { return Ok(()) };
    let PartList { parts, mut whole_texts, .. } =
        read_blocks(content, &step.fold.texts, step.rows)?;
    let summary = summarise_parts(&parts, &step.fold.texts);
    if let Some(number) = found {
        step.change(number, |row| {
            if let Some(old) = parts_mut(row) {
                whole_texts.extend(list_outdated(old, &parts));
                *old = parts;
            }
            row.summary = summary;
        });
        keep_whole_texts(step, number, &whole_texts);
    } else if !parts.is_empty() {
        let text = RowText { parts, message_id };
        let body =
            if kind == TextKind::Thought { RowBody::Thought(text) } else { RowBody::Message(text) };
        let number = step.create(body, summary, false);
        if let Some(key) = key {
            step.rows.set_key(key, number);
        }
        keep_whole_texts(step, number, &whole_texts);
    }
    Ok(())
}

/// Returns the texts that are whole in their row and were cut before, so that a text is stored for
/// them.
pub(crate) fn list_outdated(old: &[RowPart], new: &[RowPart]) -> Vec<(usize, String)> {
    let pairs = old.iter().zip(new).enumerate();
    let outdated = pairs.filter_map(|(index, pair)| match pair {
        (RowPart::Text(old), RowPart::Text(new)) if old.cut.is_some() && new.cut.is_none() => {
            Some((index, new.text.clone()))
        }
        _ => None,
    });
    outdated.collect()
}

/// Keeps the whole texts of a row's parts, and names their addresses in the row.
pub(crate) fn keep_whole_texts(
    step: &mut FoldStep<'_, impl RowStore>,
    number: RowNumber,
    whole_texts: &[(usize, String)],
) {
    if whole_texts.is_empty() {
        return;
    }
    step.change(number, |row| {
        let id = row.id.clone();
        if let Some(parts) = parts_mut(row) {
            set_addresses(parts, &id);
            if let Some((part, whole)) = whole_texts.last()
                && let Some(RowPart::Text(RowTextPart { text, cut: Some(cut) })) =
                    parts.get_mut(*part)
            {
                set_tail(cut, text.len(), whole);
            }
        }
    });
    for (part, text) in whole_texts {
        step.rows.set_whole_text(number, &part.to_string(), text);
    }
}

/// Returns the parts of a row that has some.
pub(crate) fn parts_mut(row: &mut TranscriptRow) -> Option<&mut Vec<RowPart>> {
    body_parts_mut(&mut row.body)
}

fn body_parts_mut(body: &mut RowBody) -> Option<&mut Vec<RowPart>> {
    match body {
        RowBody::Message(text) | RowBody::Thought(text) => Some(&mut text.parts),
        RowBody::Prompt(prompt) => Some(&mut prompt.parts),
        RowBody::Tool(tool) => Some(&mut tool.parts),
        RowBody::Plan(_)
        | RowBody::Ask(_)
        | RowBody::Notice(_)
        | RowBody::TurnEnd(_)
        | RowBody::Unknown => None,
    }
}

fn text_bytes(row: &mut TranscriptRow) -> usize {
    let parts = parts_mut(row).map_or(&[][..], |parts| parts);
    parts
        .iter()
        .map(|part| if let RowPart::Text(text) = part { text.text.len() } else { 0 })
        .sum()
}

/// Returns the name of a part's whole text. Most are of the first part, and grow with every chunk.
fn part_name(part: usize) -> Cow<'static, str> {
    if part == 0 { Cow::Borrowed("0") } else { Cow::Owned(part.to_string()) }
}

/// Returns the address of a part's whole text, below the session's own.
pub(crate) fn part_address(row: &str, part: impl std::fmt::Display) -> String {
    format!("rows/{row}/text?part={part}")
}
