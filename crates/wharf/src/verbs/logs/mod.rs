//! `wharf logs`: the host's own log, or the lines that a session's agent wrote beside the protocol.

mod agent_log;
mod host_log;
mod log_files;

use clap::Args;

use crate::exit::{Exit, Failure};
use crate::global::GlobalOptions;

/// How many lines are shown by default.
const DEFAULT_LINES: usize = 200;

#[derive(Debug, Args)]
pub(crate) struct LogsVerb {
    /// Which session; `.` is the newest of the current directory [default: the host itself].
    id: Option<String>,
    /// The last N lines.
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = DEFAULT_LINES)]
    lines: usize,
    /// Go on with what comes.
    #[arg(short, long)]
    follow: bool,
    /// JSON; with -f one line of it per line of the log.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(global: &GlobalOptions, verb: LogsVerb) -> anyhow::Result<Exit> {
    if verb.lines == 0 {
        return Err(Failure::new(Exit::Usage, "-n 0: at least one line").into());
    }
    match &verb.id {
        Some(id) => agent_log::show_agent_log(global, &verb, id).await,
        None => host_log::show_host_log(global, &verb).await,
    }
}
