//! The command palette: every command by its name, with its key.

use ratatui_core::layout::Rect;

use super::{center, draw_frame};
use crate::model::Palette;
use crate::view::Canvas;
use crate::view::composer::draw_text_field;

const WIDTH_COLUMNS: u16 = 72;
const HEIGHT_LINES: u16 = 20;

pub(in crate::view) fn draw_palette(palette: &Palette, area: Rect, canvas: &mut Canvas) {
    let inside = draw_frame(center(area, WIDTH_COLUMNS, HEIGHT_LINES), "Commands", canvas);
    draw_text_field(&palette.query, Rect { height: inside.height.min(1), ..inside }, true, canvas);
    let room = Rect {
        y: inside.y + 1,
        height: inside.height.saturating_sub(1),
        ..inside
    };
    let matches = palette.matches();
    if matches.is_empty() {
        canvas.write(room.x, room.y, room.width, "no command has this name", canvas.theme.faint);
    }
    let skipped = (palette.selected + 1).saturating_sub(usize::from(room.height));
    for ((number, binding), y) in
        matches.iter().enumerate().skip(skipped).zip(room.top()..room.bottom())
    {
        let line = Rect { y, height: 1, ..room };
        let left = canvas.write_right(line, &binding.key_label(), canvas.theme.faint);
        canvas.write(room.x, y, left.saturating_sub(1), binding.title, canvas.theme.plain);
        if number == palette.selected {
            canvas.restyle(line, canvas.theme.selected);
        }
    }
}
