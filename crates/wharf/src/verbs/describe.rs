//! `wharf rename`, `wharf label`, `wharf archive`: change the description of a session; and `wharf
//! fork`, which copies it.

use clap::{Args, Subcommand};
use wharf_api::{ForkArgs, OnLabelChange, SessionInfo, SessionPatch};
use wharf_render::text::{quote, to_printable};

use super::label_holder::explain_label_in_use;
use crate::client::{HostAnswer, HostCall, HostClient, url_path};
use crate::exit::Exit;
use crate::global::GlobalOptions;
use crate::{output, session_ref};

#[derive(Debug, Subcommand)]
pub(crate) enum DescribeVerb {
    /// Give a session a title.
    Rename(RenameVerb),
    /// Give a session a name by which you call it.
    Label(LabelVerb),
    /// Put sessions into the archive: lists leave them out, and they want nothing.
    Archive(ArchiveVerb),
    /// Copy a session with its conversation into a new one.
    Fork(ForkVerb),
}

pub(crate) async fn run(global: &GlobalOptions, verb: DescribeVerb) -> anyhow::Result<Exit> {
    match verb {
        DescribeVerb::Rename(verb) => run_rename(global, verb).await,
        DescribeVerb::Label(verb) => run_label(global, verb).await,
        DescribeVerb::Archive(verb) => run_archive(global, verb).await,
        DescribeVerb::Fork(verb) => run_fork(global, verb).await,
    }
}

#[derive(Debug, Args)]
pub(crate) struct RenameVerb {
    /// Which session; `.` is the newest of the current directory.
    id: String,
    /// The title; several words are joined. It beats the agent's own title.
    #[arg(value_name = "TITLE", required_unless_present = "clear")]
    title: Vec<String>,
    /// Take the title away: the agent's own is shown again.
    #[arg(long, conflicts_with = "title")]
    clear: bool,
    /// The JSON of the host.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LabelVerb {
    /// Which session; `.` is the newest of the current directory.
    id: String,
    /// The name by which you call it.
    #[arg(value_name = "LABEL", required_unless_present = "clear")]
    label: Option<String>,
    /// Take the label away.
    #[arg(long, conflicts_with = "label")]
    clear: bool,
    /// If another session has the label, take it from that one.
    #[arg(long)]
    take_label: bool,
    /// The JSON of the host.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ArchiveVerb {
    /// Which sessions; `.` is the newest of the current directory.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Take them out of the archive.
    #[arg(long)]
    undo: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ForkVerb {
    /// Which session [default: the newest of the current directory].
    id: Option<String>,
    /// The title of the copy.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// A name by which the copy can be called.
    #[arg(short, long, value_name = "TEXT")]
    label: Option<String>,
    /// If another session has the label, take it from that one.
    #[arg(long, requires = "label")]
    take_label: bool,
    /// The JSON of the host.
    #[arg(long)]
    json: bool,
}

async fn change_session(
    client: &HostClient,
    id: &str,
    patch: &SessionPatch,
) -> anyhow::Result<HostAnswer> {
    client.send_call(&HostCall::patch(url_path(&["sessions", id]), patch)).await
}

/// Prints the answer as JSON, or the session's id and a description of the change.
fn print_change(
    answer: &HostAnswer,
    as_json: bool,
    describe: impl Fn(&SessionInfo) -> String,
) -> anyhow::Result<Exit> {
    if as_json {
        output::print_line(answer.text().trim_end());
        return Ok(Exit::Ok);
    }
    let session: SessionInfo = answer.json()?;
    output::print_line(&to_printable(&format!("{} {}", session.id, describe(&session))));
    Ok(Exit::Ok)
}

async fn run_rename(global: &GlobalOptions, verb: RenameVerb) -> anyhow::Result<Exit> {
    let client = global.connect_client().await?;
    let session = session_ref::find_session(&client, Some(&verb.id)).await?;
    let title = (!verb.clear).then(|| verb.title.join(" "));
    let answer = change_session(
        &client,
        &session.id,
        &SessionPatch { title: Some(title), ..Default::default() },
    )
    .await?;
    print_change(&answer, verb.json, |session| match &session.title {
        Some(title) => format!("is now {}", quote(title)),
        None => "has no title".to_owned(),
    })
}

async fn run_label(global: &GlobalOptions, verb: LabelVerb) -> anyhow::Result<Exit> {
    let client = global.connect_client().await?;
    let session = session_ref::find_session(&client, Some(&verb.id)).await?;
    let on_label = Some(if verb.take_label { OnLabelChange::Take } else { OnLabelChange::Refuse });
    let patch = SessionPatch {
        label: Some(verb.label.clone()),
        on_label,
        ..Default::default()
    };
    let answer = match change_session(&client, &session.id, &patch).await {
        Ok(answer) => answer,
        Err(error) => return Err(explain_label_in_use(&client, error).await),
    };
    print_change(&answer, verb.json, |session| match &session.label {
        Some(label) => format!("is called {}", quote(label)),
        None => "has no label".to_owned(),
    })
}

async fn run_archive(global: &GlobalOptions, verb: ArchiveVerb) -> anyhow::Result<Exit> {
    let client = global.connect_client().await?;
    // All sessions are found before the first is changed: a wrong name changes none.
    let mut sessions = Vec::new();
    for meant in &verb.ids {
        sessions.push(session_ref::find_session(&client, Some(meant)).await?);
    }
    for session in sessions {
        let patch = SessionPatch { archived: Some(!verb.undo), ..Default::default() };
        let answer = change_session(&client, &session.id, &patch).await?;
        let word = if verb.undo { "is out of the archive" } else { "archived" };
        print_change(&answer, false, |_| word.to_owned())?;
    }
    Ok(Exit::Ok)
}

async fn run_fork(global: &GlobalOptions, verb: ForkVerb) -> anyhow::Result<Exit> {
    let client = global.connect_client().await?;
    let session = session_ref::find_session(&client, verb.id.as_deref()).await?;
    let on_label = verb.label.is_some().then_some(if verb.take_label {
        OnLabelChange::Take
    } else {
        OnLabelChange::Refuse
    });
    let body = ForkArgs { title: verb.title, label: verb.label.clone(), on_label };
    let call =
        HostCall::post(url_path(&["sessions", &session.id, "fork"]), &body).with_idempotency_key();
    let answer = match client.send_call(&call).await {
        Ok(answer) => answer,
        Err(error) => return Err(explain_label_in_use(&client, error).await),
    };
    print_change(&answer, verb.json, |_| format!("is a copy of {}", session.id))
}
