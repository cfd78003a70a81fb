//! One file per verb of the command line.

pub(crate) mod acp;
pub(crate) mod agents;
pub(crate) mod answer;
pub(crate) mod asks;
pub(crate) mod completions;
pub(crate) mod demo_agent;
pub(crate) mod doctor;
pub(crate) mod forget;
pub(crate) mod lifecycle;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod output;
pub(crate) mod prompt;
pub(crate) mod queue;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod show;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod token;
pub(crate) mod workspace;

use std::pin::Pin;

use anyhow::Context;

use crate::exit::Exit;

/// Runs a client verb on one thread, which is enough for one person's calls and starts sooner.
pub(crate) fn block_on(verb: impl Future<Output = anyhow::Result<Exit>>) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
    // A boxed future has the same type for every verb, so that the runtime's loop is compiled only once.
    let verb: Pin<Box<dyn Future<Output = anyhow::Result<Exit>> + '_>> = Box::pin(verb);
    runtime.block_on(verb)
}
