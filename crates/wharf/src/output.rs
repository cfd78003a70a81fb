//! Printing for people and for programs that call a verb. Bytes of protocols (`bridge`, `wharf
//! mcp`) and the host's log (`logging`) are written elsewhere.

use std::io::{BufRead, IsTerminal, Write};

use wharf_render::text::to_printable_lines;

/// Prints a line to stdout and flushes it, so that a waiting program sees it. A reader that is gone
/// is not an error.
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

/// Prints text to stdout as it comes, without a line break of its own. Fails if the reader is gone.
pub(crate) fn try_print_text(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
}

/// Prints lines with styles to stderr. Their text is safe already.
pub(crate) fn print_styled_note(lines: &[String]) {
    let mut stderr = std::io::stderr().lock();
    let _ = lines.iter().try_for_each(|line| writeln!(stderr, "{line}"));
}

/// Draws the status line on the terminal over the one before. An empty text removes it.
pub(crate) fn draw_status(text: &str) {
    print_question(&format!("\r\x1b[K{text}"));
}

/// Returns true if stderr is a terminal that a status line can be drawn on.
pub(crate) fn can_draw_status() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Prints bytes to stdout unchanged.
pub(crate) fn print_bytes(bytes: &[u8]) {
    let _ = try_print_bytes(bytes);
}

/// Prints bytes of a longer output to stdout unchanged. Fails if the reader is gone.
pub(crate) fn try_print_bytes(bytes: &[u8]) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
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

/// Asks the person at the terminal. An empty answer means `default`.
pub(crate) fn confirm(question: &str, default: bool) -> std::io::Result<bool> {
    print_question(question);
    let mut typed = String::new();
    if std::io::stdin().lock().read_line(&mut typed)? == 0 {
        return Ok(false);
    }
    Ok(match typed.trim() {
        "" => default,
        word => word.eq_ignore_ascii_case("y") || word.eq_ignore_ascii_case("yes"),
    })
}

/// Asks the person for a secret, which does not appear on the screen.
pub(crate) fn ask_secret(question: &str) -> std::io::Result<String> {
    let stdin = std::io::stdin();
    let before = rustix::termios::tcgetattr(&stdin)?;
    let mut silent = before.clone();
    silent.local_modes.remove(rustix::termios::LocalModes::ECHO);
    print_question(question);
    rustix::termios::tcsetattr(&stdin, rustix::termios::OptionalActions::Flush, &silent)?;
    let mut typed = String::new();
    let read = stdin.lock().read_line(&mut typed);
    rustix::termios::tcsetattr(&stdin, rustix::termios::OptionalActions::Now, &before)?;
    print_question("\n");
    read.map(|_| typed)
}

/// Prints an error and its causes to stderr.
pub(crate) fn print_error(error: &anyhow::Error) {
    let _ = write_error(&mut std::io::stderr().lock(), error);
}

/// Writes text that may come from an agent, without control characters that a terminal would act
/// on.
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
        write_text(&mut out, "the session ended: \u{1b}]0;mine\u{7}gone\u{1b}[2J\n\tnext\u{202e}")
            .unwrap();
        let error = anyhow::anyhow!("in\u{1b}[1Aside\r").context("out\u{9b}side");
        write_error(&mut out, &error).unwrap();
        let said = String::from_utf8(out).unwrap();
        assert_eq!(
            said,
            "the session ended: gone\n\tnext[U+202E]\nerror: outside\n  because: inside \n"
        );
    }
}
