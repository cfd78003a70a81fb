//! An MCP client over either transport: Streamable HTTP, or lines to `wharf mcp`.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use wharf_testkit::agent_pipe::AgentPipe;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::{RestAnswer, RestClient};

use crate::wharf_binary;

pub(crate) enum Mcp {
    Http(RestClient),
    Stdio(Box<AgentPipe>),
}

/// The answer to a request, with the notifications before it.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) notes: Vec<Value>,
    pub(crate) answer: Value,
}

impl Mcp {
    /// Connects over both transports to this host.
    pub(crate) fn over_both(host: &TestHost) -> Result<[Self; 2]> {
        Ok([Self::Http(RestClient::new(host)), Self::over_stdio(host)?])
    }

    /// Starts `wharf mcp` and completes the handshake.
    pub(crate) fn over_stdio(host: &TestHost) -> Result<Self> {
        let state_dir = host.state_dir();
        let pipe = AgentPipe::start(&wharf_binary(), &["mcp", "--no-start"], &[("WHARF_STATE_DIR", &state_dir)])?;
        Ok(Self::Stdio(Box::new(initialize_client(pipe)?)))
    }

    pub(crate) async fn call_method(&mut self, method: &str, params: Value) -> Result<Exchange> {
        match self {
            Self::Http(http) => {
                let message = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
                let answer = post_message(http, &message).await?;
                ensure!(answer.status == 200, "{answer:?}");
                let events = answer.body.lines().filter_map(|line| line.strip_prefix("data: "));
                let mut events = events.map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
                let answer = events.pop().context("no event")?;
                Ok(Exchange { notes: events, answer })
            }
            Self::Stdio(pipe) => {
                let from = pipe.received.len();
                let id = pipe.start_request(method, params)?;
                let answer = pipe.wait_response(id)?;
                let notes = &pipe.received[from..pipe.received.len() - 1];
                Ok(Exchange {
                    notes: notes.iter().filter_map(|line| serde_json::from_slice(line).ok()).collect(),
                    answer,
                })
            }
        }
    }

    /// Returns the result of a tool, success or error.
    pub(crate) async fn call_for_result(&mut self, tool: &str, arguments: Value) -> Result<Value> {
        let mut answer = self.call_method("tools/call", json!({ "name": tool, "arguments": arguments })).await?.answer;
        match answer.get("error") {
            Some(error) => bail!("{tool}: {error}"),
            None => Ok(answer["result"].take()),
        }
    }

    /// Calls a tool that must succeed and returns its structured result.
    pub(crate) async fn call_tool(&mut self, tool: &str, arguments: Value) -> Result<Value> {
        let mut result = self.call_for_result(tool, arguments).await?;
        ensure!(result["isError"] != true, "{tool}: {result}");
        Ok(result["structuredContent"].take())
    }

    /// Returns the code and the message with which a tool refuses.
    pub(crate) async fn call_for_refusal(&mut self, tool: &str, arguments: Value) -> Result<(String, String)> {
        let result = self.call_for_result(tool, arguments).await?;
        ensure!(
            result["isError"] == true && result.get("structuredContent").is_none(),
            "{tool} did not refuse: {result}"
        );
        let problem: Value = serde_json::from_str(result["content"][0]["text"].as_str().context("no text")?)?;
        let word = |member: &str| problem[member].as_str().unwrap_or_default().to_owned();
        Ok((word("code"), word("detail")))
    }
}

/// Sends `initialize` and returns the client.
pub(crate) fn initialize_client(mut pipe: AgentPipe) -> Result<AgentPipe> {
    let client = json!({ "name": "wharf-testkit", "version": "1" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let hello = pipe.call_method("initialize", params)?;
    ensure!(hello["serverInfo"]["name"] == "wharf" && hello["capabilities"]["tools"].is_object(), "{hello}");
    pipe.send_notification("notifications/initialized", json!({}))?;
    Ok(pipe)
}

pub(crate) async fn post_message(http: &RestClient, message: &Value) -> Result<RestAnswer> {
    let headers = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    http.send_to_end("POST", "/mcp", &headers, &message.to_string()).await
}
