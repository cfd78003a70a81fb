//! The full-screen client at work on three sizes: streams, asks that another client sees resolved, interrupts, and resizing.

use anyhow::Result;

use crate::cli::start_kept_session;
use crate::screen_terminal::ScreenTerminal;
use crate::scripted_host;

/// Rows and columns: a wide screen with two panes, the usual one, and a narrow one.
const SIZES: [(u16, u16); 3] = [(40, 120), (24, 80), (20, 60)];

#[test]
fn stream_and_wide_characters_are_shown_at_every_size() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    for (rows, columns) in SIZES {
        let session = start_kept_session(&host, &[])?;
        let mut client = ScreenTerminal::run_wharf(&host, (rows, columns), &["attach", &session])?;
        client.wait_for_text("idle")?;
        client.press("echo 日本語 👍🏽 e\u{301}t\u{e9}; stream 300 20; echo the end\r")?;
        client.wait_for("the end of the stream", |screen| screen.contains("the end") && screen.contains("── done"))?;
        client.press("\u{4f60}\u{597d} typed")?;
        let screen = client.wait_for_text("❯ 你好 typed")?;
        assert!(screen.lines().count() <= usize::from(rows), "{screen}");
        for (rows, columns) in SIZES {
            client.resize((rows, columns))?;
            client.press("\x0c")?;
            client.wait_for("the composer after a resize", |screen| screen.contains("❯ 你好 typed"))?;
        }
        client.press("\x03\x04")?;
        assert_eq!(client.finish()?.0, Some(0));
        assert!(!client.is_alternate_screen(), "the terminal is restored");
    }
    Ok(())
}

#[test]
fn answer_of_one_client_resolves_the_ask_at_the_other() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let session = start_kept_session(&host, &[])?;
    let mut answering = ScreenTerminal::run_wharf(&host, SIZES[0], &["attach", &session])?;
    let mut watching = ScreenTerminal::run_wharf(&host, SIZES[2], &["attach", &session])?;
    watching.wait_for_text("idle")?;
    answering.wait_for_text("idle")?;
    answering.press("ask\r")?;
    watching.wait_for_text("Ctrl-G")?;
    answering.wait_for_text("May I?")?;
    answering.press("\x07")?;
    answering.press_until("a", "the answer", |screen| screen.contains("chosen: allow_once"))?;
    let screen = watching.wait_for("the resolved ask", |screen| screen.contains("chosen: allow_once"))?;
    assert!(!screen.contains("waits for an answer"), "{screen}");
    Ok(())
}

#[test]
fn second_escape_interrupts_the_turn() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let session = start_kept_session(&host, &[])?;
    let mut client = ScreenTerminal::run_wharf(&host, SIZES[1], &["attach", &session])?;
    client.wait_for_text("idle")?;
    client.press("hang\r")?;
    client.wait_for_text("» working")?;
    client.press("\x1b")?;
    client.wait_for_text("Esc again to interrupt")?;
    client.press("\x1b")?;
    client.wait_for_text("── cancelled")?;
    Ok(())
}
