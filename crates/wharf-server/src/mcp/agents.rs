//! The tool `list_agents`: the agents that can be started, in short.

use wharf_api::mcp::{AgentLine, AgentsInput, AgentsOutput};
use wharf_api::{AdapterDescription, AdapterQuery};

use super::answer::{ToolAnswer, ToolOutcome};
use crate::App;
use crate::use_cases::{self, Caller};

/// Lists the agents. The text of the result has one line for each, since that is what a model
/// reads.
pub(super) async fn list_agents(app: &App, caller: &Caller, input: AgentsInput) -> ToolOutcome {
    let mut adapters =
        use_cases::list_adapters(app, caller, &AdapterQuery::default()).await?.adapters;
    if input.only_installed == Some(true) {
        adapters.retain(|adapter| adapter.installed);
    }
    let agents: Vec<AgentLine> = adapters.into_iter().map(to_agent_line).collect();
    let text: Vec<String> = agents.iter().map(show_agent).collect();
    Ok(ToolAnswer::new(&AgentsOutput { agents })?.with_text(text.join("\n")))
}

fn to_agent_line(adapter: AdapterDescription) -> AgentLine {
    AgentLine {
        adapter: adapter.slug,
        name: adapter.name,
        description: adapter.description,
        installed: adapter.installed,
        login: adapter.login,
        default: adapter.default,
        modes: adapter.modes.into_iter().map(|mode| mode.id).collect(),
        missing: adapter.missing,
        install_hint: adapter.install_hint,
        login_hint: adapter.login_hint,
    }
}

fn show_agent(agent: &AgentLine) -> String {
    let installed = if agent.installed { "installed" } else { "not installed" };
    let default = if agent.default { ", default" } else { "" };
    format!("{} ({}): {installed}{default}, login {}", agent.adapter, agent.name, agent.login)
}
