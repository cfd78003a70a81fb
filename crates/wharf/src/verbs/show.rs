//! `wharf show`: one session, everything.

use clap::Args;
use wharf_api::{ResourceUse, SessionInfo};

use crate::client::{Call, path};
use crate::exit::Exit;
use crate::global::Global;
use crate::look::text::{self, printable};
use crate::look::{Screen, Style, times};
use crate::{output, state, which};

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Which session [default: the newest of the current directory].
    id: Option<String>,
    /// The JSON of the host.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(global: &Global, verb: Show) -> anyhow::Result<Exit> {
    let client = global.client().await?;
    let session = which::session(&client, verb.id.as_deref()).await?;
    if verb.json {
        output::line(client.call(&Call::get(path(&["sessions", &session.id]))).await?.text().trim_end());
        return Ok(Exit::Ok);
    }
    let screen = global.screen();
    for (name, value, style) in rows(screen, &session) {
        if screen.terminal {
            let name = screen.paint(Style::Faint, &format!("{name:<10}"));
            output::line(&format!("{name}  {}", screen.paint(style, &printable(&value))));
        } else {
            output::line(&crate::look::table::tabbed([name, &value]));
        }
    }
    Ok(Exit::Ok)
}

fn rows(screen: Screen, session: &SessionInfo) -> Vec<(&'static str, String, Style)> {
    let now = times::now();
    let when = |at: &String| if screen.terminal { format!("{} ({at})", times::ago(at, now)) } else { at.clone() };
    let (word, style) = state::of(session);
    let over = if session.resources.is_some_and(|used| used.over_limit) { Style::Bad } else { Style::Plain };
    let some = |value: &Option<String>| value.clone().unwrap_or_default();
    let rows = [
        ("id", session.id.clone(), Style::Strong),
        ("state", word.to_owned(), style),
        ("status", session.status.to_string(), Style::Plain),
        ("turn", session.turn.to_string(), Style::Plain),
        ("queued", session.queued.to_string(), Style::Plain),
        ("clients", session.clients.to_string(), Style::Plain),
        ("agent", session.adapter_slug.clone(), Style::Plain),
        ("workspace", session.workspace_slug.clone(), Style::Plain),
        ("directory", session.cwd.clone(), Style::Plain),
        ("parent", some(&session.parent_session_id), Style::Plain),
        ("depth", session.depth.map(|depth| depth.to_string()).unwrap_or_default(), Style::Plain),
        ("label", some(&session.label), Style::Plain),
        ("name", some(&session.name), Style::Plain),
        ("title", some(&session.title), Style::Plain),
        ("agent's id", some(&session.agent_session_id), Style::Plain),
        ("started", when(&session.started_at), Style::Plain),
        ("output", session.last_output_at.as_ref().map(when).unwrap_or_default(), Style::Plain),
        ("ended", session.ended_at.as_ref().map(when).unwrap_or_default(), Style::Plain),
        ("because", session.end_reason.as_ref().map(ToString::to_string).unwrap_or_default(), Style::Plain),
        ("exit code", session.exit_code.map(|code| code.to_string()).unwrap_or_default(), Style::Plain),
        ("paused", session.paused.as_ref().map(ToString::to_string).unwrap_or_default(), Style::Bad),
        ("message", some(&session.message), Style::Bad),
        ("memory", used(screen, session, |used| (used.memory_bytes, text::size(used.memory_bytes))), over),
        ("cpu", used(screen, session, |used| (used.cpu_millis, times::spent(used.cpu_millis))), Style::Plain),
        ("processes", used(screen, session, |used| (used.processes, used.processes.to_string())), Style::Plain),
        ("events", session.last_seq.to_string(), Style::Plain),
        ("resumable", if session.resumable { "yes" } else { "no" }.to_owned(), Style::Plain),
    ];
    rows.into_iter().filter(|(_, value, _)| !value.is_empty()).collect()
}

/// A figure for a person, or as it is (bytes, milliseconds) for a program. Empty where nothing is measured.
fn used(screen: Screen, session: &SessionInfo, figure: impl Fn(ResourceUse) -> (u64, String)) -> String {
    let shown = session.resources.map(figure);
    shown.map(|(plain, told)| if screen.terminal { told } else { plain.to_string() }).unwrap_or_default()
}
