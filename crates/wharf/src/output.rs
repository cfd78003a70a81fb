//! The one place that prints.
#![expect(clippy::print_stderr, reason = "this module is how the program speaks")]

use std::io::{IsTerminal, Write};

/// A line for whoever called, flushed so that a waiting program sees it. A reader that is gone is not an error.
pub(crate) fn line(text: &str) {
    let _ = stream(text);
}

/// A line of something that goes on; an error says that nobody reads any more.
pub(crate) fn stream(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}

/// Bytes as they are.
pub(crate) fn bytes(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

/// A word to the person, beside the output that a program may read.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// A question to the person: what is typed comes after it on the same line.
pub(crate) fn question(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// Is there a person who can be asked?
pub(crate) fn person_is_there() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
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
