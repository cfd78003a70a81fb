//! The test tools themselves: what other tests rely on has to hold.
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

/// The scripted agent with an open session.
fn scripted(flags: &[&str]) -> Result<(AgentPipe, String)> {
    let mut agent = start(flags)?;
    let session = agent.open_session()?;
    Ok((agent, session))
}

fn start(flags: &[&str]) -> Result<AgentPipe> {
    AgentPipe::start(&program::scripted_agent()?, flags, &[])
}

/// What one prompt made the agent say, and its stop reason.
fn told(agent: &mut AgentPipe, session: &str, text: &str) -> Result<(String, Value)> {
    let (response, messages) = agent.prompt(session, text)?;
    Ok((joined_text(&messages), response["result"]["stopReason"].clone()))
}
