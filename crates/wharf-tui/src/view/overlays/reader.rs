//! A text over the whole screen.

use ratatui_core::layout::Rect;

use super::draw_frame;
use crate::model::ReaderText;
use crate::view::Canvas;

pub(in crate::view) fn draw_reader(reader: &ReaderText, area: Rect, canvas: &mut Canvas) {
    let inside = draw_frame(area, &reader.title, canvas);
    for (line, y) in reader.lines.iter().skip(reader.scroll).zip(inside.top()..inside.bottom()) {
        canvas.write(inside.x, y, inside.width, line, canvas.theme.plain);
    }
}
