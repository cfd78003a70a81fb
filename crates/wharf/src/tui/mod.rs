//! The shell of the full-screen client: it reads keys and the host's streams, carries out the
//! effects of the core (`wharf-tui`) and writes its frames to the terminal. Everything that is
//! decided or drawn is in the core.

mod calls;
mod clipboard;
mod drafts;
mod event_loop;
mod keys;
mod notification;
mod painter;
mod programs;
mod reviver;
mod screen_writer;
mod streams;
mod terminal;

use std::io::IsTerminal;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Local};
use wharf_api::SessionInfo;
use wharf_render::style::ColourUse;
use wharf_render::text::TimeZone;
use wharf_tui::{HostReady, Moment, ScreenSize, TuiOptions};

use crate::client::HostClient;
use crate::connect::PortWatch;
use crate::exit::Exit;
use crate::format;
use crate::global::GlobalOptions;
use crate::output;
use drafts::DraftFolder;
use event_loop::EventLoop;
use terminal::TerminalScreen;

/// The start of the client.
#[derive(Debug)]
pub(crate) struct TuiStart {
    /// A session, or the name of an agent to start; without it the list opens.
    pub(crate) target: Option<String>,
    pub(crate) is_readonly: bool,
}

/// Returns true if a full-screen client can run here.
pub(crate) fn can_run_full_screen() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && !is_dumb
}

/// Runs the client until the person leaves.
pub(crate) async fn run(global: &GlobalOptions, start: TuiStart) -> anyhow::Result<Exit> {
    let locator = global.locate_host("wharf")?.without_notes();
    let ports = PortWatch::begin(&global.state_dir()?);
    let is_remote = locator.address().remote().is_some();
    let drafts = DraftFolder::open(&global.state_dir()?);
    let clock = ClientClock::start();
    let (width, height) = crossterm::terminal::size().unwrap_or((80, 24));
    let directory = std::env::current_dir().ok().filter(|_| !is_remote);
    let has_colour = format::wants_colour(global.color, true);
    let options = TuiOptions {
        size: ScreenSize { width, height },
        is_readonly: start.is_readonly,
        may_start_host: !is_remote && !global.no_start,
        colours: if has_colour { ColourUse::Ansi } else { ColourUse::None },
        home: std::env::var("HOME").ok(),
        directory: directory.map(|directory| directory.display().to_string()),
        drafts: drafts.load(),
        key_seed: wharf_host::random_text(20),
        time_zone: TimeZone(local_offset_minutes),
    };
    let connecting = async move {
        let client = HostClient::open(locator, false).await?;
        let session = match &start.target {
            Some(target) => {
                Some(crate::verbs::attach::choose_session(&client, Some(target)).await?)
            }
            None => None,
        };
        Ok(ConnectedHost { client, session })
    };
    let screen = TerminalScreen::enter()?;
    let exit = EventLoop::new(global.clone(), options, clock, screen, drafts)
        .run(connecting)
        .await;
    if let Some(note) = ports.describe_change().filter(|_| !is_remote) {
        output::print_note(&note);
    }
    exit
}

/// Returns by how many minutes the clocks of this machine's zone (`TZ`, else the system's) are
/// ahead of UTC at an instant.
fn local_offset_minutes(unix_millis: u64) -> i32 {
    let instant = i64::try_from(unix_millis).ok().and_then(DateTime::from_timestamp_millis);
    instant.map_or(0, |instant| instant.with_timezone(&Local).offset().local_minus_utc() / 60)
}

/// The outcome of the first connection.
#[derive(Debug)]
struct ConnectedHost {
    client: HostClient,
    session: Option<SessionInfo>,
}

impl ConnectedHost {
    fn to_ready(&self) -> HostReady {
        let host_name = self.client.is_remote().then(|| self.client.address().to_string());
        HostReady { host_name, session: self.session.clone().map(Box::new) }
    }
}

/// The clock that the core gets its instants from.
#[derive(Clone, Copy, Debug)]
struct ClientClock {
    started_at: Instant,
}

impl ClientClock {
    fn start() -> Self {
        Self { started_at: Instant::now() }
    }

    fn now(self) -> Moment {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        Moment { elapsed: self.started_at.elapsed(), unix_millis }
    }

    /// Returns the instant of the runtime's clock at this time since the start.
    fn instant(self, elapsed: std::time::Duration) -> tokio::time::Instant {
        tokio::time::Instant::from_std(self.started_at + elapsed)
    }
}
