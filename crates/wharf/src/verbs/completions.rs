//! `wharf completions`: a script for the shell.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::output;

#[derive(Debug, Args)]
pub(crate) struct CompletionsVerb {
    /// Which shell.
    shell: Shell,
}

pub(crate) fn run(verb: CompletionsVerb) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(verb.shell, &mut crate::Cli::command(), "wharf", &mut script);
    output::print_bytes(&script);
    Ok(())
}
