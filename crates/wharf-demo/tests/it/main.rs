//! The demo agent as a child process, driven over its pipes as an editor would.
#![expect(clippy::disallowed_methods, reason = "tests read what they wrote themselves")]

mod asking;
mod manners;
mod memory;
mod talking;
mod tour;

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};
use tempfile::TempDir;
use wharf_testkit::agent_pipe::AgentPipe;
use wharf_testkit::program;

/// An agent with a session at the instant pace, and its state directory.
struct Demo {
    agent: AgentPipe,
    session: String,
    state: TempDir,
}

impl Demo {
    fn start() -> Result<Self> {
        let state = TempDir::new()?;
        let mut agent = start_agent(state.path())?;
        let session = agent.open_session()?;
        let params = json!({ "sessionId": session, "configId": "pace", "value": "instant" });
        agent.call_method("session/set_config_option", params)?;
        Ok(Self { agent, session, state })
    }

    /// Sends a prompt and returns its stop reason and its updates.
    fn send_prompt(&mut self, text: &str) -> Result<(String, Vec<Value>)> {
        let (response, messages) = self.agent.send_prompt(&self.session, text)?;
        let updates = messages.iter().map(|message| message["params"]["update"].clone()).collect();
        Ok((response["result"]["stopReason"].as_str().unwrap_or_default().to_owned(), updates))
    }

    fn start_prompt(&mut self, text: &str) -> Result<u64> {
        self.agent.start_prompt(&self.session, text)
    }

    fn cancel_turn(&mut self) -> Result<()> {
        self.agent
            .send_notification("session/cancel", json!({ "sessionId": self.session }))
    }

    /// Ends this process and starts another one with the same state directory.
    fn restart(self) -> Result<Self> {
        let Self { agent: old, session, state } = self;
        drop(old);
        let mut agent = start_agent(state.path())?;
        agent.call_method("initialize", json!({ "protocolVersion": 1 }))?;
        Ok(Self { agent, session, state })
    }
}

fn start_agent(state: &Path) -> Result<AgentPipe> {
    AgentPipe::start(&program::find_beside("examples/demo")?, &[], &[("WHARF_DEMO_STATE", state)])
}

/// Returns the kinds of updates, each once, in order of appearance.
fn list_kinds(updates: &[Value]) -> Vec<&str> {
    let mut kinds = Vec::new();
    for kind in updates.iter().filter_map(|update| update["sessionUpdate"].as_str()) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

fn joined_text(updates: &[Value]) -> String {
    let chunks = updates.iter().filter(|update| update["sessionUpdate"] == "agent_message_chunk");
    chunks.filter_map(|update| update["content"]["text"].as_str()).collect()
}

/// Returns the updates in these lines; other messages are skipped.
fn parse_updates(lines: &[Vec<u8>]) -> Vec<Value> {
    let messages = lines.iter().filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    messages
        .map(|message| message["params"]["update"].clone())
        .filter(|update| !update.is_null())
        .collect()
}

/// Returns the answer to a permission request that chooses this option.
fn selected_option(option: &str) -> Value {
    json!({ "outcome": { "outcome": "selected", "optionId": option } })
}
