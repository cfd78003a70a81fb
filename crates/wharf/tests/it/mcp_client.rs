//! An MCP client over either transport: Streamable HTTP, or lines to `wharf mcp`. It holds every
//! answer of a tool against the schema that the tool lists.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};
use jsonschema::Validator;
use serde_json::{Value, json};
use wharf_testkit::agent_pipe::AgentPipe;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::{RestAnswer, RestClient};

use crate::wharf_binary;

pub(crate) struct Mcp {
    pub(crate) transport: McpTransport,
    /// By name of the tool; `None` until the tools were listed.
    output_schemas: Option<HashMap<String, Validator>>,
}

pub(crate) enum McpTransport {
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
        Ok([Self::over_http(RestClient::new(host)), Self::over_stdio(host)?])
    }

    pub(crate) fn over_http(http: RestClient) -> Self {
        Self { transport: McpTransport::Http(http), output_schemas: None }
    }

    /// Starts `wharf mcp` and completes the handshake.
    pub(crate) fn over_stdio(host: &TestHost) -> Result<Self> {
        let state_dir = host.state_dir();
        let pipe = AgentPipe::start(&wharf_binary(), &["mcp", "--no-start"], &[("WHARF_STATE_DIR", &state_dir)])?;
        let transport = McpTransport::Stdio(Box::new(initialize_client(pipe)?));
        Ok(Self { transport, output_schemas: None })
    }

    pub(crate) async fn call_method(&mut self, method: &str, params: Value) -> Result<Exchange> {
        match &mut self.transport {
            McpTransport::Http(http) => {
                let message = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
                let answer = post_message(http, &message).await?;
                ensure!(answer.status == 200, "{answer:?}");
                let events = answer.body.lines().filter_map(|line| line.strip_prefix("data: "));
                let mut events = events.map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
                let answer = events.pop().context("no event")?;
                Ok(Exchange { notes: events, answer })
            }
            McpTransport::Stdio(pipe) => {
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
        if let Some(error) = answer.get("error") {
            bail!("{tool}: {error}");
        }
        let result = answer["result"].take();
        self.check_against_schema(tool, &result).await?;
        Ok(result)
    }

    /// Fails if a tool's answer is not as its output schema says. An error has no structured content.
    async fn check_against_schema(&mut self, tool: &str, result: &Value) -> Result<()> {
        if result["isError"] == true {
            return Ok(());
        }
        if self.output_schemas.is_none() {
            self.output_schemas = Some(self.read_output_schemas().await?);
        }
        let schemas = self.output_schemas.as_ref().context("no schemas")?;
        let schema = schemas.get(find_listed_name(tool)).with_context(|| format!("{tool} has no output schema"))?;
        let answer = result.get("structuredContent").with_context(|| format!("{tool} has no structured content"))?;
        let faults: Vec<String> =
            schema.iter_errors(answer).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
        ensure!(faults.is_empty(), "{tool} answers what its output schema forbids: {faults:#?}");
        Ok(())
    }

    async fn read_output_schemas(&mut self) -> Result<HashMap<String, Validator>> {
        let listed = self.call_method("tools/list", json!({})).await?.answer;
        let tools = listed["result"]["tools"].as_array().context("no tools")?;
        let schema_of = |tool: &Value| -> Result<(String, Validator)> {
            let name = tool["name"].as_str().context("a tool without a name")?;
            Ok((name.to_owned(), jsonschema::validator_for(&tool["outputSchema"])?))
        };
        tools.iter().map(schema_of).collect()
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

/// Returns the listed name of a tool that has a newer name, too.
fn find_listed_name(tool: &str) -> &str {
    match tool {
        "agent_start" => "start_agent_session",
        "agent_prompt" => "prompt_agent_session",
        "agent_sessions_list" => "list_agent_sessions",
        "agent_output" => "get_agent_session_output",
        "agent_kill" => "kill_agent_session",
        listed => listed,
    }
}

/// Returns an answer of REST as a tool gives it: without members that are null.
pub(crate) fn without_nulls(mut answer: Value) -> Value {
    match &mut answer {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(|value| *value = without_nulls(value.take()));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| *value = without_nulls(value.take())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    answer
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
