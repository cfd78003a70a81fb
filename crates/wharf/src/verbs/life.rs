//! `wharf interrupt`, `kill`, `resume`: a turn's end, a session's end, and its return.

use clap::Args;
use serde::de::DeserializeOwned;
use wharf_api::{Interrupted, Killed, ResumeArgs, SessionInfo};

use crate::client::{Call, Client, path};
use crate::exit::Exit;
use crate::global::Global;
use crate::{output, which};

#[derive(Debug, Args)]
pub(crate) struct Interrupt {
    /// Which session [default: the newest of the current directory].
    id: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Kill {
    /// Which sessions; `.` is the newest of the current directory.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Resume {
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

/// Gives the host this command for the session.
async fn command<T: DeserializeOwned>(client: &Client, session: &str, word: &str) -> anyhow::Result<T> {
    client.read(&Call::command(path(&["sessions", session, word]))).await
}

pub(crate) async fn interrupt(global: &Global, verb: Interrupt) -> anyhow::Result<Exit> {
    let client = global.client().await?;
    let session = which::session(&client, verb.id.as_deref()).await?;
    let answer: Interrupted = command(&client, &session.id, "interrupt").await?;
    let what = if answer.was_busy { "interrupted" } else { "was not busy" };
    output::line(&format!("{} {what}", session.id));
    Ok(Exit::Ok)
}

pub(crate) async fn kill(global: &Global, verb: Kill) -> anyhow::Result<Exit> {
    let client = global.client().await?;
    // All are known before the first is killed: a slip in one name harms none.
    let mut sessions = Vec::new();
    for meant in &verb.ids {
        sessions.push(which::session(&client, Some(meant)).await?);
    }
    for session in sessions {
        let _: Killed = command(&client, &session.id, "kill").await?;
        let what = if session.status.is_alive() { "killed" } else { "had ended" };
        output::line(&format!("{} {what}", session.id));
    }
    Ok(Exit::Ok)
}

pub(crate) async fn resume(global: &Global, verb: Resume) -> anyhow::Result<Exit> {
    let client = global.client().await?;
    let session = which::session(&client, verb.id.as_deref()).await?;
    let body = ResumeArgs { session_mode: verb.session_mode, accept_agent_settings: Some(verb.accept_agent_settings) };
    let answer = client.call(&Call::post(path(&["sessions", &session.id, "resume"]), &body)).await?;
    if verb.json {
        output::line(answer.text().trim_end());
        return Ok(Exit::Ok);
    }
    let session: SessionInfo = answer.json()?;
    output::line(&format!("{} {}", session.id, session.status));
    Ok(Exit::Ok)
}
