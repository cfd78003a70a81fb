//! The one place that prints: results to stdout, complaints and progress to stderr.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is the output module")]

/// A result.
pub(crate) fn line(text: &str) {
    println!("{text}");
}

/// What is being done, for whoever watches.
pub(crate) fn progress(text: &str) {
    eprintln!("== {text}");
}

/// What went wrong.
pub(crate) fn complain(text: &str) {
    eprintln!("{text}");
}
