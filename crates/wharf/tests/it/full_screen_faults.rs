//! The full-screen client when something breaks: the host, the agent's manners, or the client's own
//! process.

use std::fmt::Write;

use anyhow::{Result, ensure};
use wharf_testkit::WAIT_LIMIT;
use wharf_testkit::http::RestClient;
use wharf_testkit::processes::{send_sigcont, send_sighup, send_sigstop, send_sigterm, wait_gone};
use wharf_testkit::random::TestRandom;

use crate::cli::{command_for_host, run_wharf, start_kept_session};
use crate::screen_terminal::ScreenTerminal;
use crate::scripted_host;

const SIZE: (u16, u16) = (24, 80);

#[test]
fn composer_keeps_its_text_over_the_death_of_the_host_in_mid_turn() -> Result<()> {
    let mut host = scripted_host(&[])?.without_keepers(crate::TURN_IS_CUT).start_host()?;
    let session = start_kept_session(&host, &[])?;
    let mut client = ScreenTerminal::run_wharf(&host, SIZE, &["attach", &session])?;
    client.wait_for_text("idle")?;
    client.press("hang\r")?;
    client.wait_for_text("» working")?;
    client.press("unsent words")?;
    client.wait_for_text("❯ unsent words")?;
    host.kill()?;
    client.wait_for("the loss", |screen| {
        screen.contains("not reachable") && screen.contains("❯ unsent words")
    })?;
    client.press(" and more")?;
    client.wait_for_text("❯ unsent words and more")?;
    host.restart()?;
    client.wait_for("the host", |screen| {
        !screen.contains("not reachable") && screen.contains("── ")
    })?;
    client.wait_for_text("❯ unsent words and more")?;
    Ok(())
}

#[test]
fn dead_host_is_started_again() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let session = start_kept_session(&host, &[])?;
    let mut client = ScreenTerminal::run_starting_wharf(&host, SIZE, &["attach", &session])?;
    client.wait_for_text("idle")?;
    host.kill()?;
    client.wait_for_text("starting it again")?;
    let back = client.wait_for("the host", |screen| !screen.contains("not reachable"));
    let stopped = run_wharf(&host, &["stop"]);
    back?;
    stopped?;
    Ok(())
}

/// Rule 19.8.
#[tokio::test]
async fn prompt_for_a_frozen_host_is_shown_as_sending_and_runs_once() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let session = start_kept_session(&host, &[])?;
    let mut client = ScreenTerminal::run_starting_wharf(&host, SIZE, &["attach", &session])?;
    client.wait_for_text("idle")?;
    ensure!(send_sigstop(host.pid()), "there is no host");
    client.press("echo only once\r")?;
    client.wait_for_text("▌ sending…")?;
    client.wait_for("the notice", |screen| {
        screen.contains("the host does not answer") && screen.contains("▌ echo only once")
    })?;
    client.press("echo and then this\r")?;
    client.wait_for_text("▌ echo and then this")?;
    ensure!(send_sigcont(host.pid()), "the host is gone");
    client.wait_for("both answers", |screen| {
        !screen.contains("sending…") && screen.matches("── done").count() == 2
    })?;

    let turns = RestClient::new(&host)
        .get(&format!("/sessions/{session}/turns"))
        .await?
        .expect(200)?;
    let prompts: Vec<&str> = turns["turns"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|turn| turn["summary"].as_str())
        .collect();
    assert_eq!(
        prompts,
        ["echo and then this", "echo only once"],
        "the newest turn is the first one: {turns}"
    );
    Ok(())
}

/// Rule 19.9.
#[test]
fn login_that_is_needed_is_told_once_with_its_command() -> Result<()> {
    let host = scripted_host(&["--auth"])?.start_host()?;
    let failed = command_for_host(&host, &["run", "scripted", "--keep", "echo x"]).output()?;
    ensure!(failed.status.code() == Some(13), "{failed:?}");
    let session = run_wharf(&host, &["ls", "-aq"])?.trim().to_owned();
    // Wide enough for the whole id at the end of the card.
    let mut client = ScreenTerminal::run_wharf(&host, (24, 160), &["attach", &session])?;
    let card = "wharf login scripted (Ctrl-X L), then Ctrl-X A tries again";
    let screen = client.wait_for("the card and the rows", |screen| {
        screen.contains(card) && screen.contains("▌ echo x")
    })?;
    assert_eq!(screen.matches("is not signed in").count(), 1, "{screen}");
    assert!(!screen.contains("Authentication required"), "{screen}");
    client.press("\x18a")?;
    // Its agent cannot come back: another session has the prompt, as a turn or, if its agent was
    // gone already, in the field.
    client.wait_for("the card of the other session", |screen| {
        (screen.contains("▌ echo x") || screen.contains("❯ echo x"))
            && screen.contains("wharf logs sess_")
            && !screen.contains(&session)
    })?;
    Ok(())
}

#[test]
fn first_connection_that_fails_names_the_reason_and_the_doctor() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    host.kill()?;
    let mut client = ScreenTerminal::run_wharf(&host, SIZE, &["attach"])?;
    let (code, left) = client.finish()?;
    assert_eq!(code, Some(3), "{left}");
    assert!(left.contains("no host is running") && left.contains("wharf doctor"), "{left}");
    assert!(!client.is_alternate_screen());
    Ok(())
}

#[test]
fn sigterm_restores_the_terminal() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let mut client = ScreenTerminal::run_wharf(&host, SIZE, &[])?;
    client.wait_for_text("New session")?;
    let pid = client.client_pid()?;
    ensure!(send_sigterm(pid), "there is no client");
    assert_eq!(client.finish()?.0, Some(0));
    assert!(!client.is_alternate_screen());
    wait_gone(&[pid], WAIT_LIMIT).map_err(|left| anyhow::anyhow!("{left:?} still run"))
}

#[test]
fn stopped_host_stays_stopped_until_the_person_starts_it() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let session = start_kept_session(&host, &[])?;
    let mut client = ScreenTerminal::run_starting_wharf(&host, SIZE, &["attach", &session])?;
    client.wait_for_text("idle")?;
    client.press("unsent words")?;
    client.wait_for_text("❯ unsent words")?;
    run_wharf(&host, &["stop"])?;
    client.wait_for_text("the host was stopped · Ctrl-X S starts it again")?;
    client.press("\r")?;
    client.wait_for_text("not done: the host was stopped")?;
    client.press("\x18s")?;
    let back = client.wait_for_text("connected again");
    let kept = client.wait_for_text("❯ unsent words");
    let stopped = run_wharf(&host, &["stop"]);
    back?;
    kept?;
    stopped?;
    Ok(())
}

#[test]
fn hangup_restores_the_terminal_and_ends_the_client() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let mut client = ScreenTerminal::run_wharf(&host, SIZE, &[])?;
    client.wait_for_text("New session")?;
    ensure!(send_sighup(client.client_pid()?), "there is no client");
    assert_eq!(client.finish()?.0, Some(0));
    assert!(!client.is_alternate_screen());

    let mut closed = ScreenTerminal::run_wharf(&host, SIZE, &[])?;
    closed.wait_for_text("New session")?;
    let pid = closed.client_pid()?;
    drop(closed);
    wait_gone(&[pid], WAIT_LIMIT).map_err(|left| anyhow::anyhow!("{left:?} outlives its terminal"))
}

#[test]
fn panic_restores_the_terminal_and_is_reported() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let line = |wharf: &str| {
        format!("export WHARF_TEST_TUI_PANIC=1 RUST_BACKTRACE=0; {wharf}; echo code $?; stty -a")
    };
    let mut client = ScreenTerminal::run_line(&host, SIZE, &[], line)?;
    client.wait_for_text("New session")?;
    assert!(client.is_alternate_screen());
    client.press("\x0c")?;
    let screen =
        client.wait_for("the settings of the terminal", |screen| screen.contains(" echoe "))?;
    assert!(!client.is_alternate_screen(), "the terminal is restored");
    assert!(screen.contains("panicked at") && screen.contains("code 101"), "{screen}");
    assert!(screen.contains(" icanon ") && screen.contains(" echo "), "raw mode goes on: {screen}");
    Ok(())
}

#[test]
fn suspended_client_gives_the_terminal_back_and_goes_on() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let line = |wharf: &str| {
        format!("set -m; {wharf}; echo suspended; read go; fg > /dev/null; echo ended")
    };
    let mut client = ScreenTerminal::run_line(&host, SIZE, &[], line)?;
    client.wait_for_text("New session")?;
    client.press("\x1a")?;
    client.wait_for_text("suspended")?;
    assert!(!client.is_alternate_screen(), "the shell has the terminal");
    client.press("\r")?;
    client.wait_for_text("New session")?;
    assert!(client.is_alternate_screen());
    client.press("\x03\x03")?;
    client.wait_for_text("ended")?;
    assert!(!client.is_alternate_screen());
    Ok(())
}

/// Texts that try to control the terminal, to turn its lines around, or to break the layout.
const HOSTILE_TEXTS: [&str; 5] = [
    "\\u001b[2J\\u001b[?1049l\\u001b]0;owned\\u0007\\u001bcafter one",
    "\\u202eevil\\u2066\\u2069 after two",
    "\\u009b31m\\u0090q\\u009c\\r\\b\\u0000 after three",
    "e\\u0301\\u0301\\u0301\\u0301 \\ud83d\\udc69\\u200d\\ud83d\\udc69\\u200d\\ud83d\\udc67 \\u3000\\ufdfd after four",
    "| a | b |\\n|---|\\n```\\n\\tcode \\u001b[31m\\n# ``` after five",
];

fn hostile_prompt(text: &str) -> String {
    let content = format!(r#"{{"type":"text","text":"{text}"}}"#);
    format!(
        r#"rawupdate {{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{content}}}"#
    )
}

#[test]
fn hostile_agent_and_random_keys_do_not_break_the_client() -> Result<()> {
    const KEY_COUNT: u64 = 10_000;
    /// Keys that neither leave the client nor end the agent.
    const CHOICES: &[&str] = &[
        "\x1b[A",
        "\x1b[B",
        "\x1b[C",
        "\x1b[D",
        "\x1b[5~",
        "\x1b[6~",
        "\x1b[H",
        "\x1b[F",
        "\t",
        "\x1b[Z",
        "\x07",
        "\x0e",
        "\x10",
        "\x14",
        "\x0c",
        "\x0b",
        "\x15",
        "\x17",
        "\x19",
        "\x7f",
        "\x1b",
        "g",
        "G",
        "j",
        "k",
        "?",
        "/",
        "]",
        "[",
        " ",
        "\x1b[200~pasted\r\x1b[2Jtext\x1b[201~",
        "日",
        "👍🏽",
        "\x1b[I",
        "\x1b[O",
        "\x1b[1;5C",
    ];
    let host = scripted_host(&[])?.start_host()?;
    let session = start_kept_session(&host, &[])?;
    for text in HOSTILE_TEXTS {
        run_wharf(&host, &["prompt", &session, "--wait", &hostile_prompt(text)])?;
    }
    run_wharf(&host, &["prompt", &session, "stream 200000 150 flush; echo the flood is over"])?;
    let mut client = ScreenTerminal::run_wharf(&host, SIZE, &["attach", &session])?;
    client.wait_for_text("❯")?;
    let mut random = TestRandom::from_environment()?;
    let mut typed = String::new();
    for _ in 0..KEY_COUNT {
        let key = random.pick_one(CHOICES);
        let _ = write!(typed, "{key:?} ");
        client.press(key)?;
    }
    // All overlays close, and the client still answers keys. Esc has a sequence of its own here,
    // since Esc before another key means Alt.
    client.press_until("\x1b[27u\x1b[27u\x1b[27u\x10", "the palette", |screen| {
        screen.contains("─ Commands ─")
    })?;
    assert!(client.is_alternate_screen(), "{typed}");
    let screen = client.text();
    assert!(!screen.contains(['\u{202e}', '\u{2066}', '\u{9b}']), "{screen}");
    ensure!(send_sigterm(client.client_pid()?), "the client is gone after {typed}");
    assert_eq!(client.finish()?.0, Some(0), "{typed}");
    assert!(!client.is_alternate_screen(), "the terminal is restored");
    Ok(())
}
