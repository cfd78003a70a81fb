//! One file per verb of the command line.

pub(crate) mod acp;
pub(crate) mod agents;
pub(crate) mod answer;
pub(crate) mod asks;
pub(crate) mod attach;
pub(crate) mod attend;
pub(crate) mod changes;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod demo_agent;
pub(crate) mod describe;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod forget;
mod label_holder;
pub(crate) mod lifecycle;
pub(crate) mod login;
pub(crate) mod logs;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod notify;
pub(crate) mod output;
pub(crate) mod prompt;
pub(crate) mod prune;
pub(crate) mod queue;
pub(crate) mod reload;
pub(crate) mod restart;
pub(crate) mod run;
pub(crate) mod search;
pub(crate) mod serve;
pub(crate) mod service;
pub(crate) mod sessions;
pub(crate) mod set;
pub(crate) mod show;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod token;
pub(crate) mod usage;
pub(crate) mod web;
pub(crate) mod workspace;

use std::pin::Pin;

use anyhow::Context;

use crate::exit::Exit;

/// Runs a client verb on one thread, which is enough for one person's calls and starts sooner.
pub(crate) fn block_on(verb: impl Future<Output = anyhow::Result<Exit>>) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    // A boxed future has the same type for every verb, so that the runtime's loop is compiled only
    // once.
    let verb: Pin<Box<dyn Future<Output = anyhow::Result<Exit>> + '_>> = Box::pin(verb);
    runtime.block_on(verb)
}
