//! Draws the picture of a state. The view decides and changes nothing: the same state gives the
//! same picture.

mod areas;
mod ask_dock;
mod canvas;
mod composer;
mod empty_transcript;
mod header;
mod outgoing;
mod overlays;
mod plan;
mod queue;
mod rows;
mod session_list;
mod state_card;
mod status;
mod transcript;

pub(crate) use areas::{COMPOSER_MARK_COLUMNS, SessionAreas, divide_screen};
pub(crate) use ask_dock::{dock_scroll_limit, whole_subject};
pub(crate) use canvas::Canvas;
pub(crate) use overlays::count_reader_lines;
pub(crate) use rows::{RowLayoutOptions, lay_out_row};
pub(crate) use session_list::{listed_sessions, shown_since};
pub(crate) use transcript::{
    count_row_lines, find_shown_row, row_context, transcript_area, visible_rows,
};

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::{Position, Rect};

use crate::model::{Overlay, TuiState};

/// A whole screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenFrame {
    pub buffer: Buffer,
    /// The cell of the cursor; `None` if it is hidden.
    pub cursor: Option<Position>,
}

impl ScreenFrame {
    /// Returns the text of the picture, one line per row of cells, without blanks at the ends.
    pub fn to_text(&self) -> String {
        let area = self.buffer.area();
        let mut lines = Vec::new();
        for y in area.top()..area.bottom() {
            let mut line = String::new();
            let mut skip = 0_usize;
            for x in area.left()..area.right() {
                let symbol = self.buffer.cell((x, y)).map_or(" ", |cell| cell.symbol());
                if skip == 0 {
                    line.push_str(symbol);
                    skip = wharf_render::text::display_width(symbol).saturating_sub(1);
                } else {
                    skip -= 1;
                }
            }
            lines.push(line.trim_end().to_owned());
        }
        lines.join("\n")
    }
}

/// Draws the state.
pub fn view(state: &TuiState) -> ScreenFrame {
    let area = Rect::new(0, 0, state.size.width, state.size.height);
    let mut canvas = Canvas::new(area, state.theme);
    let areas = divide_screen(state);
    if let Some(area) = areas.size_note {
        let least = areas::MIN_USABLE_SIZE;
        let size = state.size;
        let text = format!(
            " needs {}×{} cells, has {}×{}",
            least.width, least.height, size.width, size.height
        );
        canvas.write(area.x, area.y, area.width, &text, state.theme.wants);
    }
    if let Some(area) = areas.list {
        session_list::draw_list(state, area, &mut canvas);
    }
    if let Some(session) = &areas.session {
        draw_session(state, session, &mut canvas);
    }
    status::draw_status(state, areas.status, areas.list.is_some(), &mut canvas);
    if let Some(area) = areas.keys {
        status::draw_keys(state, area, &mut canvas);
    }
    if let Some(overlay) = state.overlays.last() {
        let area = areas.overlay;
        match overlay {
            Overlay::Palette(palette) => overlays::draw_palette(palette, area, &mut canvas),
            Overlay::NewSession => overlays::draw_new_session(state, area, &mut canvas),
            Overlay::PickList(list) => overlays::draw_pick_list(list, area, &mut canvas),
            Overlay::Rename(input) => overlays::draw_rename(&input.title, area, &mut canvas),
            Overlay::AskForm(form) => overlays::draw_ask_form(form, area, &mut canvas),
            Overlay::Reader(reader) => overlays::draw_reader(state, reader, area, &mut canvas),
        }
    }
    canvas.finish()
}

fn draw_session(state: &TuiState, areas: &SessionAreas, canvas: &mut Canvas) {
    if let Some(area) = areas.header {
        header::draw_header(state, area, canvas);
    }
    transcript::draw_transcript(state, areas.transcript, canvas);
    if let Some(area) = areas.outgoing {
        outgoing::draw_outgoing(state, area, canvas);
    }
    if let Some(area) = areas.plan {
        plan::draw_plan(state, area, canvas);
    }
    if let Some(area) = areas.dock {
        if state.open.as_ref().is_some_and(|open| open.dock.has_card()) {
            ask_dock::draw_dock(state, area, canvas);
        } else {
            state_card::draw_card(state, area, canvas);
        }
    }
    if let Some(area) = areas.queue {
        queue::draw_queue(state, area, canvas);
    }
    if let Some(area) = areas.composer {
        composer::draw_composer(state, area, canvas);
    }
}
