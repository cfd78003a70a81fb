//! Prompts: from the queue to their rows, and prompts that only the agent reports.

use serde::{Deserialize, Serialize};
use wharf_api::{RowActor, RowBody, RowPrompt};
use wharf_core::{PromptId, Raw, Sender};
use wharf_json::{Json, ReadError};

use crate::content::{MAX_ECHO_BYTES, PartList, read_block, summarise_parts};
use crate::fold::FoldStep;
use crate::limits::MAX_TEXT_BYTES;
use crate::messages::{TextKind, append_content, begin_run, end_run, keep_whole_texts};
use crate::text_rules::{TextRules, clean_word};
use crate::text_stream::TextStream;
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

/// The echo of a prompt, as far as it has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PromptEcho {
    shown: String,
    stream: TextStream,
}

impl PromptEcho {
    pub(crate) fn new(texts: &TextRules) -> Self {
        Self { shown: String::new(), stream: TextStream::new(texts) }
    }
}

/// Takes a prompt into the queue.
pub(crate) fn accept(
    step: &mut FoldStep<'_, impl RowStore>,
    prompt: &PromptId,
    sender: &Sender,
    frame: &Raw,
) {
    let mut waiting = read_prompt(step, frame);
    waiting.content.by = to_actor(sender);
    waiting.content.accepted_at = Some(step.time());
    step.fold.waiting.insert(prompt.to_string(), waiting);
}

/// Replaces the content of a waiting prompt.
pub(crate) fn edit(
    step: &mut FoldStep<'_, impl RowStore>,
    prompt: &PromptId,
    by: &Sender,
    frame: &Raw,
) {
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
    let mut list = PartList::new(MAX_TEXT_BYTES);
    for block in blocks.items() {
        if list.has_room_for(block)
            && let Ok(Some(block)) = read_block(block, &step.fold.texts, step.rows)
        {
            list.add(block, &step.fold.texts);
        }
    }
    (prompt.content.parts, prompt.whole_texts, prompt.plain) =
        (list.parts, list.whole_texts, list.plain);
    prompt
}

/// Adds the row of a prompt to the prompt's own turn.
pub(crate) fn create_row(
    step: &mut FoldStep<'_, impl RowStore>,
    waiting: &WaitingPrompt,
    prompt: &PromptId,
) -> RowNumber {
    let summary = summarise_parts(&waiting.content.parts, &step.fold.texts);
    let body = RowBody::Prompt(waiting.content.clone());
    let number = step.create_in_turn(body, summary, false, Some(prompt.to_string()));
    keep_whole_texts(step, number, &waiting.whole_texts);
    number
}

/// Takes a chunk of a user's message. An echo of the prompt makes no row; other text is a prompt
/// that the agent reports.
pub(crate) fn user_chunk(
    step: &mut FoldStep<'_, impl RowStore>,
    update: Json<'_>,
) -> Result<(), ReadError> {
    let Some(content) = update.member("content")? else { return Ok(()) };
    if let Some(turn) = step.fold.turns.last_mut()
        && let Some(echo) = &mut turn.echo
    {
        let chunk = content.is_object().then(|| content.member("text")).transpose()?.flatten();
        if let Some(chunk) = chunk.and_then(Json::text_chunk) {
            echo.stream.push(&chunk, &mut echo.shown);
        }
        if turn.plain.trim().starts_with(echo.shown.trim())
            || echo.shown.trim().starts_with(turn.plain.trim())
                && turn.plain.len() >= MAX_ECHO_BYTES
        {
            return Ok(());
        }
        let said = std::mem::take(echo);
        turn.echo = None;
        end_run(step);
        begin_run(step, TextKind::AgentPrompt, said.stream, said.shown);
        return Ok(());
    }
    if step.fold.run.as_ref().is_none_or(|run| !run.is_agent_prompt()) {
        begin_agent_prompt(step);
    }
    append_content(step, content)
}

/// Takes a whole user message of v2: the echo of a prompt, or a prompt that the agent reports.
pub(crate) fn user_message(
    step: &mut FoldStep<'_, impl RowStore>,
    update: Json<'_>,
) -> Result<(), ReadError> {
    let Some(content) = update.member("content")? else { return Ok(()) };
    let list = crate::content::read_blocks(content, &step.fold.texts, step.rows)?;
    let is_echo = step
        .fold
        .newest_turn()
        .is_some_and(|turn| turn.plain.trim() == list.plain.trim());
    if is_echo || list.parts.is_empty() {
        return Ok(());
    }
    end_run(step);
    let summary = summarise_parts(&list.parts, &step.fold.texts);
    let by = RowActor { agent: true, ..RowActor::default() };
    let prompt = RowPrompt { by, parts: list.parts, ..RowPrompt::default() };
    let number = step.create(RowBody::Prompt(prompt), summary, false);
    keep_whole_texts(step, number, &list.whole_texts);
    Ok(())
}

fn begin_agent_prompt(step: &mut FoldStep<'_, impl RowStore>) {
    end_run(step);
    let stream = TextStream::new(&step.fold.texts);
    begin_run(step, TextKind::AgentPrompt, stream, String::new());
}

/// Returns the client as rows name it.
pub(crate) fn to_actor(sender: &Sender) -> RowActor {
    RowActor {
        name: sender.name.as_deref().map(clean_word),
        client: Some(clean_word(sender.shown_id())),
        token: sender.token.as_deref().map(clean_word),
        parent_session: sender.parent.as_ref().map(|session| clean_word(session.as_str())),
        agent: false,
    }
}
