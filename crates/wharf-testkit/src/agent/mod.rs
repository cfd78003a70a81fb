//! The scripted agent: an ACP agent that does exactly what its flags and its prompts say, valid or not.
//!
//! Flags are in [`USAGE`]; the commands that a prompt may hold are in [`COMMANDS`].

mod asks;
mod children;
mod deeds;
mod door;
mod faults;
mod flags;
mod load;
mod script;
mod serve;
mod settings;
mod shapes;
pub mod transcript;

pub use flags::{Flags, Overlap, Report, USAGE};
pub use script::COMMANDS;
pub use serve::run;

use std::io::Write;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

/// Runs the program. It writes to stderr directly, as agents do.
pub fn main(arguments: Vec<String>) -> ExitCode {
    if arguments.iter().any(|argument| argument == "--help") {
        return complain(&format!("{USAGE}commands of a prompt, separated by `;`\n{COMMANDS}"), ExitCode::SUCCESS);
    }
    if let Some(("--call", call)) = arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        let said = door::call(call).unwrap_or_else(|error| format!("{error}"));
        let _ = writeln!(std::io::stdout(), "{said}");
        return ExitCode::SUCCESS;
    }
    let flags = match Flags::parse(arguments.clone()) {
        Ok(flags) => flags,
        Err(why) => return complain(&format!("{why}\n{USAGE}"), ExitCode::from(2)),
    };
    // The restarted program gets the same flags without this one.
    if flags.ignore_term {
        let rest: Vec<String> = arguments.into_iter().filter(|argument| argument != "--ignore-term").collect();
        return complain(&format!("{}\n", children::restart_ignoring_term(&rest)), ExitCode::FAILURE);
    }
    match start(flags) {
        Ok(code) => code,
        Err(error) => complain(&format!("scripted agent: {error}\n"), ExitCode::FAILURE),
    }
}

fn start(flags: Flags) -> std::io::Result<ExitCode> {
    if let Some(mib) = flags.hold {
        load::hold_for_long(mib);
        return Ok(ExitCode::SUCCESS);
    }
    for line in &flags.stderr {
        complain(&format!("{line}\n"), ExitCode::SUCCESS);
    }
    if flags.spawn_children {
        let pids: Vec<String> = children::spawn(false)?.iter().map(u32::to_string).collect();
        complain(&format!("{}\n", pids.join(" ")), ExitCode::SUCCESS);
    }
    if let Some(socket) = &flags.socket {
        complain(&format!("{}\n", door::knock(socket)), ExitCode::SUCCESS);
    }
    if let Some(start_for) = flags.slow_start {
        thread::sleep(start_for);
    }
    if let Some(code) = flags.exit_on_start {
        std::process::exit(code);
    }
    let ignore_eof = flags.ignore_eof;
    let (input, output) = wharf_demo::stdio()?;
    if let Some(path) = &flags.transcript {
        transcript::play(path, input, output)?;
        return Ok(ExitCode::SUCCESS);
    }
    run(flags, input, output)?;
    if ignore_eof {
        // The same time as the children: without an end it would outlive a failed test.
        thread::sleep(Duration::from_secs(900));
    }
    Ok(ExitCode::SUCCESS)
}

fn complain(text: &str, code: ExitCode) -> ExitCode {
    let _ = std::io::stderr().write_all(text.as_bytes());
    code
}
