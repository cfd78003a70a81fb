//! Terminals in tool calls, for clients that cannot show them: only the client that made a terminal
//! can (rule 3.8).

use bytes::Bytes;
use serde_json::Value;
use wharf_acp::Payload;
use wharf_acp::content::{mentions_terminal, no_output_kept, terminal, text_item};
use wharf_host::core::UpdateKind;
use wharf_json::{Json, ReadError};

/// Returns true if this update might show a terminal.
pub(super) fn may_show(kind: UpdateKind, frame: &[u8]) -> bool {
    matches!(kind, UpdateKind::ToolCall | UpdateKind::ToolCallUpdate) && mentions_terminal(frame)
}

/// Returns the frame as a client sees it that has made the terminals for which `own` is true;
/// `None` if the client needs no part of it.
pub(super) fn for_client(frame: &Bytes, own: impl Fn(&str) -> bool) -> Option<Bytes> {
    let shown = match shown_call(frame) {
        Ok(Some(shown)) => shown,
        Ok(None) => return Some(frame.clone()),
        Err(error) => {
            tracing::warn!(%error, "a tool call is shown as it came: it cannot be read");
            return Some(frame.clone());
        }
    };
    // The text that Wharf tells in place of terminals is not for the client that shows them.
    if instead_of(&shown.meta).any(&own) {
        return None;
    }
    let mut texts = Vec::new();
    for item in shown.content.into_iter().flat_map(Json::items) {
        let value = item.to_value();
        if let Some(id) = terminal(&value).filter(|id| !own(id) && !is_agents_own(id, &shown.meta))
        {
            texts.extend(
                item.span_in(frame)
                    .map(|span| (span, text_item(&no_output_kept(id)).to_string())),
            );
        }
    }
    if texts.is_empty() {
        return Some(frame.clone());
    }
    let mut parts: Vec<(wharf_acp::Span, &[u8])> =
        texts.iter().map(|(span, text)| (span.clone(), text.as_bytes())).collect();
    Some(wharf_acp::splice(frame, &mut parts).into())
}

/// The tool call of an update, or of a permission request.
struct ShownCall<'a> {
    content: Option<Json<'a>>,
    meta: Value,
}

fn shown_call(frame: &[u8]) -> Result<Option<ShownCall<'_>>, ReadError> {
    let call = match Payload::open_bytes(frame) {
        Ok(update) => Some(update.close()),
        Err(_) => Json::parse(frame)?.at(&["params", "toolCall"])?,
    };
    let Some(call) = call.filter(|call| call.is_object()) else { return Ok(None) };
    let meta = call.member("_meta")?.map(Json::to_value).unwrap_or_default();
    Ok(Some(ShownCall { content: call.member("content")?, meta }))
}

/// The terminals whose text an update tells.
fn instead_of(meta: &Value) -> impl Iterator<Item = &str> {
    meta["wharf"]["terminals"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// Returns true if the agent runs the terminal itself and tells its output in `_meta`, as codex
/// does: no client made it, and every client can show it.
fn is_agents_own(id: &str, meta: &Value) -> bool {
    meta["terminal_info"]["terminal_id"] == id
}

/// The same for a tool call of a history.
pub(super) fn as_text(tool_call: &mut Value) {
    let meta = tool_call.get("_meta").cloned().unwrap_or_default();
    // Not by index: that would put a `content` of null into an update that has none.
    for item in tool_call.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten() {
        let lost = terminal(item).filter(|id| !is_agents_own(id, &meta));
        if let Some(text) = lost.map(|id| text_item(&no_output_kept(id))) {
            *item = text;
        }
    }
    if instead_of(&tool_call["_meta"]).next().is_some()
        && let Some(members) = tool_call.as_object_mut()
    {
        members.remove("_meta");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_text_to_all_but_the_one_that_made_it() {
        let one = r#"{ "type":"terminal", "terminalId":"t1" }"#;
        let two = r#"{"terminalId":"t2","type":"terminal"}"#;
        let diff = r#"{"type":"diff","newText":"\"terminal","n":1.10}"#;
        let text = |id: &str| text_item(&no_output_kept(id)).to_string();
        for (before, after) in
            [(r#""update":{"toolCallId":"c","#, "}"), (r#""toolCall":{"#, r#"},"options":[]"#)]
        {
            let frame = |items: &[&str]| {
                Bytes::from(format!(
                    r#"{{"params":{{{before}"content":[ {} ]{after}}}}}"#,
                    items.join(" , ")
                ))
            };
            let whole = frame(&[one, diff, two]);
            assert_eq!(
                for_client(&whole, |_| true).unwrap().as_ptr(),
                whole.as_ptr(),
                "the very bytes"
            );
            assert_eq!(for_client(&whole, |id| id == "t1"), Some(frame(&[one, diff, &text("t2")])));
            assert_eq!(
                for_client(&whole, |_| false),
                Some(frame(&[&text("t1"), diff, &text("t2")]))
            );
        }
    }

    #[test]
    fn a_terminal_that_the_agent_runs_itself_is_shown_to_everyone() {
        let call = r#"{"content":[{"type":"terminal","terminalId":"t"}],"_meta":{"terminal_info":{"terminal_id":"t"}}}"#;
        let frame = Bytes::from(format!(r#"{{"params":{{"update":{call}}}}}"#));
        assert_eq!(for_client(&frame, |_| false), Some(frame.clone()));
        let mut folded: Value = Json::parse(call.as_bytes()).unwrap().to_value();
        as_text(&mut folded);
        assert_eq!(folded["content"][0]["type"], "terminal");
    }

    #[test]
    fn text_in_place_of_a_terminal_is_not_for_the_one_that_shows_it() {
        let told = r#"{"params":{"update":{"toolCallId":"c","content":[],"_meta":{"wharf":{"terminals":["t1"]}}}}}"#;
        let told = Bytes::from_static(told.as_bytes());
        assert_eq!(for_client(&told, |id| id == "t1"), None);
        assert_eq!(for_client(&told, |_| false), Some(told.clone()));
    }
}
