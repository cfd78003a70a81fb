//! `wharf mcp`: MCP on stdin and stdout, as an MCP client starts it. The host speaks MCP; this
//! program carries the lines.

use anyhow::Context;
use clap::Args;

use crate::global::GlobalOptions;
use crate::mcp_bridge::{McpBridge, McpEndpoint};
use crate::stdio_pump;

#[derive(Debug, Args)]
pub(crate) struct McpVerb {}

pub(crate) fn run(global: &GlobalOptions, _: McpVerb) -> anyhow::Result<()> {
    let locator = global.locate_host("wharf mcp")?;
    let endpoint = McpEndpoint::new(locator.address().clone());
    let bridge = McpBridge::new(format!("wharf-mcp-{}", wharf_host::random_text(26)));
    // One thread is enough for one client's messages, and starts sooner.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(stdio_pump::run(bridge, locator, endpoint))
}
