//! A `wharf acp` of our own: the login speaks ACP through it as an editor does.

use anyhow::Context;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::connect::start_acp_child;
use crate::global::GlobalOptions;

/// The bridge to the agent. It ends with this value; the agent's process without a session ends
/// with it.
#[derive(Debug)]
pub(super) struct AcpChild {
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    _child: Child,
    requests: u64,
}

/// A request that was not answered with a result.
#[derive(Debug)]
pub(super) struct RpcFailure {
    /// The code of the error response; `None` if there was no response.
    pub(super) code: Option<i32>,
    pub(super) message: String,
}

impl RpcFailure {
    fn from_response(error: &Value) -> Self {
        let code = error["code"].as_i64().and_then(|code| i32::try_from(code).ok());
        let message = error["message"]
            .as_str()
            .unwrap_or("the agent answered with an error")
            .to_owned();
        Self { code, message }
    }
}

impl From<anyhow::Error> for RpcFailure {
    fn from(error: anyhow::Error) -> Self {
        Self { code: None, message: format!("{error:#}") }
    }
}

impl AcpChild {
    pub(super) fn start(global: &GlobalOptions, agent: &str) -> anyhow::Result<Self> {
        let command =
            global.own_command(&["acp".to_owned(), "--agent".to_owned(), agent.to_owned()])?;
        let mut child = start_acp_child(&command)?;
        let stdin = child.stdin.take().context("opening the stdin of wharf acp")?;
        let stdout = child.stdout.take().context("opening the stdout of wharf acp")?;
        Ok(Self {
            stdin,
            lines: BufReader::new(stdout).lines(),
            _child: child,
            requests: 0,
        })
    }

    /// Sends `initialize` as a client that can run a login in a terminal, and returns the result.
    pub(super) async fn initialize(&mut self) -> Result<Value, RpcFailure> {
        let capabilities = json!({ "auth": { "terminal": true } });
        let info = json!({ "name": "wharf login", "version": env!("CARGO_PKG_VERSION") });
        let params =
            json!({ "protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": info });
        self.request("initialize", params).await
    }

    /// Has the agent log in by itself, and waits until it has.
    pub(super) async fn authenticate(&mut self, method: &str) -> Result<(), RpcFailure> {
        self.request("authenticate", json!({ "methodId": method })).await.map(drop)
    }

    /// Opens a session in the current directory and deletes it.
    pub(super) async fn open_and_delete_session(&mut self) -> Result<(), RpcFailure> {
        let cwd = std::env::current_dir().context("finding the current directory")?;
        let opened = self.request("session/new", json!({ "cwd": cwd, "mcpServers": [] })).await?;
        let deleted =
            json!({ "sessionId": opened["sessionId"], "_meta": { "wharf": { "force": true } } });
        self.request("session/delete", deleted).await.map(drop)
    }

    async fn request(&mut self, method: &str, params: Value) -> Result<Value, RpcFailure> {
        self.requests += 1;
        let id = self.requests;
        let frame = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let sent = self.stdin.write_all(format!("{frame}\n").as_bytes()).await;
        sent.with_context(|| format!("sending {method}"))?;
        loop {
            let line = self
                .lines
                .next_line()
                .await
                .with_context(|| format!("reading the answer to {method}"))?;
            let line =
                line.with_context(|| format!("wharf acp ended before it answered {method}"))?;
            let answer: Value = wharf_json::read_bytes(line.as_bytes())
                .context("reading a message of wharf acp")?;
            if answer["id"] != id || answer.get("method").is_some() {
                continue;
            }
            return match answer.get("error") {
                Some(error) => Err(RpcFailure::from_response(error)),
                None => Ok(answer["result"].clone()),
            };
        }
    }
}
