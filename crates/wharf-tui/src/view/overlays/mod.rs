//! Pictures that lie over the panes.

mod ask_form;
mod document;
mod new_session;
mod palette;
mod pick_list;
mod reader;
mod rename;

pub(super) use ask_form::draw_ask_form;
pub(super) use new_session::draw_new_session;
pub(super) use palette::draw_palette;
pub(super) use pick_list::draw_pick_list;
pub(crate) use reader::count_reader_lines;
pub(super) use reader::draw_reader;
pub(super) use rename::draw_rename;

use ratatui_core::layout::Rect;

use super::Canvas;

/// The columns that a frame takes.
const READER_FRAME_COLUMNS: u16 = 4;

/// Empties an area and draws a frame around it. Returns the room inside.
fn draw_frame(area: Rect, title: &str, canvas: &mut Canvas) -> Rect {
    canvas.clear(area);
    canvas.hide_cursor();
    if area.width < 4 || area.height < 3 {
        return Rect { height: 0, ..area };
    }
    let width = usize::from(area.width) - 2;
    let style = canvas.theme.faint;
    canvas.write(area.x, area.y, area.width, &format!("┌{}┐", "─".repeat(width)), style);
    canvas.write(area.x, area.bottom() - 1, area.width, &format!("└{}┘", "─".repeat(width)), style);
    for y in area.y + 1..area.bottom() - 1 {
        canvas.write(area.x, y, 1, "│", style);
        canvas.write(area.right() - 1, y, 1, "│", style);
    }
    canvas.write(area.x + 2, area.y, area.width - 4, &format!(" {title} "), canvas.theme.strong);
    Rect {
        x: area.x + 2,
        y: area.y + 1,
        width: area.width - 4,
        height: area.height - 2,
    }
}

/// Returns an area of at most this size in the middle of another one.
fn center(area: Rect, width: u16, height: u16) -> Rect {
    let width = width.min(area.width);
    let height = height.min(area.height);
    Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    }
}
