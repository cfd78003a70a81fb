//! `wharf prompt`: sends a prompt to a session.

use std::io::{IsTerminal, Read};
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use wharf_api::{
    Content, ErrorCode, OnLabel, OutputLines, PromptArgs, Prompted, ResumeArgs, SessionInfo,
    SessionStatus, SpawnArgs, SpawnedSession, StreamEvent, TurnStep,
};

use super::attend::{AttendedTurn, leave_running};
use super::label_holder::{explain_other_agent, is_killed};
use crate::client::{HostCall, HostClient, StreamFollower, StreamStart, url_path};
use crate::exit::{Exit, Failure};
use crate::format::table::join_with_tabs;
use crate::global::GlobalOptions;
use crate::turn::{
    AskFlags, FormatFlags, Signals, TurnReport, TurnWatch, WatchEnd, WatchOptions, WatchedTurn,
    report_session_end,
};
use crate::{output, session_ref};

/// The longest prompt that is read from stdin, which is the most that a host accepts.
const MAX_STDIN_BYTES: u64 = 32 << 20;

/// The options of this verb for a session that is busy.
const BUSY_ADVICE: &str =
    "add --queue to wait for its turn, or --interrupt to cancel the one that runs";

#[derive(Debug, Args)]
pub(crate) struct PromptVerb {
    /// Which session; `.` is the newest of the current directory.
    id: String,
    /// The prompt; several words are joined. `-`, or nothing with a pipe: it is read from stdin.
    #[arg(value_name = "TEXT")]
    words: Vec<String>,
    /// If a turn is running, wait for it: the prompt goes to the queue.
    #[arg(short, long)]
    queue: bool,
    /// If a turn is running, cancel it first.
    #[arg(short, long, conflicts_with = "queue")]
    interrupt: bool,
    /// Show the turn and wait for its end; the exit code tells how it ended.
    #[arg(short, long)]
    wait: bool,
    /// Return at once, and have the options about the turn hold without this terminal.
    #[arg(short, long, conflicts_with_all = ["wait", "stream_json", "text"])]
    detach: bool,
    /// If no session has the label ID, start this agent in the current directory with it.
    #[arg(long, value_name = "AGENT")]
    or_start: Option<String>,
    #[command(flatten)]
    asks: AskFlags,
    #[command(flatten)]
    format: FormatFlags,
}

pub(crate) async fn run(global: &GlobalOptions, verb: PromptVerb) -> anyhow::Result<Exit> {
    let is_attended = verb.wait || verb.detach;
    if (!is_attended && verb.asks.is_given()) || (!verb.wait && verb.format.is_given()) {
        let words = "this option is about the turn; add --wait to watch it, or --detach to leave it running";
        return Err(Failure::new(Exit::Usage, words).into());
    }
    let text = words_or_stdin(&verb.words)?.ok_or_else(no_prompt)?;
    let client = global.connect_client().await?;
    let session = match &verb.or_start {
        Some(agent) => find_or_start(&client, &verb.id, agent).await?,
        None => session_ref::find_session(&client, Some(&verb.id)).await?,
    };
    let mut signals = if verb.wait { Some(Signals::listen()?) } else { None };
    let asleep = !session.status.is_alive();
    let from =
        if verb.wait || asleep { Some(find_stream_end(&client, &session.id).await?) } else { None };
    let queue = verb.queue.then_some(true);
    let interrupt = verb.interrupt.then_some(true);
    let body = PromptArgs { prompt: Content::from_text(&text), queue, interrupt };
    let call = HostCall::post(url_path(&["sessions", &session.id, "prompt"]), &body)
        .with_idempotency_key();
    let name = session_ref::find_hint_name(&client, &session).await;
    let answer = client.send_call(&call).await;
    let answer = answer.map_err(|error| explain_refusal(error, &session.id, &name, BUSY_ADVICE))?;
    let prompted: Prompted = answer.json()?;
    let turn = WatchedTurn {
        client: &client,
        session: &session.id,
        name: &name,
        prompt: &prompted.prompt_id,
        agent: &session.adapter_slug,
    };
    if verb.detach {
        AttendedTurn::of_turn(turn, verb.asks, false).hand_over(global)?;
    }
    if let Some(from) = from.clone().filter(|_| asleep && !verb.wait)
        && !wait_until_running(&client, &session.id, &prompted.prompt_id, from).await?
    {
        return Ok(report_session_end(&client, &session.id).await);
    }
    if verb.format.json && !verb.wait {
        output::print_line(answer.text().trim_end());
        return Ok(Exit::Ok);
    }
    let (Some(from), Some(signals)) = (from, &mut signals) else {
        print_accepted(global, &name, &prompted);
        return Ok(Exit::Ok);
    };
    watch_turn(global, &verb, turn, queue_place(&prompted), from, signals).await
}

/// Returns the session with this label and agent, which is started if there is none, and brought
/// back if it was killed. The host decides in one step, among the sessions of the workspace that
/// the current directory belongs to (rule 14.10).
async fn find_or_start(
    client: &HostClient,
    label: &str,
    agent: &str,
) -> anyhow::Result<SessionInfo> {
    session_ref::check_new_label(client, label).await?;
    let on_label = Some(OnLabel::Continue);
    let args = SpawnArgs {
        label: Some(label.to_owned()),
        on_label,
        ..super::run::build_plain_spawn(client, agent).await?
    };
    let call = HostCall::post("/sessions/agent", &args)
        .with_header("prefer", "respond-async")
        .with_idempotency_key();
    let spawned: SpawnedSession = match client.fetch_json(&call).await {
        Ok(spawned) => spawned,
        Err(error) => return Err(explain_other_agent(client, error, agent).await),
    };
    for warning in &spawned.warnings {
        output::print_note(&format!("note: {warning}"));
    }
    let session = spawned.session;
    if !is_killed(&session) {
        return Ok(session);
    }
    output::print_note(&format!("{} was killed; bringing it back", session.id));
    let resume =
        HostCall::post(url_path(&["sessions", &session.id, "resume"]), &ResumeArgs::default());
    client.fetch_json(&resume).await
}

/// Watches the prompt's turn, which may have to wait at this place in the queue, and reports its
/// end.
async fn watch_turn(
    global: &GlobalOptions,
    verb: &PromptVerb,
    turn: WatchedTurn<'_>,
    place: Option<usize>,
    from: StreamStart,
    signals: &mut Signals,
) -> anyhow::Result<Exit> {
    let screen = global.screen();
    let format = verb.format.choose(screen);
    if let Some(place) = place.filter(|_| !format.is_for_program()) {
        output::print_note(&format!("in the queue at place {place}"));
    }
    let ask_policy = verb.asks.ask_policy(output::is_person_present());
    let timeout = verb.asks.timeout();
    let options = WatchOptions {
        format,
        screen,
        ask_policy,
        timeout,
        from_start: false,
        is_attended: false,
    };
    let since = Instant::now();
    let end = TurnWatch::new(turn, options).run(from, signals).await?;
    if let WatchEnd::Detached(cause) = end {
        let attended = AttendedTurn::of_turn(turn, verb.asks, false).after(since.elapsed());
        return leave_running(global, &attended, turn.name, cause).await;
    }
    if end == WatchEnd::Left && !format.is_for_program() {
        output::print_note(&format!("left; the turn goes on: wharf output -f {}", turn.name));
    }
    let report = async { TurnReport::read(turn).await.print(turn, &end, format, screen).await };
    // A frozen host does not tell how the turn has ended.
    Ok(signals.run_until_end(report).await.unwrap_or(Exit::Interrupted))
}

/// Waits until the agent of a resumed session runs. Returns false if it did not start, which ends
/// the prompt.
async fn wait_until_running(
    client: &HostClient,
    session: &str,
    prompt: &str,
    from: StreamStart,
) -> anyhow::Result<bool> {
    let mut follow = StreamFollower::new(client, url_path(&["sessions", session, "stream"]), from);
    while let Some(event) = follow.next().await? {
        match event.parse_session_event()? {
            StreamEvent::Status(change) if change.status == SessionStatus::Running => {
                return Ok(true);
            }
            StreamEvent::Turn(change) if change.prompt_id == prompt => {
                return Ok(change.turn == TurnStep::Started);
            }
            StreamEvent::Line(_)
            | StreamEvent::Status(_)
            | StreamEvent::Turn(_)
            | StreamEvent::Ask(_)
            | StreamEvent::Pause(_)
            | StreamEvent::Other => {}
        }
    }
    Ok(false)
}

/// Replaces the message of a refusal with a message that says how to go on. Hints use the session's
/// `name`; `busy_advice` is for a session whose turn runs.
pub(super) fn explain_refusal(
    error: anyhow::Error,
    session: &str,
    name: &str,
    busy_advice: &str,
) -> anyhow::Error {
    let words = match Failure::code_of(&error) {
        Some(ErrorCode::TURN_IN_PROGRESS) => format!("{session} is busy; {busy_advice}"),
        Some(ErrorCode::KILLED) => {
            format!("{session} was killed; bring it back first: wharf resume {name}")
        }
        _ => return error,
    };
    Failure::new(Failure::exit_of(&error), words).into()
}

/// Returns the place in the queue, counted from 1.
fn queue_place(prompted: &Prompted) -> Option<usize> {
    prompted.position.map(|position| position + 1)
}

fn print_accepted(global: &GlobalOptions, name: &str, prompted: &Prompted) {
    let prompt = prompted.prompt_id.as_str();
    let place = queue_place(prompted);
    if !global.screen().terminal {
        output::print_line(&join_with_tabs([
            prompt,
            &place.map(|place| place.to_string()).unwrap_or_default(),
        ]));
        return;
    }
    match place {
        Some(place) => output::print_line(&format!("in the queue at place {place} ({prompt})")),
        None => output::print_line(&format!("sent; follow it with: wharf output -f {name}")),
    }
}

/// Returns the end of the session's output: everything after it is new.
pub(crate) async fn find_stream_end(
    client: &HostClient,
    session: &str,
) -> anyhow::Result<StreamStart> {
    let output: OutputLines = client
        .fetch_json(&HostCall::get(url_path(&["sessions", session, "output"]) + "?lastN=1"))
        .await?;
    Ok(output.last_event_id.map_or(StreamStart::Beginning, StreamStart::After))
}

/// Returns the prompt: the words, or the text on stdin. Returns `None` if both are empty.
pub(crate) fn words_or_stdin(words: &[String]) -> anyhow::Result<Option<String>> {
    let asked_for = matches!(words, [dash] if dash == "-");
    if !asked_for && !words.is_empty() {
        return Ok(Some(words.join(" ")).filter(|text| !text.trim().is_empty()));
    }
    if !asked_for && std::io::stdin().is_terminal() {
        return Ok(None);
    }
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .take(MAX_STDIN_BYTES + 1)
        .read_to_string(&mut text)
        .context("reading the prompt from stdin")?;
    if text.len() as u64 > MAX_STDIN_BYTES {
        return Err(Failure::new(
            Exit::Usage,
            format!("the prompt on stdin is longer than {MAX_STDIN_BYTES} bytes"),
        )
        .into());
    }
    Ok(Some(text.trim_end().to_owned()).filter(|text| !text.is_empty()))
}

pub(crate) fn no_prompt() -> anyhow::Error {
    let words = "there is no prompt; give it as an argument, or pipe it in";
    Failure::new(Exit::Usage, words).into()
}
