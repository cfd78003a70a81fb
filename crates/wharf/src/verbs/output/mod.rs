//! `wharf output`: a session's transcript for a person, or AIP-46's lines of it.

mod aip_lines;
mod follow_rows;
mod history;
mod row_printer;
mod since;

use clap::{Args, ValueEnum};
use wharf_api::SessionInfo;
use wharf_render::style::Screen;

use crate::client::HostClient;
use crate::exit::{Exit, Failure};
use crate::global::GlobalOptions;
use crate::session_ref;
use crate::transcript::RowLook;
use crate::turn_ref::{TurnRef, find_turn};
use history::RowSelection;
use row_printer::{PrintStyle, RowPrinter};
use since::SinceTime;

/// How many lines of the session are shown by `wharf sessions --attach` before new ones.
const ATTACH_LINES: usize = 200;

#[derive(Debug, Args)]
pub(crate) struct OutputVerb {
    /// Which session [default: the newest of the current directory].
    id: Option<String>,
    /// Only the last N lines; with --json the last N rows.
    #[arg(short = 'n', long = "lines", value_name = "N")]
    lines: Option<usize>,
    /// Go on with what comes, until the session ends.
    #[arg(short, long)]
    follow: bool,
    /// Show the time of each row.
    #[arg(short, long)]
    time: bool,
    /// Only what came after this time: `2026-11-15T20:34:00Z`, a day, or how long ago: `10m`, `2h`,
    /// `3d`.
    #[arg(long, value_name = "TIME")]
    since: Option<SinceTime>,
    /// Only this turn: its number, `last`, or the id of its prompt.
    #[arg(long, value_name = "N", conflicts_with_all = ["follow", "since"])]
    turn: Option<TurnRef>,
    /// Only what the agent says: no prompts, thoughts, plans and tool calls.
    #[arg(long)]
    text: bool,
    /// `rows`, or `lines` for the lines of AIP-46 that programs read: the last 200, or up to 10000
    /// with -n.
    #[arg(long, value_name = "STYLE", default_value = "rows", conflicts_with_all = ["time", "since", "turn", "text"])]
    style: OutputStyle,
    /// JSON: the rows; with -f one row per line. With `--style lines` the answer of the host, not
    /// with -f.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputStyle {
    Rows,
    Lines,
}

pub(crate) async fn run(global: &GlobalOptions, verb: OutputVerb) -> anyhow::Result<Exit> {
    if verb.lines == Some(0) {
        return Err(Failure::new(Exit::Usage, "-n 0: at least one line").into());
    }
    if verb.style == OutputStyle::Lines && verb.json && verb.follow {
        return Err(Failure::new(Exit::Usage, "--style lines --json does not go with -f").into());
    }
    let client = global.connect_client().await?;
    let session = session_ref::find_session(&client, verb.id.as_deref()).await?;
    let screen = global.screen();
    if verb.style == OutputStyle::Lines {
        let lines = verb.lines.unwrap_or(aip_lines::DEFAULT_LINES);
        return match verb.follow {
            true => aip_lines::follow_lines(&client, screen, &session, lines).await,
            false => aip_lines::show_lines(&client, screen, &session, lines, verb.json).await,
        };
    }
    let turn = match &verb.turn {
        Some(meant) => Some(find_turn(&client, &session.id, meant).await?),
        None => None,
    };
    let selection = RowSelection {
        turn,
        since: verb.since.map(SinceTime::to_millis),
        messages_only: verb.text,
    };
    let style = match (verb.json, verb.text) {
        (true, _) => PrintStyle::Json,
        (false, true) => PrintStyle::Text,
        (false, false) => PrintStyle::Rows,
    };
    let printer = RowPrinter::new(RowLook { screen, times: verb.time }, style);
    if verb.follow {
        return follow_rows::follow_rows(&client, &session, &selection, printer, verb.lines).await;
    }
    let limit = printer.read_limit(verb.lines);
    let shown = history::read_rows(&client, &session.id, &selection, None, limit).await?;
    printer.print_all(&session.id, shown, verb.lines)?;
    Ok(Exit::Ok)
}

/// Prints the end of a session's transcript, then new rows, until the session ends or the reader is
/// gone.
pub(crate) async fn follow_output(
    client: &HostClient,
    screen: Screen,
    session: &SessionInfo,
) -> anyhow::Result<Exit> {
    let printer = RowPrinter::new(RowLook { screen, times: false }, PrintStyle::Rows);
    follow_rows::follow_rows(client, session, &RowSelection::default(), printer, Some(ATTACH_LINES))
        .await
}
