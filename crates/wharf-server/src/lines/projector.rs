//! Events in, lines out.

use std::collections::HashMap;

use wharf_host::Entry;
use wharf_host::core::{Event, PromptId};
use wharf_host::redact::Redactor;
use wharf_json::CutPair;

use super::clean::clean;
use super::piece::{Chunk, Piece, Run, Whether, Whole};
use super::{LONGEST, Line, LineId, LineKind, Stream};

/// Makes lines of consecutive events. Where it begins does not matter as long as it begins where [`super::start`] says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Projector {
    plain: bool,
    redactor: Redactor,
    /// The message that is being written, and its line so far.
    run: Option<Run>,
    line: String,
    /// Half of a character that the message so far ends with.
    cut: CutPair,
    /// Began inside a line, whose rest is left out.
    mid_line: bool,
    /// A gap came since it began inside a line: a message without an id is another one now.
    gap: bool,
    /// Prompts that are known to wait (false) or to have a turn (true).
    begun: HashMap<PromptId, bool>,
}

impl Projector {
    /// One that begins at the log's first event.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Shows secrets.
    #[must_use]
    pub(crate) fn without_redaction(mut self) -> Self {
        self.plain = true;
        self
    }

    /// One that begins somewhere inside a line: the rest of that line is left out.
    #[must_use]
    pub(super) fn mid_line(mut self) -> Self {
        self.mid_line = true;
        self
    }

    /// Appends the lines that this event completes.
    pub(crate) fn feed(&mut self, entry: &Entry, out: &mut Vec<Line>) {
        let mut sheet = Sheet { entry, n: 0, out };
        match Piece::of(&entry.event) {
            Piece::Nothing => {}
            Piece::Gap if self.run.is_none() => self.gap = true,
            Piece::Gap => {
                if self.run.as_ref().is_some_and(|run| run.message.is_none()) {
                    self.flush(&mut sheet);
                }
            }
            Piece::Text(chunk) => self.write(chunk, &mut sheet),
            Piece::Break(lines) => self.break_with(lines, &mut sheet),
            Piece::End { prompt, whether, lines } => {
                if whether == Whether::Surely || self.begun.get(&prompt) == Some(&true) {
                    self.break_with(lines, &mut sheet);
                }
            }
        }
        self.note(&entry.event);
    }

    /// The prompt of which must be known whether its turn had begun before this event is fed: it ended, and nothing of
    /// it was seen since the beginning. [`Projector::tell`] answers.
    pub(super) fn wonders<'a>(&self, event: &'a Event) -> Option<&'a PromptId> {
        let Event::PromptEnded { prompt, .. } = event else { return None };
        let asks = matches!(Piece::of(event), Piece::End { whether: Whether::IfBegun, .. });
        (asks && !self.begun.contains_key(prompt)).then_some(prompt)
    }

    pub(super) fn tell(&mut self, prompt: PromptId, begun: bool) {
        self.begun.insert(prompt, begun);
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::PromptAccepted { prompt, .. } | Event::PromptRequeued { prompt } => {
                self.begun.insert(prompt.clone(), false);
            }
            Event::TurnStarted { prompt, .. } => {
                self.begun.insert(prompt.clone(), true);
            }
            Event::PromptEnded { prompt, .. } => {
                self.begun.remove(prompt);
            }
            Event::Created(_)
            | Event::AgentStarting { .. }
            | Event::AgentStarted { .. }
            | Event::StartFailed { .. }
            | Event::Ended(_)
            | Event::PromptUpdated { .. }
            | Event::PromptMoved { .. }
            | Event::CancelRequested { .. }
            | Event::AgentUpdated { .. }
            | Event::AskOpened(_)
            | Event::AskResolved { .. }
            | Event::AgentFaulted { .. }
            | Event::Paused { .. }
            | Event::SettingsChanged { .. }
            | Event::Continued
            | Event::Snapshot(_)
            | Event::Unknown { .. } => {}
        }
    }

    fn write(&mut self, chunk: Chunk, sheet: &mut Sheet<'_>) {
        if self.run.as_ref() != Some(&chunk.run) {
            // The first text after a beginning inside a line goes on with that line.
            let is_next = self.gap && chunk.run.message.is_none();
            let goes_on = self.mid_line && self.run.is_none() && !is_next;
            self.flush(sheet);
            self.mid_line = goes_on;
            self.run = Some(chunk.run);
        }
        let joined = self.cut.join(&chunk.text);
        if let Some((joined, _)) = joined {
            if self.line.ends_with('\u{fffd}') {
                self.line.pop();
            }
            self.extend(joined.encode_utf8(&mut [0; 4]), sheet);
        }
        let mut text = joined.map_or(&*chunk.text.text, |(_, rest)| rest);
        while let Some((line, rest)) = text.split_once('\n') {
            self.extend(line, sheet);
            self.complete(sheet);
            self.mid_line = false;
            text = rest;
        }
        self.extend(text, sheet);
    }

    /// More of the line; what is too long for one becomes several.
    fn extend(&mut self, mut text: &str, sheet: &mut Sheet<'_>) {
        if self.mid_line {
            return;
        }
        while self.line.len() + text.len() > LONGEST {
            let (fits, rest) = text.split_at(text.floor_char_boundary(LONGEST - self.line.len()));
            self.line.push_str(fits);
            self.complete(sheet);
            text = rest;
        }
        self.line.push_str(text);
    }

    fn complete(&mut self, sheet: &mut Sheet<'_>) {
        let line = std::mem::take(&mut self.line);
        if self.mid_line {
            return;
        }
        let Some(run) = &self.run else { return };
        let line = clean(&line);
        let line = if self.plain { line } else { self.redactor.line(line) };
        let text = match run.kind {
            LineKind::Thought => format!("[thought] {line}").trim_end().to_owned(),
            LineKind::Text
            | LineKind::Tool
            | LineKind::ToolError
            | LineKind::AwaitingInput
            | LineKind::TurnEnd
            | LineKind::Error => line,
        };
        sheet.push(run.kind, Stream::Stdout, text);
    }

    /// Ends the line that is being written, and the message.
    fn flush(&mut self, sheet: &mut Sheet<'_>) {
        if !self.line.is_empty() {
            self.complete(sheet);
        }
        self.run = None;
        self.cut = CutPair::default();
        (self.mid_line, self.gap) = (false, false);
        self.redactor.reset();
    }

    fn break_with(&mut self, lines: Vec<Whole>, sheet: &mut Sheet<'_>) {
        self.flush(sheet);
        let mut redactor = Redactor::default();
        for Whole { kind, stream, text } in lines {
            let text = clean(&text);
            let text = if self.plain { text } else { redactor.line(text) };
            sheet.push(kind, stream, text);
        }
    }
}

/// Where the lines of one event go.
struct Sheet<'a> {
    entry: &'a Entry,
    n: u64,
    out: &'a mut Vec<Line>,
}

impl Sheet<'_> {
    fn push(&mut self, kind: LineKind, stream: Stream, text: String) {
        self.n += 1;
        let id = LineId { epoch: self.entry.epoch, seq: self.entry.seq, n: self.n };
        self.out.push(Line { id, text, stream, kind });
    }
}
