//! Printing for people and for programs that call a verb. Bytes of protocols (`bridge`, `wharf mcp`) and the host's log
//! (`logging`) are written elsewhere.

use std::io::{IsTerminal, Write};

use crate::format::text::to_printable_lines;

/// Prints a line to stdout and flushes it, so that a waiting program sees it. A reader that is gone is not an error.
pub(crate) fn print_line(text: &str) {
    let _ = try_print_line(text);
}

/// Prints a line of a longer output to stdout. Fails if the reader is gone.
pub(crate) fn try_print_line(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}

/// Prints bytes to stdout unchanged.
pub(crate) fn print_bytes(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

/// Prints a note for a person to stderr, beside the output that a program may read.
pub(crate) fn print_note(text: &str) {
    let _ = write_text(&mut std::io::stderr().lock(), text);
}

/// Prints a question to stderr, without a line break: the person types the answer on the same line.
pub(crate) fn print_question(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// Returns true if stdin and stderr are a terminal, so that a person can be asked.
pub(crate) fn is_person_present() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Prints an error and its causes to stderr.
pub(crate) fn print_error(error: &anyhow::Error) {
    let _ = write_error(&mut std::io::stderr().lock(), error);
}

/// Writes text that may come from an agent, without control characters that a terminal would act on.
fn write_text(out: &mut impl Write, text: &str) -> std::io::Result<()> {
    writeln!(out, "{}", to_printable_lines(text))
}

fn write_error(out: &mut impl Write, error: &anyhow::Error) -> std::io::Result<()> {
    let mut said = error.to_string();
    write_text(out, &format!("error: {said}"))?;
    for cause in error.chain().skip(1).map(ToString::to_string) {
        // Many errors include their cause in their own message.
        if !said.contains(&cause) {
            write_text(out, &format!("  because: {cause}"))?;
            said = cause;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_of_an_agent_moves_the_terminal() {
        let mut out = Vec::new();
        write_text(&mut out, "the session ended: \u{1b}]0;mine\u{7}gone\u{1b}[2J\n\tnext\u{202e}").unwrap();
        let error = anyhow::anyhow!("in\u{1b}[1Aside\r").context("out\u{9b}side");
        write_error(&mut out, &error).unwrap();
        let said = String::from_utf8(out).unwrap();
        assert_eq!(said, "the session ended: gone\n\tnext\nerror: outside\n  because: inside \n");
    }
}
