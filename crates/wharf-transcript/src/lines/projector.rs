//! Turns consecutive events into lines.

use std::collections::BTreeMap;
use std::sync::Arc;

use wharf_core::{
    AgentEvent, Event, EventId, PromptEvent, PromptId, PromptStep, Seq, SessionEvent, UpdateKind,
};
use wharf_json::CutPair;

use super::piece::{
    LinePiece, MessageChunk, MessageRun, TurnBegun, WholeLine, plan_lines, prompt_lines,
};
use super::{LineChoice, LineId, LineKind, MAX_LINE_BYTES, OutputStream, TranscriptLine};
use crate::redact::Redactor;
use crate::strip_control_characters;

/// Makes lines of consecutive events. It may begin at any event that [`super::find_latest_start`]
/// returns.
#[derive(Clone, Debug, Default)]
pub struct Projector {
    choice: LineChoice,
    redactor: Redactor,
    /// The message that is being read, and its unfinished line.
    run: Option<MessageRun>,
    line: String,
    /// The half of a surrogate pair that the message ends with so far.
    cut: CutPair,
    /// True if the projector began inside a line, whose rest is left out.
    mid_line: bool,
    /// True if a gap came after it began inside a line: a message without an id is a new message
    /// then.
    gap: bool,
    /// Prompts that wait (false) or have a turn (true), as far as is known.
    begun: BTreeMap<PromptId, bool>,
    /// The text of the prompt whose turn begins with the next event, if prompts are shown.
    prompt_text: Option<String>,
    /// The failure that the end of a turn has told: the end of the session does not tell it again.
    told: Option<Arc<str>>,
}

impl Projector {
    /// Creates a projector that begins at the log's first event.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the projector show these lines.
    #[must_use]
    pub fn with_choice(mut self, choice: LineChoice) -> Self {
        self.choice = choice;
        self
    }

    /// Makes the projector begin inside a line, whose rest is left out.
    #[must_use]
    pub fn mid_line(mut self) -> Self {
        self.mid_line = true;
        self
    }

    /// Appends the lines that this event completes.
    pub fn feed(&mut self, id: EventId, event: &Event, out: &mut Vec<TranscriptLine>) {
        let mut sheet = EventLines { id, n: 0, out };
        let mut piece = LinePiece::from_event(event);
        if let LinePiece::Break(lines) = &mut piece {
            self.choose_lines(event, lines);
        }
        match piece {
            LinePiece::Nothing => {}
            LinePiece::Gap if self.run.is_none() => self.gap = true,
            LinePiece::Gap => {
                if self.run.as_ref().is_some_and(|run| run.message.is_none()) {
                    self.flush_message(&mut sheet);
                }
            }
            LinePiece::Text(chunk) => self.write_chunk(chunk, &mut sheet),
            LinePiece::Break(lines) => self.break_with(lines, &mut sheet),
            LinePiece::End { prompt, whether, lines } => {
                if whether == TurnBegun::Certain || self.begun.get(&prompt) == Some(&true) {
                    self.break_with(lines, &mut sheet);
                    self.told = event.prompt_failure().cloned();
                }
            }
        }
        self.note_turn(event);
    }

    /// Adds the lines that only some readers want, and removes a failure that the transcript has
    /// shown already.
    fn choose_lines(&mut self, event: &Event, lines: &mut Vec<WholeLine>) {
        match event {
            Event::Prompt(PromptEvent::TurnStarted { .. }) => {
                lines.extend(self.prompt_text.take().iter().flat_map(|text| prompt_lines(text)));
            }
            Event::Agent(AgentEvent::Updated { update: UpdateKind::Plan, frame, .. })
                if self.choice.plans =>
            {
                lines.extend(plan_lines(frame));
            }
            Event::Session(SessionEvent::Ended(ending))
                if ending.message.is_some() && ending.message == self.told =>
            {
                lines.clear();
            }
            Event::Session(_)
            | Event::Agent(_)
            | Event::Prompt(_)
            | Event::Ask(_)
            | Event::Storage(_)
            | Event::Unknown { .. }
            | Event::Lost(_) => {}
        }
    }

    /// Returns the event with the text of the prompt whose turn begins, if prompts are shown. The
    /// caller must read it and call [`Projector::set_prompt_text`] before it feeds the event.
    pub fn find_wanted_prompt(&self, event: &Event) -> Option<Seq> {
        let Event::Prompt(PromptEvent::TurnStarted { content, .. }) = event else { return None };
        self.choice.prompts.then_some(*content)
    }

    pub fn set_prompt_text(&mut self, text: String) {
        self.prompt_text = Some(text);
    }

    /// Returns the prompt that ends with this event if it is not known whether its turn had begun.
    /// The caller must find out and call [`Projector::set_turn_begun`] before it feeds the event.
    pub fn find_unknown_turn<'a>(&self, event: &'a Event) -> Option<&'a PromptId> {
        let Event::Prompt(PromptEvent::Ended { prompt, .. }) = event else { return None };
        let asks = matches!(
            LinePiece::from_event(event),
            LinePiece::End { whether: TurnBegun::IfSeen, .. }
        );
        (asks && !self.begun.contains_key(prompt)).then_some(prompt)
    }

    pub fn set_turn_begun(&mut self, prompt: PromptId, begun: bool) {
        self.begun.insert(prompt, begun);
    }

    fn note_turn(&mut self, event: &Event) {
        if !matches!(event, Event::Prompt(PromptEvent::Ended { .. })) {
            self.told = None;
        }
        let Some((prompt, step)) = event.prompt_step() else { return };
        match step {
            PromptStep::Accepted | PromptStep::Requeued => self.begun.insert(prompt.clone(), false),
            PromptStep::TurnStarted { .. } => self.begun.insert(prompt.clone(), true),
            PromptStep::Ended(_) => self.begun.remove(prompt),
        };
    }

    fn write_chunk(&mut self, chunk: MessageChunk, sheet: &mut EventLines<'_>) {
        if self.run.as_ref() != Some(&chunk.run) {
            // After a start inside a line, the first text continues that line.
            let is_next = self.gap && chunk.run.message.is_none();
            let goes_on = self.mid_line && self.run.is_none() && !is_next;
            self.flush_message(sheet);
            self.mid_line = goes_on;
            self.run = Some(chunk.run);
        }
        let joined = self.cut.join(&chunk.text);
        if let Some((joined, _)) = joined {
            if self.line.ends_with('\u{fffd}') {
                self.line.pop();
            }
            self.extend_line(joined.encode_utf8(&mut [0; 4]), sheet);
        }
        let mut text = joined.map_or(&*chunk.text.text, |(_, rest)| rest);
        while let Some((line, rest)) = text.split_once('\n') {
            self.extend_line(line, sheet);
            self.complete_line(sheet);
            self.mid_line = false;
            text = rest;
        }
        self.extend_line(text, sheet);
    }

    /// Appends text to the line. A line that gets too long becomes several.
    fn extend_line(&mut self, mut text: &str, sheet: &mut EventLines<'_>) {
        if self.mid_line {
            return;
        }
        while self.line.len() + text.len() > MAX_LINE_BYTES {
            let (fits, rest) =
                text.split_at(text.floor_char_boundary(MAX_LINE_BYTES - self.line.len()));
            self.line.push_str(fits);
            self.complete_line(sheet);
            text = rest;
        }
        self.line.push_str(text);
    }

    fn complete_line(&mut self, sheet: &mut EventLines<'_>) {
        let line = std::mem::take(&mut self.line);
        if self.mid_line {
            return;
        }
        let Some(run) = &self.run else { return };
        let line = strip_control_characters(&line);
        let line = if self.choice.secrets { line } else { self.redactor.redact_line(line) };
        let text = match run.kind {
            LineKind::Thought => format!("[thought] {line}").trim_end().to_owned(),
            LineKind::Text
            | LineKind::Tool
            | LineKind::ToolError
            | LineKind::AwaitingInput
            | LineKind::TurnEnd
            | LineKind::Error
            | LineKind::Prompt
            | LineKind::Plan => line,
        };
        sheet.push(run.kind, OutputStream::Stdout, text);
    }

    /// Ends the unfinished line and the message.
    fn flush_message(&mut self, sheet: &mut EventLines<'_>) {
        if !self.line.is_empty() {
            self.complete_line(sheet);
        }
        self.run = None;
        self.cut = CutPair::default();
        (self.mid_line, self.gap) = (false, false);
        self.redactor.reset();
    }

    fn break_with(&mut self, lines: Vec<WholeLine>, sheet: &mut EventLines<'_>) {
        self.flush_message(sheet);
        let mut redactor = Redactor::default();
        for WholeLine { kind, stream, text } in lines {
            let text = strip_control_characters(&text);
            let text = if self.choice.secrets { text } else { redactor.redact_line(text) };
            sheet.push(kind, stream, text);
        }
    }
}

/// Collects and numbers the lines of one event.
struct EventLines<'a> {
    id: EventId,
    n: u64,
    out: &'a mut Vec<TranscriptLine>,
}

impl EventLines<'_> {
    fn push(&mut self, kind: LineKind, stream: OutputStream, text: String) {
        self.n += 1;
        let EventId { epoch, seq } = self.id;
        let id = LineId { epoch, seq, n: self.n };
        self.out.push(TranscriptLine { id, text, stream, kind });
    }
}
