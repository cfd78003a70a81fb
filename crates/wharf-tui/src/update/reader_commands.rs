//! Commands of a text over the whole screen.

use crate::api_call::read_row;
use crate::effect::TuiEffect;
use crate::keymap::ReaderCommand;
use crate::model::{CallPurpose, Overlay, PageBody, ReaderText, ReadingPurpose, TuiState};
use crate::rows::diff_text;
use crate::view::{count_reader_lines, divide_screen};

impl TuiState {
    pub(super) fn run_reader_command(&mut self, command: ReaderCommand) {
        let height = usize::from(divide_screen(self).overlay.height.saturating_sub(2)).max(1);
        match command {
            ReaderCommand::Down => self.move_in_reader(1),
            ReaderCommand::Up => self.move_in_reader(-1),
            ReaderCommand::PageDown => self.scroll_reader(|scroll, _| scroll + height),
            ReaderCommand::PageUp => self.scroll_reader(|scroll, _| scroll.saturating_sub(height)),
            ReaderCommand::First => self.scroll_reader(|_, _| 0),
            ReaderCommand::Last => self.scroll_reader(|_, last| last),
            ReaderCommand::NextPage => self.turn_reader_page(true),
            ReaderCommand::PageBefore => self.turn_reader_page(false),
            ReaderCommand::ToggleWrap => {
                if let Some(document) =
                    self.top_reader().and_then(|reader| reader.document.as_mut())
                {
                    document.is_unwrapped = !document.is_unwrapped;
                }
                self.scroll_reader(|scroll, _| scroll);
            }
            ReaderCommand::Copy => {
                if let Some(text) = self.reader_page_text() {
                    self.emit(TuiEffect::Copy(text));
                }
            }
            ReaderCommand::OpenPager => {
                if let Some(text) = self.reader_page_text() {
                    self.page_text(&text);
                }
            }
            ReaderCommand::OpenFile => self.open_changed_file(),
            ReaderCommand::Close => {
                self.overlays.pop();
            }
        }
    }

    pub(super) fn top_reader(&mut self) -> Option<&mut ReaderText> {
        let Some(Overlay::Reader(reader)) = self.overlays.last_mut() else { return None };
        Some(reader)
    }

    /// Moves the selection of a list of files, or the text.
    fn move_in_reader(&mut self, by: isize) {
        let Some(reader) = self.top_reader() else { return };
        let page = reader.document.as_mut().and_then(|document| document.page_mut());
        if let Some(PageBody::Files(choice)) = page.map(|page| &mut page.body) {
            choice.selected = choice
                .selected
                .saturating_add_signed(by)
                .min(choice.files.len().saturating_sub(1));
            let selected = choice.selected;
            let height = usize::from(divide_screen(self).overlay.height.saturating_sub(2)).max(1);
            self.scroll_reader(|scroll, _| {
                scroll.clamp((selected + 1).saturating_sub(height), selected)
            });
            return;
        }
        self.scroll_reader(|scroll, _| scroll.saturating_add_signed(by));
    }

    /// Scrolls to where `target` says, given the place now and the last one.
    fn scroll_reader(&mut self, target: impl FnOnce(usize, usize) -> usize) {
        let height = usize::from(divide_screen(self).overlay.height.saturating_sub(2)).max(1);
        let Some(Overlay::Reader(reader)) = self.overlays.last() else { return };
        let last = count_reader_lines(self, reader).saturating_sub(height);
        if let Some(reader) = self.top_reader() {
            reader.scroll = target(reader.scroll, last).min(last);
        }
    }

    fn turn_reader_page(&mut self, is_forward: bool) {
        let Some(reader) = self.top_reader() else { return };
        let Some(document) = &mut reader.document else { return };
        let last = document.pages.len().saturating_sub(1);
        let next = document
            .current
            .saturating_add_signed(if is_forward { 1 } else { -1 })
            .min(last);
        if next != document.current {
            document.current = next;
            reader.scroll = 0;
        }
    }

    /// Returns the text of the page on the screen.
    fn reader_page_text(&mut self) -> Option<String> {
        let reader = self.top_reader()?;
        let Some(document) = &reader.document else { return Some(reader.lines.join("\n")) };
        Some(match &document.page()?.body {
            PageBody::Diff(diff) => diff_text(diff),
            PageBody::Text(text) => text.clone(),
            PageBody::Files(choice) => {
                choice.files.iter().map(|file| format!("{}\n", file.path)).collect()
            }
        })
    }

    /// Reads the newest change of the selected file.
    fn open_changed_file(&mut self) {
        let Some(reader) = self.top_reader() else { return };
        let page = reader.document.as_ref().and_then(|document| document.page());
        let Some(PageBody::Files(choice)) = page.map(|page| &page.body) else { return };
        let Some(file) = choice.files.get(choice.selected) else { return };
        let session = choice.session.clone();
        let path = file.path.clone();
        let rows = file.rows.clone();
        if let Some(row) = rows.first()
            && self.require_host()
        {
            self.call(
                read_row(&session, row),
                CallPurpose::Reading(ReadingPurpose::FileChange { session, path }),
            );
        }
    }
}
