//! Prompts of the client's own that the host shows as another's: after a reconnect it does not know whose they are.

use serde::Deserialize;
use wharf_host::frame;
use wharf_json::Json;

use super::followed::Followed;

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(rename = "sessionUpdate")]
    tag: Option<String>,
    /// The host writes the tag twice; an agent's own update of that name does not.
    #[serde(rename = "type")]
    second_tag: Option<String>,
    #[serde(borrow)]
    content: Option<Json<'a>>,
    #[serde(borrow)]
    prompt: Option<Json<'a>>,
}

/// Is this `prompt_received` about a prompt of the client?
pub(super) fn is_own_prompt(frame: &[u8], followed: &Followed) -> bool {
    // An unreadable frame is not one that the host made of a prompt.
    let Ok(update) = frame::peek_update::<Body<'_>>(frame) else { return false };
    update.tag.as_deref() == Some("prompt_received")
        && update.tag == update.second_tag
        && update.prompt.is_some_and(|prompt| followed.is_own_prompt(&prompt.to_value()))
}

/// Is this `user_message_chunk` the host's way to show a prompt, and is that one the client's own?
pub(super) fn is_own_message(frame: &[u8], session: &str, followed: &Followed) -> bool {
    let update = frame::peek_update::<Body<'_>>(frame).ok();
    let Some(content) = update.and_then(|update| update.content) else { return false };
    // An agent's echo of a prompt is not written like that.
    *frame == frame::user_message_chunk(session, content.raw()) && followed.is_own_block(content.raw())
}
