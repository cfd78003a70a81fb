//! Counts of tool calls for their turns and their parents: those that are open, have failed or have
//! changed files.

use wharf_api::{RowBody, ToolState, TranscriptRow};

use crate::file_changes::{RowFileChange, list_file_changes};
use crate::fold::FoldStep;
use crate::limits::MAX_OPEN_TOOLS;
use crate::{RowKey, RowNumber, RowStore};

/// The facts of a tool call that are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ToolFacts {
    pub(crate) is_open: bool,
    has_failed: bool,
    /// The id of its parent's row.
    parent: Option<String>,
    files: Vec<RowFileChange>,
}

impl ToolFacts {
    pub(crate) fn of_row(row: &TranscriptRow) -> Self {
        let RowBody::Tool(tool) = &row.body else { return Self::default() };
        Self {
            is_open: tool.state.is_open(),
            has_failed: tool.state == ToolState::Failed,
            parent: row.parent.clone(),
            files: list_file_changes(row),
        }
    }
}

/// Counts a change of a tool call for its turn and for its parent.
pub(crate) fn count_change(
    step: &mut FoldStep<'_, impl RowStore>,
    number: RowNumber,
    before: &ToolFacts,
) {
    count_in_turn(step, number, before);
    count_in_parent(step, number, before);
}

/// Counts for the turn of the row, as long as it is open.
fn count_in_turn(step: &mut FoldStep<'_, impl RowStore>, number: RowNumber, before: &ToolFacts) {
    let Some(row) = step.rows.row_mut(number) else { return };
    let now = ToolFacts::of_row(row);
    let turn = row.turn.clone();
    for turn in &mut step.fold.turns {
        turn.open_tools.remove(&number);
    }
    let owner = if let Some(own) = step.fold.turn_of_row(number, turn.as_deref()) {
        own.tools.failed = adjust(own.tools.failed, before.has_failed, now.has_failed);
        own.files.replace(&before.files, &now.files);
        Some(own)
    } else {
        // A call of an earlier turn may end with the turn in which it goes on, but counts nothing
        // there.
        step.fold.newest_turn_mut()
    };
    if let Some(owner) =
        owner.filter(|owner| now.is_open && owner.open_tools.len() < MAX_OPEN_TOOLS)
    {
        owner.open_tools.insert(number);
    }
}

/// Counts for the tool call that the agent names as its parent.
pub(crate) fn count_in_parent(
    step: &mut FoldStep<'_, impl RowStore>,
    number: RowNumber,
    before: &ToolFacts,
) {
    let Some(row) = step.rows.row_mut(number) else { return };
    let now = ToolFacts::of_row(row);
    let summary = row.summary.clone();
    let Some(parent) = now.parent else { return };
    let Some(parent) = step.rows.find(&RowKey::Id(parent)) else { return };
    // A parent that is named late counts the call as it is by then.
    let is_known = before.parent.is_some();
    step.change(parent, |row| {
        if let RowBody::Tool(tool) = &mut row.body {
            let children = tool.children.get_or_insert_default();
            children.count += u64::from(!is_known);
            children.open = adjust(children.open, is_known && before.is_open, now.is_open);
            children.failed =
                adjust(children.failed, is_known && before.has_failed, now.has_failed);
            children.latest = summary;
        }
    });
}

/// Returns a count after one of its members has changed.
fn adjust(count: u64, before: bool, now: bool) -> u64 {
    (count + u64::from(now)).saturating_sub(u64::from(before))
}
