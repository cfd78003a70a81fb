//! `wharf`: the session host for coding agents, as one binary.
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests read what they wrote themselves")
)]

mod allocator;
mod ask;
mod bridge;
mod chat;
mod client;
mod completion;
mod config_file;
mod confirm;
mod connect;
mod contexts;
mod doctor;
mod examples;
mod exit;
mod format;
mod global;
mod host_choice;
mod log_file;
mod logging;
mod mcp_bridge;
#[cfg(target_env = "gnu")]
mod memory_return;
mod output;
mod paths;
#[cfg(test)]
mod reference;
mod session_ref;
mod session_state;
mod start_check;
mod stdio_pump;
mod toml_mistake;
mod transcript;
mod tui;
mod turn;
mod turn_ref;
mod verbs;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use exit::{Exit, Failure};
use global::GlobalOptions;

/// The session host for coding agents: it keeps every conversation alive, and any number of clients
/// share it.
#[derive(Debug, Parser)]
#[command(name = "wharf", version, after_help = AFTER_HELP)]
struct Cli {
    #[command(flatten)]
    global: GlobalOptions,
    #[command(subcommand)]
    verb: Option<Verb>,
}

const AFTER_HELP: &str = "\
A session is named by its id, by a piece of it that no other has (as `wharf sessions` shows), by its label or title, or by `.`: \
the newest of the current directory. Verbs that need a host start one in the background if none runs.";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Start an agent, give it a prompt, show what it does; the exit code tells how the turn ended.
    Run(verbs::run::RunVerb),
    /// List the sessions, or watch them, or follow one.
    #[command(visible_aliases = ["ls", "ps"])]
    Sessions(verbs::sessions::SessionsVerb),
    /// Show everything about one session.
    Show(verbs::show::ShowVerb),
    /// Send a prompt to a session.
    Prompt(verbs::prompt::PromptVerb),
    #[command(flatten)]
    Converse(verbs::attach::ConverseVerb),
    /// Show what a session said and did.
    Output(verbs::output::OutputVerb),
    /// Show the host's own log, or what a session's agent wrote beside the protocol.
    Logs(verbs::logs::LogsVerb),
    /// Search prompts, messages, tool calls and asks of all sessions.
    Search(verbs::search::SearchVerb),
    /// Write a session's whole transcript as a document.
    Export(verbs::export::ExportVerb),
    /// Show the tokens and the cost that agents reported.
    Usage(verbs::usage::UsageVerb),
    /// List the files that a session has changed.
    Changes(verbs::changes::ChangesVerb),
    /// Cancel the running turn; the session goes on.
    Interrupt(verbs::lifecycle::InterruptVerb),
    /// End a session's agent; its history stays.
    Kill(verbs::lifecycle::KillVerb),
    /// Bring an ended session back.
    Resume(verbs::lifecycle::ResumeVerb),
    /// Delete a session and its history.
    #[command(visible_alias = "rm")]
    Forget(verbs::forget::ForgetVerb),
    /// Delete ended sessions that are old, and their history.
    Prune(verbs::prune::PruneVerb),
    #[command(flatten)]
    Describe(verbs::describe::DescribeVerb),
    /// Set the mode, model and options of a session's agent, or list the choices.
    Set(verbs::set::SetVerb),
    /// List what agents ask and wait for.
    Asks(verbs::asks::AsksVerb),
    /// Answer what an agent asks.
    Answer(verbs::answer::AnswerVerb),
    /// See and change the prompts that wait.
    Queue(verbs::queue::QueueVerb),
    /// Name directories, so that agents can be started in them by name.
    Workspace(verbs::workspace::WorkspaceVerb),
    /// List the agents that can be run, and which of them are installed.
    Agents(verbs::agents::AgentsVerb),
    /// Log an agent in, in this terminal.
    Login(verbs::login::LoginVerb),
    /// Show whether a host is running, where, and its version.
    Status(verbs::status::StatusVerb),
    /// Check what this machine can do, and what stands in the way.
    Doctor(verbs::doctor::DoctorVerb),
    /// Stop the host: agents are ended unless they are to be kept, sessions stay on disk.
    Stop(verbs::stop::StopVerb),
    /// Stop the host and start it again; agents go on meanwhile.
    Restart(verbs::restart::RestartVerb),
    /// Have the host read its settings again.
    Reload(verbs::reload::ReloadVerb),
    /// Show and change the host's settings.
    Config(verbs::config::ConfigVerb),
    /// Keep the host running as a service of the system.
    Service(verbs::service::ServiceVerb),
    /// Name hosts on other machines, and choose the one to use.
    Context(verbs::context::ContextVerb),
    /// Run the host.
    Serve(verbs::serve::ServeVerb),
    /// Speak ACP on stdin and stdout: what an editor starts instead of the agent.
    Acp(verbs::acp::AcpVerb),
    /// Speak MCP on stdin and stdout: tools that start, drive and watch agents.
    Mcp(verbs::mcp::McpVerb),
    /// Try the command and the webhook that tell you of sessions.
    Notify(verbs::notify::NotifyVerb),
    #[command(flatten)]
    Access(AccessVerb),
    /// Print a script that completes wharf's verbs and options in your shell.
    Completions(verbs::completions::CompletionsVerb),
    /// Print the manual page, or write one for each verb.
    Man(verbs::man::ManVerb),
    /// Speak ACP on stdin and stdout as the built-in demo agent (no model, no network).
    DemoAgent,
}

/// The verbs that let people and programs in.
#[derive(Debug, clap::Subcommand)]
enum AccessVerb {
    /// Sign a browser or a phone in to the web page.
    Web(verbs::web::WebVerb),
    /// Make, list and revoke tokens.
    Token(verbs::token::TokenVerb),
}

/// Returns the command line with the examples of every verb.
fn build_command() -> clap::Command {
    examples::add_examples(Cli::command())
}

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    // The first two run once per agent: no argument parser, no runtime, as little memory as can be.
    let verb = args.nth(1);
    if verb.as_ref().is_some_and(|verb| verb == "__keeper") {
        return wharf_host::keeper::run(args);
    }
    if verb.as_ref().is_some_and(|verb| verb == "__confine") {
        return wharf_host::sandbox::run(args);
    }
    if verb.as_ref().is_some_and(|verb| verb == "__files") {
        return wharf_host::outside_files::run(args);
    }
    if verb.as_ref().is_some_and(|verb| verb == completion::COMPLETE_COMMAND) {
        return completion::run(args);
    }
    if verb.as_ref().is_some_and(|verb| verb == connect::DETACH_COMMAND) {
        return connect::detach_host(args);
    }
    if verb.is_some_and(|verb| verb == verbs::attend::ATTEND_COMMAND) {
        return exit_code(verbs::attend::run(args));
    }
    let parsed = Cli::from_arg_matches(&build_command().get_matches());
    let Cli { global, verb } = parsed.unwrap_or_else(|error| error.exit());
    exit_code(match verb {
        Some(verb) => run_verb(&global, verb),
        None => verbs::attach::run_without_verb(&global),
    })
}

/// Prints the error of a verb that failed, and returns its exit code.
fn exit_code(ended: anyhow::Result<Exit>) -> ExitCode {
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => {
            output::print_error(&error);
            Failure::exit_of(&error).into()
        }
    }
}

fn run_verb(global: &GlobalOptions, verb: Verb) -> anyhow::Result<Exit> {
    let well = |()| Exit::Ok;
    match verb {
        Verb::Run(verb) => verbs::block_on(verbs::run::run(global, verb)),
        Verb::Sessions(verb) => verbs::block_on(verbs::sessions::run(global, verb)),
        Verb::Show(verb) => verbs::block_on(verbs::show::run(global, verb)),
        Verb::Prompt(verb) => verbs::block_on(verbs::prompt::run(global, verb)),
        Verb::Converse(verb) => verbs::block_on(verbs::attach::run(global, verb)),
        Verb::Output(verb) => verbs::block_on(verbs::output::run(global, verb)),
        Verb::Logs(verb) => verbs::block_on(verbs::logs::run(global, verb)),
        Verb::Search(verb) => verbs::block_on(verbs::search::run(global, verb)),
        Verb::Export(verb) => verbs::block_on(verbs::export::run(global, verb)),
        Verb::Usage(verb) => verbs::block_on(verbs::usage::run(global, verb)),
        Verb::Changes(verb) => verbs::block_on(verbs::changes::run(global, verb)),
        Verb::Interrupt(verb) => verbs::block_on(verbs::lifecycle::run_interrupt(global, verb)),
        Verb::Kill(verb) => verbs::block_on(verbs::lifecycle::run_kill(global, verb)),
        Verb::Resume(verb) => verbs::block_on(verbs::lifecycle::run_resume(global, verb)),
        Verb::Forget(verb) => verbs::block_on(verbs::forget::run(global, verb)),
        Verb::Prune(verb) => verbs::block_on(verbs::prune::run(global, verb)),
        Verb::Describe(verb) => verbs::block_on(verbs::describe::run(global, verb)),
        Verb::Set(verb) => verbs::block_on(verbs::set::run(global, verb)),
        Verb::Asks(verb) => verbs::block_on(verbs::asks::run(global, verb)),
        Verb::Answer(verb) => verbs::block_on(verbs::answer::run(global, verb)),
        Verb::Queue(verb) => verbs::block_on(verbs::queue::run(global, verb)),
        Verb::Workspace(verb) => verbs::block_on(verbs::workspace::run(global, verb)),
        Verb::Agents(verb) => verbs::block_on(verbs::agents::run(global, verb)),
        Verb::Login(verb) => verbs::block_on(verbs::login::run(global, verb)),
        Verb::Status(verb) => verbs::block_on(verbs::status::run(global, verb)),
        Verb::Doctor(verb) => verbs::block_on(verbs::doctor::run(global, verb)),
        Verb::Stop(verb) => verbs::block_on(verbs::stop::run(global, verb)),
        Verb::Restart(verb) => verbs::block_on(verbs::restart::run(global, verb)),
        Verb::Reload(verb) => verbs::block_on(verbs::reload::run(global, verb)),
        Verb::Config(verb) => verbs::block_on(verbs::config::run(global, verb)),
        Verb::Service(verb) => verbs::block_on(verbs::service::run(global, verb)),
        Verb::Context(verb) => verbs::block_on(verbs::context::run(global, verb)),
        Verb::Serve(verb) => verbs::serve::run(global, verb).map(well),
        Verb::Acp(verb) => verbs::acp::run(global, verb).map(well),
        Verb::Mcp(verb) => verbs::mcp::run(global, verb).map(well),
        Verb::Notify(verb) => verbs::block_on(verbs::notify::run(global, verb)),
        Verb::Access(AccessVerb::Web(verb)) => verbs::block_on(verbs::web::run(global, verb)),
        Verb::Access(AccessVerb::Token(verb)) => verbs::token::run(global, verb).map(well),
        Verb::Completions(verb) => verbs::completions::run(verb).map(well),
        Verb::Man(verb) => verbs::man::run(verb).map(well),
        Verb::DemoAgent => verbs::demo_agent::run().map(well),
    }
}

#[cfg(test)]
mod tests {
    /// Parses these words after `wharf`.
    fn parse(words: &[&str]) -> super::Cli {
        let words = std::iter::once(&"wharf").chain(words);
        <super::Cli as clap::Parser>::try_parse_from(words).unwrap()
    }

    #[test]
    fn url_of_status_may_stand_alone_and_that_of_the_others_may_not() {
        for words in [&["status", "--url"][..], &["--state-dir", "/x", "status", "--url"]] {
            let parsed = parse(words);
            assert_eq!(parsed.global.url.as_deref(), Some(""));
            assert_eq!(parsed.global.without_empty_url().url, None);
        }
        let far = "https://box.example";
        for words in [["status", "--url", far], ["--url", far, "status"]] {
            assert_eq!(parse(&words).global.url.as_deref(), Some(far));
        }
        let words = ["wharf", "sessions", "--url"];
        assert!(<super::Cli as clap::Parser>::try_parse_from(words).is_err());
    }

    #[test]
    fn the_arguments_make_sense() {
        super::build_command().debug_assert();
    }

    /// Each verb has a section of its own, and in it its own verbs and options.
    #[test]
    fn every_verb_is_documented() {
        let page = include_str!("../../../docs/cli.md");
        let (general, verbs) = page.split_once("\n## Sessions\n").unwrap();
        let mut command = super::build_command();
        command.build();
        let ours =
            |command: &&clap::Command| command.get_name() != "help" && !command.is_hide_set();
        for verb in command.get_subcommands().filter(ours) {
            let name = verb.get_name();
            let headed = |section: &&str| section.split([' ', '`']).next() == Some(name);
            let section = verbs
                .split("\n### `wharf ")
                .skip(1)
                .find(headed)
                .unwrap_or_else(|| panic!("no section {name}"));
            for part in verb.get_subcommands().filter(ours).map(clap::Command::get_name) {
                assert!(
                    section.contains(&format!("`{part}")),
                    "{part} is not in the section of {name}"
                );
            }
            let parts = std::iter::once(verb).chain(verb.get_subcommands().filter(ours));
            let shown = parts
                .flat_map(clap::Command::get_arguments)
                .filter(|option| !option.is_hide_set());
            for option in shown.filter_map(clap::Arg::get_long) {
                let known =
                    [section, general].iter().any(|text| text.contains(&format!("--{option}")));
                assert!(known || option == "help", "--{option} of {name} is not documented");
            }
        }
    }
}
