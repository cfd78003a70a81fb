//! Keys: the focused place, then everywhere; printable keys go to the text field that has the focus.

use crate::composer::TextBuffer;
use crate::effect::DraftKey;
use crate::keymap::{EditCommand, KeyMeaning, KeyPress, KeyScope, TuiCommand};
use crate::model::{FormField, Overlay, PaneFocus, TuiState};

impl TuiState {
    /// Returns the places whose keys act now, the innermost first.
    pub(crate) fn key_scopes(&self) -> Vec<KeyScope> {
        match self.overlays.last() {
            Some(Overlay::Palette(_)) => vec![KeyScope::Menu, KeyScope::TextField, KeyScope::Everywhere],
            Some(Overlay::Reader(_)) => vec![KeyScope::Reader, KeyScope::Everywhere],
            Some(Overlay::NewSession) => match self.form.field {
                FormField::Prompt if !self.form.prompt.is_empty() => {
                    // Left and right move in the text.
                    vec![KeyScope::TextField, KeyScope::Form, KeyScope::Everywhere]
                }
                FormField::Directory => vec![KeyScope::TextField, KeyScope::Form, KeyScope::Everywhere],
                FormField::Prompt | FormField::Agent | FormField::Mode => {
                    vec![KeyScope::Form, KeyScope::TextField, KeyScope::Everywhere]
                }
            },
            None => match self.focus {
                PaneFocus::List if self.is_filter_typed() => {
                    vec![KeyScope::Menu, KeyScope::TextField, KeyScope::Everywhere]
                }
                PaneFocus::List => vec![KeyScope::List, KeyScope::Everywhere],
                PaneFocus::Transcript if self.is_find_typed() => {
                    vec![KeyScope::Menu, KeyScope::TextField, KeyScope::Everywhere]
                }
                PaneFocus::Transcript => vec![KeyScope::Transcript, KeyScope::Everywhere],
                PaneFocus::Composer => vec![KeyScope::Composer, KeyScope::TextField, KeyScope::Everywhere],
                PaneFocus::Ask => vec![KeyScope::Ask, KeyScope::Everywhere],
            },
        }
    }

    pub(super) fn handle_key(&mut self, key: KeyPress) {
        self.last_key_at = self.now.elapsed;
        // A key in a terminal proves that its window has the focus.
        self.has_terminal_focus = true;
        self.wants_ask_focus = false;
        let prefix = self.chord.take();
        let scopes = self.key_scopes();
        match self.keymap.find(&scopes, prefix, key) {
            KeyMeaning::Run(command) => self.run_command(command),
            KeyMeaning::Prefix => self.chord = Some(key),
            KeyMeaning::Unbound if prefix.is_some() => self.tell("no such key"),
            KeyMeaning::Unbound => self.type_key(key),
        }
    }

    pub(crate) fn run_command(&mut self, command: TuiCommand) {
        match command {
            TuiCommand::Global(command) => self.run_global_command(command),
            TuiCommand::List(command) => self.run_list_command(command),
            TuiCommand::Transcript(command) => self.run_transcript_command(command),
            TuiCommand::Composer(command) => self.run_composer_command(command),
            TuiCommand::Edit(command) => self.run_edit_command(command),
            TuiCommand::Ask(command) => self.run_ask_command(command),
            TuiCommand::Form(command) => self.run_form_command(command),
            TuiCommand::Menu(command) => self.run_menu_command(command),
            TuiCommand::Reader(command) => self.run_reader_command(command),
        }
    }

    /// Types a character into the focused field. In the transcript it goes to the composer, which gets the focus.
    fn type_key(&mut self, key: KeyPress) {
        let Some(character) = key.typed_char() else { return };
        let may_compose = self.overlays.is_empty()
            && self.focus == PaneFocus::Transcript
            && !self.is_find_typed()
            && self.can_compose();
        if may_compose {
            self.focus = PaneFocus::Composer;
        }
        if let Some(field) = self.focused_field() {
            field.type_char(character);
            self.after_edit();
        }
    }

    pub(super) fn handle_paste(&mut self, text: &str) {
        // Terminals send carriage returns for the line breaks of a pasted text.
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        if let Some(field) = self.focused_field() {
            field.insert(&text);
            self.after_edit();
        }
    }

    fn run_edit_command(&mut self, command: EditCommand) {
        if let Some(field) = self.focused_field() {
            field.edit(command);
            self.after_edit();
        }
    }

    /// Returns the text field that has the focus.
    pub(super) fn focused_field(&mut self) -> Option<&mut TextBuffer> {
        match self.overlays.last_mut() {
            Some(Overlay::Palette(palette)) => Some(&mut palette.query),
            Some(Overlay::NewSession) => match self.form.field {
                FormField::Directory => Some(&mut self.form.directory),
                FormField::Prompt => Some(&mut self.form.prompt),
                FormField::Agent | FormField::Mode => None,
            },
            Some(Overlay::Reader(_)) => None,
            None => match self.focus {
                PaneFocus::Composer => self.open.as_mut().map(|open| &mut open.composer),
                PaneFocus::List => self.list.filter.as_mut(),
                PaneFocus::Transcript => {
                    let find = self.open.as_mut().and_then(|open| open.view.find.as_mut());
                    find.filter(|find| find.is_typed).map(|find| &mut find.query)
                }
                PaneFocus::Ask => None,
            },
        }
    }

    /// Notes the changed text of the focused field: as a draft, or as a new filter.
    pub(super) fn after_edit(&mut self) {
        let now = self.now.elapsed;
        match (self.overlays.last_mut(), self.focus) {
            (Some(Overlay::Palette(palette)), _) => palette.selected = 0,
            (Some(Overlay::NewSession), _) => {
                self.form.error = None;
                self.drafts.set(DraftKey::NewSession, self.form.prompt.text(), now);
            }
            (Some(Overlay::Reader(_)), _) => {}
            (None, PaneFocus::List) => self.list.sort(),
            (None, PaneFocus::Composer | PaneFocus::Transcript | PaneFocus::Ask) => self.note_draft(),
        }
    }

    /// Keeps the text of the composer as the session's draft.
    pub(super) fn note_draft(&mut self) {
        if let Some(open) = &self.open {
            self.drafts.set(DraftKey::Session(open.id.clone()), open.composer.text(), self.now.elapsed);
        }
    }

    fn is_filter_typed(&self) -> bool {
        self.list.filter.is_some()
    }
}
