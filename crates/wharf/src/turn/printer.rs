//! Prints a watched turn in its format, with a status line where there is a terminal for it.

use std::time::Instant;

use wharf_api::{RowBody, TranscriptRow, TurnPhase};
use wharf_render::style::{Screen, TextStyle};
use wharf_render::text::{format_duration, truncate_to_columns};

use super::flags::TurnFormat;
use super::format_output_line;
use crate::client::SseEvent;
use crate::output;
use crate::transcript::{LiveText, RowLook};

#[derive(Debug)]
pub(super) struct TurnPrinter {
    format: TurnFormat,
    screen: Screen,
    live: LiveText,
    status: StatusLine,
}

/// The one line at the bottom that tells what goes on. It is drawn over in place and removed before
/// other output.
#[derive(Debug)]
struct StatusLine {
    is_possible: bool,
    drawn: Option<String>,
    since: Instant,
    /// The words for a time in which no row tells what goes on.
    words: String,
    /// The keys that the person can press, in a long and a short form.
    keys: KeyHint,
}

#[derive(Clone, Copy, Debug)]
struct KeyHint {
    long: &'static str,
    short: &'static str,
}

const INTERRUPT_AND_LEAVE: KeyHint = KeyHint {
    long: " · Ctrl-C interrupts, Ctrl-D leaves it running",
    short: " · ^C stops, ^D leaves",
};
const INTERRUPT_ALONE: KeyHint = KeyHint { long: " · Ctrl-C interrupts", short: " · ^C stops" };

/// The width from which on the keys are named in words.
const LONG_HINT_COLUMNS: usize = 72;

impl TurnPrinter {
    pub(super) fn new(format: TurnFormat, screen: Screen, agent: &str) -> Self {
        let text_screen =
            if format == TurnFormat::Text { Screen { colour: false, ..screen } } else { screen };
        let status = StatusLine {
            is_possible: format.follows_rows() && output::can_draw_status(),
            drawn: None,
            since: Instant::now(),
            words: format!("starting {agent}"),
            keys: INTERRUPT_ALONE,
        };
        Self {
            format,
            screen,
            live: LiveText::new(RowLook { screen: text_screen, times: false }),
            status,
        }
    }

    pub(super) const fn has_status(&self) -> bool {
        self.status.is_possible
    }

    /// Names the keys in the status line; `can_type` is true if the person can press Ctrl-D.
    pub(super) fn name_keys(&mut self, can_type: bool) {
        self.status.keys = if can_type { INTERRUPT_AND_LEAVE } else { INTERRUPT_ALONE };
    }

    pub(super) fn hide_answer(&mut self, ask: u64) {
        self.live.hide_answer(ask);
    }

    pub(super) fn hide_prompt(&mut self, prompt: &str) {
        self.live.hide_prompt(prompt);
    }

    /// Prints a line of the session's output. Fails if the reader is gone.
    pub(super) fn print_line(&mut self, line: &str, stderr: bool) -> std::io::Result<()> {
        output::try_print_line(&format_output_line(self.screen, line, stderr))
    }

    /// Prints what a row adds. Fails if the reader is gone.
    pub(super) fn print_row(&mut self, row: &TranscriptRow) -> std::io::Result<()> {
        let is_text = matches!(row.body, RowBody::Message(_)) && row.parent.is_none();
        let text = match self.format {
            TurnFormat::Live => self.live.show(row),
            TurnFormat::Text if is_text => self.live.show(row),
            TurnFormat::Text | TurnFormat::Lines | TurnFormat::Json | TurnFormat::StreamJson => {
                self.live.note_activity(row);
                return Ok(());
            }
        };
        if text.is_empty() {
            return Ok(());
        }
        self.clear_status();
        output::try_print_text(&text)
    }

    /// Prints an event of the rows' stream as one line of JSON. Fails if the reader is gone.
    pub(super) fn print_event(&mut self, event: &SseEvent) -> std::io::Result<()> {
        if self.format != TurnFormat::StreamJson || event.kind == "beat" {
            return Ok(());
        }
        self.clear_status();
        output::try_print_line(&format!(r#"{{"event":"{}","data":{}}}"#, event.kind, event.data))
    }

    /// Takes in what the session does apart from rows.
    pub(super) fn note_phase(
        &mut self,
        agent: &str,
        running: bool,
        phase: &TurnPhase,
        queued: bool,
    ) {
        self.status.words = match phase {
            _ if !running => format!("starting {agent}"),
            _ if queued => "waiting in the queue".to_owned(),
            TurnPhase::AwaitingInput => "waiting for an answer".to_owned(),
            TurnPhase::Idle | TurnPhase::Running | TurnPhase::Other(_) => "thinking".to_owned(),
        };
    }

    /// Draws the status line, unless the cursor stands behind unfinished text.
    pub(super) fn draw_status(&mut self) {
        let writes_here =
            matches!(self.format, TurnFormat::Live | TurnFormat::Text) && self.screen.terminal;
        if !self.status.is_possible || (writes_here && self.live.is_mid_line()) {
            return;
        }
        let seconds = self.status.since.elapsed().as_secs();
        let doing = self.live.activity().unwrap_or(&self.status.words);
        let elapsed = match seconds {
            0 => String::new(),
            1..10 => format!(" · {seconds}s"),
            _ => format!(" · {}", format_duration(seconds * 1_000)),
        };
        let KeyHint { long, short } = self.status.keys;
        let keys = if self.screen.width >= LONG_HINT_COLUMNS { long } else { short };
        let room = self.screen.width.saturating_sub(elapsed.len() + keys.len() + 3);
        let line = format!("… {}{elapsed}{keys}", truncate_to_columns(doing, room));
        let line = self.screen.paint(TextStyle::Faint, &line);
        if self.status.drawn.as_ref() != Some(&line) {
            output::draw_status(&line);
            self.status.drawn = Some(line);
        }
    }

    pub(super) fn clear_status(&mut self) {
        if self.status.drawn.take().is_some() {
            output::draw_status("");
        }
    }

    /// Ends an unfinished line and removes the status line, before other output.
    pub(super) fn end_line(&mut self) {
        self.clear_status();
        let rest = self.live.end_line();
        if !rest.is_empty() {
            let _ = output::try_print_text(&rest);
        }
    }

    /// Prints a note for the person.
    pub(super) fn print_note(&mut self, text: &str) {
        if self.screen.terminal {
            self.end_line();
        }
        self.clear_status();
        output::print_note(text);
    }
}
