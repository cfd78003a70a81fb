//! `wharf attach` and `wharf` alone: the full-screen client. `wharf chat` and `wharf attach
//! --plain`: a conversation, line by line.

use clap::{Args, Subcommand};
use wharf_api::{SessionInfo, SpawnedSession};

use super::run::build_plain_spawn;
use crate::chat::Chat;
use crate::client::{HostCall, HostClient};
use crate::exit::{Exit, Failure};
use crate::global::GlobalOptions;
use crate::tui::{self, TuiStart};
use crate::turn::Signals;
use crate::{output, session_ref};

#[derive(Debug, Subcommand)]
pub(crate) enum ConverseVerb {
    /// Open the full-screen client, with a session if one is named; an agent's name starts one.
    ///
    /// Leaving it never ends an agent. `wharf` alone does the same without a session.
    Attach(AttachVerb),
    /// Talk to a session, line by line; an agent's name starts one.
    ///
    /// Ctrl-C interrupts the turn; twice leaves. Ctrl-D leaves. The agent goes on in both cases.
    Chat(ChatVerb),
}

#[derive(Debug, Args)]
pub(crate) struct AttachVerb {
    /// A session, or an agent: it is started in this directory [default: the list of sessions].
    #[arg(value_name = "AGENT|SESSION")]
    target: Option<String>,
    /// Line by line, for any terminal and for screen readers; the same as: wharf chat.
    #[arg(long, conflicts_with = "readonly")]
    plain: bool,
    /// Only look: no prompts, no answers.
    #[arg(long)]
    readonly: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ChatVerb {
    /// A session, or an agent: it is started in this directory [default: the newest session of this
    /// directory].
    #[arg(value_name = "AGENT|SESSION")]
    target: Option<String>,
}

pub(crate) async fn run(global: &GlobalOptions, verb: ConverseVerb) -> anyhow::Result<Exit> {
    match verb {
        ConverseVerb::Attach(verb) => run_attach(global, verb).await,
        ConverseVerb::Chat(verb) => run_chat(global, verb).await,
    }
}

async fn run_attach(global: &GlobalOptions, verb: AttachVerb) -> anyhow::Result<Exit> {
    if verb.plain {
        return run_chat(global, ChatVerb { target: verb.target }).await;
    }
    if !tui::can_run_full_screen() {
        let words = "the full-screen client needs a terminal; line by line: wharf chat; from a script: wharf run";
        return Err(Failure::new(Exit::Usage, words).into());
    }
    tui::run(global, TuiStart { target: verb.target, is_readonly: verb.readonly }).await
}

/// Runs `wharf` without a verb: the full-screen client on a terminal, else the help.
pub(crate) fn run_without_verb(global: &GlobalOptions) -> anyhow::Result<Exit> {
    if tui::can_run_full_screen() {
        return super::block_on(tui::run(global, TuiStart { target: None, is_readonly: false }));
    }
    output::print_note(&crate::build_command().render_help().to_string());
    Ok(Exit::Usage)
}

async fn run_chat(global: &GlobalOptions, verb: ChatVerb) -> anyhow::Result<Exit> {
    if !output::is_person_present() {
        let words =
            "a conversation needs a terminal; from a script use: wharf run, wharf prompt --wait";
        return Err(Failure::new(Exit::Usage, words).into());
    }
    let client = global.connect_client().await?;
    let mut signals = Signals::listen()?;
    let session = choose_session(&client, verb.target.as_deref()).await?;
    let name = session_ref::find_hint_name(&client, &session).await;
    Chat::new(&client, session, name, global.screen()).run(&mut signals).await
}

/// Returns the session that is meant, or a new one of the agent that is named. A session's label
/// goes before an agent's name.
pub(crate) async fn choose_session(
    client: &HostClient,
    target: Option<&str>,
) -> anyhow::Result<SessionInfo> {
    let Some(target) = target else { return session_ref::find_session(client, None).await };
    let is_agent = super::agents::list_adapters(client)
        .await?
        .iter()
        .any(|adapter| adapter.slug == target);
    if !is_agent || session_ref::is_label(client, target).await? {
        return session_ref::find_session(client, Some(target)).await;
    }
    let args = build_plain_spawn(client, target).await?;
    let start = HostCall::post("/sessions/agent", &args)
        .with_header("prefer", "respond-async")
        .with_idempotency_key();
    let started: SpawnedSession = client.fetch_json(&start).await?;
    for warning in &started.warnings {
        output::print_note(&format!("note: {warning}"));
    }
    Ok(started.session)
}
