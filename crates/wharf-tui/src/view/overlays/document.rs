//! The pages of a document as lines.

use std::rc::Rc;

use ratatui_core::layout::Rect;
use ratatui_core::text::{Line, Span};
use wharf_api::{ChangedFile, ChangedFileStatus};
use wharf_render::text::{
    display_width, expand_tabs, format_age, parse_millis, shorten_path, to_printable,
    to_printable_line, truncate_to_columns, wrap_exactly,
};

use crate::layout::DocumentKey;
use crate::model::{FileChoice, PageBody, ReaderDocument, ReaderPage, TuiState};
use crate::view::Canvas;
use crate::view::rows::file_diff_lines;

/// Draws the current page, its name and its place among the others.
pub(super) fn draw_document(
    state: &TuiState,
    document: &ReaderDocument,
    scroll: usize,
    inside: Rect,
    canvas: &mut Canvas,
) {
    let Some(page) = document.page() else { return };
    let lines = document_lines(state, document, inside.width);
    for (line, y) in lines.iter().skip(scroll).zip(inside.top()..inside.bottom()) {
        canvas.write_line(inside.x, y, inside.width, line);
    }
    let border = Rect { y: inside.y.saturating_sub(1), height: 1, ..inside };
    canvas.write_right(border, &format!(" {} ", describe_page(document, page)), canvas.theme.faint);
}

fn describe_page(document: &ReaderDocument, page: &ReaderPage) -> String {
    let mut facts = Vec::new();
    if page.awaited.is_some() {
        facts.push("loading…".to_owned());
    }
    match &page.body {
        PageBody::Diff(diff) => facts.push(format!("+{} −{}", diff.added, diff.removed)),
        PageBody::Text(text) => facts.push(describe_count(text.lines().count(), "line")),
        PageBody::Files(choice) => facts.push(describe_count(choice.files.len(), "file")),
    }
    if document.pages.len() > 1 {
        facts.push(format!("{} of {}", document.current + 1, document.pages.len()));
    }
    facts.join(" · ")
}

/// Returns the lines of the current page at this width.
pub(crate) fn document_lines(
    state: &TuiState,
    document: &ReaderDocument,
    width: u16,
) -> Rc<Vec<Line<'static>>> {
    let Some(page) = document.page() else { return Rc::default() };
    let (text_bytes, selected) = match &page.body {
        PageBody::Diff(_) => (0, 0),
        PageBody::Text(text) => (text.len(), 0),
        PageBody::Files(choice) => (0, choice.selected),
    };
    let key = DocumentKey {
        document: document.number,
        page: document.current,
        width,
        is_unwrapped: document.is_unwrapped,
        text_bytes,
        selected,
    };
    state.layouts.borrow_mut().lay_out_document(key, || {
        let columns = usize::from(width).max(1);
        match &page.body {
            PageBody::Diff(diff) => {
                file_diff_lines(diff, columns, !document.is_unwrapped, state.theme)
            }
            PageBody::Text(text) => text_lines(text, columns, !document.is_unwrapped),
            PageBody::Files(choice) => file_lines(state, choice, columns),
        }
    })
}

fn text_lines(text: &str, columns: usize, is_wrapped: bool) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for line in text.trim_end().split('\n') {
        let line = expand_tabs(&to_printable_line(line));
        if is_wrapped {
            lines.extend(wrap_exactly(&line, columns).into_iter().map(Line::from));
        } else {
            lines.push(Line::from(truncate_to_columns(&line, columns)));
        }
    }
    lines
}

fn file_lines(state: &TuiState, choice: &FileChoice, columns: usize) -> Vec<Line<'static>> {
    if choice.files.is_empty() {
        return vec![Line::styled(
            "The agent has reported no change of a file.",
            state.theme.faint,
        )];
    }
    let line = |(number, file)| file_line(state, file, number == choice.selected, columns);
    choice.files.iter().enumerate().map(line).collect()
}

/// Returns a file in one line: its fate, its path, the lines that changed and when.
fn file_line(
    state: &TuiState,
    file: &ChangedFile,
    is_selected: bool,
    columns: usize,
) -> Line<'static> {
    let theme = state.theme;
    let (sign, style) = match &file.status {
        ChangedFileStatus::Created => ("A", theme.good),
        ChangedFileStatus::Deleted => ("D", theme.bad),
        ChangedFileStatus::Changed | ChangedFileStatus::Other(_) => ("M", theme.busy),
    };
    let about = if file.exact { "" } else { "about " };
    let age = parse_millis(&file.changed_at)
        .map(|at| format_age(at, state.now.unix_millis))
        .unwrap_or_default();
    let facts = format!("{about}+{} −{} · {age:>3}", file.added, file.removed);
    let room = columns.saturating_sub(5 + display_width(&facts));
    let path = shorten_path(&to_printable(&file.path), state.options.home.as_deref(), room);
    let blanks = " ".repeat(room.saturating_sub(display_width(&path)) + 1);
    Line::from(vec![
        Span::styled(if is_selected { "▌ " } else { "  " }, theme.strong),
        Span::styled(format!("{sign} "), style),
        Span::styled(path, if is_selected { theme.strong } else { theme.plain }),
        Span::styled(format!("{blanks}{facts}"), theme.faint),
    ])
}

/// Returns the number with its noun: `1 line`, `2 lines`.
fn describe_count(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}
