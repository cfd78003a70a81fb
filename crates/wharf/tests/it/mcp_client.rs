//! An MCP client over either transport: Streamable HTTP, or lines to `wharf mcp`. Its lowest
//! functions, `post_message` and the lines of a pipe, hold every answer of a tool against the
//! schema that the tool lists.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};
use jsonschema::Validator;
use serde_json::{Value, json};
use wharf_testkit::agent_pipe::{AgentPipe, LineCheck};
use wharf_testkit::host::TestHost;
use wharf_testkit::http::{RestAnswer, RestClient};

use crate::wharf_binary;

pub(crate) struct Mcp {
    pub(crate) transport: McpTransport,
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
        Self { transport: McpTransport::Http(http) }
    }

    /// Starts `wharf mcp` and completes the handshake.
    pub(crate) fn over_stdio(host: &TestHost) -> Result<Self> {
        let state_dir = host.state_dir();
        let pipe = AgentPipe::start(
            &wharf_binary(),
            &["mcp", "--no-start"],
            &[("WHARF_STATE_DIR", &state_dir)],
        )?;
        let transport = McpTransport::Stdio(Box::new(initialize_client(pipe)?));
        Ok(Self { transport })
    }

    pub(crate) async fn call_method(&mut self, method: &str, params: Value) -> Result<Exchange> {
        match &mut self.transport {
            McpTransport::Http(http) => {
                let message =
                    json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
                let answer = post_message(http, &message).await?;
                ensure!(answer.status == 200, "{answer:?}");
                let mut events = read_events(&answer)?;
                let answer = events.pop().context("no event")?;
                Ok(Exchange { notes: events, answer })
            }
            McpTransport::Stdio(pipe) => {
                let from = pipe.received.len();
                let id = pipe.start_request(method, params)?;
                let answer = pipe.wait_response(id)?;
                let notes = &pipe.received[from..pipe.received.len() - 1];
                Ok(Exchange {
                    notes: notes
                        .iter()
                        .filter_map(|line| serde_json::from_slice(line).ok())
                        .collect(),
                    answer,
                })
            }
        }
    }

    /// Returns the result of a tool, success or error.
    pub(crate) async fn call_for_result(&mut self, tool: &str, arguments: Value) -> Result<Value> {
        let mut answer = self
            .call_method("tools/call", json!({ "name": tool, "arguments": arguments }))
            .await?
            .answer;
        if let Some(error) = answer.get("error") {
            bail!("{tool}: {error}");
        }
        let result = answer["result"].take();
        Ok(result)
    }

    /// Calls a tool that must succeed and returns its structured result.
    pub(crate) async fn call_tool(&mut self, tool: &str, arguments: Value) -> Result<Value> {
        let mut result = self.call_for_result(tool, arguments).await?;
        ensure!(result["isError"] != true, "{tool}: {result}");
        Ok(result["structuredContent"].take())
    }

    /// Returns the code and the message with which a tool refuses.
    pub(crate) async fn call_for_refusal(
        &mut self,
        tool: &str,
        arguments: Value,
    ) -> Result<(String, String)> {
        let result = self.call_for_result(tool, arguments).await?;
        ensure!(
            result["isError"] == true && result.get("structuredContent").is_none(),
            "{tool} did not refuse: {result}"
        );
        let problem: Value =
            serde_json::from_str(result["content"][0]["text"].as_str().context("no text")?)?;
        let word = |member: &str| problem[member].as_str().unwrap_or_default().to_owned();
        Ok((word("code"), word("detail")))
    }
}

/// The output schemas of the tools, by name.
#[derive(Debug)]
struct OutputSchemas(HashMap<String, Validator>);

impl OutputSchemas {
    /// Reads the result of `tools/list`.
    fn from_list(listed: &Value) -> Result<Self> {
        let tools = listed["tools"].as_array().context("no tools")?;
        let schema_of = |tool: &Value| -> Result<(String, Validator)> {
            let name = tool["name"].as_str().context("a tool without a name")?;
            Ok((name.to_owned(), jsonschema::validator_for(&tool["outputSchema"])?))
        };
        Ok(Self(tools.iter().map(schema_of).collect::<Result<_>>()?))
    }

    /// Fails if a tool's result is not as its output schema says. An error has no structured
    /// content.
    fn check_result(&self, tool: &str, result: &Value) -> Result<()> {
        if result["isError"] == true {
            return Ok(());
        }
        let schema = self
            .0
            .get(find_listed_name(tool))
            .with_context(|| format!("{tool} has no output schema"))?;
        let answer = result
            .get("structuredContent")
            .with_context(|| format!("{tool} has no structured content"))?;
        let faults: Vec<String> = schema
            .iter_errors(answer)
            .map(|fault| format!("{}: {fault}", fault.instance_path()))
            .collect();
        ensure!(faults.is_empty(), "{tool} answers what its output schema forbids: {faults:#?}");
        Ok(())
    }
}

/// Returns the tool that a message calls.
fn find_called_tool(message: &Value) -> Option<&str> {
    message["params"]["name"].as_str().filter(|_| message["method"] == "tools/call")
}

/// Checks the results of tools that come out of a pipe.
#[derive(Debug)]
struct ToolResultCheck {
    schemas: OutputSchemas,
    /// The tools that were called, by the id of the request.
    called: HashMap<String, String>,
}

impl LineCheck for ToolResultCheck {
    fn check_sent(&mut self, line: &[u8]) -> Result<()> {
        let Ok(message) = serde_json::from_slice::<Value>(line) else { return Ok(()) };
        if let Some(tool) = find_called_tool(&message) {
            self.called.insert(message["id"].to_string(), tool.to_owned());
        }
        Ok(())
    }

    fn check_received(&mut self, line: &[u8]) -> Result<()> {
        let Ok(message) = serde_json::from_slice::<Value>(line) else { return Ok(()) };
        match (self.called.get(&message["id"].to_string()), message.get("result")) {
            (Some(tool), Some(result)) => self.schemas.check_result(tool, result),
            _ => Ok(()),
        }
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
        Value::Array(values) => {
            values.iter_mut().for_each(|value| *value = without_nulls(value.take()))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    answer
}

/// Sends `initialize` and returns the client. The results of its tools are checked from then on.
pub(crate) fn initialize_client(mut pipe: AgentPipe) -> Result<AgentPipe> {
    let client = json!({ "name": "wharf-testkit", "version": "1" });
    let params =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let hello = pipe.call_method("initialize", params)?;
    ensure!(
        hello["serverInfo"]["name"] == "wharf" && hello["capabilities"]["tools"].is_object(),
        "{hello}"
    );
    pipe.send_notification("notifications/initialized", json!({}))?;
    let schemas = OutputSchemas::from_list(&pipe.call_method("tools/list", json!({}))?)?;
    pipe.check_lines(ToolResultCheck { schemas, called: HashMap::new() });
    Ok(pipe)
}

/// Sends a message over HTTP and checks the result of a tool.
pub(crate) async fn post_message(http: &RestClient, message: &Value) -> Result<RestAnswer> {
    let answer = send_message(http, message).await?;
    // A connection may be cut off in the middle of an event.
    let last = read_events(&answer).ok().and_then(|mut events| events.pop());
    let result = last.and_then(|mut last| last.get_mut("result").map(Value::take));
    if let (Some(tool), Some(result)) = (find_called_tool(message), result) {
        let list =
            json!({ "jsonrpc": "2.0", "id": "schemas", "method": "tools/list", "params": {} });
        let listed = read_events(&send_message(http, &list).await?)?
            .pop()
            .context("no answer to tools/list")?;
        OutputSchemas::from_list(&listed["result"])?.check_result(tool, &result)?;
    }
    Ok(answer)
}

async fn send_message(http: &RestClient, message: &Value) -> Result<RestAnswer> {
    let headers =
        [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    http.send_to_end("POST", "/mcp", &headers, &message.to_string()).await
}

/// Returns the messages of an answer over HTTP. A refusal has none.
fn read_events(answer: &RestAnswer) -> Result<Vec<Value>> {
    let events = answer.body.lines().filter_map(|line| line.strip_prefix("data: "));
    Ok(events.map(serde_json::from_str).collect::<Result<_, _>>()?)
}
