//! The new title of a session.

use ratatui_core::layout::Rect;

use super::{center, draw_frame};
use crate::composer::TextBuffer;
use crate::view::Canvas;
use crate::view::composer::draw_text_field;

const WIDTH_COLUMNS: u16 = 72;

pub(in crate::view) fn draw_rename(title: &TextBuffer, area: Rect, canvas: &mut Canvas) {
    let inside = draw_frame(
        center(area, WIDTH_COLUMNS, 4),
        "Rename · an empty title is the agent's own",
        canvas,
    );
    draw_text_field(title, Rect { height: inside.height.min(2), ..inside }, true, canvas);
}
