//! The form of an agent's question.

use ratatui_core::layout::Rect;
use wharf_render::text::{to_printable, truncate_to_columns};

use super::{center, draw_frame};
use crate::model::{AskFormField, AskFormInput};
use crate::view::Canvas;
use crate::view::composer::draw_text_field;

const WIDTH_COLUMNS: u16 = 90;
/// The most columns of the names of the fields.
const NAME_COLUMNS: u16 = 24;

pub(in crate::view) fn draw_ask_form(form: &AskFormInput, area: Rect, canvas: &mut Canvas) {
    let lines = u16::try_from(form.fields.len() * 2 + 4).unwrap_or(u16::MAX);
    let title =
        truncate_to_columns(&to_printable(&form.title), usize::from(area.width.saturating_sub(6)));
    let inside = draw_frame(center(area, WIDTH_COLUMNS, lines), &title, canvas);
    if inside.height == 0 {
        return;
    }
    let room = Rect { height: inside.height - 1, ..inside };
    // The focused field stays in view; each takes two lines.
    let skipped = (form.focused + 1).saturating_sub(usize::from(room.height / 2).max(1));
    let mut y = room.y;
    for (number, field) in form.fields.iter().enumerate().skip(skipped) {
        if y >= room.bottom() {
            break;
        }
        let line = Rect { y, height: (room.bottom() - y).min(2), ..room };
        draw_field(field, number == form.focused, line, canvas);
        y += 2;
    }
    let last = inside.bottom() - 1;
    match &form.error {
        Some(error) => canvas.write(inside.x, last, inside.width, error, canvas.theme.bad),
        None => canvas.write(inside.x, last, inside.width, "* is required", canvas.theme.faint),
    };
}

fn draw_field(field: &AskFormField, is_focused: bool, area: Rect, canvas: &mut Canvas) {
    let theme = canvas.theme;
    let bar = if is_focused { "▌" } else { " " };
    let star = if field.is_required { "*" } else { "" };
    let names = NAME_COLUMNS.min(area.width / 3);
    canvas.write(area.x, area.y, names, &format!("{bar}{}{star}", field.label), theme.strong);
    let value = Rect {
        x: area.x + names + 1,
        width: area.width.saturating_sub(names + 1),
        height: 1,
        ..area
    };
    if field.is_choice() {
        let chosen = field.chosen_name().unwrap_or("no value");
        let text = if is_focused { format!("← {chosen} →") } else { chosen.to_owned() };
        canvas.write(
            value.x,
            value.y,
            value.width,
            &text,
            if is_focused { theme.strong } else { theme.plain },
        );
    } else {
        draw_text_field(&field.text, value, is_focused, canvas);
    }
    if let Some(description) = field.description.as_deref().filter(|_| area.height > 1) {
        canvas.write(
            area.x + 1,
            area.y + 1,
            area.width.saturating_sub(1),
            description,
            theme.faint,
        );
    }
}
