//! The scripted agent as a program: flags on the command line, ACP on stdin and stdout.

use std::process::ExitCode;

fn main() -> ExitCode {
    wharf_testkit::agent::main(std::env::args().skip(1).collect())
}
