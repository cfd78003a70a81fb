//! Jumps in the transcript: to prompts, to errors, to a row that was found.

use wharf_api::{NoticeLevel, RowBody, TranscriptRow, TurnOutcome};

use crate::layout::{RowFold, has_tool_failed};
use crate::model::{ScrollAnchor, TuiState};
use crate::rows::RowPlace;
use crate::view::{find_shown_row, row_context};

impl TuiState {
    pub(super) fn go_to_oldest(&mut self) {
        let Some(open) = &mut self.open else { return };
        if let Some((place, _)) = open.rows.iter().next() {
            open.view.anchor = ScrollAnchor::At { place, line: 0 };
            open.view.selected = Some(place);
        }
    }

    /// Shows the newest line and follows it.
    pub(super) fn go_to_newest(&mut self) {
        let Some(open) = &mut self.open else { return };
        open.view.anchor = ScrollAnchor::End;
        open.view.selected = open.rows.iter().next_back().map(|(place, _)| place);
        self.select_shown_row();
        self.rejoin_stream();
    }

    pub(super) fn go_to_prompt(&mut self, is_after: bool) {
        match self.find_row(is_after, |row| matches!(row.body, RowBody::Prompt(_))) {
            Some(place) => {
                if let Some(open) = &mut self.open {
                    open.view.selected = Some(place);
                    open.view.anchor = ScrollAnchor::At { place, line: 0 };
                }
            }
            None if is_after => self.go_to_newest(),
            None => self.tell("no earlier prompt is loaded"),
        }
    }

    pub(super) fn go_to_error(&mut self, is_after: bool) {
        match self.find_row(is_after, is_error) {
            Some(place) => self.go_to_row(place),
            None if is_after => self.tell("no later error"),
            None => self.tell("no earlier error is loaded"),
        }
    }

    /// Returns the next row before or after the selected one for which this holds.
    fn find_row(&self, is_after: bool, holds: impl Fn(&TranscriptRow) -> bool) -> Option<RowPlace> {
        let open = self.open.as_ref()?;
        let from = open
            .view
            .selected
            .or_else(|| open.rows.iter().next_back().map(|(place, _)| place))?;
        let found = if is_after {
            open.rows
                .iter_from(from)
                .filter(|(place, _)| *place > from)
                .find(|(_, row)| holds(row))
        } else {
            open.rows.iter_before(from).find(|(_, row)| holds(row))
        };
        found.map(|(place, _)| place)
    }

    /// Selects a row and brings it into view. A run of steps or a tool call that hides it is
    /// opened.
    pub(super) fn go_to_row(&mut self, place: RowPlace) {
        let Some(open) = &self.open else { return };
        if row_context(self, open, place).fold == RowFold::Hidden
            && let Some(open) = &mut self.open
        {
            let mut parent = open.rows.get(place).and_then(|row| row.parent.clone());
            let view = &mut open.view;
            view.fold_revision += 1;
            view.opened_runs.insert(place);
            while let Some(id) = parent.take() {
                let above = RowPlace::of_id(&id);
                // Parents stand before their children, so that this ends.
                let row = open.rows.get(above).filter(|_| view.toggled.insert(above));
                parent = row.and_then(|row| row.parent.clone());
            }
        }
        if let Some(open) = &mut self.open {
            open.view.selected = Some(place);
        }
        self.scroll_to_selected();
    }

    /// Selects the row that stands for the selected one, if that is hidden: a step that became part
    /// of a folded run.
    pub(super) fn select_shown_row(&mut self) {
        let Some(open) = &self.open else { return };
        let shown = open.view.selected.and_then(|selected| find_shown_row(self, open, selected));
        if let Some(open) = &mut self.open {
            open.view.selected = shown;
        }
    }
}

fn is_error(row: &TranscriptRow) -> bool {
    match &row.body {
        RowBody::Tool(tool) => has_tool_failed(tool),
        RowBody::Notice(notice) => notice.level == NoticeLevel::Error,
        RowBody::TurnEnd(end) => {
            matches!(end.outcome, TurnOutcome::Failed | TurnOutcome::CutOff | TurnOutcome::Refused)
        }
        RowBody::Prompt(_)
        | RowBody::Message(_)
        | RowBody::Thought(_)
        | RowBody::Plan(_)
        | RowBody::Ask(_)
        | RowBody::Unknown => false,
    }
}
