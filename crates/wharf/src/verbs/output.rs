//! `wharf output`: what a session said and did, as lines.

use clap::Args;
use wharf_api::{OutputLine, OutputLines, StreamEvent};

use crate::client::{Call, Client, Follow, Place, path};
use crate::exit::Exit;
use crate::global::Global;
use crate::look::Screen;
use crate::turn::shown;
use crate::{output, which};

/// Lines that are shown when nobody says how many.
pub(crate) const SHOWN: usize = 200;

#[derive(Debug, Args)]
pub(crate) struct Output {
    /// Which session [default: the newest of the current directory].
    id: Option<String>,
    /// The last N lines, at most 10000.
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = SHOWN)]
    lines: usize,
    /// Go on with what comes, until the session ends.
    #[arg(short, long)]
    follow: bool,
    /// The JSON of the host; not with -f.
    #[arg(long, conflicts_with = "follow")]
    json: bool,
}

pub(crate) async fn run(global: &Global, verb: Output) -> anyhow::Result<Exit> {
    let client = global.client().await?;
    if verb.follow {
        return follow(&client, global.screen(), verb.id.as_deref(), verb.lines).await;
    }
    let session = which::session(&client, verb.id.as_deref()).await?;
    let answer = client.call(&last(&session.id, verb.lines)).await?;
    if verb.json {
        output::line(answer.text().trim_end());
    } else {
        show(global.screen(), &answer.json()?);
    }
    Ok(Exit::Ok)
}

/// The last lines of a session, then those that come, until it ends or nobody reads.
pub(crate) async fn follow(client: &Client, screen: Screen, meant: Option<&str>, lines: usize) -> anyhow::Result<Exit> {
    let session = which::session(client, meant).await?;
    let past: OutputLines = client.read(&last(&session.id, lines)).await?;
    if !show(screen, &past) {
        return Ok(Exit::Ok);
    }
    let from = past.last_event_id.map_or(Place::Beginning, Place::After);
    let mut follow = Follow::new(client, path(&["sessions", &session.id, "stream"]), from);
    while let Some(event) = follow.next().await? {
        let StreamEvent::Line(line) = event.told()? else { continue };
        if output::stream(&shown(screen, &line.line, line.stream == OutputLine::STDERR)).is_err() {
            break;
        }
    }
    Ok(Exit::Ok)
}

fn last(session: &str, lines: usize) -> Call {
    Call::get(format!("{}?lastN={lines}", path(&["sessions", session, "output"])))
}

/// False if nobody reads.
fn show(screen: Screen, output: &OutputLines) -> bool {
    output.lines.iter().all(|line| output::stream(&shown(screen, line, false)).is_ok())
}
