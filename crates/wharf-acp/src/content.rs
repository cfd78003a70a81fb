//! Terminals in the content of tool calls, and the text that replaces them (rule 3.8).

use serde_json::{Value, json};

/// Returns false if the frame shows no terminal. A cheap test that may be true for others.
pub fn mentions_terminal(frame: &[u8]) -> bool {
    memchr::memmem::find(frame, br#""terminal"#).is_some()
}

/// Returns the text that replaces a terminal whose output is not known.
pub fn no_output_kept(terminal: &str) -> String {
    format!("[terminal {terminal}: no output kept]")
}

/// Makes an item of a tool call's content from text.
pub fn text_item(text: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": text } })
}

/// Returns the id of the terminal that an item of a tool call's content shows.
pub fn terminal(item: &Value) -> Option<&str> {
    item["terminalId"].as_str().filter(|_| item["type"] == "terminal")
}
