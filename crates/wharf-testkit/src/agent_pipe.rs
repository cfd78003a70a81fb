//! Drives an agent directly over its stdin and stdout, without a host: for tests of agents, and as
//! the baseline of the benchmark.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

use crate::{WAIT_LIMIT, processes, program};

/// The number of unread lines at which the agent blocks, as it would on a full pipe.
const MAX_BUFFERED_LINES: usize = 4096;

/// Checks all lines of a pipe. A line that fails the check fails the call that sends or receives
/// it.
pub trait LineCheck: std::fmt::Debug + Send {
    fn check_sent(&mut self, line: &[u8]) -> Result<()>;
    fn check_received(&mut self, line: &[u8]) -> Result<()>;
}

/// A running agent. It is killed when this is dropped.
#[derive(Debug)]
pub struct AgentPipe {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    next_id: u64,
    check: Option<Box<dyn LineCheck>>,
    /// Every line received so far, unchanged.
    pub received: Vec<Vec<u8>>,
}

impl AgentPipe {
    /// Starts an agent with these arguments and additional environment variables.
    pub fn start(agent: &Path, arguments: &[&str], environment: &[(&str, &Path)]) -> Result<Self> {
        let mut command = program::new_command(agent);
        command.args(arguments).envs(environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().with_context(|| format!("starting {}", agent.display()))?;
        let stdout = child.stdout.take().context("taking the agent's stdout")?;
        let (sender, lines) = sync_channel(MAX_BUFFERED_LINES);
        thread::spawn(move || {
            for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let stdin = child.stdin.take();
        Ok(Self {
            child,
            stdin,
            lines,
            next_id: 1,
            check: None,
            received: Vec::new(),
        })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Checks every line from here on.
    pub fn check_lines(&mut self, check: impl LineCheck + 'static) {
        self.check = Some(Box::new(check));
    }

    /// Sends bytes unchanged, with a line break.
    pub fn send_line(&mut self, line: &[u8]) -> Result<()> {
        if let Some(check) = &mut self.check {
            check.check_sent(line)?;
        }
        let stdin = self.stdin.as_mut().context("the agent's stdin is closed")?;
        stdin.write_all(&[line, b"\n"].concat()).context("writing to the agent")
    }

    pub fn send_notification(&mut self, method: &str, params: Value) -> Result<()> {
        self.send_line(
            json!({ "jsonrpc": "2.0", "method": method, "params": params })
                .to_string()
                .as_bytes(),
        )
    }

    /// Sends a request and returns its id, without waiting.
    pub fn start_request(&mut self, method: &str, params: Value) -> Result<u64> {
        let id = self.next_id;
        self.next_id += 1;
        let frame = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send_line(frame.to_string().as_bytes())?;
        Ok(id)
    }

    /// Answers a request of the agent.
    pub fn send_result(&mut self, id: &Value, result: Value) -> Result<()> {
        self.send_line(
            json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string().as_bytes(),
        )
    }

    /// Returns the next line unchanged; `None` when the agent has closed its stdout.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>> {
        match self.lines.recv_timeout(WAIT_LIMIT) {
            Ok(line) => {
                self.received.push(line.clone());
                if let Some(check) = &mut self.check {
                    check.check_received(&line)?;
                }
                Ok(Some(line))
            }
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => Ok(None),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                bail!("the agent said nothing\n{}", self.describe_received())
            }
        }
    }

    /// Reads until a message matches.
    pub fn expect(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Result<Value> {
        let give_up_at = Instant::now() + WAIT_LIMIT;
        while Instant::now() < give_up_at {
            let line = self.next_line()?.ok_or_else(|| {
                anyhow!("stdout ended before {what}\n{}", self.describe_received())
            })?;
            if let Ok(message) = serde_json::from_slice::<Value>(&line)
                && fits(&message)
            {
                return Ok(message);
            }
        }
        bail!("no {what}\n{}", self.describe_received())
    }

    /// Reads until this request is answered and returns the whole response.
    pub fn wait_response(&mut self, id: u64) -> Result<Value> {
        self.expect(&format!("response to {id}"), |message| {
            message["id"] == id && message.get("method").is_none()
        })
    }

    /// Returns the responses to both requests, in whichever order they come.
    pub fn wait_both_responses(&mut self, first: u64, second: u64) -> Result<(Value, Value)> {
        let is_response =
            |message: &Value, id: u64| message["id"] == id && message.get("method").is_none();
        let earlier = self.expect("one of two responses", |message| {
            is_response(message, first) || is_response(message, second)
        })?;
        if is_response(&earlier, first) {
            return Ok((earlier, self.wait_response(second)?));
        }
        Ok((self.wait_response(first)?, earlier))
    }

    /// Sends a request and waits for its result; an error is a failure.
    pub fn call_method(&mut self, method: &str, params: Value) -> Result<Value> {
        let id = self.start_request(method, params)?;
        let mut response = self.wait_response(id)?;
        match response.get("error") {
            Some(error) => bail!("{method} failed: {error}"),
            None => Ok(response["result"].take()),
        }
    }

    /// Sends `initialize` and `session/new`; returns the session's id.
    pub fn open_session(&mut self) -> Result<String> {
        self.call_method("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }))?;
        let opened = self.call_method("session/new", json!({ "cwd": "/tmp", "mcpServers": [] }))?;
        opened["sessionId"]
            .as_str()
            .map(str::to_owned)
            .context("session/new gave no sessionId")
    }

    /// Sends a prompt and returns its request id, without waiting.
    pub fn start_prompt(&mut self, session: &str, text: &str) -> Result<u64> {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.start_request("session/prompt", json!({ "sessionId": session, "prompt": prompt }))
    }

    /// Sends a prompt and returns the response and every message before it.
    pub fn send_prompt(&mut self, session: &str, text: &str) -> Result<(Value, Vec<Value>)> {
        let from = self.received.len();
        let id = self.start_prompt(session, text)?;
        let response = self.wait_response(id)?;
        let before = &self.received[from..self.received.len() - 1];
        Ok((response, before.iter().filter_map(|line| serde_json::from_slice(line).ok()).collect()))
    }

    /// Closes the agent's stdin.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub fn wait_exit(&mut self) -> Result<ExitStatus> {
        processes::wait_exit(&mut self.child, WAIT_LIMIT)?
            .with_context(|| format!("the agent did not exit\n{}", self.describe_received()))
    }

    fn describe_received(&self) -> String {
        let last = self.received.iter().rev().take(20).rev();
        let lines: Vec<String> = last
            .map(|line| String::from_utf8_lossy(line).chars().take(400).collect())
            .collect();
        format!("last received:\n{}", lines.join("\n"))
    }
}

impl Drop for AgentPipe {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the text of a `session/update` with a message chunk; empty for anything else.
pub fn chunk_text(message: &Value) -> &str {
    let update = &message["params"]["update"];
    let is_chunk = update["sessionUpdate"] == "agent_message_chunk";
    update["content"]["text"].as_str().filter(|_| is_chunk).unwrap_or_default()
}

/// Returns the joined texts of all message chunks.
pub fn joined_text<'a>(messages: impl IntoIterator<Item = &'a Value>) -> String {
    messages.into_iter().map(chunk_text).collect()
}
