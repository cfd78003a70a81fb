//! Terminals in the content of tool calls, and text in their place (rule 3.8).

use serde_json::{Value, json};

/// Might the frame show a terminal? A look that costs little.
pub fn mentions_terminal(frame: &[u8]) -> bool {
    memchr::memmem::find(frame, br#""terminal"#).is_some()
}

/// What stands for a terminal of which there is no text.
pub fn no_output_kept(terminal: &str) -> String {
    format!("[terminal {terminal}: no output kept]")
}

/// A text as an item of a tool call's content.
pub fn text_item(text: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": text } })
}

/// The terminal that an item of a tool call's content shows.
pub fn terminal(item: &Value) -> Option<&str> {
    item["terminalId"].as_str().filter(|_| item["type"] == "terminal")
}
