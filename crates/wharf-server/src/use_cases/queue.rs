//! The prompts that wait (rule 7.3).

use wharf_api::{
    ErrorCode, QueueChange, QueueChanged, QueueEntry, QueueList, QueueSendArgs, QueueSent,
};
use wharf_host::core::{PromptId, QueuedPrompt, Raw};
use wharf_host::format_timestamp;
use wharf_json::Json;

use super::attention::note_act;
use super::faults::{fault_from_failed_call, invalid_params};
use super::prompt::PromptBlocks;
use super::{Caller, open_session};
use crate::App;
use crate::fault::Fault;

/// The most bytes of a prompt that a listing shows.
const MAX_SHOWN_BYTES: usize = 4096;

fn to_queue_entry(position: usize, queued: &QueuedPrompt) -> QueueEntry {
    let mut entry = to_whole_entry(position, queued);
    if entry.text.len() > MAX_SHOWN_BYTES {
        entry.text.truncate(entry.text.floor_char_boundary(MAX_SHOWN_BYTES));
        entry.text.push('…');
        entry.shortened = true;
    }
    entry
}

fn to_whole_entry(position: usize, queued: &QueuedPrompt) -> QueueEntry {
    let sender = queued.sender.name.as_deref().unwrap_or(queued.sender.client.as_str());
    let PromptParts { text, attachments } = PromptParts::read(&queued.frame);
    let attachments = attachments.into_iter().map(|(name, _)| name).collect();
    QueueEntry {
        prompt_id: queued.prompt.to_string(),
        position,
        text,
        attachments,
        shortened: false,
        sender: Some(sender.to_owned()),
        accepted_at: Some(format_timestamp(queued.accepted_at)),
    }
}

/// Returns the prompts that wait as a listing shows them.
pub(crate) fn to_queue_entries(waiting: &[QueuedPrompt]) -> Vec<QueueEntry> {
    waiting
        .iter()
        .enumerate()
        .map(|(position, queued)| to_queue_entry(position, queued))
        .collect()
}

/// Returns the text of a prompt; a block that is not text is shown as its type in brackets.
pub(crate) fn prompt_text(frame: &Raw) -> String {
    let prompt = Json::parse(frame.bytes()).and_then(|frame| frame.at(&["params", "prompt"]));
    let parts = prompt
        .map(|prompt| prompt.into_iter().flat_map(Json::items).map(block_text).collect::<Vec<_>>());
    parts.map_or_else(|error| format!("[unreadable] {error}"), |parts| parts.join("\n"))
}

fn block_text(block: Json<'_>) -> String {
    match (block.text_at(&["text"]), block.text_at(&["type"])) {
        (Ok(Some(text)), _) => text.into_owned(),
        (Ok(None), Ok(kind)) => format!("[{}]", kind.as_deref().unwrap_or("content")),
        (Err(error), _) | (_, Err(error)) => format!("[unreadable] {error}"),
    }
}

/// A prompt apart: its text, and its other content by name and as JSON, which may be an image of
/// megabytes and is not copied.
struct PromptParts<'a> {
    text: String,
    attachments: Vec<(String, &'a str)>,
}

impl<'a> PromptParts<'a> {
    fn read(frame: &'a Raw) -> Self {
        let prompt = Json::parse(frame.bytes()).and_then(|frame| frame.at(&["params", "prompt"]));
        let blocks = match prompt {
            Ok(prompt) => prompt.into_iter().flat_map(Json::items),
            Err(error) => {
                return Self {
                    text: format!("[unreadable] {error}"),
                    attachments: Vec::new(),
                };
            }
        };
        let (texts, others): (Vec<_>, Vec<_>) =
            blocks.partition(|block| matches!(block.text_at(&["text"]), Ok(Some(_))));
        let name = |block: Json<'_>| {
            let told = ["name", "type"]
                .into_iter()
                .find_map(|member| block.text_at(&[member]).ok().flatten());
            told.map_or_else(|| "content".to_owned(), std::borrow::Cow::into_owned)
        };
        Self {
            text: texts.into_iter().map(block_text).collect::<Vec<_>>().join("\n"),
            attachments: others.into_iter().map(|block| (name(block), block.raw())).collect(),
        }
    }
}

/// Returns the prompts that wait, whole.
pub(crate) async fn waiting_prompts(
    app: &App,
    caller: &Caller,
    id: &str,
) -> Result<Vec<QueuedPrompt>, Fault> {
    let handle = open_session(app, caller, id).await?;
    handle
        .queue()
        .await
        .map_err(|error| fault_from_failed_call(app, handle.id(), &error))
}

/// Lists the prompts that wait.
pub(crate) async fn list_queue(app: &App, caller: &Caller, id: &str) -> Result<QueueList, Fault> {
    let waiting = waiting_prompts(app, caller, id).await?;
    Ok(QueueList { queue: to_queue_entries(&waiting) })
}

/// Returns one prompt that waits, with its whole text.
pub(crate) async fn read_queued(
    app: &App,
    caller: &Caller,
    id: &str,
    prompt: &str,
) -> Result<QueueEntry, Fault> {
    let waiting = waiting_prompts(app, caller, id).await?;
    let mut entries = waiting
        .iter()
        .enumerate()
        .filter(|(_, queued)| queued.prompt.as_str() == prompt);
    let found = entries.next().map(|(position, queued)| to_whole_entry(position, queued));
    found.ok_or_else(|| {
        Fault::new(ErrorCode::UNKNOWN_PROMPT, format!("no prompt {prompt} waits in this session"))
    })
}

/// Changes the content of a waiting prompt, its position, or both.
pub(crate) async fn change_queued(
    app: &App,
    caller: &Caller,
    id: &str,
    prompt: &str,
    change: QueueChange,
) -> Result<QueueChanged, Fault> {
    caller.may_change()?;
    if change.prompt.is_none() && change.position.is_none() {
        return Err(invalid_params("nothing to change: send prompt, position or both"));
    }
    let handle = open_session(app, caller, id).await?;
    if let Some(content) = change.prompt {
        let mut blocks = PromptBlocks::from_content(&content)?.with_uploads(app, &handle).await?;
        if change.keep_attachments {
            let waiting = handle
                .queue()
                .await
                .map_err(|error| fault_from_failed_call(app, handle.id(), &error))?;
            let changed = waiting.iter().find(|queued| queued.prompt.as_str() == prompt);
            let kept = changed
                .map(|queued| PromptParts::read(&queued.frame).attachments)
                .unwrap_or_default();
            blocks = blocks.followed_by(kept.into_iter().map(|(_, block)| block));
        }
        replace_queued(app, caller, id, prompt, blocks.to_request(id)?).await?;
    }
    if let Some(position) = change.position {
        let before = handle.head();
        let done = handle.move_prompt(PromptId::new(prompt), caller.sender(), position).await;
        done.map_err(|error| fault_from_failed_call(app, handle.id(), &error))?;
        note_act(app, caller, &handle, before);
    }
    Ok(QueueChanged { ok: true, prompt_id: prompt.to_owned() })
}

/// Replaces a waiting prompt by another `session/prompt`.
pub(crate) async fn replace_queued(
    app: &App,
    caller: &Caller,
    id: &str,
    prompt: &str,
    frame: Raw,
) -> Result<(), Fault> {
    caller.may_change()?;
    let handle = open_session(app, caller, id).await?;
    let before = handle.head();
    let done = handle.update_prompt(PromptId::new(prompt), caller.sender(), frame).await;
    done.map_err(|error| fault_from_failed_call(app, handle.id(), &error))?;
    note_act(app, caller, &handle, before);
    Ok(())
}

/// Runs a waiting prompt next and interrupts the running turn for it, or gives it to the agent in
/// that turn.
pub(crate) async fn send_queued(
    app: &App,
    caller: &Caller,
    id: &str,
    prompt: &str,
    args: QueueSendArgs,
) -> Result<QueueSent, Fault> {
    caller.may_change()?;
    let handle = open_session(app, caller, id).await?;
    let before = handle.head();
    let done = handle
        .send_now(PromptId::new(prompt), caller.sender(), args.steer.unwrap_or(false))
        .await;
    let done = done.map_err(|error| fault_from_failed_call(app, handle.id(), &error))?;
    note_act(app, caller, &handle, before);
    Ok(QueueSent {
        ok: true,
        prompt_id: prompt.to_owned(),
        interrupted: done.was_busy,
    })
}

/// Takes a waiting prompt out of the queue.
pub(crate) async fn remove_queued(
    app: &App,
    caller: &Caller,
    id: &str,
    prompt: &str,
) -> Result<QueueChanged, Fault> {
    caller.may_change()?;
    let handle = open_session(app, caller, id).await?;
    let before = handle.head();
    let done = handle.remove_prompt(PromptId::new(prompt), caller.sender()).await;
    done.map_err(|error| fault_from_failed_call(app, handle.id(), &error))?;
    note_act(app, caller, &handle, before);
    Ok(QueueChanged { ok: true, prompt_id: prompt.to_owned() })
}
