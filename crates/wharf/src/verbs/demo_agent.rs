//! `wharf demo-agent`: the built-in agent on stdin and stdout.

use anyhow::Context;

pub(crate) fn run() -> anyhow::Result<()> {
    wharf_demo::run_stdio().context("talking on stdin and stdout")
}
