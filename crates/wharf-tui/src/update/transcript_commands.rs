//! Commands of the transcript: the selected row, folding and scrolling.

use wharf_api::{RowBody, TranscriptRow};

use crate::api_call::read_older_rows;
use crate::keymap::TranscriptCommand;
use crate::layout::{RowFold, scroll_anchor};
use crate::model::{CallPurpose, ScrollAnchor, TuiState};
use crate::rows::RowPlace;
use crate::view::{count_row_lines, row_context, transcript_area, visible_rows};

/// An older page is loaded when so few rows are above the first visible one.
const LOAD_OLDER_BELOW_ROWS: usize = 20;

impl TuiState {
    pub(super) fn run_transcript_command(&mut self, command: TranscriptCommand) {
        let height = transcript_area(self).map_or(1, |area| area.height.max(1));
        let page = isize::try_from(height.saturating_sub(1).max(1)).unwrap_or(1);
        match command {
            TranscriptCommand::RowDown => self.select_row(1),
            TranscriptCommand::RowUp => self.select_row(-1),
            TranscriptCommand::ToggleRow => self.toggle_selected_row(),
            TranscriptCommand::Oldest => self.go_to_oldest(),
            TranscriptCommand::Newest => self.go_to_newest(),
            TranscriptCommand::HalfPageDown => self.scroll_transcript(page / 2),
            TranscriptCommand::HalfPageUp => self.scroll_transcript(-(page / 2)),
            TranscriptCommand::PageDown => self.scroll_transcript(page),
            TranscriptCommand::PageUp => self.scroll_transcript(-page),
            TranscriptCommand::PromptBefore => self.go_to_prompt(false),
            TranscriptCommand::PromptAfter => self.go_to_prompt(true),
            TranscriptCommand::OpenReader => self.open_row_reader(),
            TranscriptCommand::OpenPager => self.open_row_pager(),
            TranscriptCommand::ShowChanges => self.request_changed_files(),
            TranscriptCommand::TogglePlan => {
                if let Some(open) = &mut self.open {
                    open.view.is_plan_open = !open.view.is_plan_open;
                }
            }
            TranscriptCommand::FocusComposer => {
                if self.can_compose() {
                    self.focus_session();
                }
            }
        }
        self.load_older_if_near();
    }

    fn scroll_transcript(&mut self, by: isize) {
        let Some(area) = transcript_area(self) else { return };
        let Some(open) = &self.open else { return };
        let count = |place, row: &TranscriptRow| count_row_lines(self, open, place, row, area.width);
        let anchor = scroll_anchor(&open.rows, open.view.anchor, usize::from(area.height), by, count);
        if let Some(open) = &mut self.open {
            open.view.anchor = anchor;
        }
        self.keep_selection_in_view();
    }

    /// Selects a row in view if the selected one has left the screen.
    fn keep_selection_in_view(&mut self) {
        let Some(area) = transcript_area(self) else { return };
        let Some(open) = &self.open else { return };
        let visible = visible_rows(self, open, area);
        let is_visible = visible.iter().any(|row| Some(row.place) == open.view.selected);
        let nearest = match (visible.first(), visible.last(), open.view.selected) {
            (Some(first), Some(last), Some(selected)) => {
                Some(if selected < first.place { first.place } else { last.place })
            }
            (_, last, _) => last.map(|row| row.place),
        };
        if !is_visible && let Some(open) = &mut self.open {
            open.view.selected = nearest;
        }
    }

    fn select_row(&mut self, by: isize) {
        let Some(area) = transcript_area(self) else { return };
        let Some(open) = &self.open else { return };
        let visible = visible_rows(self, open, area);
        let current = open.view.selected.or_else(|| visible.last().map(|row| row.place));
        let Some(current) = current else { return };
        let has_lines = |place: RowPlace, row: &TranscriptRow| count_row_lines(self, open, place, row, area.width) > 0;
        let mut next = if open.view.selected.is_none() {
            Some(current)
        } else if by < 0 {
            open.rows.iter_before(current).find(|(place, row)| has_lines(*place, row)).map(|(place, _)| place)
        } else {
            let mut after = open.rows.iter_from(current).filter(|(place, _)| *place > current);
            after.find(|(place, row)| has_lines(*place, row)).map(|(place, _)| place)
        };
        let is_last = next.is_none() && by > 0;
        next = next.or(Some(current));
        if let Some(open) = &mut self.open {
            open.view.selected = next;
        }
        if is_last {
            self.go_to_newest();
        } else {
            self.scroll_to_selected();
        }
    }

    /// Scrolls so that the selected row is in view, from its beginning.
    fn scroll_to_selected(&mut self) {
        let Some(area) = transcript_area(self) else { return };
        for _ in 0..2 {
            let Some(open) = &self.open else { return };
            let Some(selected) = open.view.selected else { return };
            let Some(row) = open.rows.get(selected) else { return };
            let visible = visible_rows(self, open, area);
            let shown = visible.iter().find(|row| row.place == selected);
            let lines = count_row_lines(self, open, selected, row, area.width);
            let height = usize::from(area.height);
            if shown.is_some_and(|shown| shown.lines == lines || shown.lines == height) {
                return;
            }
            let is_above = visible.first().is_none_or(|first| selected <= first.place);
            let anchor = if is_above || lines >= height {
                ScrollAnchor::At { place: selected, line: 0 }
            } else {
                let count = |place, row: &TranscriptRow| count_row_lines(self, open, place, row, area.width);
                let from = ScrollAnchor::At { place: selected, line: 0 };
                let up = isize::try_from(height.saturating_sub(lines)).unwrap_or_default();
                scroll_anchor(&open.rows, from, height, -up, count)
            };
            if let Some(open) = &mut self.open {
                open.view.anchor = anchor;
            }
        }
    }

    fn toggle_selected_row(&mut self) {
        let Some(open) = &self.open else { return };
        let Some(selected) = open.view.selected else { return };
        let fold = row_context(self, open, selected).fold;
        let is_folded = matches!(fold, RowFold::Folded(_));
        if let Some(open) = &mut self.open {
            open.view.toggle(selected, is_folded, matches!(fold, RowFold::Unfolded(_)));
        }
        self.scroll_to_selected();
    }

    fn go_to_oldest(&mut self) {
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
    }

    fn go_to_prompt(&mut self, is_after: bool) {
        let Some(open) = &mut self.open else { return };
        let Some(from) = open.view.selected.or_else(|| open.rows.iter().next_back().map(|(place, _)| place)) else {
            return;
        };
        let is_prompt = |(_, row): &(RowPlace, &TranscriptRow)| matches!(row.body, RowBody::Prompt(_));
        let found = if is_after {
            open.rows.iter_from(from).filter(|(place, _)| *place > from).find(is_prompt)
        } else {
            open.rows.iter_before(from).find(is_prompt)
        };
        match found.map(|(place, _)| place) {
            Some(place) => {
                open.view.selected = Some(place);
                open.view.anchor = ScrollAnchor::At { place, line: 0 };
            }
            None if is_after => self.go_to_newest(),
            None => self.tell("no earlier prompt is loaded"),
        }
    }

    /// Requests older rows when the first ones come into view.
    fn load_older_if_near(&mut self) {
        let Some(open) = &self.open else { return };
        let ScrollAnchor::At { place, .. } = open.view.anchor else { return };
        let is_near = open.rows.iter_before(place).take(LOAD_OLDER_BELOW_ROWS).count() < LOAD_OLDER_BELOW_ROWS;
        if !is_near || open.is_loading_older || !self.connection.is_connected() {
            return;
        }
        let stream = open.stream;
        if let Some(call) = read_older_rows(&open.id, open.rows.older()) {
            self.call(call, CallPurpose::OlderRows { stream });
            if let Some(open) = &mut self.open {
                open.is_loading_older = true;
            }
        }
    }
}
