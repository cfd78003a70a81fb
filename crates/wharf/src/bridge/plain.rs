//! What `session/attach` adds to a session's updates (rule 4.5), made plain again for a client that never attached.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use wharf_host::frame;

use super::followed::Followed;

#[derive(Deserialize)]
struct Update<'a> {
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    update: Body<'a>,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(rename = "sessionUpdate")]
    tag: Option<String>,
    /// The host writes the tag twice; an agent's own update of that name does not.
    #[serde(rename = "type")]
    second_tag: Option<String>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: Option<Vec<&'a RawValue>>,
}

/// What an update of a kind that ACP does not have comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Plain {
    /// It is not of the host's making.
    AsItIs,
    Nothing,
    /// A prompt of someone else, as the standard updates that show a user's message.
    Prompt(Vec<Bytes>),
}

/// The update as a client sees it that did not attach.
pub(super) fn plain(frame: &[u8], session: &str, followed: &Followed) -> Plain {
    let Some(Update { params: Params { update } }) = frame::peek::<Update<'_>>(frame) else { return Plain::AsItIs };
    if update.tag.is_none() || update.tag != update.second_tag {
        return Plain::AsItIs;
    }
    match update.tag.as_deref().unwrap_or_default() {
        "turn_complete" | "permission_resolved" | "client_connected" | "client_disconnected" => Plain::Nothing,
        "prompt_received" => {
            let blocks = update.prompt.unwrap_or_default();
            let whole: Vec<Value> = blocks.iter().filter_map(|block| serde_json::from_str(block.get()).ok()).collect();
            if followed.is_own_prompt(&whole.into()) {
                return Plain::Nothing;
            }
            Plain::Prompt(blocks.iter().map(|block| user_message(session, block.get())).collect())
        }
        _ => Plain::AsItIs,
    }
}

/// Is this `user_message_chunk` the host's way to show a prompt, and is that one the client's own?
pub(super) fn is_own_prompt(frame: &[u8], session: &str, followed: &Followed) -> bool {
    let update = frame::peek::<Update<'_>>(frame).map(|message| message.params.update);
    let Some(content) = update.and_then(|update| update.content) else { return false };
    // An agent's echo of a prompt is not written like that.
    frame == user_message(session, content.get()) && followed.is_own_block(content.get())
}

fn user_message(session: &str, block: &str) -> Bytes {
    let session = Value::from(session);
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":{session},"update":{{"sessionUpdate":"user_message_chunk","content":{block}}}}}}}"#
    )
    .into()
}
