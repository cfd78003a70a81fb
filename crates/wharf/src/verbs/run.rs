//! `wharf run`: starts an agent with a prompt and shows its turn.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde_json::Value;
use wharf_api::{Content, EndCause, SessionInfo, SpawnArgs, SpawnedSession};

use super::prompt::{no_prompt, words_or_stdin};
use crate::client::{HostCall, HostClient, StreamStart, url_path};
use crate::exit::{Exit, Failure};
use crate::global::GlobalOptions;
use crate::turn::{AskPolicy, Signals, TurnWatch, WatchEnd};
use crate::{connect, output, session_ref};

#[derive(Debug, Args)]
pub(crate) struct RunVerb {
    /// Which agent; see: wharf agents.
    #[arg(value_name = "AGENT")]
    adapter: String,
    /// The prompt; several words are joined. `-`, or nothing with a pipe: it is read from stdin.
    #[arg(value_name = "PROMPT")]
    words: Vec<String>,
    /// Leave the session running afterwards. Otherwise its agent is ended; its history stays either way.
    #[arg(short, long)]
    keep: bool,
    /// A name of your own, by which the session can be called.
    #[arg(short, long, value_name = "TEXT")]
    label: Option<String>,
    /// Where it works [default: the current directory].
    #[arg(short = 'C', long, value_name = "DIR", conflicts_with = "workspace")]
    cwd: Option<PathBuf>,
    /// Work in this workspace.
    #[arg(short, long, value_name = "SLUG")]
    workspace: Option<String>,
    /// A further directory that it may use.
    #[arg(long, value_name = "DIR")]
    add_dir: Vec<PathBuf>,
    /// A mode of the agent's manifest.
    #[arg(short, long, value_name = "MODE")]
    mode: Option<String>,
    /// An option of the agent's manifest.
    #[arg(short, long, value_name = "NAME=VALUE")]
    option: Vec<String>,
    #[command(flatten)]
    asks: AskFlags,
}

/// How asks are answered. Without a flag, the person at the terminal is asked; without a terminal, asks stay open.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct AskFlags {
    /// Refuse whatever the agent asks permission for.
    #[arg(long, conflicts_with = "allow")]
    deny: bool,
    /// Allow whatever the agent asks permission for, each time once. It then does as it likes.
    #[arg(long)]
    allow: bool,
}

impl AskFlags {
    pub(crate) const fn ask_policy(self) -> AskPolicy {
        match (self.deny, self.allow) {
            (true, _) => AskPolicy::Deny,
            (false, true) => AskPolicy::Allow,
            (false, false) => AskPolicy::Person,
        }
    }
}

pub(crate) async fn run(global: &GlobalOptions, verb: RunVerb) -> anyhow::Result<Exit> {
    let text = words_or_stdin(&verb.words)?;
    if text.is_none() && !verb.keep {
        return Err(no_prompt());
    }
    let client = global.connect_client().await?;
    let mut signals = Signals::listen()?;
    let body = build_spawn_args(&client, &verb, text.as_deref()).await?;
    // The host answers at once, so that the session can be ended whatever happens next.
    let start = HostCall::post("/sessions/agent", &body).with_header("prefer", "respond-async").with_idempotency_key();
    let started: SpawnedSession = client.fetch_json(&start).await?;
    let session = started.session.id;
    for warning in &started.warnings {
        output::print_note(&format!("note: {warning}"));
    }
    if text.is_none() {
        output::print_line(&session);
        return Ok(Exit::Ok);
    }
    // There is no prompt if the agent ended before it was accepted; the watch then ends with the session.
    let prompt = started.prompt_id.unwrap_or_default();
    let watch = TurnWatch::new(&client, (&session, &prompt), global.screen(), verb.asks.ask_policy(), true);
    let end = watch.run(StreamStart::Beginning, &mut signals).await;
    let exit = match &end {
        Ok(WatchEnd::Turn(reason)) => report_turn_end(reason),
        Ok(WatchEnd::Session) => report_session_end(&client, &session).await,
        Ok(WatchEnd::Unread) => Exit::Ok,
        Ok(WatchEnd::Left) => Exit::Interrupted,
        Err(_) => Exit::Error,
    };
    match &end {
        // The session has ended or ends by itself, and its history shall show the true reason.
        Ok(WatchEnd::Session) => {}
        Ok(WatchEnd::Turn(reason)) if matches!(reason.as_str(), "agent_exited" | "start_failed") => {}
        Ok(WatchEnd::Turn(_)) => leave_session(&client, &session, verb.keep, "finish").await,
        Ok(WatchEnd::Left | WatchEnd::Unread) | Err(_) => leave_session(&client, &session, verb.keep, "kill").await,
    }
    end.map(|_| exit)
}

async fn build_spawn_args(client: &HostClient, verb: &RunVerb, text: Option<&str>) -> anyhow::Result<SpawnArgs> {
    let mut args = SpawnArgs {
        adapter: verb.adapter.clone(),
        env: Some(collect_environment(client, &verb.adapter).await),
        prompt: text.map(Content::from_text),
        label: verb.label.clone(),
        mode: verb.mode.clone(),
        workspace_slug: verb.workspace.clone(),
        ..SpawnArgs::default()
    };
    if verb.workspace.is_none() {
        let cwd = verb.cwd.clone().map_or_else(std::env::current_dir, std::path::absolute);
        args.cwd = Some(cwd.context("finding the directory")?.display().to_string());
    }
    let mut directories = Vec::new();
    for dir in &verb.add_dir {
        directories.push(std::path::absolute(dir).context("finding a directory")?.display().to_string());
    }
    args.additional_directories = Some(directories).filter(|directories| !directories.is_empty());
    let mut options = BTreeMap::new();
    for option in &verb.option {
        let (name, value) = option.split_once('=').ok_or_else(|| {
            Failure::new(Exit::Usage, format!("{option:?} is not an option; write it like --option model=large"))
        })?;
        options.insert(name.to_owned(), option_value(value));
    }
    args.options = Some(options).filter(|options| !options.is_empty());
    Ok(args)
}

/// Parses an option's value: booleans and numbers as such, anything else as text.
fn option_value(text: &str) -> Value {
    match wharf_json::read_own(text.as_bytes()) {
        Ok(value @ (Value::Bool(_) | Value::Number(_))) => value,
        Ok(_) | Err(_) => text.into(),
    }
}

/// Returns the variables that the agent may get (rule 8.7): the path, the locale, and those that its adapter names.
async fn collect_environment(client: &HostClient, adapter: &str) -> BTreeMap<String, String> {
    let known = super::agents::list_adapters(client).await.unwrap_or_default();
    let wanted = known.into_iter().find(|known| known.slug == adapter).map(|known| known.variables);
    connect::forwarded_environment(&wanted.unwrap_or_default())
}

/// Returns the exit code for the end of a turn, and prints the reason if the turn failed.
pub(crate) fn report_turn_end(reason: &str) -> Exit {
    let exit = Exit::of_stop_reason(reason);
    if exit == Exit::Ok {
        return exit;
    }
    output::print_note(&match reason {
        "refusal" => "the agent refused".to_owned(),
        "max_tokens" | "max_turn_requests" => format!("the agent stopped at a limit: {reason}"),
        "cancelled" => "the turn was cancelled".to_owned(),
        "session_ended" => "the session was ended, and the turn with it".to_owned(),
        "agent_exited" => "the agent ended in the middle of the turn".to_owned(),
        "start_failed" => "the agent did not start".to_owned(),
        _ => format!("the turn failed: {reason}"),
    });
    exit
}

/// Returns the exit code for a session that ended with its turn, and prints the reason.
pub(crate) async fn report_session_end(client: &HostClient, session: &str) -> Exit {
    let known = client.fetch_json::<SessionInfo>(&HostCall::get(url_path(&["sessions", session]))).await.ok();
    let reason = known.as_ref().and_then(|known| known.end_reason.clone());
    let word = reason.as_ref().map_or("unknown", EndCause::as_str);
    let message = known.as_ref().and_then(|known| known.message.as_deref());
    output::print_note(&format!("the session ended: {}", message.unwrap_or(word)));
    if matches!(reason, Some(EndCause::User | EndCause::Closed | EndCause::Finished)) {
        Exit::Cancelled
    } else {
        Exit::Agent
    }
}

/// Ends the session by this route unless it is kept.
async fn leave_session(client: &HostClient, session: &str, keep: bool, route: &str) {
    let short = session_ref::short_id(session);
    if keep {
        output::print_note(&format!("kept as {session}; go on with: wharf prompt {short} TEXT"));
        return;
    }
    match client.send_call(&HostCall::post_empty(url_path(&["sessions", session, route]))).await {
        Ok(_) if output::is_person_present() => output::print_note(&format!("history: wharf output {short}")),
        Ok(_) => {}
        Err(error) => output::print_note(&format!("{session} could not be ended: {error}")),
    }
}
