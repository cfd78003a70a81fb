//! `wharf forget`: deletes sessions with their history, after asking.

use std::io::BufRead;

use clap::Args;
use wharf_api::{Forgotten, SessionInfo};

use crate::client::{Call, path};
use crate::exit::{Exit, Failure};
use crate::global::Global;
use crate::look::text::printable;
use crate::look::times;
use crate::{output, state, which};

#[derive(Debug, Args)]
pub(crate) struct Forget {
    /// Which sessions; `.` is the newest of the current directory.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
}

pub(crate) async fn run(global: &Global, verb: Forget) -> anyhow::Result<Exit> {
    let client = global.client().await?;
    let mut sessions = Vec::new();
    for meant in &verb.ids {
        sessions.push(which::session(&client, Some(meant)).await?);
    }
    if !verb.yes && !is_meant(&sessions)? {
        output::note("nothing is forgotten");
        return Ok(Exit::Refused);
    }
    for session in &sessions {
        let answer: Forgotten = client.read(&Call::delete(path(&["sessions", &session.id]))).await?;
        output::line(&format!("{} forgotten", session.id));
        if answer.agent_delete.as_deref() == Some(Forgotten::AGENT_DELETE_FAILED) {
            output::note(&format!("{}: its agent did not delete its own copy, which may be left", session.id));
        }
    }
    Ok(Exit::Ok)
}

/// History does not come back: a person is asked, a program has to say so beforehand.
fn is_meant(sessions: &[SessionInfo]) -> anyhow::Result<bool> {
    if !output::person_is_there() {
        let words = "forgetting deletes the history for good, and there is no terminal to ask on; say --yes";
        return Err(Failure::new(Exit::Usage, words).into());
    }
    let now = times::now();
    for session in sessions {
        let (word, _) = state::of(session);
        let called = printable(state::called(session).unwrap_or_default());
        let ago = times::ago(&session.started_at, now);
        output::note(&format!("  {}  {word}  {}  {ago}  {called}", session.id, session.adapter_slug));
    }
    let many = if sessions.len() == 1 { "this session and its history" } else { "these sessions and their history" };
    output::question(&format!("forget {many} for good? [y/N] "));
    let mut typed = String::new();
    std::io::stdin().lock().read_line(&mut typed)?;
    Ok(matches!(typed.trim().to_lowercase().as_str(), "y" | "yes"))
}
