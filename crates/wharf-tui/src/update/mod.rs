//! Changes of the state: one input in, effects out. One file per area.

mod answers;
mod ask_commands;
mod attachments;
mod attention;
mod completion;
mod composer_commands;
mod form_commands;
mod global_commands;
mod host_watch;
mod keys;
mod last_lines;
mod list_commands;
mod list_events;
mod menu_commands;
mod newer_rows;
mod open_session;
mod outbox;
mod pick_commands;
mod programs;
mod queue_commands;
mod reader_commands;
mod reading;
mod row_events;
mod session_commands;
mod timers;
mod transcript_commands;
mod transcript_copy;
mod transcript_find;
mod transcript_jumps;
mod try_again;

use std::time::Duration;

use wharf_api::HostInfo;

use crate::api_call::describe_host;
use crate::effect::TuiEffect;
use crate::input::{CopyPlace, HostReady, TuiInput};
use crate::model::{CallPurpose, TuiState};
use crate::moment::Moment;

/// Applies one input. Returns the effects in the order in which the shell is to carry them out.
pub fn update(state: &mut TuiState, input: TuiInput, now: Moment) -> Vec<TuiEffect> {
    state.now = now;
    state.note_host_input(&input);
    match input {
        TuiInput::Key(key) => state.handle_key(key),
        TuiInput::Paste(text) => state.handle_paste(&text),
        TuiInput::Resized(size) => state.size = size,
        TuiInput::TerminalFocus(has_focus) => state.handle_terminal_focus(has_focus),
        // These are noted above.
        TuiInput::Tick | TuiInput::HostProbed { .. } => {}
        TuiInput::HostReady(ready) => state.handle_host_ready(ready),
        TuiInput::List(input) => state.handle_list_stream(input),
        TuiInput::Rows { stream, input } => state.handle_rows_stream(stream, input),
        TuiInput::Answer { call, answer } => state.handle_answer(call, answer),
        TuiInput::HostStarted(outcome) => state.note_host_start(outcome),
        TuiInput::Program(end) => state.handle_program_end(end),
        TuiInput::Copied(Ok(CopyPlace::Terminal)) => state.tell("copied"),
        TuiInput::Copied(Ok(CopyPlace::TmuxBuffer)) => {
            state.tell("copied, also into the buffer of tmux")
        }
        TuiInput::Copied(Err(reason)) => state.tell_error(reason),
        TuiInput::End => state.keep_texts(),
    }
    state.drop_stale_completion();
    state.run_due_timers();
    state.refresh_title();
    state.take_effects()
}

impl TuiState {
    /// Notes the version of the host if it differs from this client's, to show it, and how long the
    /// host waits for an interrupted agent.
    fn note_host(&mut self, host: &HostInfo) {
        let version = Some(host.version.clone());
        self.other_host_version = version.filter(|version| version != env!("CARGO_PKG_VERSION"));
        self.cancel_timeout = host.cancel_timeout_ms.map(Duration::from_millis);
    }

    fn handle_host_ready(&mut self, ready: HostReady) {
        self.list.host_name = ready.host_name;
        self.load_start_choices();
        self.call(describe_host(), CallPurpose::Host);
        if let Some(session) = ready.session {
            let id = session.id.clone();
            self.list.put(*session);
            self.list.is_target_open = true;
            self.open_session(&id);
        }
    }
}
