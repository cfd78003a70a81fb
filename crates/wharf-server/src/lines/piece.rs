//! What one event means for the line view.

use serde_json::Value;
use wharf_host::core::{
    Ask, AskKind, EndReason, Ending, Event, PauseReason, PromptEnd, PromptId, Raw, Status, UpdateKind,
};

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
    pub(super) text: String,
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
            Event::Paused { why } => Self::Break(vec![error_line(format!("[paused] {}", why_paused(*why)))]),
            Event::Continued => Self::Break(vec![error_line("[continued]".to_owned())]),
            Event::Created(_)
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
    match kind {
        UpdateKind::AgentMessageChunk => chunk(LineKind::Text, &update(frame)),
        UpdateKind::AgentThoughtChunk => chunk(LineKind::Thought, &update(frame)),
        UpdateKind::ToolCall => Piece::Break(tool(&update(frame), true)),
        UpdateKind::ToolCallUpdate => Piece::Break(tool(&update(frame), false)),
        UpdateKind::UserMessageChunk | UpdateKind::Plan | UpdateKind::Other => Piece::Break(Vec::new()),
        UpdateKind::AvailableCommandsUpdate
        | UpdateKind::CurrentModeUpdate
        | UpdateKind::ConfigOptionUpdate
        | UpdateKind::SessionInfoUpdate
        | UpdateKind::UsageUpdate => Piece::Nothing,
    }
}

/// The update of a frame. What cannot be read says nothing.
fn update(frame: &Raw) -> Value {
    let mut message: Value = serde_json::from_slice(frame.bytes()).unwrap_or_default();
    message["params"]["update"].take()
}

/// Text of a message; of anything else (an image, a link), a line that says what it is.
fn chunk(kind: LineKind, update: &Value) -> Piece {
    let content = &update["content"];
    match (content["type"].as_str(), content["text"].as_str()) {
        (Some("text") | None, Some(text)) => {
            let message = update["messageId"].as_str().map(str::to_owned);
            Piece::Text(Chunk { run: Run { kind, message }, text: text.to_owned() })
        }
        (Some(other), _) => {
            let uri = content["uri"].as_str().or_else(|| content["resource"]["uri"].as_str());
            let what = [Some(other), uri.or_else(|| content["mimeType"].as_str())].into_iter().flatten();
            let words: Vec<&str> = what.collect();
            Piece::Break(vec![whole(kind, &format!("[{}]", words.join(" ")))])
        }
        (None, None) => Piece::Break(Vec::new()),
    }
}

/// A call is announced once; the updates of it show only that it failed.
fn tool(update: &Value, announced: bool) -> Vec<Whole> {
    let title = update["title"].as_str().filter(|title| !title.trim().is_empty());
    let mut lines = Vec::new();
    if announced {
        let name = title.or_else(|| update["kind"].as_str()).unwrap_or("tool call");
        lines.push(whole(LineKind::Tool, &format!("[tool] {name}")));
    }
    if update["status"] == "failed" {
        let said = said(&update["content"]).or(title).unwrap_or_default();
        lines.push(whole(LineKind::ToolError, &format!("[tool-error] {said}")));
    }
    lines
}

/// The first line of text in what a tool gave back.
fn said(content: &Value) -> Option<&str> {
    let texts = content.as_array()?.iter().filter_map(|item| item["content"]["text"].as_str());
    texts.flat_map(str::lines).map(str::trim).find(|line| !line.is_empty() && !line.starts_with("```"))
}

fn awaiting(ask: &Ask) -> Whole {
    let request: Value = serde_json::from_slice(ask.frame.bytes()).unwrap_or_default();
    let about = match ask.kind {
        AskKind::Permission => request["params"]["toolCall"]["title"].as_str(),
        AskKind::Elicitation => request["params"]["message"].as_str(),
    };
    whole(LineKind::AwaitingInput, &format!("[awaiting input] {}", about.unwrap_or_default()))
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

/// The agent's own words for why it could not do the turn.
fn failed(frame: &Raw) -> Vec<Whole> {
    let answer: Value = serde_json::from_slice(frame.bytes()).unwrap_or_default();
    let error = &answer["error"];
    let message = error["message"].as_str().unwrap_or("the agent answered with an error");
    let details = error["data"]["details"].as_str().or_else(|| error["data"].as_str());
    let first = error_line(format!("[error] {}", one_line(message, LONGEST)));
    [first].into_iter().chain(details.into_iter().flat_map(tail)).collect()
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
