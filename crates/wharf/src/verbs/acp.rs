//! `wharf acp`: an agent on stdin and stdout, as an editor starts it; behind it a session of the host.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use wharf_host::Config;

use crate::bridge::{self, Bridge, Dial, Options};
use crate::paths;

#[derive(Debug, Args)]
pub(crate) struct Acp {
    /// Which agent [default: the host's default].
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Join this session: the client's `session/new` gives this one.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// The state directory of the host [default: the XDG state directory].
    #[arg(long, env = "WHARF_STATE_DIR", value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// The configuration file of a host that has to be started.
    #[arg(long, env = "WHARF_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Never start a host: fail if none is running.
    #[arg(long)]
    no_start: bool,
    /// Run the agent itself in this terminal, with the arguments after `--`: editors do so for a login.
    #[arg(long)]
    in_terminal: bool,
    /// With --in-terminal: a variable that keeps the value it has here, whatever the configuration says.
    #[arg(long, value_name = "NAME", requires = "in_terminal")]
    keep_env: Vec<String>,
    #[arg(last = true, value_name = "ARGUMENT", requires = "in_terminal")]
    arguments: Vec<String>,
}

pub(crate) fn run(acp: Acp) -> anyhow::Result<()> {
    if acp.in_terminal {
        return Err(run_agent(&acp)?);
    }
    let state_dir = paths::state_dir(acp.state_dir.as_deref())?;
    let config = acp.config.map(std::path::absolute).transpose().context("finding the configuration file")?;
    let dial = Dial::new(state_dir, acp.agent.as_deref(), config, !acp.no_start);
    let cwd = std::env::current_dir().ok().and_then(|cwd| cwd.to_str().map(ToOwned::to_owned));
    let bridge = Bridge::new(Options { name: wharf_host::random_text(26), session: acp.session, cwd });
    // One editor's messages: one thread is enough, and starts sooner.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(bridge::run(bridge, dial))
}

/// Replaces this program by the agent; the error is why that failed.
fn run_agent(acp: &Acp) -> anyhow::Result<anyhow::Error> {
    let mut config = match paths::config_file(acp.config.as_deref())? {
        Some(path) => Config::load(&path)?,
        None => Config::default(),
    };
    config.state_dir = paths::state_dir(acp.state_dir.as_deref())?;
    config.program = std::env::current_exe().context("finding this program")?;
    let agent = config.agent(acp.agent.as_deref().unwrap_or(&config.default_agent))?;
    Ok(bridge::become_agent(&agent, &acp.arguments, &acp.keep_env))
}
