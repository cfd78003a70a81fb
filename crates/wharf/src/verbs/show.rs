//! `wharf show`: all details of one session.

use clap::Args;
use wharf_api::{ResourceUse, SessionInfo};

use crate::client::{HostCall, url_path};
use crate::exit::Exit;
use crate::format::text::{self, to_printable};
use crate::format::{Screen, TextStyle, times};
use crate::global::GlobalOptions;
use crate::{output, session_ref, session_state};

#[derive(Debug, Args)]
pub(crate) struct ShowVerb {
    /// Which session [default: the newest of the current directory].
    id: Option<String>,
    /// The JSON of the host.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(global: &GlobalOptions, verb: ShowVerb) -> anyhow::Result<Exit> {
    let client = global.connect_client().await?;
    let session = session_ref::find_session(&client, verb.id.as_deref()).await?;
    if verb.json {
        output::print_line(
            client.send_call(&HostCall::get(url_path(&["sessions", &session.id]))).await?.text().trim_end(),
        );
        return Ok(Exit::Ok);
    }
    let screen = global.screen();
    for (name, value, style) in session_rows(screen, &session) {
        if screen.terminal {
            let name = screen.paint(TextStyle::Faint, &format!("{name:<10}"));
            output::print_line(&format!("{name}  {}", screen.paint(style, &to_printable(&value))));
        } else {
            output::print_line(&crate::format::table::join_with_tabs([name, &value]));
        }
    }
    Ok(Exit::Ok)
}

fn session_rows(screen: Screen, session: &SessionInfo) -> Vec<(&'static str, String, TextStyle)> {
    let now = times::now_millis();
    let when =
        |at: &String| if screen.terminal { format!("{} ({at})", times::format_ago(at, now)) } else { at.clone() };
    let (word, style) = session_state::state_word(session);
    let over = if session.resources.is_some_and(|used| used.over_limit) { TextStyle::Bad } else { TextStyle::Plain };
    let some = |value: &Option<String>| value.clone().unwrap_or_default();
    let rows = [
        ("id", session.id.clone(), TextStyle::Strong),
        ("state", word.to_owned(), style),
        ("status", session.status.to_string(), TextStyle::Plain),
        ("turn", session.turn.to_string(), TextStyle::Plain),
        ("queued", session.queued.to_string(), TextStyle::Plain),
        ("clients", session.clients.to_string(), TextStyle::Plain),
        ("agent", session.adapter_slug.clone(), TextStyle::Plain),
        ("workspace", session.workspace_slug.clone(), TextStyle::Plain),
        ("directory", session.cwd.clone(), TextStyle::Plain),
        ("parent", some(&session.parent_session_id), TextStyle::Plain),
        ("depth", session.depth.map(|depth| depth.to_string()).unwrap_or_default(), TextStyle::Plain),
        ("label", some(&session.label), TextStyle::Plain),
        ("name", some(&session.name), TextStyle::Plain),
        ("title", some(&session.title), TextStyle::Plain),
        ("agent's id", some(&session.agent_session_id), TextStyle::Plain),
        ("started", when(&session.started_at), TextStyle::Plain),
        ("output", session.last_output_at.as_ref().map(when).unwrap_or_default(), TextStyle::Plain),
        ("ended", session.ended_at.as_ref().map(when).unwrap_or_default(), TextStyle::Plain),
        ("because", session.end_reason.as_ref().map(ToString::to_string).unwrap_or_default(), TextStyle::Plain),
        ("exit code", session.exit_code.map(|code| code.to_string()).unwrap_or_default(), TextStyle::Plain),
        ("paused", session.paused.as_ref().map(ToString::to_string).unwrap_or_default(), TextStyle::Bad),
        ("message", some(&session.message), TextStyle::Bad),
        (
            "memory",
            resource_figure(screen, session, |used| (used.memory_bytes, text::format_size(used.memory_bytes))),
            over,
        ),
        (
            "cpu",
            resource_figure(screen, session, |used| (used.cpu_millis, times::format_duration(used.cpu_millis))),
            TextStyle::Plain,
        ),
        (
            "processes",
            resource_figure(screen, session, |used| (used.processes, used.processes.to_string())),
            TextStyle::Plain,
        ),
        ("events", session.last_seq.to_string(), TextStyle::Plain),
        (
            "forked from",
            session.forked_from.as_ref().map(|from| from.session_id.clone()).unwrap_or_default(),
            TextStyle::Plain,
        ),
        ("resumable", if session.resumable { "yes" } else { "no" }.to_owned(), TextStyle::Plain),
    ];
    rows.into_iter().filter(|(_, value, _)| !value.is_empty()).collect()
}

/// Returns a figure with a unit for a person, or the plain number (bytes, milliseconds) for a program. Empty if the session
/// is not measured.
fn resource_figure(screen: Screen, session: &SessionInfo, figure: impl Fn(ResourceUse) -> (u64, String)) -> String {
    let shown = session.resources.map(figure);
    shown.map(|(plain, told)| if screen.terminal { told } else { plain.to_string() }).unwrap_or_default()
}
