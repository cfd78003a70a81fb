//! A text over the whole screen.

use ratatui_core::layout::Rect;

use super::document::{document_lines, draw_document};
use super::{READER_FRAME_COLUMNS, draw_frame};
use crate::model::{ReaderText, TuiState};
use crate::view::{Canvas, divide_screen};

pub(in crate::view) fn draw_reader(
    state: &TuiState,
    reader: &ReaderText,
    area: Rect,
    canvas: &mut Canvas,
) {
    let page = reader.document.as_ref().and_then(|document| document.page());
    let title = page
        .map_or_else(|| reader.title.clone(), |page| format!("{} · {}", reader.title, page.title));
    let inside = draw_frame(area, &title, canvas);
    if let Some(document) = &reader.document {
        draw_document(state, document, reader.scroll, inside, canvas);
        return;
    }
    for (line, y) in reader.lines.iter().skip(reader.scroll).zip(inside.top()..inside.bottom()) {
        canvas.write(inside.x, y, inside.width, line, canvas.theme.plain);
    }
}

/// Returns the lines of the page on the screen.
pub(crate) fn count_reader_lines(state: &TuiState, reader: &ReaderText) -> usize {
    match &reader.document {
        Some(document) => {
            let width = divide_screen(state).overlay.width.saturating_sub(READER_FRAME_COLUMNS);
            document_lines(state, document, width).len()
        }
        None => reader.lines.len(),
    }
}
