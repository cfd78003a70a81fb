//! `wharf`: the session host for coding agents, as one binary.

mod bridge;
mod output;
mod paths;
mod verbs;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The session host for coding agents: it keeps every conversation alive, and any number of clients share it.
#[derive(Debug, Parser)]
#[command(name = "wharf", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run the host.
    Serve(verbs::serve::Serve),
    /// Speak ACP on stdin and stdout: what an editor starts instead of the agent.
    Acp(verbs::acp::Acp),
    /// Make, list and revoke tokens.
    Token(verbs::token::Token),
    /// Speak ACP on stdin and stdout as the built-in demo agent (no model, no network).
    DemoAgent,
}

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    // The shim runs once per agent: no argument parser, no runtime, as little memory as can be.
    if args.nth(1).is_some_and(|verb| verb == "__shim") {
        return wharf_host::shim::run(args);
    }
    let done = match Cli::parse().verb {
        Verb::Serve(serve) => verbs::serve::run(serve),
        Verb::Acp(acp) => verbs::acp::run(acp),
        Verb::Token(token) => verbs::token::run(token),
        Verb::DemoAgent => verbs::demo_agent::run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(&error);
            ExitCode::FAILURE
        }
    }
}
