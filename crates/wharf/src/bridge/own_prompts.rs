//! Recognises the client's own prompts among the updates of the host. After a reconnect the host
//! shows them like prompts of other clients, since it does not know who sent them.

use serde::Deserialize;
use wharf_acp::Payload;
use wharf_json::Json;

use super::followed_session::FollowedSession;

#[derive(Deserialize)]
struct Body<'a> {
    /// The host writes the tag twice. An agent's own update of that name has it once.
    #[serde(rename = "type")]
    second_tag: Option<String>,
    #[serde(borrow)]
    content: Option<Json<'a>>,
    #[serde(borrow)]
    prompt: Option<Json<'a>>,
}

/// Returns true if this `prompt_received` is about a prompt of the client.
pub(super) fn is_own_prompt(frame: &[u8], followed: &FollowedSession) -> bool {
    // The host's own frames are readable.
    let Ok(payload) = Payload::open_bytes(frame) else { return false };
    let Ok(tag) = payload.tag() else { return false };
    let Ok(update) = payload.read::<Body<'_>>() else { return false };
    tag.as_deref() == Some("prompt_received")
        && tag.as_deref() == update.second_tag.as_deref()
        && update.prompt.is_some_and(|prompt| followed.is_own_prompt(&prompt.to_value()))
}

/// Returns true if the host made this `user_message_chunk` from a prompt of the client.
pub(super) fn is_own_message(frame: &[u8], session: &str, followed: &FollowedSession) -> bool {
    let update = Payload::open_bytes(frame).and_then(Payload::read::<Body<'_>>).ok();
    let Some(content) = update.and_then(|update| update.content) else { return false };
    // An agent's echo of a prompt has other bytes.
    *frame == wharf_acp::user_message_chunk(session, content.raw())
        && followed.is_own_block(content.raw())
}
