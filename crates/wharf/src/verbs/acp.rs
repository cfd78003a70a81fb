//! `wharf acp`: an agent on stdin and stdout, as an editor starts it; behind it a session of the host.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

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
}

pub(crate) fn run(acp: Acp) -> anyhow::Result<()> {
    let state_dir = paths::state_dir(acp.state_dir.as_deref())?;
    let config = acp.config.map(std::path::absolute).transpose().context("finding the configuration file")?;
    let dial = Dial::new(state_dir, acp.agent.as_deref(), config, !acp.no_start);
    let bridge = Bridge::new(Options { name: wharf_host::random_text(26), session: acp.session });
    // One editor's messages: one thread is enough, and starts sooner.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(bridge::run(bridge, dial))
}
