//! The way in which rows stand among others: runs of steps folded into one line, rows of subagents
//! below their tool call, and empty lines between messages and steps.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use wharf_api::{AskState, NoticeLevel, RowBody, RowTool, RowTurnEnd, ToolState, TranscriptRow};

use crate::failures::{FailureKind, is_failed_end, repeats_failure};
use crate::model::TranscriptView;
use crate::rows::{OlderRows, RowPlace, RowSet};

/// So many steps in a row are folded.
const MIN_FOLDED_STEPS: usize = 3;
/// The columns by which a row of a subagent is indented.
const CHILD_INDENT_COLUMNS: u16 = 2;
/// Deeper rows are not indented any more.
const MAX_INDENT_COLUMNS: u16 = 6;

/// The way in which a row is shown because of the rows around it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowContext {
    pub(crate) fold: RowFold,
    pub(crate) indent: u16,
    /// An empty line divides the row from the next one. It belongs to the upper row, so that rows
    /// that are loaded above the first one do not move it.
    pub(crate) has_gap_after: bool,
    /// The row is the first that came while the person was elsewhere.
    pub(crate) is_first_unread: bool,
    pub(crate) failure: FailureDetail,
}

/// How much the end of a failed turn says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FailureDetail {
    #[default]
    Reason,
    /// True for the newest turn, whose end also names the commands that help.
    WaysOn,
    /// The card of the session tells the reason and the ways on.
    InCard,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum RowFold {
    #[default]
    Shown,
    Hidden,
    /// The first of several steps, which are shown as this text.
    Folded(Rc<str>),
    /// The first of several steps that could be folded to this text.
    Unfolded(Rc<str>),
}

/// The contexts of all rows that do not simply stand there.
#[derive(Debug, Default)]
pub(crate) struct RowArrangement {
    contexts: BTreeMap<RowPlace, RowContext>,
}

impl RowArrangement {
    pub(crate) fn context(&self, place: RowPlace) -> RowContext {
        self.contexts.get(&place).cloned().unwrap_or_default()
    }
}

/// Returns true if a tool call failed, by its state or by the exit code of its command.
pub(crate) fn has_tool_failed(tool: &RowTool) -> bool {
    let code = tool.output.as_ref().and_then(|output| output.exit_code).unwrap_or_default();
    tool.state == ToolState::Failed || code != 0
}

/// Arranges the rows that are held. `has_card` is true if a card tells below them why the session's
/// agent failed.
pub(crate) fn arrange_rows(rows: &RowSet, view: &TranscriptView, has_card: bool) -> RowArrangement {
    let mut arrangement = RowArrangement::default();
    let mut run = StepRun::default();
    for (place, row) in rows.iter() {
        if let Some(parent) = row.parent.as_deref() {
            arrangement.place_child(place, RowPlace::of_id(parent), rows, view);
            continue;
        }
        match StepKind::of(row) {
            StepKind::Step => run.add(place, row),
            StepKind::Beside => run.pending.push(place),
            StepKind::Other => std::mem::take(&mut run).fold(&mut arrangement, view),
        }
    }
    run.fold(&mut arrangement, view);
    arrangement.tell_failures_once(rows, has_card);
    arrangement.divide_messages(rows);
    if let Some(after) = view.unread_after {
        arrangement.mark_first_unread(rows, after);
    }
    arrangement
}

impl RowArrangement {
    /// Shows a row of a subagent below its tool call, if that is opened.
    fn place_child(
        &mut self,
        place: RowPlace,
        parent: RowPlace,
        rows: &RowSet,
        view: &TranscriptView,
    ) {
        let above = self.context(parent);
        let is_shown = rows.get(parent).is_none()
            || view.toggled.contains(&parent) && above.fold != RowFold::Hidden;
        let context = self.contexts.entry(place).or_default();
        context.indent = (above.indent + CHILD_INDENT_COLUMNS).min(MAX_INDENT_COLUMNS);
        if !is_shown {
            context.fold = RowFold::Hidden;
        }
    }

    /// Has each failure told once: by the end of its turn or by the card below, and not by the
    /// notice of the agent's end.
    fn tell_failures_once(&mut self, rows: &RowSet, has_card: bool) {
        let mut last_end: Option<(RowPlace, &RowTurnEnd)> = None;
        let mut last_notice = None;
        for (place, row) in rows.iter() {
            match &row.body {
                RowBody::TurnEnd(end) => {
                    last_end = Some((place, end));
                    last_notice = None;
                }
                RowBody::Prompt(_) => {
                    last_end = None;
                    last_notice = None;
                }
                RowBody::Notice(notice) if is_failed_end(notice) => {
                    last_notice = Some(place);
                    if last_end.is_some_and(|(_, end)| repeats_failure(notice, end)) {
                        self.contexts.entry(place).or_default().fold = RowFold::Hidden;
                    }
                }
                RowBody::Notice(_)
                | RowBody::Message(_)
                | RowBody::Thought(_)
                | RowBody::Tool(_)
                | RowBody::Plan(_)
                | RowBody::Ask(_)
                | RowBody::Unknown => {}
            }
        }
        if let Some(notice) = last_notice.filter(|_| has_card) {
            self.contexts.entry(notice).or_default().fold = RowFold::Hidden;
        }
        let Some((place, end)) = last_end.filter(|(_, end)| FailureKind::of_turn(end).is_some())
        else {
            return;
        };
        self.contexts.entry(place).or_default().failure = match end.reason.as_str() {
            "start_failed" | "agent_exited" if has_card => FailureDetail::InCard,
            _ if has_card => FailureDetail::Reason,
            _ => FailureDetail::WaysOn,
        };
    }

    /// Marks the first visible row after `after`. Does nothing if rows that are not loaded may come
    /// before it.
    fn mark_first_unread(&mut self, rows: &RowSet, after: RowPlace) {
        if *rows.older() != OlderRows::None
            && rows.iter().next().is_none_or(|(first, _)| first > after)
        {
            return;
        }
        let is_shown = |(place, row): &(RowPlace, &TranscriptRow)| {
            *place > after && self.context(*place).fold != RowFold::Hidden && !is_for_machines(row)
        };
        if let Some((place, _)) = rows.iter_from(after).find(is_shown) {
            self.contexts.entry(place).or_default().is_first_unread = true;
        }
    }

    /// Puts empty lines between messages and the steps around them.
    fn divide_messages(&mut self, rows: &RowSet) {
        let mut before: Option<(RowPlace, RowGroup)> = None;
        for (place, row) in rows.iter() {
            let is_hidden =
                self.contexts.get(&place).is_some_and(|context| context.fold == RowFold::Hidden);
            if is_hidden || is_for_machines(row) {
                continue;
            }
            let group = RowGroup::of(row);
            if let Some((upper, RowGroup::Message | RowGroup::Steps)) = before
                && before.is_some_and(|(_, upper)| {
                    upper == RowGroup::Message || group == RowGroup::Message
                })
                && group != RowGroup::Start
            {
                self.contexts.entry(upper).or_default().has_gap_after = true;
            }
            before = Some((place, group));
        }
    }
}

/// Rows that stand together without an empty line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowGroup {
    /// A prompt has its own empty lines.
    Start,
    Message,
    Steps,
}

impl RowGroup {
    const fn of(row: &TranscriptRow) -> Self {
        match &row.body {
            RowBody::Prompt(_) => Self::Start,
            RowBody::Message(_) | RowBody::TurnEnd(_) => Self::Message,
            RowBody::Thought(_)
            | RowBody::Tool(_)
            | RowBody::Plan(_)
            | RowBody::Ask(_)
            | RowBody::Notice(_)
            | RowBody::Unknown => Self::Steps,
        }
    }
}

fn is_for_machines(row: &TranscriptRow) -> bool {
    matches!(&row.body, RowBody::Notice(notice) if notice.level == NoticeLevel::Debug)
}

/// The part of a row in a run of steps.
enum StepKind {
    /// A tool call that succeeded.
    Step,
    /// A row that does not end a run and is folded with it.
    Beside,
    Other,
}

impl StepKind {
    fn of(row: &TranscriptRow) -> Self {
        match &row.body {
            RowBody::Tool(tool) if tool.state == ToolState::Completed && !has_tool_failed(tool) => {
                Self::Step
            }
            RowBody::Thought(_) if !row.open => Self::Beside,
            RowBody::Ask(ask) if ask.tool.is_some() && ask.state == AskState::Answered => {
                Self::Beside
            }
            RowBody::Notice(_) if is_for_machines(row) => Self::Beside,
            RowBody::Plan(_) => Self::Beside,
            RowBody::Tool(_)
            | RowBody::Thought(_)
            | RowBody::Ask(_)
            | RowBody::Notice(_)
            | RowBody::Prompt(_)
            | RowBody::Message(_)
            | RowBody::TurnEnd(_)
            | RowBody::Unknown => Self::Other,
        }
    }
}

/// Steps in a row.
#[derive(Default)]
struct StepRun<'a> {
    members: Vec<RowPlace>,
    /// Rows after the last step, which belong to the run if another step follows.
    pending: Vec<RowPlace>,
    steps: usize,
    paths: BTreeSet<&'a str>,
    added: u64,
    removed: u64,
}

impl<'a> StepRun<'a> {
    fn add(&mut self, place: RowPlace, row: &'a TranscriptRow) {
        let beside = std::mem::take(&mut self.pending);
        if self.steps > 0 {
            self.members.extend(beside);
        }
        self.members.push(place);
        self.steps += 1;
        if let RowBody::Tool(tool) = &row.body {
            for diff in &tool.diffs {
                self.paths.insert(&diff.path);
                self.added += diff.added;
                self.removed += diff.removed;
            }
        }
    }

    /// Folds the run if it is long enough. A run in which the person has opened something stays
    /// open.
    fn fold(self, arrangement: &mut RowArrangement, view: &TranscriptView) {
        let (Some(first), Some(last)) = (self.members.first(), self.members.last()) else { return };
        if self.steps < MIN_FOLDED_STEPS {
            return;
        }
        let opened = |set: &BTreeSet<RowPlace>| set.range(*first..=*last).next().is_some();
        let summary: Rc<str> = self.describe().into();
        if opened(&view.opened_runs) || opened(&view.toggled) {
            arrangement.contexts.entry(*first).or_default().fold = RowFold::Unfolded(summary);
            return;
        }
        for place in &self.members {
            arrangement.contexts.entry(*place).or_default().fold = RowFold::Hidden;
        }
        arrangement.contexts.entry(*first).or_default().fold = RowFold::Folded(summary);
    }

    fn describe(&self) -> String {
        let files = match self.paths.len() {
            0 => return format!("{} steps", self.steps),
            1 => "1 file".to_owned(),
            count => format!("{count} files"),
        };
        format!("{} steps · {files} +{} −{}", self.steps, self.added, self.removed)
    }
}

#[cfg(test)]
mod tests;
