//! `wharf interrupt`, `wharf kill` and `wharf resume`.

use anyhow::Context;
use clap::Args;
use serde::de::DeserializeOwned;
use wharf_api::{Interrupted, Killed, ResumeArgs, SessionInfo};
use wharf_render::style::Screen;
use wharf_render::text::to_printable;

use crate::client::{HostCall, HostClient, url_path};
use crate::confirm::confirm;
use crate::exit::Exit;
use crate::global::GlobalOptions;
use crate::{output, session_ref};

#[derive(Debug, Args)]
pub(crate) struct InterruptVerb {
    /// Which session [default: the newest of the current directory].
    id: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct KillVerb {
    /// Which sessions; `.` is the newest of the current directory.
    #[arg(required_unless_present = "all", value_name = "ID")]
    ids: Vec<String>,
    /// Every session that lives. Asks first.
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// With --all: do not ask.
    #[arg(short, long, requires = "all")]
    yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeVerb {
    /// Which session [default: the newest of the current directory].
    id: Option<String>,
    /// The agent's mode from now on, instead of the one that was in force.
    #[arg(long, value_name = "MODE", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    session_mode: Option<String>,
    /// Take the settings that the agent has, instead of setting those that were in force.
    #[arg(long)]
    accept_agent_settings: bool,
    /// The JSON of the host.
    #[arg(long)]
    json: bool,
}

/// Posts a command for the session to the host.
async fn post_command<T: DeserializeOwned>(
    client: &HostClient,
    session: &str,
    word: &str,
) -> anyhow::Result<T> {
    client
        .fetch_json(&HostCall::post_empty(url_path(&["sessions", session, word])))
        .await
}

pub(crate) async fn run_interrupt(
    global: &GlobalOptions,
    verb: InterruptVerb,
) -> anyhow::Result<Exit> {
    let client = global.connect_client().await?;
    let session = session_ref::find_session(&client, verb.id.as_deref()).await?;
    let answer: Interrupted = post_command(&client, &session.id, "interrupt").await?;
    let what = if answer.was_busy { "interrupted" } else { "was not busy" };
    output::print_line(&format!("{} {what}", session.id));
    Ok(Exit::Ok)
}

pub(crate) async fn run_kill(global: &GlobalOptions, verb: KillVerb) -> anyhow::Result<Exit> {
    let client = global.connect_client().await?;
    // All sessions are found before the first is killed: a wrong name kills none.
    let mut sessions = Vec::new();
    for meant in &verb.ids {
        sessions.push(session_ref::find_session(&client, Some(meant)).await?);
    }
    if verb.all {
        let alive = session_ref::list_sessions(&client, "&alive=true").await?;
        sessions.extend(alive.into_iter().map(|listed| listed.session));
        if sessions.is_empty() {
            output::print_note("no session lives");
            return Ok(Exit::Ok);
        }
        let question =
            format!("end {}?", if sessions.len() == 1 { "this session" } else { "these sessions" });
        if !verb.yes && !confirm(&sessions, &question, "--all ends the agents of all sessions")? {
            output::print_note("nothing is killed");
            return Ok(Exit::Refused);
        }
    }
    kill_sessions(&client, &sessions, global.screen()).await
}

/// Kills the sessions at the same time, since each may take seconds. All are tried; the first error
/// decides the exit code.
async fn kill_sessions(
    client: &HostClient,
    sessions: &[SessionInfo],
    screen: Screen,
) -> anyhow::Result<Exit> {
    let kill = async |session: &SessionInfo| {
        let killed = post_command::<Killed>(client, &session.id, "kill").await;
        if killed.is_ok() {
            output::print_line(&describe_killed(session, screen));
        }
        killed.with_context(|| format!("killing {}", session.id))
    };
    let ends = futures_util::future::join_all(sessions.iter().map(kill)).await;
    let mut failed = ends.into_iter().filter_map(Result::err);
    let Some(first) = failed.next() else { return Ok(Exit::Ok) };
    failed.for_each(|error| output::print_error(&error));
    Err(first)
}

/// Says which session was killed: its id for a program, with its label for a person.
fn describe_killed(session: &SessionInfo, screen: Screen) -> String {
    let what = if session.status.is_alive() { "killed" } else { "had ended" };
    match session.label.as_deref().filter(|_| screen.terminal) {
        Some(label) => format!("{} ({}) {what}", session.id, to_printable(label)),
        None => format!("{} {what}", session.id),
    }
}

pub(crate) async fn run_resume(global: &GlobalOptions, verb: ResumeVerb) -> anyhow::Result<Exit> {
    let client = global.connect_client().await?;
    let session = session_ref::find_session(&client, verb.id.as_deref()).await?;
    let body = ResumeArgs {
        session_mode: verb.session_mode,
        accept_agent_settings: Some(verb.accept_agent_settings),
    };
    let answer = client
        .send_call(&HostCall::post(url_path(&["sessions", &session.id, "resume"]), &body))
        .await?;
    if verb.json {
        output::print_line(answer.text().trim_end());
        return Ok(Exit::Ok);
    }
    let session: SessionInfo = answer.json()?;
    output::print_line(&format!("{} {}", session.id, session.status));
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn killed_session_is_named_with_its_label_for_a_person() {
        let session = json!({
            "id": "sess_1", "adapterSlug": "demo", "workspaceSlug": "default", "cwd": "/w", "status": "running", "label": "docs",
            "startedAt": "2026-11-15T20:34:05.123Z", "turn": "idle", "queued": 0, "clients": 0, "lastSeq": 1, "resumable": false,
        });
        let session: SessionInfo = serde_json::from_value(session).unwrap();
        let terminal = Screen { terminal: true, ..Screen::PIPE };
        assert_eq!(describe_killed(&session, terminal), "sess_1 (docs) killed");
        assert_eq!(describe_killed(&session, Screen::PIPE), "sess_1 killed");
    }
}
