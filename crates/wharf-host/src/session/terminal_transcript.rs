//! Keeps the text of terminals that tool calls show. One client at most can show a terminal, and
//! the log cannot. So the log gets the terminal's output as text when the terminal ends (rule 3.8).

use std::borrow::Cow;
use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::{Value, json};
use wharf_acp::Payload;
use wharf_acp::content::{mentions_terminal, no_output_kept, terminal, text_item};
use wharf_core::{AgentInput, Input, Raw, UpdateKind};
use wharf_json::rpc;
use wharf_json::{Json, ReadError};

use super::journal::Journal;
use super::live_output::ShownTerminal;
use crate::agent_services::FilesAndTerminals;

/// Tool calls and terminals that are followed: more than an agent has at work at a time.
const MOST: usize = 64;
/// The end of a terminal's text that is kept. A person reads the last screens of it; the log is to
/// stay small.
const TEXT: usize = 16 << 10;
/// A tool call that shows more than this besides its terminals is not repeated with their text.
const CONTENT: usize = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct TerminalTranscript {
    calls: VecDeque<Call>,
    /// The output of terminals, by their ids.
    texts: VecDeque<(String, String)>,
}

/// A tool call with terminals in its content.
#[derive(Debug)]
struct Call {
    id: String,
    content: Vec<Value>,
    terminals: Vec<String>,
    /// The content that the log has with text in it.
    told: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolCall<'a> {
    #[serde(borrow)]
    tool_call_id: Cow<'a, str>,
    #[serde(borrow)]
    content: Option<Json<'a>>,
}

impl TerminalTranscript {
    /// A tool call was shown. Returns true if it shows a terminal whose text is known.
    fn shown(&mut self, frame: &[u8]) -> Result<bool, ReadError> {
        if self.calls.is_empty() && !mentions_terminal(frame) {
            return Ok(false);
        }
        let update = Payload::open_bytes(frame)?.read::<ToolCall<'_>>()?;
        // An update has either the whole content of the tool call or no content.
        let Some(content) = update.content else { return Ok(false) };
        self.calls.retain(|call| call.id != update.tool_call_id);
        if content.raw().len() > CONTENT {
            return Ok(false);
        }
        let items: Vec<Value> = content.items().map(Json::to_value).collect();
        let terminals: Vec<String> =
            items.iter().filter_map(|item| terminal(item).map(str::to_owned)).collect();
        if terminals.is_empty() {
            return Ok(false);
        }
        let known = terminals.iter().any(|terminal| self.text(terminal).is_some());
        push(
            &mut self.calls,
            Call {
                id: update.tool_call_id.into_owned(),
                content: items,
                terminals,
                told: None,
            },
        );
        Ok(known)
    }

    fn text(&self, terminal: &str) -> Option<&str> {
        self.texts.iter().find(|(id, _)| id == terminal).map(|(_, text)| text.as_str())
    }

    /// A terminal has said this so far.
    fn said(&mut self, terminal: &str, text: &str) {
        self.texts.retain(|(id, _)| id != terminal);
        push(&mut self.texts, (terminal.to_owned(), ending(text)));
    }

    /// The tool calls whose terminals have said something that the log does not have, as updates
    /// with text in them.
    fn news(&mut self, session: &str) -> Vec<Raw> {
        let mut news = Vec::new();
        for at in 0..self.calls.len() {
            let call = &self.calls[at];
            if !call.terminals.iter().any(|terminal| self.text(terminal).is_some()) {
                continue;
            }
            let content = self.as_text(call);
            if call.told.as_ref() == Some(&content) {
                continue;
            }
            let update = json!({
                "sessionUpdate": "tool_call_update", "toolCallId": call.id, "content": content,
                "_meta": { "wharf": { "terminals": call.terminals } },
            });
            let params = json!({ "sessionId": session, "update": update });
            news.extend(Raw::new(rpc::notification("session/update", params)));
            self.calls[at].told = Some(content);
        }
        news
    }

    /// Returns the terminals that tool calls show.
    pub(super) fn shown_terminals(&self) -> Vec<ShownTerminal> {
        let of_call = |call: &Call| -> Vec<ShownTerminal> {
            let shown = |terminal: &String| ShownTerminal {
                tool_call: call.id.clone(),
                terminal: terminal.clone(),
            };
            call.terminals.iter().map(shown).collect()
        };
        self.calls.iter().flat_map(of_call).collect()
    }

    /// Takes a tool call that the agent has shown, perhaps with a terminal.
    pub(super) fn take_tool_call(
        &mut self,
        frame: &Raw,
        services: Option<&FilesAndTerminals>,
        journal: &mut Journal,
    ) -> Result<(), ReadError> {
        if self.shown(frame.bytes())? {
            self.tell(None, services, journal);
        }
        Ok(())
    }

    /// Puts the text of terminals into the log, in the tool calls that show them: the text of the
    /// terminal `ended`, or of all terminals.
    pub(super) fn tell(
        &mut self,
        ended: Option<&str>,
        services: Option<&FilesAndTerminals>,
        journal: &mut Journal,
    ) {
        let shown: Vec<String> =
            self.calls.iter().flat_map(|call| call.terminals.clone()).collect();
        let wanted = shown.iter().map(String::as_str).chain(ended);
        for terminal in wanted.filter(|id| ended.is_none_or(|ended| ended == *id)) {
            if let Some(text) =
                services.and_then(|services| services.terminals.output_text(terminal))
            {
                self.said(terminal, &text);
            }
        }
        let news = self.news(journal.state().origin.session.as_str());
        for frame in news {
            let update = UpdateKind::ToolCallUpdate;
            journal.input(
                Input::Agent(AgentInput::Updated { update, frame, title: None, tool: None }),
                None,
            );
        }
    }

    /// Takes the output of a client's terminal on its way to the agent.
    pub(super) fn take_output(&mut self, terminal: &str, answer: &[u8]) {
        // An answer that cannot be read is the agent's to complain about.
        let text = Json::parse(answer).and_then(|answer| answer.text_at(&["result", "output"]));
        if let Ok(Some(text)) = text {
            self.said(terminal, &text);
        }
    }

    fn as_text(&self, call: &Call) -> Value {
        let mut items = call.content.clone();
        for item in &mut items {
            if let Some(id) = terminal(item) {
                let text = self.text(id).map_or_else(|| no_output_kept(id), ToOwned::to_owned);
                *item = text_item(&text);
            }
        }
        items.into()
    }
}

/// Returns the subject of a request of the agent, if that is a terminal that exists.
pub(super) fn terminal_of(request: &[u8]) -> Option<String> {
    let terminal =
        Json::parse(request).and_then(|request| request.text_at(&["params", "terminalId"]));
    terminal.ok().flatten().map(Cow::into_owned)
}

fn push<T>(queue: &mut VecDeque<T>, new: T) {
    if queue.len() >= MOST {
        queue.pop_front();
    }
    queue.push_back(new);
}

/// The last part of a long text, from the beginning of a line.
fn ending(text: &str) -> String {
    if text.is_empty() {
        return "[no output]".to_owned();
    }
    if text.len() <= TEXT {
        return text.to_owned();
    }
    let from = (text.len() - TEXT..text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(text.len());
    let rest = &text[from..];
    let rest = rest.split_once('\n').map_or(rest, |(_, lines)| lines);
    format!("[the beginning is left out]\n{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shows(call: &str, content: &Value) -> Vec<u8> {
        let update =
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": call, "content": content });
        json!({ "method": "session/update", "params": { "update": update } })
            .to_string()
            .into()
    }

    fn contents(news: &[Raw]) -> Vec<Value> {
        let content = |raw: &Raw| {
            serde_json::from_str::<Value>(raw.as_str()).unwrap()["params"]["update"]["content"]
                .take()
        };
        news.iter().map(content).collect()
    }

    #[test]
    fn output_of_a_terminal_is_recorded_once_and_again_when_it_is_shown_again() {
        let mut transcript = TerminalTranscript::default();
        let diff = json!({ "type": "diff", "path": "/x" });
        let content = json!([diff, { "type": "terminal", "terminalId": "a" }, { "type": "terminal", "terminalId": "b" }]);
        assert!(!transcript.shown(&shows("call", &content)).unwrap());
        assert!(transcript.news("s").is_empty());
        transcript.said("a", "hello");
        let told = json!([diff, text_item("hello"), text_item("[terminal b: no output kept]")]);
        assert_eq!(contents(&transcript.news("s")), [told]);
        assert!(transcript.news("s").is_empty());
        transcript.said("b", "");
        let told = json!([diff, text_item("hello"), text_item("[no output]")]);
        assert_eq!(contents(&transcript.news("s")), std::slice::from_ref(&told));
        // A change of its state alone leaves the content as it is.
        assert!(
            !transcript
                .shown(br#"{"params":{"update":{"toolCallId":"call","status":"completed"}}}"#)
                .unwrap()
        );
        assert!(transcript.news("s").is_empty());
        assert!(transcript.shown(&shows("call", &content)).unwrap());
        assert_eq!(contents(&transcript.news("s")), [told]);
        // Something else instead: nobody shows the terminals any more.
        transcript.shown(&shows("call", &json!([diff]))).unwrap();
        transcript.said("a", "more");
        assert!(transcript.news("s").is_empty());
    }

    #[test]
    fn only_the_end_of_a_long_text_is_kept_and_only_so_many_terminals() {
        let mut transcript = TerminalTranscript::default();
        transcript.said("long", &"ä line\n".repeat(10_000));
        let kept = transcript.text("long").unwrap();
        assert!(
            kept.len() < TEXT + 100 && kept.starts_with("[the beginning is left out]\nä line\n"),
            "{}",
            kept.len()
        );
        for number in 0..MOST {
            transcript.said(&number.to_string(), "x");
        }
        assert_eq!(transcript.text("long"), None);
    }
}
