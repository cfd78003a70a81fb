//! Opening what a row holds over the whole screen: diffs, whole outputs, changed files.

use wharf_api::{ChangedFileList, FileDiff, RowBody, RowPart, RowTextPage, RowTool, TranscriptRow};
use wharf_render::text::{to_printable, to_printable_lines};

use super::answers::read_answer;
use crate::api_call::{list_changed_files, read_row_text};
use crate::effect::TuiEffect;
use crate::input::ApiFailure;
use crate::model::{
    CallPurpose, FileChoice, Overlay, PageBody, ReaderDocument, ReaderPage, ReaderText,
    ReadingPurpose, TextSource, TextUse, TuiState,
};
use crate::rows::{join_parts, row_text};

/// A longer text is shown up to here.
const MAX_READ_BYTES: usize = 4 << 20;

impl TuiState {
    /// Shows the diffs and whole texts of the selected row.
    pub(super) fn open_row_reader(&mut self) {
        let Some((session, row)) = self.selected_row_of_session() else { return };
        let pages = row_pages(session, row);
        let title = to_printable(&row.summary);
        if pages.is_empty() {
            self.tell("the row has nothing more to show");
            return;
        }
        let awaited: Vec<TextSource> =
            pages.iter().filter_map(|page| page.awaited.clone()).collect();
        self.show_document(title, pages);
        for source in awaited {
            self.read_whole_text(source, TextUse::Reader, String::new(), 0);
        }
    }

    /// Shows the selected row in the pager, with its whole text.
    pub(super) fn open_row_pager(&mut self) {
        let Some((session, row)) = self.selected_row_of_session() else { return };
        let awaited = row_pages(session, row).into_iter().find_map(|page| page.awaited);
        let text = row_text(row);
        match awaited {
            Some(source) => self.read_whole_text(source, TextUse::Pager, String::new(), 0),
            None => self.page_text(&text),
        }
    }

    /// Shows a text in the pager. It comes from an agent: it must not control the terminal.
    pub(super) fn page_text(&mut self, text: &str) {
        self.emit(TuiEffect::RunPager(to_printable_lines(text)));
    }

    pub(super) fn request_changed_files(&mut self) {
        let Some(session) = self.open.as_ref().map(|open| open.id.clone()) else { return };
        if self.require_host() {
            self.call(
                list_changed_files(&session),
                CallPurpose::Reading(ReadingPurpose::ChangedFiles { session }),
            );
        }
    }

    fn show_changed_files(&mut self, session: &str, list: ChangedFileList) {
        let more = list.total.saturating_sub(list.files.len());
        let more = if more > 0 { format!(" · {more} more") } else { String::new() };
        let title = format!("+{} −{}{more}", list.added, list.removed);
        let body = PageBody::Files(FileChoice {
            session: session.to_owned(),
            files: list.files,
            selected: 0,
        });
        self.show_document(
            "Changed files".to_owned(),
            vec![ReaderPage { title, body, awaited: None }],
        );
    }

    /// Shows the change of a file that a row made.
    fn show_file_change(&mut self, session: &str, row: &TranscriptRow, path: &str) {
        let mut pages = row_pages(session, row);
        pages.retain(|page| matches!(&page.body, PageBody::Diff(diff) if diff.path == path));
        if pages.is_empty() {
            self.tell("the row does not hold this change any more");
            return;
        }
        self.show_document(to_printable(&row.summary), pages);
    }

    pub(super) fn take_reading_answer(
        &mut self,
        purpose: &ReadingPurpose,
        body: &[u8],
    ) -> Result<(), ApiFailure> {
        match purpose {
            ReadingPurpose::WholeText { source, use_for, so_far } => {
                let page: RowTextPage = read_answer(body)?;
                self.take_text_page(source.clone(), *use_for, so_far, &page);
            }
            ReadingPurpose::FindRows(search) => self.take_hits(search, &read_answer(body)?),
            ReadingPurpose::ChangedFiles { session } => {
                let list: ChangedFileList = read_answer(body)?;
                if self.find_open(session).is_some() {
                    self.show_changed_files(session, list);
                }
            }
            ReadingPurpose::FileChange { session, path } => {
                let row: TranscriptRow = read_answer(body)?;
                if self.is_listing_changes(session) {
                    self.show_file_change(session, &row, path);
                }
            }
        }
        Ok(())
    }

    pub(super) fn take_reading_failure(&mut self, purpose: &ReadingPurpose, reason: &str) {
        match purpose {
            ReadingPurpose::WholeText { source, .. } => {
                self.give_up_whole_text(source);
                self.tell_error(format!("the whole text cannot be read: {reason}"));
            }
            ReadingPurpose::FindRows(_) => {
                self.tell_error(format!("older rows cannot be searched: {reason}"))
            }
            ReadingPurpose::ChangedFiles { .. } | ReadingPurpose::FileChange { .. } => {
                self.tell_error(format!("the changes cannot be read: {reason}"));
            }
        }
    }

    fn show_document(&mut self, title: String, pages: Vec<ReaderPage>) {
        let number = self.calls.next_number();
        let document = Some(ReaderDocument { number, pages, ..ReaderDocument::default() });
        self.overlays.push(Overlay::Reader(ReaderText {
            title,
            document,
            ..ReaderText::default()
        }));
    }

    fn read_whole_text(
        &mut self,
        source: TextSource,
        use_for: TextUse,
        so_far: String,
        offset: u64,
    ) {
        if self.require_host() {
            let call = read_row_text(&source.session, &source.row, &source.part, offset);
            self.call(
                call,
                CallPurpose::Reading(ReadingPurpose::WholeText { source, use_for, so_far }),
            );
        }
    }

    /// Takes a page of a text, and asks for the next one.
    fn take_text_page(
        &mut self,
        source: TextSource,
        use_for: TextUse,
        so_far: &str,
        page: &RowTextPage,
    ) {
        let text = format!("{so_far}{}", page.text);
        match page.next.filter(|_| text.len() < MAX_READ_BYTES) {
            Some(next) => self.read_whole_text(source, use_for, text, next),
            None => self.use_whole_text(&source, use_for, text),
        }
    }

    fn use_whole_text(&mut self, source: &TextSource, use_for: TextUse, text: String) {
        match use_for {
            TextUse::Pager => self.page_text(&text),
            TextUse::Reader => {
                if let Some(page) = self.find_awaiting_page(source) {
                    page.body = PageBody::Text(text);
                    page.awaited = None;
                }
            }
        }
    }

    /// Leaves the part that the row holds on the screen.
    fn give_up_whole_text(&mut self, source: &TextSource) {
        if let Some(page) = self.find_awaiting_page(source) {
            page.awaited = None;
        }
    }

    fn find_awaiting_page(&mut self, source: &TextSource) -> Option<&mut ReaderPage> {
        let readers = self.overlays.iter_mut().filter_map(|overlay| {
            let Overlay::Reader(reader) = overlay else { return None };
            reader.document.as_mut()
        });
        let mut pages = readers.flat_map(|document| document.pages.iter_mut());
        pages.find(|page| page.awaited.as_ref() == Some(source))
    }

    /// Returns true if the changed files of this session are on the screen.
    fn is_listing_changes(&mut self, session: &str) -> bool {
        let page = self.top_reader().and_then(|reader| reader.document.as_ref()?.page());
        page.is_some_and(
            |page| matches!(&page.body, PageBody::Files(choice) if choice.session == session),
        )
    }

    fn selected_row_of_session(&self) -> Option<(&str, &TranscriptRow)> {
        Some((self.open.as_ref()?.id.as_str(), self.selected_row()?))
    }

    pub(super) fn selected_row(&self) -> Option<&TranscriptRow> {
        let open = self.open.as_ref()?;
        open.rows.get(open.view.selected?)
    }
}

impl TextSource {
    fn new(session: &str, row: &TranscriptRow, part: &str) -> Self {
        Self {
            session: session.to_owned(),
            row: row.id.clone(),
            part: part.to_owned(),
        }
    }
}

/// Returns the diffs and texts of a row, each as a page.
fn row_pages(session: &str, row: &TranscriptRow) -> Vec<ReaderPage> {
    match &row.body {
        RowBody::Tool(tool) => tool_pages(tool, session, row),
        RowBody::Ask(ask) => {
            let mut pages = diff_pages(&ask.subject.diffs);
            let text = [ask.subject.command.as_deref(), ask.subject.text.as_deref()];
            let text = text.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
            pages.extend(text_page("question", text));
            pages
        }
        RowBody::Message(text) | RowBody::Thought(text) => {
            part_pages("text", &text.parts, session, row)
        }
        RowBody::Prompt(prompt) => part_pages("text", &prompt.parts, session, row),
        RowBody::Plan(_) | RowBody::Notice(_) | RowBody::TurnEnd(_) | RowBody::Unknown => {
            text_page("text", row_text(row)).into_iter().collect()
        }
    }
}

fn tool_pages(tool: &RowTool, session: &str, row: &TranscriptRow) -> Vec<ReaderPage> {
    let mut pages = diff_pages(&tool.diffs);
    if let Some(output) = tool.output.as_ref().filter(|output| !output.text.trim().is_empty()) {
        let awaited = output.cut.as_ref().map(|_| TextSource::new(session, row, "output"));
        let body = PageBody::Text(output.text.clone());
        pages.push(ReaderPage { title: "output".to_owned(), body, awaited });
    }
    pages.extend(part_pages("result", &tool.parts, session, row));
    pages.extend(tool.error.clone().and_then(|error| text_page("error", error)));
    let input = tool.input.as_ref().and_then(|input| serde_json::to_string_pretty(input).ok());
    if tool.input_cut.is_some() {
        let awaited = Some(TextSource::new(session, row, "input"));
        let body = PageBody::Text("reading the input…".to_owned());
        pages.push(ReaderPage { title: "input".to_owned(), body, awaited });
    } else if let Some(input) = input.filter(|_| tool.diffs.is_empty()) {
        pages.extend(text_page("input", input));
    }
    pages
}

fn diff_pages(diffs: &[FileDiff]) -> Vec<ReaderPage> {
    let page = |diff: &FileDiff| ReaderPage {
        title: to_printable(&diff.path),
        body: PageBody::Diff(diff.clone()),
        awaited: None,
    };
    diffs.iter().map(page).collect()
}

/// Returns the text of the parts: one page, or one per part if one of them is too long for the row.
fn part_pages(
    title: &str,
    parts: &[RowPart],
    session: &str,
    row: &TranscriptRow,
) -> Vec<ReaderPage> {
    let is_cut = |part: &RowPart| matches!(part, RowPart::Text(text) if text.cut.is_some());
    if !parts.iter().any(is_cut) {
        return text_page(title, join_parts(parts)).into_iter().collect();
    }
    let page = |(number, part): (usize, &RowPart)| ReaderPage {
        title: title.to_owned(),
        body: PageBody::Text(join_parts(std::slice::from_ref(part))),
        awaited: is_cut(part).then(|| TextSource::new(session, row, &number.to_string())),
    };
    parts.iter().enumerate().map(page).collect()
}

fn text_page(title: &str, text: String) -> Option<ReaderPage> {
    let has_text = !text.trim().is_empty();
    has_text.then(|| ReaderPage {
        title: title.to_owned(),
        body: PageBody::Text(text),
        awaited: None,
    })
}
