//! `wharf forget`: deletes sessions with their history, after asking.

use std::io::BufRead;

use clap::Args;
use wharf_api::{Forgotten, SessionInfo};

use crate::client::{HostCall, url_path};
use crate::exit::{Exit, Failure};
use crate::format::text::to_printable;
use crate::format::times;
use crate::global::GlobalOptions;
use crate::{output, session_ref, session_state};

#[derive(Debug, Args)]
pub(crate) struct ForgetVerb {
    /// Which sessions; `.` is the newest of the current directory.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
}

pub(crate) async fn run(global: &GlobalOptions, verb: ForgetVerb) -> anyhow::Result<Exit> {
    let client = global.connect_client().await?;
    let mut sessions = Vec::new();
    for meant in &verb.ids {
        sessions.push(session_ref::find_session(&client, Some(meant)).await?);
    }
    if !verb.yes && !is_meant(&sessions)? {
        output::print_note("nothing is forgotten");
        return Ok(Exit::Refused);
    }
    for session in &sessions {
        let answer: Forgotten = client.fetch_json(&HostCall::delete(url_path(&["sessions", &session.id]))).await?;
        output::print_line(&format!("{} forgotten", session.id));
        if answer.agent_delete.as_deref() == Some(Forgotten::AGENT_DELETE_FAILED) {
            output::print_note(&format!("{}: its agent did not delete its own copy, which may be left", session.id));
        }
    }
    Ok(Exit::Ok)
}

/// Asks the person to confirm, since deleted history cannot be restored. A program has to pass `--yes`.
fn is_meant(sessions: &[SessionInfo]) -> anyhow::Result<bool> {
    if !output::is_person_present() {
        let words = "forgetting deletes the history for good, and there is no terminal to ask on; say --yes";
        return Err(Failure::new(Exit::Usage, words).into());
    }
    let now = times::now_millis();
    for session in sessions {
        let (word, _) = session_state::state_word(session);
        let called = to_printable(session_state::display_name(session).unwrap_or_default());
        let ago = times::format_ago(&session.started_at, now);
        output::print_note(&format!("  {}  {word}  {}  {ago}  {called}", session.id, session.adapter_slug));
    }
    let many = if sessions.len() == 1 { "this session and its history" } else { "these sessions and their history" };
    output::print_question(&format!("forget {many} for good? [y/N] "));
    let mut typed = String::new();
    std::io::stdin().lock().read_line(&mut typed)?;
    Ok(matches!(typed.trim().to_lowercase().as_str(), "y" | "yes"))
}
