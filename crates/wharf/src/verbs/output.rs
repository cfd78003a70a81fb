//! `wharf output`: the output of a session as lines.

use clap::Args;
use wharf_api::{OutputLine, OutputLines, StreamEvent};

use crate::client::{HostCall, HostClient, StreamFollower, StreamStart, url_path};
use crate::exit::Exit;
use crate::format::Screen;
use crate::global::GlobalOptions;
use crate::turn::format_output_line;
use crate::{output, session_ref};

/// How many lines are shown by default.
pub(crate) const DEFAULT_LINES: usize = 200;

#[derive(Debug, Args)]
pub(crate) struct OutputVerb {
    /// Which session [default: the newest of the current directory].
    id: Option<String>,
    /// The last N lines, at most 10000.
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = DEFAULT_LINES)]
    lines: usize,
    /// Go on with what comes, until the session ends.
    #[arg(short, long)]
    follow: bool,
    /// The JSON of the host; not with -f.
    #[arg(long, conflicts_with = "follow")]
    json: bool,
}

pub(crate) async fn run(global: &GlobalOptions, verb: OutputVerb) -> anyhow::Result<Exit> {
    let client = global.connect_client().await?;
    if verb.follow {
        return follow_output(&client, global.screen(), verb.id.as_deref(), verb.lines).await;
    }
    let session = session_ref::find_session(&client, verb.id.as_deref()).await?;
    let answer = client.send_call(&last_lines_call(&session.id, verb.lines)).await?;
    if verb.json {
        output::print_line(answer.text().trim_end());
    } else {
        print_lines(global.screen(), &answer.json()?);
    }
    Ok(Exit::Ok)
}

/// Prints the last lines of a session, then new ones, until the session ends or the reader is gone.
pub(crate) async fn follow_output(
    client: &HostClient,
    screen: Screen,
    meant: Option<&str>,
    lines: usize,
) -> anyhow::Result<Exit> {
    let session = session_ref::find_session(client, meant).await?;
    let past: OutputLines = client.fetch_json(&last_lines_call(&session.id, lines)).await?;
    if !print_lines(screen, &past) {
        return Ok(Exit::Ok);
    }
    let from = past.last_event_id.map_or(StreamStart::Beginning, StreamStart::After);
    let mut follow = StreamFollower::new(client, url_path(&["sessions", &session.id, "stream"]), from);
    if !session.status.is_alive() {
        return Ok(Exit::Ok);
    }
    while let Some(event) = follow.next().await? {
        let line = match event.parse_session_event()? {
            StreamEvent::Line(line) => line,
            // The stream stays open while the session sleeps; a person at a terminal wants to go on.
            StreamEvent::Status(change) if !change.status.is_alive() => break,
            StreamEvent::Status(_)
            | StreamEvent::Turn(_)
            | StreamEvent::Ask(_)
            | StreamEvent::Pause(_)
            | StreamEvent::Other => continue,
        };
        if output::try_print_line(&format_output_line(screen, &line.line, line.stream == OutputLine::STDERR)).is_err() {
            break;
        }
    }
    Ok(Exit::Ok)
}

fn last_lines_call(session: &str, lines: usize) -> HostCall {
    HostCall::get(format!("{}?lastN={lines}", url_path(&["sessions", session, "output"])))
}

/// Prints the lines. Returns false if the reader is gone.
fn print_lines(screen: Screen, output: &OutputLines) -> bool {
    output.lines.iter().all(|line| output::try_print_line(&format_output_line(screen, line, false)).is_ok())
}
