//! One end of an ACP connection: whole messages in, whole messages out.

use anyhow::{Result, bail};
use memchr::memmem;
use serde_json::{Value, json};

/// A transport. `next` blocks up to the transport's own time limit.
pub(super) trait Peer {
    fn send(&mut self, message: &str) -> Result<()>;
    fn next(&mut self) -> Result<&[u8]>;
}

/// More messages than any set-up step of an empty session needs.
const MAX_SETUP_MESSAGES: usize = 10_000;

/// The ids of the benchmark's requests: one of each kind per connection, except for the last.
const INITIALIZE_ID: u32 = 1;
const OPEN_ID: u32 = 2;
const PROMPT_ID: u32 = 3;
const FIRST_STATUS_ID: u32 = 1_000;

pub(super) fn initialize_peer(peer: &mut impl Peer) -> Result<()> {
    peer.send(&initialize_request())?;
    await_answer(peer, INITIALIZE_ID, "initialize")?;
    Ok(())
}

pub(super) fn initialize_request() -> String {
    let params = json!({"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": {"name": "bench", "version": "0"}});
    format_request(INITIALIZE_ID, "initialize", params)
}

/// Returns true for a successful answer to [`initialize_request`].
pub(super) fn is_initialized(line: &[u8]) -> bool {
    let answer: Value = serde_json::from_slice(line).unwrap_or_default();
    answer["id"] == INITIALIZE_ID && answer["result"]["protocolVersion"] == 1
}

/// Requests the status of a session; `number` counts the requests.
pub(super) fn request_status(peer: &mut impl Peer, number: u32, session: &str) -> Result<Value> {
    call_method(peer, FIRST_STATUS_ID + number, "session/status", json!({"sessionId": session}))
}

/// Starts a session and returns its id.
pub(super) fn open_session(peer: &mut impl Peer, cwd: &str) -> Result<String> {
    let result = call_method(peer, OPEN_ID, "session/new", json!({"cwd": cwd, "mcpServers": []}))?;
    match result["sessionId"].as_str() {
        Some(id) => Ok(id.to_owned()),
        None => bail!("session/new answered without a sessionId: {result}"),
    }
}

/// Joins a session that another connection has opened.
pub(super) fn join_session(peer: &mut impl Peer, session: &str, cwd: &str) -> Result<()> {
    call_method(
        peer,
        OPEN_ID,
        "session/load",
        json!({"sessionId": session, "cwd": cwd, "mcpServers": []}),
    )?;
    // Otherwise the first updates are held back for a client that may not know the session yet.
    let ready =
        json!({"jsonrpc": "2.0", "method": "session/ready", "params": {"sessionId": session}});
    peer.send(&ready.to_string())
}

/// Sends a prompt, whose answer [`await_turn_end`] reads.
pub(super) fn send_prompt(peer: &mut impl Peer, session: &str, text: &str) -> Result<()> {
    let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
    peer.send(&format_request(PROMPT_ID, "session/prompt", params))
}

pub(super) fn await_turn_end(peer: &mut impl Peer) -> Result<()> {
    await_answer(peer, PROMPT_ID, "session/prompt")?;
    Ok(())
}

/// Returns true for the messages of a burst or a tick: other messages are not counted.
pub(super) fn is_chunk(message: &[u8]) -> bool {
    memmem::find(message, b"\"agent_message_chunk\"").is_some()
}

/// Returns when the agent sent this tick, in nanoseconds since 1970: the first number of 19 digits
/// in its text.
pub(super) fn sent_at(message: &[u8]) -> Option<u64> {
    let text = &message[memmem::find(message, b"\"text\":\"")?..];
    let number = text.split(|byte| !byte.is_ascii_digit()).find(|digits| digits.len() == 19)?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

fn call_method(peer: &mut impl Peer, id: u32, method: &str, params: Value) -> Result<Value> {
    peer.send(&format_request(id, method, params))?;
    await_answer(peer, id, method)
}

fn format_request(id: u32, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn await_answer(peer: &mut impl Peer, id: u32, method: &str) -> Result<Value> {
    for _ in 0..MAX_SETUP_MESSAGES {
        let mut message: Value = serde_json::from_slice(peer.next()?)?;
        if message["id"] != id || message.get("method").is_some() {
            continue;
        }
        if let Some(error) = message.get("error") {
            bail!("{method} was refused: {error}");
        }
        return Ok(message["result"].take());
    }
    bail!("{method} was not answered within {MAX_SETUP_MESSAGES} messages")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Script {
        sent: Vec<String>,
        answers: Vec<&'static str>,
        current: Vec<u8>,
    }

    impl Peer for Script {
        fn send(&mut self, message: &str) -> Result<()> {
            self.sent.push(message.to_owned());
            Ok(())
        }

        fn next(&mut self) -> Result<&[u8]> {
            anyhow::ensure!(!self.answers.is_empty(), "closed");
            self.current = self.answers.remove(0).as_bytes().to_vec();
            Ok(&self.current)
        }
    }

    #[test]
    fn an_answer_is_told_from_notifications_and_requests_of_the_other_side() {
        let answers = vec![
            r#"{"jsonrpc":"2.0","method":"session/update","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"fs/read_text_file","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}"#,
        ];
        let mut peer = Script { sent: Vec::new(), answers, current: Vec::new() };
        assert_eq!(open_session(&mut peer, "/tmp").unwrap(), "s1");
        assert!(peer.sent[0].contains("session/new"));
    }

    #[test]
    fn a_refusal_is_an_error_with_its_text() {
        let answers = vec![r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no agent"}}"#];
        let mut peer = Script { sent: Vec::new(), answers, current: Vec::new() };
        assert!(initialize_peer(&mut peer).unwrap_err().to_string().contains("no agent"));
    }

    #[test]
    fn a_tick_tells_when_it_was_sent() {
        let tick =
            br#"{"params":{"sessionId":"12","update":{"content":{"type":"text","text":"7 1795000000123456789 x"}}}}"#;
        assert_eq!(sent_at(tick), Some(1_795_000_000_123_456_789));
        assert_eq!(sent_at(br#"{"text":"12 ..."}"#), None);
    }
}
