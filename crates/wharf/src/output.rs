//! The one place that prints.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this module is how the program speaks")]

use std::io::Write;

/// A line for whoever called, flushed so that a waiting program sees it.
pub(crate) fn line(text: &str) {
    println!("{text}");
    let _ = std::io::stdout().flush();
}

/// A word to the person, beside the output that a program may read.
pub(crate) fn note(text: &str) {
    eprintln!("{text}");
}

/// What went wrong, from the outside in.
pub(crate) fn error(error: &anyhow::Error) {
    let mut said = error.to_string();
    eprintln!("error: {said}");
    for cause in error.chain().skip(1).map(ToString::to_string) {
        // Many an error has its cause in its own words already.
        if !said.contains(&cause) {
            eprintln!("  because: {cause}");
            said = cause;
        }
    }
}
