//! `wharf completions`: a script for the shell.

use clap::Args;
use clap_complete::Shell;

use crate::completion::scripts;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct CompletionsVerb {
    /// Which shell.
    shell: Shell,
}

pub(crate) fn run(verb: CompletionsVerb) -> anyhow::Result<()> {
    let asking =
        [(Shell::Bash, scripts::BASH), (Shell::Zsh, scripts::ZSH), (Shell::Fish, scripts::FISH)];
    let asking = asking.iter().find(|(shell, _)| *shell == verb.shell).map(|(_, script)| script);
    if let Some(script) = asking {
        output::print_bytes(script.as_bytes());
        return Ok(());
    }
    // These know the verbs and options, but no sessions.
    let mut script = Vec::new();
    clap_complete::generate(verb.shell, &mut crate::build_command(), "wharf", &mut script);
    output::print_bytes(&script);
    Ok(())
}
