//! Changes of the state: one input in, effects out. One file per area.

mod answers;
mod ask_commands;
mod attention;
mod composer_commands;
mod form_commands;
mod global_commands;
mod keys;
mod list_commands;
mod list_events;
mod menu_commands;
mod open_session;
mod programs;
mod row_events;
mod timers;
mod transcript_commands;

use crate::effect::TuiEffect;
use crate::input::{HostReady, TuiInput};
use crate::model::TuiState;
use crate::moment::Moment;

/// Applies one input. Returns the effects in the order in which the shell is to carry them out.
pub fn update(state: &mut TuiState, input: TuiInput, now: Moment) -> Vec<TuiEffect> {
    state.now = now;
    match input {
        TuiInput::Key(key) => state.handle_key(key),
        TuiInput::Paste(text) => state.handle_paste(&text),
        TuiInput::Resized(size) => state.size = size,
        TuiInput::TerminalFocus(has_focus) => {
            state.has_terminal_focus = has_focus;
            state.is_focus_reported = true;
        }
        TuiInput::Tick => {}
        TuiInput::HostReady(ready) => state.handle_host_ready(ready),
        TuiInput::List(input) => state.handle_list_stream(input),
        TuiInput::Rows { stream, input } => state.handle_rows_stream(stream, input),
        TuiInput::Answer { call, answer } => state.handle_answer(call, answer),
        TuiInput::Program(end) => state.handle_program_end(end),
        TuiInput::Copied(Ok(())) => state.tell("copied"),
        TuiInput::Copied(Err(reason)) => state.tell_error(reason),
    }
    state.run_due_timers();
    state.refresh_title();
    state.take_effects()
}

impl TuiState {
    fn handle_host_ready(&mut self, ready: HostReady) {
        self.list.host_name = ready.host_name;
        self.load_start_choices();
        if let Some(session) = ready.session {
            let id = session.id.clone();
            self.list.put(*session);
            self.list.is_target_open = true;
            self.open_session(&id);
        }
    }
}
