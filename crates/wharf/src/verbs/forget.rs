//! `wharf forget` (`rm`): deletes sessions with their history, after asking.

use clap::Args;
use wharf_api::Forgotten;

use crate::client::{HostCall, HostClient, url_path};
use crate::confirm::confirm;
use crate::exit::Exit;
use crate::global::GlobalOptions;
use crate::{output, session_ref};

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
    let many = if sessions.len() == 1 {
        "this session and its history"
    } else {
        "these sessions and their history"
    };
    if !verb.yes
        && !confirm(
            &sessions,
            &format!("forget {many} for good?"),
            "forgetting deletes the history for good",
        )?
    {
        output::print_note("nothing is forgotten");
        return Ok(Exit::Refused);
    }
    for session in &sessions {
        forget_session(&client, &session.id).await?;
    }
    Ok(Exit::Ok)
}

/// Deletes one session with its history, and prints that.
pub(super) async fn forget_session(client: &HostClient, id: &str) -> anyhow::Result<()> {
    let answer: Forgotten =
        client.fetch_json(&HostCall::delete(url_path(&["sessions", id]))).await?;
    output::print_line(&format!("{id} forgotten"));
    if answer.agent_delete.as_deref() == Some(Forgotten::AGENT_DELETE_FAILED) {
        output::print_note(&format!(
            "{id}: its agent did not delete its own copy, which may be left"
        ));
    }
    Ok(())
}
