//! The prompts that wait (rule 7.3).

use wharf_api::{QueueChange, QueueChanged, QueueEntry, QueueList};
use wharf_host::core::{PromptId, QueuedPrompt, Raw};
use wharf_host::{SessionHandle, timestamp};
use wharf_json::Json;

use super::faults::{fault_from_failed_call, invalid_params};
use super::prompt::PromptBlocks;
use super::{Caller, open_session};
use crate::App;
use crate::fault::Fault;

/// How much of a prompt a listing shows.
const MAX_SHOWN_BYTES: usize = 4096;

fn to_queue_entry(position: usize, queued: &QueuedPrompt) -> QueueEntry {
    let mut text = prompt_text(&queued.frame);
    if text.len() > MAX_SHOWN_BYTES {
        text.truncate(text.floor_char_boundary(MAX_SHOWN_BYTES));
        text.push('…');
    }
    let sender = queued.sender.name.as_deref().unwrap_or(queued.sender.client.as_str());
    QueueEntry {
        prompt_id: queued.prompt.to_string(),
        position,
        text,
        sender: Some(sender.to_owned()),
        accepted_at: Some(timestamp(queued.accepted_at)),
    }
}

/// The text of a prompt, with a word for each part that is none.
pub(crate) fn prompt_text(frame: &Raw) -> String {
    let prompt = Json::parse(frame.bytes()).and_then(|frame| frame.at(&["params", "prompt"]));
    let parts = prompt.map(|prompt| prompt.into_iter().flat_map(Json::items).map(block_text).collect::<Vec<_>>());
    parts.map_or_else(|error| format!("[unreadable] {error}"), |parts| parts.join("\n"))
}

fn block_text(block: Json<'_>) -> String {
    match (block.text_at(&["text"]), block.text_at(&["type"])) {
        (Ok(Some(text)), _) => text.into_owned(),
        (Ok(None), Ok(kind)) => format!("[{}]", kind.as_deref().unwrap_or("content")),
        (Err(error), _) | (_, Err(error)) => format!("[unreadable] {error}"),
    }
}

/// Lists the prompts that wait.
pub(crate) async fn list_queue(app: &App, who: &Caller, id: &str) -> Result<QueueList, Fault> {
    let handle = open_session(app, who, id).await?;
    let waiting = handle.queue().await.map_err(|error| fault_from_failed_call(app, handle.id(), &error))?;
    Ok(QueueList {
        queue: waiting.iter().enumerate().map(|(position, queued)| to_queue_entry(position, queued)).collect(),
    })
}

/// Changes what a waiting prompt says, its place, or both.
pub(crate) async fn change_queued(
    app: &App,
    who: &Caller,
    id: &str,
    prompt: &str,
    change: QueueChange,
) -> Result<QueueChanged, Fault> {
    who.may_change()?;
    if change.prompt.is_none() && change.position.is_none() {
        return Err(invalid_params("nothing to change: send prompt, position or both"));
    }
    let handle = open_session(app, who, id).await?;
    let refused = |handle: &SessionHandle, error| fault_from_failed_call(app, handle.id(), &error);
    let waiting = PromptId::new(prompt);
    if let Some(content) = change.prompt {
        let frame = PromptBlocks::from_content(&content)?.to_request(id)?;
        let done = handle.update_prompt(waiting.clone(), who.sender(), frame).await;
        done.map_err(|error| refused(&handle, error))?;
    }
    if let Some(position) = change.position {
        let done = handle.move_prompt(waiting, who.sender(), position).await;
        done.map_err(|error| refused(&handle, error))?;
    }
    Ok(QueueChanged { ok: true, prompt_id: prompt.to_owned() })
}

/// Takes a waiting prompt out of the queue.
pub(crate) async fn remove_queued(app: &App, who: &Caller, id: &str, prompt: &str) -> Result<QueueChanged, Fault> {
    who.may_change()?;
    let handle = open_session(app, who, id).await?;
    let done = handle.remove_prompt(PromptId::new(prompt), who.sender()).await;
    done.map_err(|error| fault_from_failed_call(app, handle.id(), &error))?;
    Ok(QueueChanged { ok: true, prompt_id: prompt.to_owned() })
}
