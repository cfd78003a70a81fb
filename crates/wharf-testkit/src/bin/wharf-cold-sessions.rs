//! Fills a state directory with ended sessions: `wharf-cold-sessions STATE_DIR COUNT [EVENTS]`. For
//! measurements.

use std::path::PathBuf;

use anyhow::{Context, Result};
use wharf_testkit::cold_sessions::ColdSessions;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let state = PathBuf::from(
        arguments
            .next()
            .context("usage: wharf-cold-sessions STATE_DIR COUNT [EVENTS]")?,
    );
    let count = arguments.next().context("how many?")?.parse().context("reading the number")?;
    let events = arguments
        .next()
        .map_or(Ok(0), |events| events.parse())
        .context("reading the number of events")?;
    let cwd = std::env::current_dir()?;
    ColdSessions { count, agent: "agent", cwd: &cwd, events, waiting: None }.write_to(&state)?;
    Ok(())
}
