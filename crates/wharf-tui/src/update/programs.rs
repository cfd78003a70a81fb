//! Ends of programs that had the terminal.

use crate::effect::TuiEffect;
use crate::input::ProgramEnd;
use crate::model::TuiState;

impl TuiState {
    pub(super) fn handle_program_end(&mut self, end: ProgramEnd) {
        match end {
            ProgramEnd::Editor(Ok(text)) => {
                if let Some(open) = &mut self.open {
                    // Editors end a file with a line break.
                    open.composer.set_text(text.trim_end_matches('\n'));
                    self.note_draft();
                }
            }
            ProgramEnd::Login(Ok(())) => {
                self.load_start_choices();
                if self.can_try_again() {
                    self.tell("logged in · Ctrl-X A tries again");
                }
            }
            ProgramEnd::Editor(Err(reason))
            | ProgramEnd::Pager(Err(reason))
            | ProgramEnd::Login(Err(reason)) => {
                self.tell_error(reason);
            }
            ProgramEnd::Pager(Ok(())) | ProgramEnd::Resumed => {}
        }
        self.emit(TuiEffect::Redraw);
    }
}
