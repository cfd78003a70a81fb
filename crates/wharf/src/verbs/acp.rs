//! `wharf acp`: an agent on stdin and stdout, as an editor starts it; behind it a session of the host.

use anyhow::Context;
use clap::Args;

use crate::bridge::{self, Bridge, Dial, Options};
use crate::global::Global;

#[derive(Debug, Args)]
pub(crate) struct Acp {
    /// Which agent [default: the host's default].
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Join this session: the client's `session/new` gives this one.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

pub(crate) fn run(global: &Global, acp: Acp) -> anyhow::Result<()> {
    let dial = Dial::new(global.reach("wharf acp")?, acp.agent.as_deref());
    let bridge = Bridge::new(Options { name: wharf_host::random_text(26), session: acp.session });
    // One editor's messages: one thread is enough, and starts sooner.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(bridge::run(bridge, dial))
}
