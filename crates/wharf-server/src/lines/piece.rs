//! What one event means for the line view.

use std::borrow::Cow;

use wharf_host::core::{
    Ask, AskKind, EndReason, Ending, Event, Millis, PauseReason, PromptEnd, PromptId, Raw, Status, UpdateKind,
};
use wharf_json::{Json, ReadError, TextChunk};

use super::clean::one_line;
use super::{LONGEST, LineKind, Stream};
use crate::acp::stop_reason;

/// The words before which the host puts an agent's last ones, in the message of an ending.
const STDERR: &str = "\nstderr: ";

/// An event as the line view sees it.
#[derive(Debug)]
pub(super) enum Piece {
    /// Shows nothing and breaks no line: bookkeeping, or a state that the agent reports between two words.
    Nothing,
    /// Shows nothing. Ends a message that has no id, since nothing else tells it from the next one: agents report their
    /// usage after each answer of the model.
    Gap,
    /// More of a message.
    Text(Chunk),
    /// Ends the line that is being written; then these lines, each whole.
    Break(Vec<Whole>),
    /// The end of a turn, if the prompt's turn had begun.
    End { prompt: PromptId, whether: Whether, lines: Vec<Whole> },
}

#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) run: Run,
    pub(super) text: TextChunk<'static>,
}

/// Chunks of one run are one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) kind: LineKind,
    pub(super) message: Option<String>,
}

#[derive(Debug)]
pub(super) struct Whole {
    pub(super) kind: LineKind,
    pub(super) stream: Stream,
    pub(super) text: String,
}

/// Did the prompt that ended have a turn?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whether {
    Surely,
    /// Only if its turn was seen to begin.
    IfBegun,
}

impl Piece {
    pub(super) fn of(event: &Event) -> Self {
        match event {
            Event::AgentUpdated { update, frame, .. } => updated(*update, frame),
            Event::AskOpened(ask) => Self::Break(vec![awaiting(ask)]),
            Event::PromptEnded { prompt, end } => ended_prompt(prompt, end),
            Event::Ended(ending) => Self::Break(ended(ending)),
            Event::StartFailed { message, retry_in, .. } => Self::Break(tried_again(message.as_deref(), *retry_in)),
            Event::Paused { why } => Self::Break(vec![error_line(format!("[paused] {}", why_paused(*why)))]),
            Event::Continued => Self::Break(vec![error_line("[continued]".to_owned())]),
            Event::Created(_)
            | Event::SettingsChanged { .. }
            | Event::AgentStarting { .. }
            | Event::AgentStarted { .. }
            | Event::TurnStarted { .. }
            | Event::PromptRequeued { .. }
            | Event::AskResolved { .. } => Self::Break(Vec::new()),
            Event::PromptAccepted { .. }
            | Event::PromptUpdated { .. }
            | Event::PromptMoved { .. }
            | Event::CancelRequested { .. }
            | Event::AgentFaulted { .. }
            | Event::Snapshot(_)
            | Event::Unknown { .. } => Self::Nothing,
        }
    }
}

fn updated(kind: UpdateKind, frame: &Raw) -> Piece {
    let read = match kind {
        UpdateKind::AgentMessageChunk => update(frame).and_then(|update| chunk(LineKind::Text, update)),
        UpdateKind::AgentThoughtChunk => update(frame).and_then(|update| chunk(LineKind::Thought, update)),
        UpdateKind::ToolCall => update(frame).and_then(|update| tool(update, true)),
        UpdateKind::ToolCallUpdate => update(frame).and_then(|update| tool(update, false)),
        UpdateKind::Other => update(frame).and_then(notice),
        UpdateKind::UserMessageChunk | UpdateKind::Plan => Ok(Piece::Break(Vec::new())),
        UpdateKind::AvailableCommandsUpdate
        | UpdateKind::CurrentModeUpdate
        | UpdateKind::ConfigOptionUpdate
        | UpdateKind::SessionInfoUpdate => Ok(Piece::Nothing),
        UpdateKind::UsageUpdate => Ok(Piece::Gap),
    };
    read.unwrap_or_else(|error| Piece::Break(vec![unreadable(&error)]))
}

/// Stands for what cannot be shown, so that nobody takes it for nothing.
fn unreadable(error: &ReadError) -> Whole {
    error_line(format!("[unreadable] {error}"))
}

/// Returns the update of a frame.
fn update(frame: &Raw) -> Result<Json<'_>, ReadError> {
    let update = Json::parse(frame.bytes())?.at(&["params", "update"])?;
    update.ok_or_else(|| ReadError::Missing("update".to_owned()))
}

/// Returns a member if it is a string. One of another type says nothing here.
fn text<'a>(object: Json<'a>, name: &str) -> Result<Option<Cow<'a, str>>, ReadError> {
    Ok(object.member(name)?.and_then(Json::text))
}

/// Text of a message; of anything else (an image, a link), a line that says what it is.
fn chunk(kind: LineKind, update: Json<'_>) -> Result<Piece, ReadError> {
    let Some(content) = update.member("content")? else { return Ok(Piece::Break(Vec::new())) };
    let said = content.member("text")?.and_then(Json::text_chunk);
    match (text(content, "type")?.as_deref(), said) {
        (Some("text") | None, Some(said)) => {
            let message = text(update, "messageId")?.map(Into::into);
            Ok(Piece::Text(Chunk { run: Run { kind, message }, text: said.into_owned() }))
        }
        (Some(other), _) => {
            let uri = match text(content, "uri")? {
                Some(uri) => Some(uri),
                None => content.member("resource")?.map(|resource| text(resource, "uri")).transpose()?.flatten(),
            };
            let what = if uri.is_some() { uri } else { text(content, "mimeType")? };
            let words: Vec<&str> = [Some(other), what.as_deref()].into_iter().flatten().collect();
            Ok(Piece::Break(vec![whole(kind, &format!("[{}]", words.join(" ")))]))
        }
        (None, None) => Ok(Piece::Break(Vec::new())),
    }
}

/// A notice says something that a person should know, and is no part of the conversation.
fn notice(update: Json<'_>) -> Result<Piece, ReadError> {
    let is_notice = text(update, "sessionUpdate")?.as_deref() == Some("notice");
    let message = if is_notice { text(update, "message")? } else { None };
    let line = message.map(|message| error_line(format!("[notice] {}", one_line(&message, LONGEST))));
    Ok(Piece::Break(line.into_iter().collect()))
}

/// A call is announced once; the updates of it show only that it failed.
fn tool(update: Json<'_>, announced: bool) -> Result<Piece, ReadError> {
    let title = text(update, "title")?.filter(|title| !title.trim().is_empty());
    let mut lines = Vec::new();
    if announced {
        let kind = text(update, "kind")?;
        let name = title.as_deref().or(kind.as_deref()).unwrap_or("tool call");
        lines.push(whole(LineKind::Tool, &format!("[tool] {name}")));
    }
    if text(update, "status")?.as_deref() == Some("failed") {
        let said = update.member("content")?.map(said).transpose()?.flatten();
        let said = said.as_deref().or(title.as_deref()).unwrap_or_default();
        lines.push(whole(LineKind::ToolError, &format!("[tool-error] {said}")));
    }
    Ok(Piece::Break(lines))
}

/// The first line of text in what a tool gave back.
fn said(content: Json<'_>) -> Result<Option<String>, ReadError> {
    for item in content.items().filter(|item| item.is_object()) {
        let Some(shown) = item.member("content")?.filter(|shown| shown.is_object()) else { continue };
        let text = shown.member("text")?.and_then(Json::text).unwrap_or_default();
        let mut lines = text.lines().map(str::trim);
        if let Some(line) = lines.find(|line| !line.is_empty() && !line.starts_with("```")) {
            return Ok(Some(line.to_owned()));
        }
    }
    Ok(None)
}

fn awaiting(ask: &Ask) -> Whole {
    let path: &[&str] = match ask.kind {
        AskKind::Permission => &["params", "toolCall", "title"],
        AskKind::Elicitation => &["params", "message"],
    };
    match Json::parse(ask.frame.bytes()).and_then(|request| request.text_at(path)) {
        Ok(about) => {
            whole(LineKind::AwaitingInput, &format!("[awaiting input] {}", about.as_deref().unwrap_or_default()))
        }
        Err(error) => whole(LineKind::AwaitingInput, &format!("[awaiting input] [unreadable] {error}")),
    }
}

fn ended_prompt(prompt: &PromptId, end: &PromptEnd) -> Piece {
    let mut lines = Vec::new();
    let whether = match end {
        // It never left the queue: nothing that was being written has to do with it.
        PromptEnd::Removed { .. } => return Piece::Nothing,
        PromptEnd::Answered { .. } => Whether::Surely,
        PromptEnd::Failed { frame } => {
            lines.extend(failed(frame));
            Whether::Surely
        }
        PromptEnd::Cancelled
        | PromptEnd::AgentExited
        | PromptEnd::StartFailed
        | PromptEnd::SessionEnded
        | PromptEnd::HostShutdown
        | PromptEnd::HostRestarted => Whether::IfBegun,
    };
    lines.push(whole(LineKind::TurnEnd, &format!("── turn-end ({}) ──", stop_reason(end))));
    Piece::End { prompt: prompt.clone(), whether, lines }
}

/// The agent's own words for why it could not do the turn. Where they are not the usual ones, the error as it came.
fn failed(frame: &Raw) -> Vec<Whole> {
    let error = Json::parse(frame.bytes()).and_then(|answer| answer.member("error"));
    let error = match error {
        Ok(error) => error,
        Err(error) => return vec![unreadable(&error)],
    };
    let text = |path: &[&str]| error.and_then(|error| error.text_at(path).ok().flatten());
    let said = text(&["message"]).map(Cow::into_owned).or_else(|| error.map(|error| error.to_string()));
    let said = said.unwrap_or_else(|| "the agent answered with an error".to_owned());
    let details = text(&["data", "details"]).or_else(|| text(&["data"]));
    let first = error_line(format!("[error] {}", one_line(&said, LONGEST)));
    let details: Vec<Whole> = details.iter().flat_map(|details| tail(details)).collect();
    [first].into_iter().chain(details).collect()
}

/// Only an end that came with an error is worth a line; the others are seen in the status.
fn ended(ending: &Ending) -> Vec<Whole> {
    // One that was put to sleep has not failed either.
    let went_well = (ending.status != Status::Error && ending.exit_code == Some(0))
        || matches!(ending.reason, EndReason::Idle | EndReason::Memory);
    let Some(message) = ending.message.as_deref().filter(|_| !went_well) else { return Vec::new() };
    let (message, stderr) = message.split_once(STDERR).unwrap_or((message, ""));
    let first = error_line(format!("[error] {}", one_line(message, LONGEST)));
    [first].into_iter().chain(tail(stderr)).collect()
}

/// A start that failed and is tried again.
fn tried_again(message: Option<&str>, retry_in: Millis) -> Vec<Whole> {
    let (message, stderr) =
        message.and_then(|message| message.split_once(STDERR)).unwrap_or((message.unwrap_or_default(), ""));
    let when = match retry_in.0 {
        0 => "trying again without its memory".to_owned(),
        wait => format!("trying again in {} s", wait.div_ceil(1_000)),
    };
    let first = error_line(format!("[error] {}; {when}", one_line(message, LONGEST)));
    [first].into_iter().chain(tail(stderr)).collect()
}

const fn why_paused(why: PauseReason) -> &'static str {
    match why {
        PauseReason::StorageFull => "the disk is full: the agent is held until there is space",
        PauseReason::StorageReadOnly => "the disk is read-only: the agent is held until it can be written",
    }
}

/// An agent's last words, as they stood.
fn tail(text: &str) -> impl Iterator<Item = Whole> {
    text.lines().map(|line| error_line(line[..line.floor_char_boundary(LONGEST)].to_owned()))
}

fn error_line(text: String) -> Whole {
    Whole { kind: LineKind::Error, stream: Stream::Stderr, text }
}

fn whole(kind: LineKind, text: &str) -> Whole {
    Whole { kind, stream: Stream::Stdout, text: one_line(text, LONGEST) }
}
