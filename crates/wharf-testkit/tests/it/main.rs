//! Tests of the test tools, on which other tests rely.
#![expect(clippy::disallowed_methods, reason = "tests read what they wrote themselves")]

mod agent_flags;
mod agent_script;
mod client;
mod host;
mod normaliser;
mod pipe_baseline;
mod processes;

use anyhow::Result;
use serde_json::Value;
use wharf_testkit::agent_pipe::{AgentPipe, joined_text};
use wharf_testkit::program;

/// Starts the scripted agent and opens a session.
fn open_scripted_agent(flags: &[&str]) -> Result<(AgentPipe, String)> {
    let mut agent = start_agent(flags)?;
    let session = agent.open_session()?;
    Ok((agent, session))
}

fn start_agent(flags: &[&str]) -> Result<AgentPipe> {
    AgentPipe::start(&program::find_scripted_agent()?, flags, &[])
}

/// Sends one prompt and returns the agent's text and its stop reason.
fn prompt_for_text(agent: &mut AgentPipe, session: &str, text: &str) -> Result<(String, Value)> {
    let (response, messages) = agent.send_prompt(session, text)?;
    Ok((joined_text(&messages), response["result"]["stopReason"].clone()))
}
