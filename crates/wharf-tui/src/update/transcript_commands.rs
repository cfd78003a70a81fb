//! Commands of the transcript: the selected row, folding, scrolling and loading older rows.

use wharf_api::TranscriptRow;

use crate::api_call::read_older_rows;
use crate::keymap::TranscriptCommand;
use crate::layout::{RowFold, scroll_anchor};
use crate::model::{CallPurpose, ScrollAnchor, TuiState};
use crate::rows::RowPlace;
use crate::view::{count_row_lines, row_context, transcript_area, visible_rows};

/// An older page is loaded when so few rows are above the first visible one.
const LOAD_OLDER_BELOW_ROWS: usize = 20;
/// So many rows that do not fill the screen are enough.
const MAX_ROWS_TO_FILL: usize = 1_000;
/// The lines that a step moves within a row that is higher than the screen.
const LINES_PER_STEP: isize = 3;

impl TuiState {
    pub(super) fn run_transcript_command(&mut self, command: TranscriptCommand) {
        let height = transcript_area(self).map_or(1, |area| area.height.max(1));
        let page = isize::try_from(height.saturating_sub(1).max(1)).unwrap_or(1);
        self.select_shown_row();
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
            TranscriptCommand::NextError => self.go_to_error(true),
            TranscriptCommand::ErrorBefore => self.go_to_error(false),
            TranscriptCommand::Find => self.start_find(),
            TranscriptCommand::FindOlder => self.find_older(false),
            TranscriptCommand::FindNewer => self.find_newer(),
            TranscriptCommand::CopyRow => self.copy_selected_row(),
            TranscriptCommand::CopyTurn => self.copy_selected_turn(),
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
        self.note_end_left();
        self.load_older_if_near();
        self.load_newer_if_near();
    }

    fn scroll_transcript(&mut self, by: isize) {
        let Some(area) = transcript_area(self) else { return };
        let Some(open) = &self.open else { return };
        let count =
            |place, row: &TranscriptRow| count_row_lines(self, open, place, row, area.width);
        let anchor =
            scroll_anchor(&open.rows, open.view.anchor, usize::from(area.height), by, count);
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
        let shown = visible.iter().find(|row| Some(row.place) == open.view.selected);
        let hidden_lines = shown.and_then(|shown| {
            let lines =
                count_row_lines(self, open, shown.place, open.rows.get(shown.place)?, area.width);
            Some(if by < 0 {
                shown.first_line
            } else {
                lines.saturating_sub(shown.first_line + shown.lines)
            })
        });
        if hidden_lines.is_some_and(|lines| lines > 0) {
            self.scroll_transcript(by * LINES_PER_STEP);
            return;
        }
        let has_lines = |place: RowPlace, row: &TranscriptRow| {
            count_row_lines(self, open, place, row, area.width) > 0
        };
        let mut next = if open.view.selected.is_none() {
            Some(current)
        } else if by < 0 {
            open.rows
                .iter_before(current)
                .find(|(place, row)| has_lines(*place, row))
                .map(|(place, _)| place)
        } else {
            let mut after = open.rows.iter_from(current).filter(|(place, _)| *place > current);
            after.find(|(place, row)| has_lines(*place, row)).map(|(place, _)| place)
        };
        // Newer rows that were dropped are being loaded.
        let is_last = next.is_none() && by > 0 && !open.rows.has_newer();
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
    pub(super) fn scroll_to_selected(&mut self) {
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
                let count = |place, row: &TranscriptRow| {
                    count_row_lines(self, open, place, row, area.width)
                };
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

    /// Requests older rows when the first ones come into view.
    fn load_older_if_near(&mut self) {
        let Some(area) = transcript_area(self) else { return };
        let Some(open) = &self.open else { return };
        let Some(first) = visible_rows(self, open, area).first().map(|row| row.place) else {
            return;
        };
        let is_near = open.rows.iter_before(first).take(LOAD_OLDER_BELOW_ROWS).count()
            < LOAD_OLDER_BELOW_ROWS;
        if is_near {
            self.load_older_rows();
        }
    }

    /// Requests the page above the oldest row, unless it is requested already or there is none.
    pub(super) fn load_older_rows(&mut self) {
        let Some(open) = &self.open else { return };
        if open.is_loading_older || !self.connection.is_connected() {
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

    /// Requests older rows while those that are held do not fill the screen, which many folded
    /// steps do not.
    pub(super) fn fill_screen(&mut self) {
        let Some(area) = transcript_area(self) else { return };
        let Some(open) = &self.open else { return };
        let lines: usize = visible_rows(self, open, area).iter().map(|row| row.lines).sum();
        if lines < usize::from(area.height)
            && open.rows.len() < MAX_ROWS_TO_FILL
            && open.rows.has_room()
        {
            self.load_older_rows();
        }
    }

    /// Remembers the newest row when the person stops following the end, so that newer ones can be
    /// counted.
    fn note_end_left(&mut self) {
        let Some(open) = &mut self.open else { return };
        open.view.left_end_at = match open.view.anchor {
            ScrollAnchor::End => None,
            ScrollAnchor::At { .. } => open
                .view
                .left_end_at
                .or_else(|| open.rows.iter().next_back().map(|(place, _)| place)),
        };
    }

    /// Rows that come while the person is elsewhere are marked as new.
    pub(super) fn handle_terminal_focus(&mut self, has_focus: bool) {
        self.has_terminal_focus = has_focus;
        self.is_focus_reported = true;
        if let Some(open) = self.open.as_mut().filter(|_| !has_focus) {
            open.view.unread_after = open.rows.iter().next_back().map(|(place, _)| place);
            open.view.fold_revision += 1;
        }
    }
}
