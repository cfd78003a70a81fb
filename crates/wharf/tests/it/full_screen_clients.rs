//! The full-screen client at work on three sizes: streams, asks that another client sees resolved,
//! interrupts, and resizing.

use anyhow::Result;
use wharf_testkit::host::TestHost;

use crate::cli::{run_wharf, start_kept_session};
use crate::screen_terminal::ScreenTerminal;
use crate::scripted_host;

/// Rows and columns: a wide screen with two panes, the usual one, and a narrow one.
pub(crate) const SIZES: [(u16, u16); 3] = [(40, 120), (24, 80), (20, 60)];

/// Starts a session and opens it in a client of this size.
fn open_new_session(host: &TestHost, size: (u16, u16)) -> Result<(String, ScreenTerminal)> {
    let session = start_kept_session(host, &[])?;
    let mut client = ScreenTerminal::run_wharf(host, size, &["attach", &session])?;
    client.wait_for_text("idle")?;
    Ok((session, client))
}

/// Sends a prompt whose turn goes on until it is interrupted.
fn start_long_turn(client: &mut ScreenTerminal) -> Result<()> {
    client.press("hang\r")?;
    client.wait_for_text("» working")?;
    Ok(())
}

fn interrupt_turn(client: &mut ScreenTerminal) -> Result<()> {
    client.press("\x1b")?;
    client.wait_for_text("Esc again to interrupt")?;
    client.press("\x1b")
}

#[test]
fn stream_and_wide_characters_are_shown_at_every_size() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    for (rows, columns) in SIZES {
        let (_, mut client) = open_new_session(&host, (rows, columns))?;
        client.press("echo 日本語 👍🏽 e\u{301}t\u{e9}; stream 300 20; echo the end\r")?;
        client.wait_for("the end of the stream", |screen| {
            screen.contains("the end") && screen.contains("── done")
        })?;
        client.press("\u{4f60}\u{597d} typed")?;
        let screen = client.wait_for_text("❯ 你好 typed")?;
        assert!(screen.lines().count() <= usize::from(rows), "{screen}");
        for (rows, columns) in SIZES {
            client.resize((rows, columns))?;
            client.press("\x0c")?;
            client.wait_for("the composer after a resize", |screen| {
                screen.contains("❯ 你好 typed")
            })?;
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
    for (place, size) in SIZES.into_iter().enumerate() {
        let (session, mut answering) = open_new_session(&host, size)?;
        let other_size = SIZES[(place + 1) % SIZES.len()];
        let mut watching = ScreenTerminal::run_wharf(&host, other_size, &["attach", &session])?;
        watching.wait_for_text("idle")?;
        answering.press("ask\r")?;
        // The question itself is also the name of the tool call, which comes first.
        watching.wait_for_text("Ctrl-G to answer")?;
        answering.wait_for_text("Ctrl-G to answer")?;
        answering.press("\x07")?;
        answering.press_until("a", "the answer", |screen| screen.contains("chosen: allow_once"))?;
        watching.wait_for("the resolved ask", |screen| {
            screen.contains("chosen: allow_once") && !screen.contains("waits for an answer")
        })?;
    }
    Ok(())
}

#[test]
fn second_escape_interrupts_the_turn() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    for size in SIZES {
        let (_, mut client) = open_new_session(&host, size)?;
        start_long_turn(&mut client)?;
        interrupt_turn(&mut client)?;
        client.wait_for_text("── cancelled")?;
    }
    Ok(())
}

#[test]
fn copy_inside_tmux_goes_into_the_buffer_of_tmux() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let session = start_kept_session(&host, &[])?;
    let programs = host.directory().join("programs");
    std::fs::create_dir(&programs)?;
    let tmux = programs.join("tmux");
    // A tmux before version 3.2, which knows no -w.
    std::fs::write(&tmux, "#!/bin/sh\n[ \"$*\" = 'load-buffer -' ] && cat > \"$0-buffer\"\n")?;
    std::fs::set_permissions(&tmux, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let path = format!("PATH='{}':\"$PATH\"", programs.display());
    let line = |wharf: &str| format!("export TMUX=/tmp/tmux-0/default,1,0 {path}; exec {wharf}");
    let mut client = ScreenTerminal::run_line(&host, SIZES[1], &["attach", &session], line)?;
    client.wait_for_text("idle")?;
    client.press("echo the answer\r")?;
    client.wait_for_text("── done")?;
    client.press("\t")?;
    client.press_until("ky", "the copy", |screen| {
        screen.contains("copied, also into the buffer of tmux")
    })?;
    assert_eq!(std::fs::read_to_string(programs.join("tmux-buffer"))?.trim(), "the answer");
    std::fs::remove_file(&tmux)?;
    std::fs::write(&tmux, "#!/bin/sh\nexit 1\n")?;
    std::fs::set_permissions(&tmux, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    client.press("y")?;
    client.wait_for_text("tmux load-buffer failed; the text was sent to the terminal itself")?;
    Ok(())
}

#[test]
fn waiting_prompt_is_edited_in_place_and_runs_as_edited() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    for size in SIZES {
        let (_, mut client) = open_new_session(&host, size)?;
        start_long_turn(&mut client)?;
        client.press("echo first draft\r")?;
        client.wait_for_text("Queue 1")?;
        client.press("echo the other\r")?;
        client.wait_for_text("Queue 2")?;
        client.press("unsent")?;
        client.wait_for_text("❯ unsent")?;
        client.press("\x03")?;
        client.wait_for_text("cleared")?;
        // Up twice: the last prompt that waits, then the one before it.
        client.press("\x1b[A")?;
        client.wait_for_text("❯ echo the other")?;
        client.press("\x1b[A")?;
        client.wait_for_text("❯ echo first draft")?;
        client.press("\x17version\r")?;
        client.wait_for("the changed queue", |screen| {
            screen.contains("echo first version")
                && !screen.contains("editing below")
                && screen.contains("Queue 2")
        })?;
        interrupt_turn(&mut client)?;
        client.wait_for("both answers", |screen| {
            screen.contains("first version") && screen.contains("the other")
        })?;
        client.wait_for("an empty queue", |screen| {
            !screen.contains("Queue ") && screen.contains("idle")
        })?;
        assert!(!client.text().contains("first draft"), "{}", client.text());
    }
    Ok(())
}

#[test]
fn prompt_that_is_sent_in_the_moment_of_leaving_arrives() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (session, mut client) = open_new_session(&host, SIZES[1])?;
    client.press("echo said in leaving\r\x04")?;
    assert_eq!(client.finish()?.0, Some(0));
    run_wharf(&host, &["prompt", &session, "--wait", "echo later"])?;
    let output = run_wharf(&host, &["output", &session])?;
    assert!(output.contains("said in leaving"), "{output}");
    Ok(())
}

#[test]
fn long_waiting_prompt_is_edited_whole() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (session, mut client) = open_new_session(&host, SIZES[1])?;
    start_long_turn(&mut client)?;
    // The list of waiting prompts shows 4 KiB of it.
    let prompt = format!("echo {}the end", "word ".repeat(2_000));
    run_wharf(&host, &["prompt", &session, "--queue", &prompt])?;
    client.wait_for_text("Queue 1")?;
    client.press("\x1b[A")?;
    client.wait_for("the end of the whole text", |screen| screen.contains("the end"))?;
    client.press(" of it\r")?;
    client.wait_for("the saved prompt", |screen| !screen.contains("editing below"))?;
    interrupt_turn(&mut client)?;
    client.wait_for_text("the end of it")?;
    Ok(())
}
