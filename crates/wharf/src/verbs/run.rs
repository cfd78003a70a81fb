//! `wharf run`: starts an agent with a prompt and shows its turn.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use serde_json::Value;
use wharf_api::{Content, OnLabel, PromptArgs, Prompted, SpawnArgs, SpawnedSession};
use wharf_render::text::quote;

use super::attend::{AttendedTurn, leave_running};
use super::label_holder::explain_label_in_use;
use super::prompt::{find_stream_end, no_prompt, words_or_stdin};
use crate::client::{HostCall, HostClient, StreamStart, url_path};
use crate::exit::{Exit, Failure};
use crate::global::GlobalOptions;
use crate::turn::{
    AskFlags, FormatFlags, Signals, StartEnd, TurnReport, TurnWatch, WatchEnd, WatchOptions,
    WatchedTurn, report_session_end, wait_until_started,
};
use crate::{output, session_ref};

#[derive(Debug, Args)]
pub(crate) struct RunVerb {
    /// Which agent; see: wharf agents. With -c it may be left out.
    #[arg(value_name = "AGENT")]
    adapter: Option<String>,
    /// The prompt; several words are joined. `-`, or nothing with a pipe: it is read from stdin.
    #[arg(value_name = "PROMPT")]
    words: Vec<String>,
    /// Go on with the newest session of this directory, or with the newest of AGENT here.
    #[arg(short = 'c', long = "continue", conflicts_with_all = ["label", "cwd", "workspace", "add_dir", "mode", "option"])]
    go_on: bool,
    /// Leave the session running afterwards. Otherwise its agent is ended; its history stays either
    /// way.
    #[arg(short, long)]
    keep: bool,
    /// Send the prompt, print the session's id, and leave the turn running without this terminal.
    #[arg(short, long, conflicts_with_all = ["json", "stream_json", "text"])]
    detach: bool,
    /// A name of your own, by which the session can be called.
    #[arg(short, long, value_name = "TEXT")]
    label: Option<String>,
    /// If another session has the label, take it from that one.
    #[arg(long, requires = "label")]
    take_label: bool,
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
    #[command(flatten)]
    format: FormatFlags,
}

pub(crate) async fn run(global: &GlobalOptions, mut verb: RunVerb) -> anyhow::Result<Exit> {
    if verb.go_on {
        return continue_session(global, verb).await;
    }
    let Some(adapter) = verb.adapter.take() else {
        return Err(Failure::new(Exit::Usage, "which agent? see: wharf agents").into());
    };
    let text = words_or_stdin(&verb.words)?;
    if text.is_none() && !verb.keep {
        return Err(no_prompt());
    }
    let client = global.connect_client().await?;
    let mut signals = Signals::listen()?;
    let body = build_spawn_args(&client, &verb, &adapter, text.as_deref()).await?;
    // The host answers at once, so that the session can be ended whatever happens next.
    let start = HostCall::post("/sessions/agent", &body)
        .with_header("prefer", "respond-async")
        .with_idempotency_key();
    let started: SpawnedSession = match client.fetch_json(&start).await {
        Ok(started) => started,
        Err(error) => return Err(explain_label_in_use(&client, error).await),
    };
    let session = started.session.id.clone();
    for warning in &started.warnings {
        output::print_note(&format!("note: {warning}"));
    }
    if text.is_none() && verb.detach {
        output::print_line(&session);
        return Ok(Exit::Ok);
    }
    if text.is_none() {
        return keep_started(&client, &session, &adapter, global, &mut signals).await;
    }
    // The host returns no prompt id if the agent ended before the prompt was accepted; the watch
    // then ends with the session.
    let prompt = started.prompt_id.unwrap_or_default();
    let name = session_ref::find_hint_name(&client, &started.session).await;
    let turn = WatchedTurn {
        client: &client,
        session: &session,
        name: &name,
        prompt: &prompt,
        agent: &adapter,
    };
    watch_and_leave(global, &verb, turn, (StreamStart::Beginning, true), &mut signals).await
}

/// Waits until the agent of a session without a prompt has started, and prints the id of the
/// session.
async fn keep_started(
    client: &HostClient,
    session: &str,
    adapter: &str,
    global: &GlobalOptions,
    signals: &mut Signals,
) -> anyhow::Result<Exit> {
    match wait_until_started(client, session, adapter, global.screen(), signals).await? {
        StartEnd::Started => {
            output::print_line(session);
            Ok(Exit::Ok)
        }
        StartEnd::Failed => Ok(report_session_end(client, session).await),
        StartEnd::Left => {
            end_session(client, session, EndRoute::Kill).await?;
            Ok(Exit::Interrupted)
        }
        StartEnd::TerminalLost => Ok(Exit::Interrupted),
    }
}

/// Sends the prompt to the newest session of this directory, and leaves the session as it was
/// found.
async fn continue_session(global: &GlobalOptions, mut verb: RunVerb) -> anyhow::Result<Exit> {
    let mut words: Vec<String> = verb.adapter.take().into_iter().collect();
    words.append(&mut verb.words);
    let client = global.connect_client().await?;
    let agent = take_agent_name(&client, &mut words).await?;
    let text = words_or_stdin(&words)?.ok_or_else(no_prompt)?;
    let session = session_ref::find_newest_here(&client, agent.as_deref()).await?;
    let mut signals = Signals::listen()?;
    let from = find_stream_end(&client, &session.id).await?;
    let body = PromptArgs {
        prompt: Content::from_text(&text),
        queue: None,
        interrupt: None,
    };
    let call = HostCall::post(url_path(&["sessions", &session.id, "prompt"]), &body)
        .with_idempotency_key();
    let name = session_ref::find_hint_name(&client, &session).await;
    let prompted = client.fetch_json(&call).await.map_err(|error| {
        let advice = format!(
            "wait for its turn: wharf prompt --queue --wait {name} TEXT, or cancel the running one: wharf interrupt {name}"
        );
        super::prompt::explain_refusal(error, &session.id, &name, &advice)
    });
    let prompted: Prompted = prompted?;
    verb.keep |= session.status.is_alive();
    let turn = WatchedTurn {
        client: &client,
        session: &session.id,
        name: &name,
        prompt: &prompted.prompt_id,
        agent: &session.adapter_slug,
    };
    watch_and_leave(global, &verb, turn, (from, false), &mut signals).await
}

/// Takes the name of an agent off the front of the words, if it is one and a prompt follows it.
async fn take_agent_name(
    client: &HostClient,
    words: &mut Vec<String>,
) -> anyhow::Result<Option<String>> {
    let [first, _, ..] = &words[..] else { return Ok(None) };
    let is_agent = super::agents::list_adapters(client)
        .await?
        .iter()
        .any(|adapter| adapter.slug == *first);
    Ok(is_agent.then(|| words.remove(0)))
}

/// Watches the turn, reports its end, and ends the session unless it is kept.
async fn watch_and_leave(
    global: &GlobalOptions,
    verb: &RunVerb,
    turn: WatchedTurn<'_>,
    (from, from_start): (StreamStart, bool),
    signals: &mut Signals,
) -> anyhow::Result<Exit> {
    let attended = AttendedTurn::of_turn(turn, verb.asks, !verb.keep);
    if verb.detach {
        return detach(global, turn, &attended).await;
    }
    let screen = global.screen();
    let format = verb.format.choose(screen);
    let options = WatchOptions {
        format,
        screen,
        ask_policy: verb.asks.ask_policy(output::is_person_present()),
        timeout: verb.asks.timeout(),
        from_start,
        is_attended: false,
    };
    let since = Instant::now();
    let end = TurnWatch::new(turn, options).run(from, signals).await;
    if let Ok(WatchEnd::Detached(cause)) = end {
        let attended = attended.after(since.elapsed());
        return leave_running(global, &attended, turn.name, cause).await;
    }
    let leaving = async {
        let exit = match &end {
            Ok(end) => {
                let report = TurnReport::read(turn).await.ending_session(!verb.keep);
                report.print(turn, end, format, screen).await
            }
            Err(_) => Exit::Error,
        };
        report_leaving(turn, end.as_ref().ok(), verb.keep, format.is_for_program()).await;
        exit
    };
    // A frozen host does not end the session.
    let Some(exit) = signals.run_until_end(leaving).await else {
        return Ok(Exit::Interrupted);
    };
    end.map(|_| exit)
}

/// Leaves the turn running from its beginning, and prints the id of the session.
async fn detach(
    global: &GlobalOptions,
    turn: WatchedTurn<'_>,
    attended: &AttendedTurn,
) -> anyhow::Result<Exit> {
    if let Err(error) = attended.hand_over(global) {
        // The session must not go on without the process that carries out its flags.
        end_session(turn.client, turn.session, EndRoute::Kill).await?;
        return Err(error);
    }
    output::print_line(turn.session);
    Ok(Exit::Ok)
}

/// Ends the session as its turn ended, unless it is kept, and says so. With `quiet`, prints a note
/// only if the session could not be ended.
async fn report_leaving(turn: WatchedTurn<'_>, end: Option<&WatchEnd>, keep: bool, quiet: bool) {
    let name = turn.name;
    if keep {
        if !quiet {
            output::print_note(&describe_kept(turn, end));
        }
        return;
    }
    match leave_session(turn, end).await {
        Ok(true) if output::is_person_present() && !quiet => {
            output::print_note(&format!("history: wharf output {name}"));
        }
        Ok(_) => {}
        Err(error) => output::print_note(&format!("{} could not be ended: {error}", turn.session)),
    }
}

/// Says that the session stays, and how it goes on; after a failed start the reason of the failure
/// has said so.
fn describe_kept(turn: WatchedTurn<'_>, end: Option<&WatchEnd>) -> String {
    match end {
        Some(WatchEnd::Session) => format!("kept as {}", turn.session),
        Some(WatchEnd::Turn(reason)) if reason == "start_failed" => {
            format!("kept as {}", turn.session)
        }
        Some(_) | None => {
            format!("kept as {}; go on with: wharf prompt {} TEXT", turn.session, turn.name)
        }
    }
}

/// Ends the session as its turn ended. Returns false if it has ended or ends by itself: its history
/// shall show the true reason.
pub(super) async fn leave_session(
    turn: WatchedTurn<'_>,
    end: Option<&WatchEnd>,
) -> anyhow::Result<bool> {
    let route = match end {
        Some(WatchEnd::Session) => return Ok(false),
        Some(WatchEnd::Turn(reason))
            if matches!(reason.as_str(), "agent_exited" | "start_failed") =>
        {
            return Ok(false);
        }
        Some(WatchEnd::Turn(_)) => EndRoute::Finish,
        Some(
            WatchEnd::Left
            | WatchEnd::Detached(_)
            | WatchEnd::Unread
            | WatchEnd::Unanswered
            | WatchEnd::TimedOut,
        )
        | None => EndRoute::Kill,
    };
    end_session(turn.client, turn.session, route).await?;
    Ok(true)
}

async fn build_spawn_args(
    client: &HostClient,
    verb: &RunVerb,
    adapter: &str,
    text: Option<&str>,
) -> anyhow::Result<SpawnArgs> {
    let mut args = SpawnArgs {
        prompt: text.map(Content::from_text),
        label: verb.label.clone(),
        on_label: verb.label.is_some().then_some(if verb.take_label {
            OnLabel::Take
        } else {
            OnLabel::Refuse
        }),
        mode: verb.mode.clone(),
        workspace_slug: verb.workspace.clone(),
        ..build_plain_spawn(client, adapter).await?
    };
    if let Some(cwd) = &verb.cwd {
        args.cwd = Some(client.absolute_path(cwd)?);
    }
    if verb.workspace.is_some() {
        args.cwd = None;
    }
    let directories: Vec<String> = verb
        .add_dir
        .iter()
        .map(|dir| client.absolute_path(dir))
        .collect::<anyhow::Result<_>>()?;
    args.additional_directories = Some(directories).filter(|directories| !directories.is_empty());
    let mut options = BTreeMap::new();
    for option in &verb.option {
        let (name, value) = option.split_once('=').ok_or_else(|| {
            Failure::new(
                Exit::Usage,
                format!(
                    "{option} is not an option; write it like --option model=large",
                    option = quote(option)
                ),
            )
        })?;
        options.insert(name.to_owned(), option_value(value));
    }
    args.options = Some(options).filter(|options| !options.is_empty());
    Ok(args)
}

/// Returns the arguments of a session of this agent in the current directory. On another machine it
/// is for the workspace that is used there.
pub(super) async fn build_plain_spawn(
    client: &HostClient,
    adapter: &str,
) -> anyhow::Result<SpawnArgs> {
    let cwd = if client.is_remote() { None } else { Some(client.absolute_path(Path::new("."))?) };
    let env = Some(collect_environment(client, adapter).await);
    Ok(SpawnArgs {
        adapter: adapter.to_owned(),
        env,
        cwd,
        ..SpawnArgs::default()
    })
}

/// Parses an option's value: booleans and numbers as such, anything else as text.
fn option_value(text: &str) -> Value {
    match wharf_json::read_own(text.as_bytes()) {
        Ok(value @ (Value::Bool(_) | Value::Number(_))) => value,
        Ok(_) | Err(_) => text.into(),
    }
}

/// Returns the variables that the agent may get (rule 8.7): the path, the locale, and those that
/// its adapter names.
async fn collect_environment(client: &HostClient, adapter: &str) -> BTreeMap<String, String> {
    let known = super::agents::list_adapters(client).await.unwrap_or_default();
    let wanted = known
        .into_iter()
        .find(|known| known.slug == adapter)
        .map(|known| known.variables);
    client.forwarded_environment(&wanted.unwrap_or_default())
}

/// The way in which a session is ended.
#[derive(Clone, Copy, Debug)]
enum EndRoute {
    /// Its work is done.
    Finish,
    Kill,
}

async fn end_session(client: &HostClient, session: &str, route: EndRoute) -> anyhow::Result<()> {
    let route = match route {
        EndRoute::Finish => "finish",
        EndRoute::Kill => "kill",
    };
    client
        .send_call(&HostCall::post_empty(url_path(&["sessions", session, route])))
        .await
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::HostAddress;

    #[test]
    fn hint_about_a_kept_session_names_its_label() {
        let client = HostClient::unconnected(HostAddress::Socket("/nonexistent/wharf.sock".into()));
        let turn = WatchedTurn {
            client: &client,
            session: "sess_1",
            name: "docs",
            prompt: "p",
            agent: "a",
        };
        let kept_after =
            |reason: &str| describe_kept(turn, Some(&WatchEnd::Turn(reason.to_owned())));
        let goes_on = "kept as sess_1; go on with: wharf prompt docs TEXT";
        assert_eq!(kept_after("end_turn"), goes_on);
        assert_eq!(kept_after("start_failed"), "kept as sess_1");
        assert_eq!(describe_kept(turn, Some(&WatchEnd::Session)), "kept as sess_1");
    }
}
