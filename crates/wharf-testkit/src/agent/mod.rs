//! The scripted agent: an ACP agent that does exactly what its flags and its prompts say, valid or
//! not.
//!
//! Flags are in [`FLAGS_USAGE`]; the commands that a prompt may hold are in [`COMMANDS_USAGE`].

mod asks;
mod children;
mod faults;
mod flags;
mod host_requests;
mod initialize;
mod mixed_turn;
mod own_files;
mod resource_use;
mod script;
mod serve;
mod settings;
pub mod transcript;

pub use flags::{ChangeReport, FLAGS_USAGE, Flags, OverlapReaction};
pub use script::COMMANDS_USAGE;
pub use serve::run;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

/// Runs the program. It writes to stderr directly, as agents do.
pub fn main(arguments: Vec<String>) -> ExitCode {
    if arguments.iter().any(|argument| argument == "--help") {
        return write_stderr(
            &format!("{FLAGS_USAGE}commands of a prompt, separated by `;`\n{COMMANDS_USAGE}"),
            ExitCode::SUCCESS,
        );
    }
    let said = match arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        Some(("--call", call)) => Some(host_requests::send_request(call)),
        Some(("--say", words)) => Some(host_requests::send_lines(words)),
        _ => None,
    };
    if let Some(said) = said {
        let said = said.unwrap_or_else(|error| format!("{error}"));
        let _ = writeln!(std::io::stdout(), "{said}");
        return ExitCode::SUCCESS;
    }
    let flags = match Flags::parse(arguments.clone()) {
        Ok(flags) => flags,
        Err(why) => return write_stderr(&format!("{why}\n{FLAGS_USAGE}"), ExitCode::from(2)),
    };
    // The restarted program gets the same flags without this one.
    if flags.ignore_term {
        let rest: Vec<String> =
            arguments.into_iter().filter(|argument| argument != "--ignore-term").collect();
        return write_stderr(
            &format!("{}\n", children::restart_ignoring_term(&rest)),
            ExitCode::FAILURE,
        );
    }
    match start_agent(flags) {
        Ok(code) => code,
        Err(error) => write_stderr(&format!("scripted agent: {error}\n"), ExitCode::FAILURE),
    }
}

fn start_agent(flags: Flags) -> std::io::Result<ExitCode> {
    if let Some(mib) = flags.hold {
        resource_use::hold_memory_for_long(mib);
        return Ok(ExitCode::SUCCESS);
    }
    for line in &flags.stderr {
        write_stderr(&format!("{line}\n"), ExitCode::SUCCESS);
    }
    if flags.spawn_children {
        let pids: Vec<String> =
            children::spawn_children(false)?.iter().map(u32::to_string).collect();
        write_stderr(&format!("{}\n", pids.join(" ")), ExitCode::SUCCESS);
    }
    if let Some(socket) = &flags.socket {
        write_stderr(&format!("{}\n", host_requests::request_upgrade(socket)), ExitCode::SUCCESS);
    }
    if let Some(start_for) = flags.slow_start {
        thread::sleep(start_for);
    }
    if let Some(folder) = &flags.start_token {
        while !take_token(folder)? {
            thread::sleep(script::FILE_POLL_INTERVAL);
        }
    }
    if let Some(code) = flags.exit_on_start {
        std::process::exit(code);
    }
    let ignore_eof = flags.ignore_eof;
    let (input, output) = wharf_demo::open_stdio()?;
    if let Some(path) = &flags.transcript {
        transcript::play_transcript(path, input, output)?;
        return Ok(ExitCode::SUCCESS);
    }
    run(flags, input, output)?;
    if ignore_eof {
        // The same time as the children: without an end it would outlive a failed test.
        thread::sleep(Duration::from_secs(900));
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes a file of the folder. Returns false if there is none.
fn take_token(folder: &Path) -> io::Result<bool> {
    for entry in std::fs::read_dir(folder)? {
        // Another agent may have taken it.
        if std::fs::remove_file(entry?.path()).is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn write_stderr(text: &str, code: ExitCode) -> ExitCode {
    let _ = std::io::stderr().write_all(text.as_bytes());
    code
}
