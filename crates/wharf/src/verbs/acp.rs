//! `wharf acp`: the bridge that an editor starts as its agent, on stdin and stdout. Its sessions
//! are the host's.

use anyhow::Context;
use clap::Args;

use crate::bridge::{AcpEndpoint, Bridge, BridgeOptions};
use crate::global::GlobalOptions;
use crate::{connect, session_ref, stdio_pump};

#[derive(Debug, Args)]
pub(crate) struct AcpVerb {
    /// Which agent [default: the host's default].
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Join this session: the client's `session/new` gives this one. Its id, a part of it, its
    /// label, or `.` for the one of the current directory.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Run the agent itself in this terminal, with the arguments after `--`: editors do so for a
    /// login.
    #[arg(long)]
    in_terminal: bool,
    /// With --in-terminal: a variable that keeps the value it has here, whatever the configuration
    /// says.
    #[arg(long, value_name = "NAME", requires = "in_terminal")]
    keep_env: Vec<String>,
    #[arg(last = true, value_name = "ARGUMENT", requires = "in_terminal")]
    arguments: Vec<String>,
}

pub(crate) fn run(global: &GlobalOptions, acp: AcpVerb) -> anyhow::Result<()> {
    // One thread is enough for one editor's messages, and starts sooner.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    let acp = runtime.block_on(find_session(global, acp))?;
    if acp.in_terminal {
        return Err(run_agent(global, &acp)?);
    }
    runtime.block_on(run_bridge(global, acp))
}

/// Replaces the session argument by the whole id, and the agent by the session's agent.
async fn find_session(global: &GlobalOptions, acp: AcpVerb) -> anyhow::Result<AcpVerb> {
    let Some(meant) = &acp.session else { return Ok(acp) };
    let known =
        session_ref::find_session(&global.connect_client_as("wharf acp").await?, Some(meant))
            .await?;
    Ok(AcpVerb {
        session: Some(known.id),
        agent: Some(known.adapter_slug),
        ..acp
    })
}

async fn run_bridge(global: &GlobalOptions, acp: AcpVerb) -> anyhow::Result<()> {
    let locator = global.locate_host("wharf acp")?;
    let endpoint = AcpEndpoint::new(locator.address().clone(), acp.agent.as_deref());
    // On another machine the directory of this process means nothing.
    let cwd = std::env::current_dir().ok().filter(|_| !global.is_remote().unwrap_or(true));
    let cwd = cwd.and_then(|cwd| cwd.to_str().map(ToOwned::to_owned));
    let options = BridgeOptions { name: wharf_host::random_text(26), session: acp.session, cwd };
    stdio_pump::run(Bridge::new(options), locator, endpoint).await
}

/// Replaces this program by the agent. Returns the error if that failed.
fn run_agent(global: &GlobalOptions, acp: &AcpVerb) -> anyhow::Result<anyhow::Error> {
    global
        .refuse_remote("--in-terminal runs the agent in this terminal, and so on this machine")?;
    let config = super::serve::load_config(global)?;
    let name = acp.agent.as_deref().unwrap_or(&config.default_agent);
    let agent = config.adapters().find(name, None, &std::collections::BTreeMap::new())?;
    Ok(connect::become_agent(&agent, &acp.arguments, &acp.keep_env))
}
