//! The full-screen client in a session of 100,000 events: opening it, going back, and returning to
//! the end.

use anyhow::{Context, Result, ensure};
use wharf_testkit::cold_sessions::ColdSessions;

use crate::cli::run_wharf;
use crate::full_screen_clients::SIZES;
use crate::screen_terminal::ScreenTerminal;
use crate::scripted_host;

const EVENT_COUNT: usize = 100_000;
/// The first turn of a cold session has few events, all others a hundred.
const EVENTS_PER_TURN: usize = 100;

#[test]
fn session_of_100_000_events_is_opened_and_read_backwards() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    ensure!(host.terminate()?.success(), "the host did not stop in order");
    let directory = host.directory().to_owned();
    let cold = ColdSessions {
        count: 1,
        agent: "scripted",
        cwd: &directory,
        events: EVENT_COUNT,
        waiting: None,
    };
    let sessions = cold.write_to(&host.state_dir())?;
    let session = sessions.first().context("no session")?;
    host.restart()?;
    // The host folds the log once. This takes long without optimisation, and is not what is tested
    // here.
    run_wharf(&host, &["output", session, "-n", "1"])?;
    let turns = EVENT_COUNT / EVENTS_PER_TURN;
    for size in SIZES {
        let mut client = ScreenTerminal::run_wharf(&host, size, &[])?;
        client.wait_for_text("Sessions")?;
        client.wait_for("the session in the list", |screen| screen.contains("scripted"))?;
        client.press("\r")?;
        client.wait_for("the newest turn", |screen| {
            screen.contains(&format!("This was {session}"))
        })?;
        let is_older = |screen: &str| {
            (turns - 40..turns - 10).any(|turn| screen.contains(&format!("prompt-{turn}")))
        };
        client.press("\t")?;
        client.press_until("\x1b[5~", "an older turn", is_older)?;
        client.press("G")?;
        client
            .wait_for("the end again", |screen| screen.contains(&format!("This was {session}")))?;
        client.press("i\x04")?;
        assert_eq!(client.finish()?.0, Some(0));
    }
    Ok(())
}
