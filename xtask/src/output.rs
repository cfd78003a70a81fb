//! The only module that prints: results to stdout, errors and progress to stderr.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is the output module")]

/// Prints a result.
pub(crate) fn print_line(text: &str) {
    println!("{text}");
}

/// Prints the current step.
pub(crate) fn print_progress(text: &str) {
    eprintln!("== {text}");
}

/// Prints an error.
pub(crate) fn print_error(text: &str) {
    eprintln!("{text}");
}
