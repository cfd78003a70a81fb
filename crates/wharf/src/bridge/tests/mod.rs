//! The state machine without any IO: lines and frames in, lines and frames out.

mod asking;
mod meta_options;
mod passing;
mod reconnect;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{AcpHostFacts, Bridge, BridgeOptions};
use crate::stdio_pump::{BridgeStep, DisconnectCause, StdioBridge};

/// A bridge between a client and a host that are played by the test.
struct Stage {
    bridge: Bridge,
    host: u32,
    events: u64,
}

/// The texts of both ways.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    client: Vec<String>,
    host: Vec<String>,
}

impl Seen {
    fn nothing(&self) -> bool {
        self.client.is_empty() && self.host.is_empty()
    }

    fn to_host(&self, at: usize) -> Value {
        serde_json::from_str(&self.host[at]).unwrap()
    }

    fn to_client(&self, at: usize) -> Value {
        serde_json::from_str(&self.client[at]).unwrap()
    }
}

const S: &str = "sess_1";

impl Stage {
    fn new() -> Self {
        Self::with(None)
    }

    /// Connected, and nothing was said yet.
    fn with(session: Option<&str>) -> Self {
        let options = BridgeOptions {
            name: "me".to_owned(),
            session: session.map(ToOwned::to_owned),
            cwd: None,
        };
        let mut stage = Self { bridge: Bridge::new(options), host: 1, events: 0 };
        assert!(stage.connect().nothing());
        stage
    }

    /// With a session that the client has made.
    fn opened() -> Self {
        let mut stage = Self::new();
        stage.line(
            &json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {} }).to_string(),
        );
        stage.frame(r#"{"jsonrpc":"2.0","id":0,"result":{}}"#);
        stage.line(r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/"}}"#);
        stage.frame(r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"sess_1"}}"#);
        stage
    }

    fn line(&mut self, line: &str) -> Seen {
        seen(self.bridge.handle_line(Bytes::copy_from_slice(line.as_bytes())))
    }

    fn frame(&mut self, frame: &str) -> Seen {
        seen(self.bridge.handle_host_frame(Bytes::copy_from_slice(frame.as_bytes())))
    }

    /// A chunk of the agent with the next event id.
    fn chunk(&mut self, text: &str) -> Seen {
        self.events += 1;
        let event = self.events;
        self.chunk_of(text, event)
    }

    fn chunk_of(&mut self, text: &str, event: u64) -> Seen {
        let meta = format!(r#""_meta":{{"wharf":{{"eventId":"3-{event}"}}}},"#);
        self.frame(&update(
            &meta,
            &format!(r#""sessionUpdate":"agent_message_chunk","content":"{text}""#),
        ))
    }

    fn prompt(&mut self, id: u64, text: &str) -> Seen {
        let prompt = format!(r#"[{{"type":"text","text":"{text}"}}]"#);
        self.line(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{{"sessionId":"{S}","prompt":{prompt}}}}}"#
        ))
    }

    fn connect(&mut self) -> Seen {
        seen(
            self.bridge
                .handle_connected(AcpHostFacts { pid: Some(self.host), ..AcpHostFacts::default() }),
        )
    }

    fn lose(&mut self) -> Seen {
        seen(self.bridge.handle_disconnected(DisconnectCause::ConnectionLost))
    }

    /// Another host comes up, and is greeted.
    fn restart(&mut self) -> Seen {
        self.host += 1;
        self.reconnect()
    }

    /// Loses the connection, connects again, and returns the messages that follow the answer to
    /// `initialize`.
    fn reconnect(&mut self) -> Seen {
        self.lose();
        let greeting = self.connect();
        assert_eq!(greeting.host.len(), 1, "{greeting:?}");
        let id = greeting.to_host(0)["id"].to_string();
        self.frame(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#))
    }

    /// Answers the attach that was sent.
    fn attached(&mut self, attach: &Seen) -> Seen {
        let id = attach.to_host(0)["id"].to_string();
        self.frame(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"sessionId":"{S}","historyPolicy":"after_event","historyDelivery":"stream"}}}}"#
        ))
    }
}

fn update(meta: &str, body: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{{meta}"sessionId":"{S}","update":{{{body}}}}}}}"#
    )
}

fn seen(step: BridgeStep) -> Seen {
    let text = |frames: Vec<Bytes>| {
        frames.iter().map(|frame| String::from_utf8_lossy(frame).into_owned()).collect()
    };
    Seen { client: text(step.to_client), host: text(step.to_host) }
}
