//! `wharf attach`: a conversation with a session. It is line by line; a full-screen client may take its place where
//! `--plain` is not given.

use clap::Args;
use wharf_api::{SessionInfo, SpawnedSession};

use super::run::build_plain_spawn;
use crate::chat::Chat;
use crate::client::{HostCall, HostClient};
use crate::exit::{Exit, Failure};
use crate::global::GlobalOptions;
use crate::turn::Signals;
use crate::{output, session_ref};

#[derive(Debug, Args)]
pub(crate) struct AttachVerb {
    /// A session, or an agent: it is started in this directory [default: the newest session of this directory].
    #[arg(value_name = "AGENT|SESSION")]
    target: Option<String>,
    /// Line by line, for any terminal. There is no other client yet, so this is so without the option too.
    #[arg(long)]
    plain: bool,
}

pub(crate) async fn run(global: &GlobalOptions, verb: AttachVerb) -> anyhow::Result<Exit> {
    if !output::is_person_present() {
        let words = "a conversation needs a terminal; from a script use: wharf run, wharf prompt --wait";
        return Err(Failure::new(Exit::Usage, words).into());
    }
    let client = global.connect_client().await?;
    let mut signals = Signals::listen()?;
    let session = choose_session(&client, verb.target.as_deref()).await?;
    Chat::new(&client, session, global.screen()).run(&mut signals).await
}

/// Returns the session that is meant, or a new one of the agent that is named. A session's label goes before an agent's name.
async fn choose_session(client: &HostClient, target: Option<&str>) -> anyhow::Result<SessionInfo> {
    let Some(target) = target else { return session_ref::find_session(client, None).await };
    let is_agent = super::agents::list_adapters(client).await?.iter().any(|adapter| adapter.slug == target);
    if !is_agent || session_ref::is_label(client, target).await? {
        return session_ref::find_session(client, Some(target)).await;
    }
    let args = build_plain_spawn(client, target).await?;
    let start = HostCall::post("/sessions/agent", &args).with_header("prefer", "respond-async").with_idempotency_key();
    let started: SpawnedSession = client.fetch_json(&start).await?;
    for warning in &started.warnings {
        output::print_note(&format!("note: {warning}"));
    }
    Ok(started.session)
}
