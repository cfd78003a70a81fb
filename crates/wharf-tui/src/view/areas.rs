//! The division of the screen. Updates use it too: a page is as high as the transcript.

use ratatui_core::layout::Rect;

use crate::composer::lay_out_editor;
use crate::input::ScreenSize;
use crate::model::{PaneFocus, TuiState};

/// From this width on the list and the session stand side by side.
const SIDE_BY_SIDE_COLUMNS: u16 = 100;
const LIST_COLUMNS: u16 = 36;
/// A screen that is lower has no bottom line.
const MIN_LINES_FOR_KEYS: u16 = 16;
/// On a pane that is lower the queue takes one line.
const MIN_LINES_FOR_QUEUE: u16 = 12;
/// On a screen that is smaller a line says so.
pub(super) const MIN_USABLE_SIZE: ScreenSize = ScreenSize { width: 60, height: 12 };
/// A screen that is lower has no line to spare for that.
const MIN_LINES_FOR_SIZE_NOTE: u16 = 5;
/// A screen that is lower has no header and no plan.
const MIN_LINES_FOR_HEADER: u16 = 10;
const MAX_COMPOSER_LINES: u16 = 8;
const MAX_QUEUE_LINES: u16 = 3;
/// The columns before the text of the composer.
pub(crate) const COMPOSER_MARK_COLUMNS: u16 = 2;

/// The parts of the screen. A part without room is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScreenAreas {
    /// The line that says how large the screen should be.
    pub(crate) size_note: Option<Rect>,
    pub(crate) list: Option<Rect>,
    pub(crate) session: Option<SessionAreas>,
    /// The room of what lies over the panes.
    pub(crate) overlay: Rect,
    pub(crate) status: Rect,
    pub(crate) keys: Option<Rect>,
}

/// The parts of the session's pane, from top to bottom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionAreas {
    pub(crate) header: Option<Rect>,
    pub(crate) transcript: Rect,
    /// The prompts that the host has not taken yet.
    pub(crate) outgoing: Option<Rect>,
    pub(crate) plan: Option<Rect>,
    pub(crate) dock: Option<Rect>,
    pub(crate) queue: Option<Rect>,
    pub(crate) composer: Option<Rect>,
}

/// Divides the screen.
pub(crate) fn divide_screen(state: &TuiState) -> ScreenAreas {
    let mut rest = Rect::new(0, 0, state.size.width, state.size.height);
    let keys = (rest.height >= MIN_LINES_FOR_KEYS).then(|| take_bottom(&mut rest, 1));
    let status = take_bottom(&mut rest, 1);
    let is_too_small =
        state.size.width < MIN_USABLE_SIZE.width || state.size.height < MIN_USABLE_SIZE.height;
    let size_note =
        (is_too_small && rest.height >= MIN_LINES_FOR_SIZE_NOTE).then(|| take_top(&mut rest, 1));
    let overlay = rest;
    let is_wide = rest.width >= SIDE_BY_SIDE_COLUMNS;
    let has_session = state.open.is_some();
    let (list, session) = match (is_wide, state.focus) {
        (true, _) if state.is_list_hidden && has_session && state.focus != PaneFocus::List => {
            (None, Some(rest))
        }
        (true, _) => {
            let list = Rect { width: LIST_COLUMNS, ..rest };
            // One column between the panes is for the line that divides them.
            let x = rest.x + LIST_COLUMNS + 1;
            (Some(list), Some(Rect { x, width: rest.width - LIST_COLUMNS - 1, ..rest }))
        }
        (false, PaneFocus::List) => (Some(rest), None),
        (false, PaneFocus::Transcript | PaneFocus::Composer | PaneFocus::Ask) => (None, Some(rest)),
    };
    let session = session.filter(|_| has_session).map(|area| divide_session(state, area));
    ScreenAreas { size_note, list, session, overlay, status, keys }
}

fn divide_session(state: &TuiState, area: Rect) -> SessionAreas {
    let mut rest = area;
    let is_high = area.height >= MIN_LINES_FOR_HEADER;
    let header = is_high.then(|| take_top(&mut rest, 2));
    let composer = (!state.options.is_readonly).then(|| {
        let lines = composer_lines(state, area.width).min(MAX_COMPOSER_LINES);
        // One line above it divides it from the rest.
        let room = rest.height.saturating_sub(1).max(1);
        take_bottom(&mut rest, (lines + 1).min(room))
    });
    let max_queue_lines = if area.height < MIN_LINES_FOR_QUEUE { 1 } else { u16::MAX };
    let queue = queue_lines(state)
        .filter(|_| rest.height > 1)
        .map(|lines| take_bottom(&mut rest, lines.min(max_queue_lines)));
    let dock = super::ask_dock::dock_lines(state, rest)
        .or_else(|| super::state_card::card_lines(state, rest))
        .map(|lines| take_bottom(&mut rest, lines));
    let plan_lines = state.open.as_ref().and_then(super::plan::count_plan_lines);
    let plan = plan_lines.filter(|_| is_high && rest.height > 3).map(|lines| {
        let room = rest.height.saturating_sub(3);
        take_bottom(&mut rest, lines.min(room))
    });
    let outgoing = super::outgoing::count_outgoing_lines(state, rest)
        .map(|lines| take_bottom(&mut rest, lines));
    SessionAreas {
        header,
        transcript: rest,
        outgoing,
        plan,
        dock,
        queue,
        composer,
    }
}

fn composer_lines(state: &TuiState, width: u16) -> u16 {
    let Some(open) = &state.open else { return 1 };
    let columns = usize::from(width.saturating_sub(COMPOSER_MARK_COLUMNS));
    let laid = lay_out_editor(open.composer.text(), open.composer.cursor(), columns);
    u16::try_from(laid.lines.len()).unwrap_or(MAX_COMPOSER_LINES)
}

/// Returns the lines of the queue with its heading, if prompts wait.
fn queue_lines(state: &TuiState) -> Option<u16> {
    let waiting = state.open.as_ref()?.rows.state()?.queue.len();
    (waiting > 0)
        .then(|| u16::try_from(waiting).unwrap_or(MAX_QUEUE_LINES).min(MAX_QUEUE_LINES) + 1)
}

fn take_top(rest: &mut Rect, lines: u16) -> Rect {
    let lines = lines.min(rest.height);
    let taken = Rect { height: lines, ..*rest };
    rest.y += lines;
    rest.height -= lines;
    taken
}

fn take_bottom(rest: &mut Rect, lines: u16) -> Rect {
    let lines = lines.min(rest.height);
    rest.height -= lines;
    Rect { y: rest.y + rest.height, height: lines, ..*rest }
}
