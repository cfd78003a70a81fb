//! Prompts: from the queue to their rows, and prompts that only the agent reports.

use serde::{Deserialize, Serialize};
use wharf_api::{RowActor, RowBody, RowCut, RowPart, RowPrompt};
use wharf_core::{PromptId, Raw, Sender};
use wharf_json::{Json, ReadError};

use crate::content::{ContentBlock, read_block, summarise_parts, text_part};
use crate::fold::FoldStep;
use crate::limits::{MAX_PARTS, MAX_TEXT_BYTES, MAX_WORD_BYTES};
use crate::messages::{TextKind, TextRun, append_content, end_run, part_address};
use crate::plain_text::clean_line;
use crate::text_filter::filter_text;
use crate::{RowNumber, RowStore};

/// A prompt whose turn has not begun.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WaitingPrompt {
    pub(crate) content: RowPrompt,
    /// The whole texts of parts that are cut, by the index of the part.
    whole_texts: Vec<(usize, String)>,
    /// The text as the agent gets it, to recognise its echo.
    pub(crate) plain: String,
}

/// The text of a prompt that is compared with an echo. A longer prompt is recognised by this beginning.
const MAX_ECHO_BYTES: usize = 64 * 1024;

/// Takes a prompt into the queue.
pub(crate) fn accept(step: &mut FoldStep<'_, impl RowStore>, prompt: &PromptId, sender: &Sender, frame: &Raw) {
    let mut waiting = read_prompt(step, frame);
    waiting.content.by = to_actor(sender);
    waiting.content.accepted_at = Some(step.time());
    step.fold.waiting.insert(prompt.to_string(), waiting);
}

/// Replaces the content of a waiting prompt.
pub(crate) fn edit(step: &mut FoldStep<'_, impl RowStore>, prompt: &PromptId, by: &Sender, frame: &Raw) {
    let mut waiting = read_prompt(step, frame);
    let Some(old) = step.fold.waiting.get_mut(prompt.as_str()) else { return };
    waiting.content.by = old.content.by.clone();
    waiting.content.accepted_at = old.content.accepted_at.take();
    let editor = to_actor(by);
    waiting.content.edited_by = (editor != waiting.content.by).then_some(editor);
    *old = waiting;
}

/// Reads the content of a `session/prompt` request.
fn read_prompt(step: &mut FoldStep<'_, impl RowStore>, frame: &Raw) -> WaitingPrompt {
    let mut prompt = WaitingPrompt::default();
    let blocks = Json::parse(frame.bytes()).and_then(|frame| frame.at(&["params", "prompt"]));
    let Ok(Some(blocks)) = blocks else { return prompt };
    let mut room = MAX_TEXT_BYTES;
    for block in blocks.items().take(MAX_PARTS) {
        match read_block(block, &step.fold.agent.cwd, step.rows) {
            Ok(Some(ContentBlock::Text(text))) => {
                let text = filter_text(&text.text);
                let (part, used) = text_part(&text, room);
                room -= used;
                prompt
                    .plain
                    .push_str(&text[..text.floor_char_boundary(MAX_ECHO_BYTES.saturating_sub(prompt.plain.len()))]);
                if part.cut.is_some() {
                    prompt.whole_texts.push((prompt.content.parts.len(), text));
                }
                prompt.content.parts.push(RowPart::Text(part));
            }
            Ok(Some(ContentBlock::Part(part))) => prompt.content.parts.push(part),
            Ok(None) | Err(_) => {}
        }
    }
    prompt
}

/// Adds the row of a prompt.
pub(crate) fn create_row(step: &mut FoldStep<'_, impl RowStore>, waiting: &WaitingPrompt) -> RowNumber {
    let summary = summarise_parts(&waiting.content.parts);
    let number = step.create(RowBody::Prompt(waiting.content.clone()), summary, false);
    for (part, text) in &waiting.whole_texts {
        step.rows.set_whole_text(number, &part.to_string(), text);
        if let Some(row) = step.rows.row_mut(number) {
            let whole = Some(part_address(&row.id, part));
            if let RowBody::Prompt(prompt) = &mut row.body
                && let Some(RowPart::Text(shown)) = prompt.parts.get_mut(*part)
            {
                shown.cut = Some(RowCut { bytes: text.len() as u64, missing_lines: None, whole });
            }
        }
    }
    number
}

/// Takes a chunk of a user's message. An echo of the prompt makes no row; other text is a prompt that the agent reports.
pub(crate) fn user_chunk(step: &mut FoldStep<'_, impl RowStore>, update: Json<'_>) -> Result<(), ReadError> {
    let Some(content) = update.member("content")? else { return Ok(()) };
    if let Some(turn) = &mut step.fold.turn
        && let Some(echo) = &mut turn.echo
    {
        let text = content.is_object().then(|| content.member("text")).transpose()?.flatten().and_then(Json::text);
        echo.push_str(&filter_text(text.as_deref().unwrap_or_default()));
        if turn.plain.trim().starts_with(echo.trim())
            || echo.trim().starts_with(turn.plain.trim()) && turn.plain.len() >= MAX_ECHO_BYTES
        {
            return Ok(());
        }
        let said = std::mem::take(echo);
        turn.echo = None;
        begin_agent_prompt(step);
        let text = serde_json::json!({ "type": "text", "text": said }).to_string();
        return append_content(step, Json::parse(text.as_bytes())?);
    }
    if step.fold.run.as_ref().is_none_or(|run| !run.is_agent_prompt()) {
        begin_agent_prompt(step);
    }
    append_content(step, content)
}

/// Takes a whole user message of v2: the echo of a prompt, or a prompt that the agent reports.
pub(crate) fn user_message(step: &mut FoldStep<'_, impl RowStore>, update: Json<'_>) -> Result<(), ReadError> {
    let Some(content) = update.member("content")? else { return Ok(()) };
    let parts = crate::content::read_blocks(content, &step.fold.agent.cwd, step.rows)?;
    let text: String =
        parts.iter().map(|part| if let RowPart::Text(text) = part { text.text.as_str() } else { "" }).collect();
    let is_echo = step.fold.turn.as_ref().is_some_and(|turn| turn.plain.trim() == text.trim());
    if is_echo || parts.is_empty() {
        return Ok(());
    }
    end_run(step);
    let summary = summarise_parts(&parts);
    let by = RowActor { agent: true, ..RowActor::default() };
    step.create(RowBody::Prompt(RowPrompt { by, parts, ..RowPrompt::default() }), summary, false);
    Ok(())
}

fn begin_agent_prompt(step: &mut FoldStep<'_, impl RowStore>) {
    end_run(step);
    step.fold.run = Some(TextRun::new(TextKind::AgentPrompt, None));
}

/// Returns the client as rows name it.
pub(crate) fn to_actor(sender: &Sender) -> RowActor {
    let word = |text: &str| clean_line(text, MAX_WORD_BYTES);
    RowActor {
        name: sender.name.as_deref().map(word),
        client: Some(word(sender.shown_id())),
        token: sender.token.as_deref().map(word),
        parent_session: sender.parent.as_ref().map(|session| word(session.as_str())),
        agent: false,
    }
}
