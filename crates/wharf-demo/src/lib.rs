//! The built-in demo agent: an ordinary ACP v1 agent on stdin and stdout, deterministic, without a
//! model or a network.
//!
//! The agent does not know Wharf and starts no processes. It has its own crate so that it cannot
//! come to depend on the host. [`wire`], [`turn`] and [`burst`] are public so that other small
//! agents can build on them.
#![expect(clippy::disallowed_methods, reason = "an agent reads as agents do")]

mod agent;
pub mod burst;
mod commands;
mod history;
mod replies;
mod session;
mod settings;
mod tour;
pub mod turn;
mod turn_writer;
pub mod wire;

pub use agent::run;

use std::fs::File;
use std::io::{self, BufReader};
use std::os::fd::AsFd;

/// Serves the client on stdin and stdout until stdin ends.
///
/// Both are taken as plain files: the standard library's stdout would look for line breaks in every
/// block again.
pub fn run_stdio() -> io::Result<()> {
    let (input, output) = open_stdio()?;
    run(input, output)
}

/// Returns stdin and stdout as plain files.
pub fn open_stdio() -> io::Result<(BufReader<File>, File)> {
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    Ok((BufReader::new(input), output))
}
