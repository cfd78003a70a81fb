//! Commands of the composer: sending, the editor, leaving.

use crate::api_call::send_prompt;
use crate::effect::TuiEffect;
use crate::keymap::{ComposerCommand, EditCommand};
use crate::model::{CallPurpose, PaneFocus, TuiState};

impl TuiState {
    pub(super) fn run_composer_command(&mut self, command: ComposerCommand) {
        match command {
            ComposerCommand::Send => self.send_composer(),
            ComposerCommand::OpenEditor => {
                let text = self.open.as_ref().map(|open| open.composer.text().to_owned());
                if let Some(text) = text {
                    self.emit(TuiEffect::RunEditor(text));
                }
            }
            ComposerCommand::FocusTranscript => {
                self.focus = PaneFocus::Transcript;
                if self.open.as_ref().is_some_and(|open| open.view.selected.is_none()) {
                    self.go_to_newest();
                }
            }
            ComposerCommand::DetachOrDelete => {
                let Some(open) = &mut self.open else { return };
                if open.composer.is_empty() {
                    self.detach();
                } else {
                    open.composer.edit(EditCommand::DeleteAfter);
                    self.after_edit();
                }
            }
        }
    }

    /// Sends the text as a prompt. A text that the host does not take comes back.
    fn send_composer(&mut self) {
        let Some(open) = &mut self.open else { return };
        if open.composer.break_line_at_backslash() {
            self.after_edit();
            return;
        }
        if open.composer.text().trim().is_empty() || !self.require_host() {
            return;
        }
        let Some(open) = &mut self.open else { return };
        let text = open.composer.clear();
        let session = open.id.clone();
        self.note_draft();
        self.go_to_newest();
        let key = self.new_idempotency_key();
        let call = send_prompt(&session, text.trim_end(), &key);
        self.call(call, CallPurpose::SendPrompt { session, text });
    }

    /// Puts a text that was not sent back into its composer, before anything that was typed since.
    pub(super) fn restore_prompt(&mut self, session: &str, text: &str) {
        match self.open.as_mut().filter(|open| open.id == session) {
            Some(open) => {
                let typed = open.composer.text().to_owned();
                let joined = if typed.is_empty() { text.to_owned() } else { format!("{text}\n{typed}") };
                open.composer.set_text(&joined);
                self.note_draft();
            }
            None => {
                let key = crate::effect::DraftKey::Session(session.to_owned());
                self.drafts.set(key, text, self.now.elapsed);
            }
        }
    }
}
