//! Commands of the list of sessions.

use wharf_api::AttentionState;

use crate::composer::TextBuffer;
use crate::keymap::ListCommand;
use crate::model::{PaneFocus, TuiState};
use crate::view::divide_screen;

impl TuiState {
    pub(super) fn run_list_command(&mut self, command: ListCommand) {
        let page = isize::try_from(self.list_page()).unwrap_or(1);
        match command {
            ListCommand::Down => self.list.move_selection(1),
            ListCommand::Up => self.list.move_selection(-1),
            ListCommand::First => self.list.move_selection(isize::MIN),
            ListCommand::Last => self.list.move_selection(isize::MAX),
            ListCommand::PageDown => self.list.move_selection(page),
            ListCommand::PageUp => self.list.move_selection(-page),
            ListCommand::Open => self.open_selected(),
            ListCommand::AnswerHere => self.answer_selected(),
            ListCommand::Filter => self.start_filter(),
            ListCommand::New => self.open_form(),
            ListCommand::Rename => self.open_rename(),
            ListCommand::Archive => self.toggle_archive(),
            ListCommand::Mute => self.toggle_mute(),
            ListCommand::Kill => self.ask_to_kill(),
            ListCommand::Resume => self.resume_selected(),
            ListCommand::Fork => self.fork_selected(),
            ListCommand::CopyId => self.copy_session_id(),
        }
    }

    /// Opens the field of the filter. The palette does so from everywhere, also if the list is
    /// hidden.
    fn start_filter(&mut self) {
        self.list.filter = Some(TextBuffer::default());
        self.is_list_hidden = false;
        self.focus = PaneFocus::List;
    }

    /// Opens the session that asks, with the focus on its ask. The selected session's agent may
    /// have started the session that asks.
    fn answer_selected(&mut self) {
        let selected = self.list.selected.as_deref().and_then(|id| self.list.get(id));
        let attention = selected.and_then(|session| session.attention.as_ref());
        let asks = attention.filter(|attention| attention.state == AttentionState::NeedsAnswer);
        let Some(id) =
            asks.and_then(|attention| attention.via.clone().or_else(|| self.list.selected.clone()))
        else {
            self.tell("this session asks nothing");
            return;
        };
        self.open_session(&id);
        self.wants_ask_focus = true;
        self.focus_wanted_ask();
    }

    pub(super) fn open_selected(&mut self) {
        match self.list.selected.clone() {
            Some(id) => self.open_session(&id),
            None => self.tell("no session is selected"),
        }
    }

    /// Returns the sessions that fit the list: each takes two lines.
    fn list_page(&self) -> usize {
        divide_screen(self).list.map_or(1, |area| usize::from(area.height / 2).max(1))
    }
}
