//! Requests that change a session or its turn.

use serde_json::{Value, json};
use wharf_api::{
    AnswerAction, AnswerArgs, Content, ForkArgs, InterruptArgs, MuteArgs, PromptArgs, QueueChange,
    QueueSendArgs, ResumeArgs, SeenArgs, SessionPatch, SettingsChange,
};

use super::{ApiCall, ApiMethod, join_path, percent_encode};

/// When a prompt runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PromptWhen {
    /// In its turn: it waits in the queue while a turn runs.
    InTurn,
    /// At once: the running turn is interrupted.
    Now,
}

/// Returns a text with files that the host keeps as the content of a prompt.
pub(crate) fn prompt_content(text: &str, uploads: &[String]) -> Content {
    if uploads.is_empty() {
        return Content::from_text(text);
    }
    let files = uploads.iter().map(|id| json!({ "type": "upload", "id": id }));
    let blocks: Vec<Value> =
        std::iter::once(json!({ "type": "text", "text": text })).chain(files).collect();
    let json = Value::from(blocks).to_string();
    // A list of blocks always is JSON.
    wharf_json::read_own(json.as_bytes()).unwrap_or_else(|_| Content::from_text(text))
}

/// Sends a prompt.
pub(crate) fn send_prompt(session: &str, prompt: Content, when: PromptWhen, key: &str) -> ApiCall {
    let (queue, interrupt) = match when {
        PromptWhen::InTurn => (Some(true), None),
        PromptWhen::Now => (None, Some(true)),
    };
    let body = PromptArgs { prompt, queue, interrupt };
    let call = ApiCall::post(join_path(&["sessions", session, "prompt"]), &body);
    ApiCall { idempotency_key: Some(key.to_owned()), ..call }
}

/// Ends the running turn; with `force` without waiting for the agent.
pub(crate) fn interrupt_turn(session: &str, force: bool) -> ApiCall {
    let body = InterruptArgs { force: force.then_some(true) };
    ApiCall::post(join_path(&["sessions", session, "interrupt"]), &body)
}

/// Answers a permission.
pub(crate) fn answer_ask(session: &str, ask: u64, option: &str) -> ApiCall {
    let body = AnswerArgs { option_id: Some(option.to_owned()), ..AnswerArgs::default() };
    ApiCall::post(join_path(&["sessions", session, "asks", &ask.to_string()]), &body)
}

/// Answers a form: with its content, or with a refusal.
pub(crate) fn answer_form(session: &str, ask: u64, content: Option<Value>) -> ApiCall {
    let action = if content.is_some() { AnswerAction::Accept } else { AnswerAction::Decline };
    let body = AnswerArgs { action: Some(action), content, ..AnswerArgs::default() };
    ApiCall::post(join_path(&["sessions", session, "asks", &ask.to_string()]), &body)
}

/// Reports that the person has seen the session up to this event.
pub(crate) fn mark_seen(session: &str, up_to: &str) -> ApiCall {
    let body = SeenArgs { up_to: up_to.to_owned() };
    ApiCall::with_body(ApiMethod::Put, join_path(&["sessions", session, "seen"]), &body)
}

/// Changes a waiting prompt: its content, its place, or both.
pub(crate) fn read_queued(session: &str, id: &str) -> ApiCall {
    ApiCall::get(join_path(&["sessions", session, "queue", id]))
}

pub(crate) fn change_queued(
    session: &str,
    id: &str,
    prompt: Option<Content>,
    position: Option<usize>,
) -> ApiCall {
    let path = join_path(&["sessions", session, "queue", id]);
    let keep_attachments = prompt.is_some();
    ApiCall::with_body(ApiMethod::Patch, path, &QueueChange { prompt, keep_attachments, position })
}

/// Takes a waiting prompt out of the queue.
pub(crate) fn remove_queued(session: &str, id: &str) -> ApiCall {
    ApiCall {
        method: ApiMethod::Delete,
        ..ApiCall::get(join_path(&["sessions", session, "queue", id]))
    }
}

/// Sends a waiting prompt now; the running turn is interrupted.
pub(crate) fn send_queued(session: &str, id: &str) -> ApiCall {
    ApiCall::post(join_path(&["sessions", session, "queue", id, "send"]), &QueueSendArgs::default())
}

/// Sets the mode, the model or options.
pub(crate) fn change_settings(session: &str, change: &SettingsChange) -> ApiCall {
    ApiCall::with_body(ApiMethod::Patch, join_path(&["sessions", session, "settings"]), change)
}

/// Changes the title of a session, or moves it into the archive or out of it.
pub(crate) fn change_session(session: &str, patch: &SessionPatch) -> ApiCall {
    ApiCall::with_body(ApiMethod::Patch, join_path(&["sessions", session]), patch)
}

pub(crate) fn mute_session(session: &str, muted: bool) -> ApiCall {
    ApiCall::with_body(
        ApiMethod::Put,
        join_path(&["sessions", session, "mute"]),
        &MuteArgs { muted },
    )
}

pub(crate) fn kill_session(session: &str) -> ApiCall {
    ApiCall::post(join_path(&["sessions", session, "kill"]), &Value::Object(serde_json::Map::new()))
}

pub(crate) fn resume_session(session: &str) -> ApiCall {
    let call = ApiCall::post(join_path(&["sessions", session, "resume"]), &ResumeArgs::default());
    ApiCall { respond_async: true, ..call }
}

/// Copies a session.
pub(crate) fn fork_session(session: &str, key: &str) -> ApiCall {
    let call = ApiCall::post(join_path(&["sessions", session, "fork"]), &ForkArgs::default());
    ApiCall {
        idempotency_key: Some(key.to_owned()),
        respond_async: true,
        ..call
    }
}

/// Finds files of a session for a completion.
pub(crate) fn find_files(session: &str, query: &str, limit: usize) -> ApiCall {
    let path = join_path(&["sessions", session, "files"]);
    ApiCall::get(format!("{path}?limit={limit}&q={}", percent_encode(query)))
}
