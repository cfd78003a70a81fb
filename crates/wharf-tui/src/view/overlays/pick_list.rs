//! A list of choices: settings, earlier prompts, questions, hits of a search.

use ratatui_core::layout::Rect;

use super::{center, draw_frame};
use crate::model::{PickList, PickSource};
use crate::view::Canvas;
use crate::view::composer::draw_text_field;

const WIDTH_COLUMNS: u16 = 96;
const HEIGHT_LINES: u16 = 22;

pub(in crate::view) fn draw_pick_list(list: &PickList, area: Rect, canvas: &mut Canvas) {
    let matches = list.matches();
    let query_lines = u16::from(list.source != PickSource::Question);
    let height = match list.source {
        PickSource::Search { .. } => HEIGHT_LINES,
        PickSource::Fixed | PickSource::Question => {
            let lines = u16::try_from(matches.len().max(1)).unwrap_or(HEIGHT_LINES);
            (lines + query_lines + 2).min(HEIGHT_LINES)
        }
    };
    let inside = draw_frame(center(area, WIDTH_COLUMNS, height), &list.title, canvas);
    if query_lines > 0 {
        draw_text_field(&list.query, Rect { height: inside.height.min(1), ..inside }, true, canvas);
    }
    let room = Rect {
        y: inside.y + query_lines,
        height: inside.height.saturating_sub(query_lines),
        ..inside
    };
    if matches.is_empty() && room.height > 0 {
        canvas.write(room.x, room.y, room.width, &list.note, canvas.theme.faint);
    }
    let skipped = (list.selected + 1).saturating_sub(usize::from(room.height));
    for ((number, item), y) in
        matches.iter().enumerate().skip(skipped).zip(room.top()..room.bottom())
    {
        let line = Rect { y, height: 1, ..room };
        let detail =
            wharf_render::text::truncate_to_columns(&item.detail, usize::from(room.width / 2));
        let left = canvas.write_right(line, &detail, canvas.theme.faint);
        canvas.write(room.x, y, left.saturating_sub(1), &item.label, canvas.theme.plain);
        if number == list.selected {
            canvas.restyle(line, canvas.theme.selected);
        }
    }
}
