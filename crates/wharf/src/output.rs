//! The one place that prints.

use std::io::{IsTerminal, Write};

use crate::format::text::to_printable_lines;

/// A line for whoever called, flushed so that a waiting program sees it. A reader that is gone is not an error.
pub(crate) fn print_line(text: &str) {
    let _ = try_print_line(text);
}

/// A line of something that goes on; an error says that nobody reads any more.
pub(crate) fn try_print_line(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}

/// Bytes as they are.
pub(crate) fn print_bytes(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

/// A word to the person, beside the output that a program may read.
pub(crate) fn print_note(text: &str) {
    let _ = write_text(&mut std::io::stderr().lock(), text);
}

/// A question to the person: what is typed comes after it on the same line.
pub(crate) fn print_question(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// Is there a person who can be asked?
pub(crate) fn is_person_present() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// What went wrong, from the outside in.
pub(crate) fn print_error(error: &anyhow::Error) {
    let _ = write_error(&mut std::io::stderr().lock(), error);
}

/// Words in which an agent may have a part: a terminal acts on none of them.
fn write_text(out: &mut impl Write, text: &str) -> std::io::Result<()> {
    writeln!(out, "{}", to_printable_lines(text))
}

fn write_error(out: &mut impl Write, error: &anyhow::Error) -> std::io::Result<()> {
    let mut said = error.to_string();
    write_text(out, &format!("error: {said}"))?;
    for cause in error.chain().skip(1).map(ToString::to_string) {
        // Many an error has its cause in its own words already.
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
