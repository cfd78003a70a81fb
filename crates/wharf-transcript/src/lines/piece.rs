//! The contribution of one event to the lines.

use std::borrow::Cow;

use wharf_acp::{AgentUpdate, Payload};
use wharf_core::{
    AgentEvent, Ask, AskEvent, AskKind, EndReason, Ending, Event, FailureText, Millis, PauseReason,
    PromptEnd, PromptEvent, PromptId, Raw, SessionEvent, Status, StorageEvent, UpdateKind,
};
use wharf_json::{Json, ReadError, TextChunk};

use super::{LineKind, MAX_LINE_BYTES, OutputStream};
use crate::join_lines;

/// The contribution of one event to the lines.
#[derive(Debug)]
pub(crate) enum LinePiece {
    /// Shows nothing and ends no line: bookkeeping, or a state that the agent reports in the middle
    /// of a message.
    Nothing,
    /// Shows nothing, but ends a message that has no id, since nothing else separates it from the
    /// next one. Agents report their usage after each answer of the model.
    Gap,
    /// Text of a message.
    Text(MessageChunk),
    /// Ends the unfinished line and adds these lines.
    Break(Vec<WholeLine>),
    /// The end of a turn, if the prompt's turn had begun.
    End { prompt: PromptId, whether: TurnBegun, lines: Vec<WholeLine> },
}

#[derive(Debug)]
pub(crate) struct MessageChunk {
    pub(crate) run: MessageRun,
    pub(crate) text: TextChunk<'static>,
}

/// Identifies a message: its chunks are one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRun {
    pub(crate) kind: LineKind,
    pub(crate) message: Option<String>,
}

#[derive(Debug)]
pub(crate) struct WholeLine {
    pub(crate) kind: LineKind,
    pub(crate) stream: OutputStream,
    pub(crate) text: String,
}

/// Tells whether the prompt that ended had a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnBegun {
    Certain,
    /// It had a turn only if the start of the turn was seen.
    IfSeen,
}

impl LinePiece {
    pub(crate) fn from_event(event: &Event) -> Self {
        match event {
            Event::Agent(AgentEvent::Updated { update, frame, .. }) => from_update(*update, frame),
            Event::Ask(AskEvent::Opened(ask)) => Self::Break(vec![ask_line(ask)]),
            Event::Prompt(PromptEvent::Ended { prompt, end, failure }) => {
                from_prompt_end(prompt, end, failure.as_deref())
            }
            Event::Session(SessionEvent::Ended(ending)) => Self::Break(ending_lines(ending)),
            Event::Agent(AgentEvent::StartFailed { message, retry_in, .. }) => {
                Self::Break(retry_lines(message.as_deref(), *retry_in))
            }
            Event::Storage(StorageEvent::Paused { why }) => {
                Self::Break(vec![error_line(format!("[paused] {}", pause_text(*why)))])
            }
            Event::Storage(StorageEvent::Continued) => {
                Self::Break(vec![error_line("[continued]".to_owned())])
            }
            Event::Lost(lost) => {
                Self::Break(vec![error_line(format!("[unreadable] {}", lost.why))])
            }
            Event::Session(SessionEvent::Created(_))
            | Event::Agent(
                AgentEvent::SettingsChanged { .. }
                | AgentEvent::Starting { .. }
                | AgentEvent::Started { .. },
            )
            | Event::Prompt(PromptEvent::TurnStarted { .. } | PromptEvent::Requeued { .. })
            | Event::Ask(AskEvent::Resolved { .. }) => Self::Break(Vec::new()),
            Event::Session(
                SessionEvent::Renamed { .. }
                | SessionEvent::Labelled { .. }
                | SessionEvent::Archived { .. },
            )
            | Event::Prompt(
                PromptEvent::Accepted { .. }
                | PromptEvent::Updated { .. }
                | PromptEvent::Moved { .. }
                | PromptEvent::CancelRequested { .. },
            )
            | Event::Agent(AgentEvent::Faulted { .. })
            | Event::Storage(StorageEvent::Snapshot(_))
            | Event::Unknown { .. } => Self::Nothing,
        }
    }
}

fn from_update(kind: UpdateKind, frame: &Raw) -> LinePiece {
    let read = Payload::open(frame.as_str()).and_then(|payload| match payload.of_kind(kind) {
        AgentUpdate::AgentMessageChunk(chunk) => read_chunk(LineKind::Text, chunk.close()),
        AgentUpdate::AgentThoughtChunk(chunk) => read_chunk(LineKind::Thought, chunk.close()),
        AgentUpdate::ToolCall(call) => read_tool_call(call.close(), true),
        AgentUpdate::ToolCallUpdate(call) => read_tool_call(call.close(), false),
        AgentUpdate::Notice(notice) => read_notice(notice.close()),
        AgentUpdate::AvailableCommands(_)
        | AgentUpdate::CurrentMode(_)
        | AgentUpdate::ConfigOptions(_)
        | AgentUpdate::SessionInfo(_) => Ok(LinePiece::Nothing),
        AgentUpdate::Usage(_) => Ok(LinePiece::Gap),
        AgentUpdate::UserMessageChunk(_)
        | AgentUpdate::Plan(_)
        | AgentUpdate::UserMessage(_)
        | AgentUpdate::AgentMessage(_)
        | AgentUpdate::AgentThought(_)
        | AgentUpdate::State(_)
        | AgentUpdate::ToolCallContentChunk(_)
        | AgentUpdate::PlanUpdate(_)
        | AgentUpdate::PlanRemoved(_)
        | AgentUpdate::Subagent(_)
        | AgentUpdate::Compaction(_)
        | AgentUpdate::CompactionSummaryChunk(_)
        | AgentUpdate::SessionMessage(_)
        | AgentUpdate::SessionMessageChunk(_) => Ok(LinePiece::Break(Vec::new())),
        // It may be no object at all.
        AgentUpdate::Unknown(update) => update.raw_tag().map(|_| LinePiece::Break(Vec::new())),
    });
    read.unwrap_or_else(|error| LinePiece::Break(vec![unreadable_line(&error)]))
}

/// Returns a line in place of content that cannot be read, so that its absence is visible.
fn unreadable_line(error: &ReadError) -> WholeLine {
    error_line(format!("[unreadable] {error}"))
}

/// Returns a member if it is a string; a member of another type counts as absent.
fn read_text<'a>(object: Json<'a>, name: &str) -> Result<Option<Cow<'a, str>>, ReadError> {
    Ok(object.member(name)?.and_then(Json::text))
}

/// Reads a message chunk: text continues the message, other content (an image, a link) is a line
/// with its type.
fn read_chunk(kind: LineKind, update: Json<'_>) -> Result<LinePiece, ReadError> {
    let Some(content) = update.member("content")? else { return Ok(LinePiece::Break(Vec::new())) };
    let said = content.member("text")?.and_then(Json::text_chunk);
    match (read_text(content, "type")?.as_deref(), said) {
        (Some("text") | None, Some(said)) => {
            let message = read_text(update, "messageId")?.map(Into::into);
            Ok(LinePiece::Text(MessageChunk {
                run: MessageRun { kind, message },
                text: said.into_owned(),
            }))
        }
        (Some(other), _) => {
            let uri = match read_text(content, "uri")? {
                Some(uri) => Some(uri),
                None => content
                    .member("resource")?
                    .map(|resource| read_text(resource, "uri"))
                    .transpose()?
                    .flatten(),
            };
            let what = if uri.is_some() { uri } else { read_text(content, "mimeType")? };
            let words: Vec<&str> = [Some(other), what.as_deref()].into_iter().flatten().collect();
            Ok(LinePiece::Break(vec![whole_line(kind, &format!("[{}]", words.join(" ")))]))
        }
        (None, None) => Ok(LinePiece::Break(Vec::new())),
    }
}

/// Reads a notice, which tells a person something and is not part of the conversation.
fn read_notice(update: Json<'_>) -> Result<LinePiece, ReadError> {
    let message = read_text(update, "message")?;
    let line = message
        .map(|message| error_line(format!("[notice] {}", join_lines(&message, MAX_LINE_BYTES))));
    Ok(LinePiece::Break(line.into_iter().collect()))
}

/// Reads a tool call. It is shown when it is announced; its updates are shown only if it failed.
fn read_tool_call(update: Json<'_>, announced: bool) -> Result<LinePiece, ReadError> {
    let title = read_text(update, "title")?.filter(|title| !title.trim().is_empty());
    let mut lines = Vec::new();
    if announced {
        let kind = read_text(update, "kind")?;
        let name = title.as_deref().or(kind.as_deref()).unwrap_or("tool call");
        lines.push(whole_line(LineKind::Tool, &format!("[tool] {name}")));
    }
    if read_text(update, "status")?.as_deref() == Some("failed") {
        let said = update.member("content")?.map(first_content_line).transpose()?.flatten();
        let said = said.as_deref().or(title.as_deref()).unwrap_or_default();
        lines.push(whole_line(LineKind::ToolError, &format!("[tool-error] {said}")));
    }
    Ok(LinePiece::Break(lines))
}

/// Returns the first line of text in a tool's output.
fn first_content_line(content: Json<'_>) -> Result<Option<String>, ReadError> {
    for item in content.items().filter(|item| item.is_object()) {
        let Some(shown) = item.member("content")?.filter(|shown| shown.is_object()) else {
            continue;
        };
        let text = shown.member("text")?.and_then(Json::text).unwrap_or_default();
        let mut lines = text.lines().map(str::trim);
        if let Some(line) = lines.find(|line| !line.is_empty() && !line.starts_with("```")) {
            return Ok(Some(line.to_owned()));
        }
    }
    Ok(None)
}

fn ask_line(ask: &Ask) -> WholeLine {
    let path: &[&str] = match ask.kind {
        AskKind::Permission => &["params", "toolCall", "title"],
        AskKind::Elicitation => &["params", "message"],
    };
    match Json::parse(ask.frame.bytes()).and_then(|request| request.text_at(path)) {
        Ok(about) => whole_line(
            LineKind::AwaitingInput,
            &format!("[awaiting input] {}", about.as_deref().unwrap_or_default()),
        ),
        Err(error) => {
            whole_line(LineKind::AwaitingInput, &format!("[awaiting input] [unreadable] {error}"))
        }
    }
}

fn from_prompt_end(prompt: &PromptId, end: &PromptEnd, failure: Option<&str>) -> LinePiece {
    let mut lines = Vec::new();
    let FailureText { reason, stderr } = FailureText::parse(failure.unwrap_or_default());
    let whether = match end {
        // The prompt never left the queue, so no line belongs to it.
        PromptEnd::Removed { .. } => return LinePiece::Nothing,
        PromptEnd::Answered { .. } => TurnBegun::Certain,
        PromptEnd::Failed { frame } => {
            lines.extend(failure_lines(frame));
            lines.extend(stderr_lines(stderr));
            TurnBegun::Certain
        }
        // A reader that stops at the turn's end must have seen the reason.
        PromptEnd::AgentExited | PromptEnd::StartFailed if !reason.is_empty() => {
            lines.push(error_line(format!("[error] {}", join_lines(reason, MAX_LINE_BYTES))));
            lines.extend(stderr_lines(stderr));
            TurnBegun::IfSeen
        }
        PromptEnd::Cancelled
        | PromptEnd::AgentExited
        | PromptEnd::StartFailed
        | PromptEnd::SessionEnded
        | PromptEnd::HostShutdown
        | PromptEnd::HostRestarted => TurnBegun::IfSeen,
    };
    lines.push(whole_line(LineKind::TurnEnd, &format!("── turn-end ({}) ──", end.stop_reason())));
    LinePiece::End { prompt: prompt.clone(), whether, lines }
}

/// Returns lines with the agent's error message and details. An error without a message is shown as
/// JSON.
fn failure_lines(frame: &Raw) -> Vec<WholeLine> {
    let error = Json::parse(frame.bytes()).and_then(|answer| answer.member("error"));
    let error = match error {
        Ok(error) => error,
        Err(error) => return vec![unreadable_line(&error)],
    };
    let text = |path: &[&str]| error.and_then(|error| error.text_at(path).ok().flatten());
    let said = text(&["message"])
        .map(Cow::into_owned)
        .or_else(|| error.map(|error| error.to_string()));
    let said = said.unwrap_or_else(|| "the agent answered with an error".to_owned());
    let details = text(&["data", "details"]).or_else(|| text(&["data"]));
    let first = error_line(format!("[error] {}", join_lines(&said, MAX_LINE_BYTES)));
    let details: Vec<WholeLine> =
        details.iter().flat_map(|details| stderr_lines(details)).collect();
    [first].into_iter().chain(details).collect()
}

/// Returns lines for an end with an error. Other ends show only in the status.
fn ending_lines(ending: &Ending) -> Vec<WholeLine> {
    // A session that was put to sleep has not failed.
    let went_well = (ending.status != Status::Error && ending.exit_code == Some(0))
        || matches!(ending.reason, EndReason::Idle | EndReason::Memory);
    let Some(message) = ending.message.as_deref().filter(|_| !went_well) else { return Vec::new() };
    let FailureText { reason, stderr } = FailureText::parse(message);
    let first = error_line(format!("[error] {}", join_lines(reason, MAX_LINE_BYTES)));
    [first].into_iter().chain(stderr_lines(stderr)).collect()
}

/// Returns lines for a failed start that is retried.
fn retry_lines(message: Option<&str>, retry_in: Millis) -> Vec<WholeLine> {
    let FailureText { reason, stderr } = FailureText::parse(message.unwrap_or_default());
    let when = match retry_in.0 {
        0 => "trying again without its memory".to_owned(),
        wait => format!("trying again in {} s", wait.div_ceil(1_000)),
    };
    let first = error_line(format!("[error] {}; {when}", join_lines(reason, MAX_LINE_BYTES)));
    [first].into_iter().chain(stderr_lines(stderr)).collect()
}

/// The most lines of a prompt, or entries of a plan, that are shown.
const MAX_LISTED_LINES: usize = 1_000;

/// Returns the lines of a prompt, each with its mark.
pub(crate) fn prompt_lines(text: &str) -> Vec<WholeLine> {
    let lines = text.lines().take(MAX_LISTED_LINES);
    lines
        .map(|line| whole_line(LineKind::Prompt, format!("[prompt] {line}").trim_end()))
        .collect()
}

/// Returns a line for each entry of a plan, with its status.
pub(crate) fn plan_lines(frame: &Raw) -> Vec<WholeLine> {
    let entries = Payload::open(frame.as_str()).and_then(|update| update.close().member("entries"));
    let entries = match entries {
        Ok(entries) => entries.into_iter().flat_map(Json::items).take(MAX_LISTED_LINES),
        Err(error) => return vec![unreadable_line(&error)],
    };
    let line = |entry: Json<'_>| {
        let content = entry.text_at(&["content"]).ok()??;
        let status = entry.text_at(&["status"]).ok()?;
        let status = status.as_deref().unwrap_or("pending");
        Some(whole_line(LineKind::Plan, &format!("[plan] {status}: {content}")))
    };
    entries.filter_map(line).collect()
}

const fn pause_text(why: PauseReason) -> &'static str {
    match why {
        PauseReason::StorageFull => "the disk is full: the agent is held until there is space",
        PauseReason::StorageReadOnly => {
            "the disk is read-only: the agent is held until it can be written"
        }
    }
}

/// Yields the lines of an agent's stderr, each cut to the longest length of a line.
fn stderr_lines(text: &str) -> impl Iterator<Item = WholeLine> {
    text.lines()
        .map(|line| error_line(line[..line.floor_char_boundary(MAX_LINE_BYTES)].to_owned()))
}

fn error_line(text: String) -> WholeLine {
    WholeLine { kind: LineKind::Error, stream: OutputStream::Stderr, text }
}

fn whole_line(kind: LineKind, text: &str) -> WholeLine {
    WholeLine {
        kind,
        stream: OutputStream::Stdout,
        text: join_lines(text, MAX_LINE_BYTES),
    }
}
