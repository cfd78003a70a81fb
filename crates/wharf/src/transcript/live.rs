//! Turns rows that still grow into text. Each piece is printed once, and never taken back.

use std::collections::{BTreeMap, BTreeSet};

use wharf_api::{NoticeTopic, RowBody, RowPart, RowPlan, TranscriptRow};
use wharf_render::style::TextStyle;
use wharf_render::text::{to_printable, to_printable_lines_after};
use wharf_tui::rows::RowPlace;

use super::markdown::MarkdownStyler;
use super::row_lines::{RowLook, parts_text, plan_entry, render_row};
use super::word_wrap::WordWrapper;

/// Turns changes of rows into text for a terminal, in the order in which they come.
#[derive(Debug)]
pub(crate) struct LiveText {
    look: RowLook,
    /// How much of each row is printed.
    printed: BTreeMap<RowPlace, PrintedRow>,
    /// The turns whose prompts the person typed here: they stand on the screen already.
    own_prompts: BTreeSet<String>,
    /// The asks that were answered here.
    own_answers: BTreeSet<u64>,
    growing: Option<GrowingText>,
    last_block: Option<BlockKind>,
    /// The agent's work at the moment, for a status line.
    activity: Option<String>,
}

/// The part of a row that is printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PrintedRow {
    /// Bytes of a text.
    bytes: usize,
    /// True once a row without text is printed.
    done: bool,
    /// The step in progress when a plan was last shown; empty if no step was in progress.
    step: String,
}

/// The message or thought whose last line is unfinished.
#[derive(Debug)]
struct GrowingText {
    place: RowPlace,
    styler: MarkdownStyler,
    wrapper: WordWrapper,
    is_thought: bool,
    /// True if the cursor stands behind text.
    mid_line: bool,
}

/// Blocks of different kinds have an empty line between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockKind {
    Text,
    Thought,
    Lines,
}

impl LiveText {
    pub(crate) fn new(look: RowLook) -> Self {
        Self {
            look,
            printed: BTreeMap::new(),
            own_prompts: BTreeSet::new(),
            own_answers: BTreeSet::new(),
            growing: None,
            last_block: None,
            activity: None,
        }
    }

    /// Leaves the prompt of this turn out, which the person typed here.
    pub(crate) fn hide_prompt(&mut self, prompt: &str) {
        self.own_prompts.insert(prompt.to_owned());
    }

    /// Leaves the answer to this ask out, which was given here.
    pub(crate) fn hide_answer(&mut self, ask: u64) {
        self.own_answers.insert(ask);
    }

    /// Counts the row as printed.
    pub(crate) fn skip(&mut self, row: &TranscriptRow) {
        let bytes = grown_text(row).map_or(0, |text| text.len());
        self.printed.insert(
            RowPlace::of_id(&row.id),
            PrintedRow { bytes, done: !row.open, ..PrintedRow::default() },
        );
    }

    /// Returns what the agent does, in a few words: the open row that changed last.
    pub(crate) fn activity(&self) -> Option<&str> {
        self.activity.as_deref()
    }

    /// Returns true if the cursor stands behind unfinished text.
    pub(crate) fn is_mid_line(&self) -> bool {
        self.growing.as_ref().is_some_and(|growing| growing.mid_line)
    }

    /// Returns the text that a new or changed row adds.
    pub(crate) fn show(&mut self, row: &TranscriptRow) -> String {
        self.note_activity(row);
        let place = RowPlace::of_id(&row.id);
        match &row.body {
            RowBody::Message(_) => self.show_text(row, place, false),
            RowBody::Thought(_) => self.show_text(row, place, true),
            RowBody::Plan(plan) => self.show_plan(row, place, plan),
            RowBody::Prompt(_)
                if row.turn.as_ref().is_some_and(|turn| self.own_prompts.contains(turn)) =>
            {
                String::new()
            }
            RowBody::Ask(ask) if self.own_answers.contains(&ask.ask_id) => String::new(),
            // An open ask is put to the person, an open tool call is in the status line.
            RowBody::Ask(_) | RowBody::Tool(_) if row.open => String::new(),
            RowBody::Notice(notice) if notice.what == NoticeTopic::Started => String::new(),
            RowBody::Prompt(_)
            | RowBody::Tool(_)
            | RowBody::Ask(_)
            | RowBody::Notice(_)
            | RowBody::TurnEnd(_)
            | RowBody::Unknown => self.show_once(row, place),
        }
    }

    /// Ends an unfinished line.
    pub(crate) fn end_line(&mut self) -> String {
        match self.growing.take() {
            Some(mut growing) => {
                let rest = growing.styler.finish();
                let rest = growing.wrapper.feed(&rest) + &growing.wrapper.finish();
                if growing.mid_line || !rest.is_empty() { format!("{rest}\n") } else { rest }
            }
            None => String::new(),
        }
    }

    /// Takes in what the agent does, without printing it.
    pub(crate) fn note_activity(&mut self, row: &TranscriptRow) {
        let is_tool = matches!(row.body, RowBody::Tool(_));
        let is_ask = matches!(row.body, RowBody::Ask(_));
        self.activity = if matches!(row.body, RowBody::Message(_)) {
            Some("writing".to_owned())
        } else if is_tool && row.open {
            Some(to_printable(&row.summary))
        } else if is_ask && row.open {
            Some("waiting for an answer".to_owned())
        } else {
            None
        };
    }

    fn show_once(&mut self, row: &TranscriptRow, place: RowPlace) -> String {
        if std::mem::replace(&mut self.printed.entry(place).or_default().done, true) {
            return String::new();
        }
        let lines = render_row(row, self.look);
        if lines.is_empty() {
            String::new()
        } else {
            self.begin_block(BlockKind::Lines) + &join_lines(&lines)
        }
    }

    /// Prints a plan whole when it comes first, then only the steps that are begun.
    fn show_plan(&mut self, row: &TranscriptRow, place: RowPlace, plan: &RowPlan) -> String {
        let current = plan.entries.iter().find(|entry| entry.status == "in_progress");
        let step = current.map(|entry| entry.text.clone()).unwrap_or_default();
        let is_new = !self.printed.contains_key(&place);
        let before =
            std::mem::replace(&mut self.printed.entry(place).or_default().step, step.clone());
        if is_new {
            return self.begin_block(BlockKind::Lines) + &join_lines(&render_row(row, self.look));
        }
        match current.filter(|_| step != before) {
            Some(entry) => {
                let line = plan_entry(entry, self.look.screen);
                self.begin_block(BlockKind::Lines)
                    + &format!("Plan {}/{}:{line}\n", plan.done, plan.total)
            }
            None => String::new(),
        }
    }

    fn show_text(&mut self, row: &TranscriptRow, place: RowPlace, is_thought: bool) -> String {
        let Some(text) = grown_text(row) else { return String::new() };
        let printed = self.printed.entry(place).or_default();
        // A message that was replaced by a shorter one is not printed again.
        let Some(fresh) = text.get(printed.bytes..).filter(|fresh| !fresh.is_empty()) else {
            return if row.open { String::new() } else { self.end_row(place) };
        };
        let is_first = printed.bytes == 0;
        let before = &text[..printed.bytes];
        printed.bytes = text.len();
        let mut out = String::new();
        if self.growing.as_ref().is_none_or(|growing| growing.place != place) {
            out = self.begin_block(if is_thought { BlockKind::Thought } else { BlockKind::Text });
            let styler = MarkdownStyler::new(self.look.screen);
            let wrapper = WordWrapper::new(self.look.screen);
            self.growing =
                Some(GrowingText { place, styler, wrapper, is_thought, mid_line: false });
        }
        let label = if is_first && is_thought { "[thought] " } else { "" };
        if let Some(growing) = &mut self.growing {
            if is_first && self.look.times {
                let time = self.look.screen.paint(TextStyle::Faint, &to_printable(&row.at));
                out.push_str(&growing.wrapper.feed(&format!("{time} ")));
            }
            let fresh = to_printable_lines_after(before, fresh);
            out.push_str(&growing.add(&format!("{label}{fresh}"), self.look));
        }
        if !row.open {
            out.push_str(&self.end_row(place));
        }
        out
    }

    fn end_row(&mut self, place: RowPlace) -> String {
        if self.growing.as_ref().is_some_and(|growing| growing.place == place) {
            self.end_line()
        } else {
            String::new()
        }
    }

    /// Ends the line before and returns the empty line between blocks of different kinds.
    fn begin_block(&mut self, kind: BlockKind) -> String {
        let mut out = self.end_line();
        let before = self.last_block.replace(kind);
        if before.is_some_and(|before| before != kind || kind == BlockKind::Text) {
            out.push('\n');
        }
        out
    }
}

impl GrowingText {
    fn add(&mut self, text: &str, look: RowLook) -> String {
        self.mid_line = !text.ends_with('\n');
        if !self.is_thought {
            let styled = self.styler.feed(text);
            return self.wrapper.feed(&styled);
        }
        let lines: Vec<String> =
            text.split('\n').map(|line| look.screen.paint(TextStyle::Faint, line)).collect();
        self.wrapper.feed(&lines.join("\n"))
    }
}

/// Returns the text of a message or thought.
fn grown_text(row: &TranscriptRow) -> Option<String> {
    let (RowBody::Message(text) | RowBody::Thought(text)) = &row.body else { return None };
    let mut parts = text.parts.clone();
    // The note about a cut changes while the text grows.
    for part in &mut parts {
        if let RowPart::Text(part) = part {
            part.cut = None;
        }
    }
    Some(parts_text(&parts))
}

fn join_lines(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::transcript::test_row;
    use wharf_render::style::Screen;

    fn live() -> LiveText {
        LiveText::new(RowLook { screen: Screen::TERMINAL, times: false })
    }

    fn text(id: &str, kind: &str, open: bool, text: &str) -> TranscriptRow {
        let mut row =
            test_row(kind, open, "", json!({ "parts": [{ "type": "text", "text": text }] }));
        id.clone_into(&mut row.id);
        row
    }

    fn tool(id: &str, open: bool, state: &str) -> TranscriptRow {
        let tool = json!({ "toolCallId": "t", "title": "ls", "state": state, "startedAt": "", "endedAt": null });
        let mut row = test_row("tool", open, "ls", tool);
        id.clone_into(&mut row.id);
        row
    }

    #[test]
    fn text_is_printed_as_it_grows_and_never_twice() {
        let mut live = live();
        let pieces = [
            text("1-2", "message", true, "one\ntw"),
            text("1-2", "message", true, "one\ntw"),
            text("1-2", "message", true, "one\ntwo\u{1b}[2J"),
            text("1-2", "message", false, "one\ntwo\u{1b}[2J"),
            text("1-2", "message", false, "one\ntwo\u{1b}[2J"),
        ];
        assert_eq!(pieces.each_ref().map(|row| live.show(row)), ["one\ntw", "", "o", "\n", ""]);
        assert!(!live.is_mid_line());
    }

    #[test]
    fn time_stands_once_before_messages_and_thoughts() {
        let mut live = LiveText::new(RowLook { screen: Screen::TERMINAL, times: true });
        let row = |id: &str, kind: &str, open: bool, words: &str| TranscriptRow {
            at: "2026-11-17T08:00:00.000Z".to_owned(),
            ..text(id, kind, open, words)
        };
        let pieces = [
            row("1-2", "thought", true, "h"),
            row("1-2", "thought", false, "hm"),
            row("1-3", "message", true, "one\n"),
            row("1-3", "message", false, "one\ntwo"),
        ];
        let shown = pieces.each_ref().map(|row| live.show(row));
        let at = "2026-11-17T08:00:00.000Z";
        assert_eq!(
            shown,
            [format!("{at} [thought] h"), "m\n".into(), format!("\n{at} one\n"), "two\n".into()]
        );
    }

    #[test]
    fn tool_call_is_printed_when_it_has_ended_and_ends_the_line_before() {
        let mut live = live();
        live.show(&text("1-2", "message", true, "hm"));
        assert_eq!(
            (live.show(&tool("1-3", true, "running")), live.activity()),
            (String::new(), Some("ls"))
        );
        assert!(live.is_mid_line());
        assert_eq!(live.show(&tool("1-3", false, "completed")), "\n\n● ls\n");
        assert_eq!(
            (live.show(&tool("1-3", false, "completed")), live.activity()),
            (String::new(), None)
        );
        assert_eq!(live.show(&text("1-4", "thought", true, "a\nb")), "\n[thought] a\nb");
        assert_eq!(live.show(&text("1-5", "message", true, "so")), "\n\nso");
    }

    #[test]
    fn plan_is_printed_once_and_then_its_steps() {
        let plan = |done: usize, status: [&str; 2]| {
            let entry = |text: &str, status: &str| json!({ "text": text, "status": status });
            let entries = [entry("look", status[0]), entry("do", status[1])];
            test_row("plan", true, "", json!({ "done": done, "total": 2, "entries": entries }))
        };
        let mut live = live();
        let shown = [
            plan(0, ["in_progress", "pending"]),
            plan(1, ["completed", "pending"]),
            plan(1, ["completed", "in_progress"]),
            plan(2, ["completed", "completed"]),
        ]
        .map(|row| live.show(&row));
        assert_eq!(shown, ["Plan 0/2\n  ▸ look\n  · do\n", "", "Plan 1/2:  ▸ do\n", ""]);
    }

    #[test]
    fn own_prompts_and_answers_are_left_out_and_those_of_others_are_shown() {
        let prompt = |turn: &str| {
            let by = json!({ "name": "zed" });
            let mut row = test_row(
                "prompt",
                false,
                "",
                json!({ "by": by, "acceptedAt": null,
                "parts": [{ "type": "text", "text": "hello" }] }),
            );
            row.turn = Some(turn.to_owned());
            row.id = format!("1-{}", turn.len());
            row
        };
        let ask = |id: u64| {
            let members = json!({ "askId": id, "ask": "permission", "state": "answered", "tool": null,
                "subject": { "title": "May I?", "command": null, "cwd": null, "paths": [], "diffs": [],
                    "text": null, "outside": [], "detailed": false },
                "answer": { "option": "yes", "name": "Yes", "by": { "name": "zed" }, "at": "", "after": 0 } });
            let mut row = test_row("ask", false, "May I?", members);
            row.id = format!("1-{id}");
            row
        };
        let mut live = live();
        live.hide_prompt("mine");
        live.hide_answer(50);
        assert_eq!(
            (live.show(&prompt("mine")), live.show(&ask(50))),
            (String::new(), String::new())
        );
        assert!(live.show(&prompt("theirs")).ends_with("\n> hello\n"));
        assert_eq!(live.show(&ask(51)), "? May I? → Yes (zed, after 0.0s)\n");
        let skipped: Value = json!({ "what": "started", "level": "info", "text": "started" });
        assert_eq!(live.show(&test_row("notice", false, "", skipped)), "");
    }
}
