//! Tests of the test tools, on which other tests rely.
#![expect(clippy::disallowed_methods, reason = "tests read what they wrote themselves")]

mod agent_flags;
mod agent_script;
mod client;
mod host;
mod limit;
mod normal;
mod procs;

use anyhow::Result;
use serde_json::Value;
use wharf_testkit::pipe::{AgentPipe, joined_text};
use wharf_testkit::program;

/// Starts the scripted agent and opens a session.
fn scripted(flags: &[&str]) -> Result<(AgentPipe, String)> {
    let mut agent = start(flags)?;
    let session = agent.open_session()?;
    Ok((agent, session))
}

fn start(flags: &[&str]) -> Result<AgentPipe> {
    AgentPipe::start(&program::scripted_agent()?, flags, &[])
}

/// Sends one prompt and returns the agent's text and its stop reason.
fn told(agent: &mut AgentPipe, session: &str, text: &str) -> Result<(String, Value)> {
    let (response, messages) = agent.prompt(session, text)?;
    Ok((joined_text(&messages), response["result"]["stopReason"].clone()))
}
