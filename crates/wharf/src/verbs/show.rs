//! `wharf show`: all details of one session.

use clap::Args;
use wharf_api::{KeeperInfo, ResourceUse, SessionInfo};
use wharf_render::style::{Screen, TextStyle};
use wharf_render::text;
use wharf_render::text::{format_ago, format_duration, to_printable};

use crate::client::{HostCall, url_path};
use crate::exit::Exit;
use crate::format::times;
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
            client
                .send_call(&HostCall::get(url_path(&["sessions", &session.id])))
                .await?
                .text()
                .trim_end(),
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
    let when = |at: &String| {
        if screen.terminal { format!("{} ({at})", format_ago(at, now)) } else { at.clone() }
    };
    let (word, style) = session_state::state_word(session);
    let attention_style = session_state::list_word(session).1;
    let over = if session.resources.is_some_and(|used| used.over_limit) {
        TextStyle::Bad
    } else {
        TextStyle::Plain
    };
    let some = |value: &Option<String>| value.clone().unwrap_or_default();
    let rows = [
        ("id", session.id.clone(), TextStyle::Strong),
        ("state", word.to_owned(), style),
        // One word for a person: the status of a sleeping session is that of its last agent, which
        // says nothing about it.
        (
            "status",
            if screen.terminal { String::new() } else { session.status.to_string() },
            TextStyle::Plain,
        ),
        ("turn", session.turn.to_string(), TextStyle::Plain),
        ("attention", attention_text(session), attention_style),
        ("queued", session.queued.to_string(), TextStyle::Plain),
        ("clients", session.clients.to_string(), TextStyle::Plain),
        ("agent", session.adapter_slug.clone(), TextStyle::Plain),
        ("workspace", session.workspace_slug.clone(), TextStyle::Plain),
        ("directory", session.cwd.clone(), TextStyle::Plain),
        ("parent", some(&session.parent_session_id), TextStyle::Plain),
        (
            "depth",
            session.depth.map(|depth| depth.to_string()).unwrap_or_default(),
            TextStyle::Plain,
        ),
        ("label", some(&session.label), TextStyle::Plain),
        ("name", some(&session.name), TextStyle::Plain),
        ("title", some(&session.title), TextStyle::Plain),
        ("agent's id", some(&session.agent_session_id), TextStyle::Plain),
        ("started", when(&session.started_at), TextStyle::Plain),
        ("output", session.last_output_at.as_ref().map(when).unwrap_or_default(), TextStyle::Plain),
        ("ended", session.ended_at.as_ref().map(when).unwrap_or_default(), TextStyle::Plain),
        (
            "because",
            session.end_reason.as_ref().map(ToString::to_string).unwrap_or_default(),
            TextStyle::Plain,
        ),
        (
            "exit code",
            session.exit_code.map(|code| code.to_string()).unwrap_or_default(),
            TextStyle::Plain,
        ),
        (
            "paused",
            session.paused.as_ref().map(ToString::to_string).unwrap_or_default(),
            TextStyle::Bad,
        ),
        ("message", some(&session.message), TextStyle::Bad),
        (
            "memory",
            resource_figure(screen, session, |used| {
                (used.memory_bytes, text::format_size(used.memory_bytes))
            }),
            over,
        ),
        (
            "cpu",
            resource_figure(screen, session, |used| {
                (used.cpu_millis, format_duration(used.cpu_millis))
            }),
            TextStyle::Plain,
        ),
        (
            "processes",
            resource_figure(screen, session, |used| (used.processes, used.processes.to_string())),
            TextStyle::Plain,
        ),
        (
            "kept",
            session.keeper.as_ref().map(describe_keeper).unwrap_or_default(),
            TextStyle::Plain,
        ),
        ("events", session.last_seq.to_string(), TextStyle::Plain),
        (
            "forked from",
            session
                .forked_from
                .as_ref()
                .map(|from| from.session_id.clone())
                .unwrap_or_default(),
            TextStyle::Plain,
        ),
        ("archived", if session.archived { "yes" } else { "" }.to_owned(), TextStyle::Plain),
        (
            "next",
            session_state::explain_return(session).unwrap_or_default().to_owned(),
            TextStyle::Plain,
        ),
    ];
    rows.into_iter().filter(|(_, value, _)| !value.is_empty()).collect()
}

/// Returns what the session wants from the person, and the question or failure.
fn attention_text(session: &SessionInfo) -> String {
    let Some(attention) = &session.attention else { return String::new() };
    let text = attention.text.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
    format!("{}{text}", attention.state.as_str().replace('_', " "))
}

/// Tells how far the agent goes on without a host.
fn describe_keeper(keeper: &KeeperInfo) -> String {
    let Some(limits) = keeper.limits else { return format!("by Wharf {}", keeper.version) };
    let time = times::format_limit(limits.absence_millis);
    let output = text::format_size(limits.output_bytes);
    format!("{time} without a host, up to {output} of output, by Wharf {}", keeper.version)
}

/// Returns a figure with a unit for a person, or the plain number (bytes, milliseconds) for a
/// program. Empty if the session is not measured.
fn resource_figure(
    screen: Screen,
    session: &SessionInfo,
    figure: impl Fn(ResourceUse) -> (u64, String),
) -> String {
    let shown = session.resources.map(figure);
    shown
        .map(|(plain, told)| if screen.terminal { told } else { plain.to_string() })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(status: &str, end_reason: &str, resumable: bool) -> SessionInfo {
        let json = serde_json::json!({
            "id": "sess_1", "adapterSlug": "demo", "workspaceSlug": "default", "cwd": "/", "status": status,
            "startedAt": "2026-01-01T00:00:00.000Z", "endedAt": "2026-01-01T00:00:01.000Z", "turn": "idle", "queued": 0,
            "clients": 0, "lastSeq": 1, "resumable": resumable, "endReason": end_reason,
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn ended_session_is_in_one_state_and_tells_how_it_comes_back() {
        for (session, state, next) in [
            (session("error", "agent_exited", true), "asleep", Some("the next prompt wakes it")),
            (
                session("error", "agent_exited", false),
                "error",
                Some("it cannot come back; its history stays"),
            ),
            (session("killed", "user", true), "killed", Some("wharf resume brings it back")),
            (session("error", "start_failed", true), "error", Some("wharf resume tries again")),
        ] {
            let rows = session_rows(Screen::TERMINAL, &session);
            let value = |wanted: &str| {
                rows.iter()
                    .find(|(name, ..)| *name == wanted)
                    .map(|(_, value, _)| value.as_str())
            };
            assert_eq!(
                (value("state"), value("status"), value("resumable")),
                (Some(state), None, None)
            );
            assert_eq!(value("next"), next, "{session:?}");
        }
    }
}
