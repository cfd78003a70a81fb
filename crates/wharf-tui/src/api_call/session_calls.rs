//! Requests that change a session or its turn.

use serde_json::Value;
use wharf_api::{AnswerAction, AnswerArgs, Content, InterruptArgs, PromptArgs, SeenArgs};

use super::{ApiCall, ApiMethod, join_path};

/// Sends a prompt, which waits in the queue while a turn runs.
pub(crate) fn send_prompt(session: &str, text: &str, key: &str) -> ApiCall {
    let body = PromptArgs { prompt: Content::from_text(text), queue: Some(true), interrupt: None };
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
