//! Keys: the focused place, then everywhere; printable keys go to the text field that has the
//! focus.

use crate::composer::{TextBuffer, move_by_line};
use crate::effect::DraftKey;
use crate::keymap::{EditCommand, KeyCode, KeyMeaning, KeyPress, KeyScope, TuiCommand};
use crate::model::{
    ANSWER_GUARD, HostPresence, NewSessionField, Overlay, PaneFocus, PickSource, TuiState,
};
use crate::view::{COMPOSER_MARK_COLUMNS, divide_screen};

impl TuiState {
    /// Returns the places whose keys act now, the innermost first.
    pub(crate) fn key_scopes(&self) -> Vec<KeyScope> {
        match self.overlays.last() {
            // The screen does not show anything yet that a key could act on.
            None if matches!(self.connection, HostPresence::Connecting { .. })
                && self.open.is_none() =>
            {
                vec![KeyScope::Everywhere]
            }
            Some(Overlay::Palette(_) | Overlay::PickList(_) | Overlay::Rename(_)) => {
                vec![KeyScope::Menu, KeyScope::TextField, KeyScope::Everywhere]
            }
            Some(Overlay::Reader(_)) => vec![KeyScope::Reader, KeyScope::Everywhere],
            Some(Overlay::AskForm(form)) => {
                let is_typed =
                    form.fields.get(form.focused).is_some_and(|field| !field.is_choice());
                let (first, second) = if is_typed {
                    (KeyScope::TextField, KeyScope::Form)
                } else {
                    (KeyScope::Form, KeyScope::TextField)
                };
                vec![first, second, KeyScope::Everywhere]
            }
            Some(Overlay::NewSession) => match self.form.field {
                NewSessionField::Prompt if !self.form.prompt.is_empty() => {
                    // Left and right move in the text.
                    vec![KeyScope::TextField, KeyScope::Form, KeyScope::Everywhere]
                }
                NewSessionField::Prompt
                | NewSessionField::Directory
                | NewSessionField::Agent
                | NewSessionField::Mode => {
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
                PaneFocus::Composer if self.has_completion() => {
                    vec![
                        KeyScope::Menu,
                        KeyScope::Composer,
                        KeyScope::TextField,
                        KeyScope::Everywhere,
                    ]
                }
                PaneFocus::Composer
                    if self.open.as_ref().is_some_and(|open| open.composer.is_empty()) =>
                {
                    // Nothing can be moved in: Ctrl-F searches.
                    vec![KeyScope::Composer, KeyScope::Everywhere, KeyScope::TextField]
                }
                PaneFocus::Composer => {
                    vec![KeyScope::Composer, KeyScope::TextField, KeyScope::Everywhere]
                }
                PaneFocus::Ask => vec![KeyScope::Ask, KeyScope::Everywhere],
            },
        }
    }

    pub(super) fn handle_key(&mut self, key: KeyPress) {
        self.last_key_at = self.now.elapsed;
        // A key in a terminal proves that its window has the focus.
        self.has_terminal_focus = true;
        self.wants_ask_focus = false;
        if self.is_second_tap(key) {
            return;
        }
        let prefix = self.chord.take();
        let scopes = self.key_scopes();
        match self.keymap.find(&scopes, prefix, key) {
            KeyMeaning::Run(command) => self.run_command(command),
            KeyMeaning::Prefix => self.chord = Some(key),
            KeyMeaning::Unbound if prefix.is_some() => self.tell("no such key"),
            KeyMeaning::Unbound => self.type_key(key),
        }
    }

    /// Returns true for the second tap of a key that answered an ask: the card has just gone, and
    /// the key would be typed or send the unfinished text.
    fn is_second_tap(&self, key: KeyPress) -> bool {
        let has_just_left = self.ask_left_at.is_some_and(|at| self.now.elapsed < at + ANSWER_GUARD);
        has_just_left && (key.typed_char().is_some() || key == KeyPress::plain(KeyCode::Enter))
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

    /// Types a character into the focused field. In the transcript it goes to the composer, which
    /// gets the focus.
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

    fn run_edit_command(&mut self, command: EditCommand) {
        let is_vertical = matches!(command, EditCommand::Up | EditCommand::Down);
        let width = self.composer_columns();
        let Some(field) = self.focused_field() else { return };
        let has_changed = if is_vertical {
            let place =
                move_by_line(field.text(), field.cursor(), width, command == EditCommand::Up);
            place.map(|place| field.set_cursor(place)).is_some()
        } else {
            field.edit(command)
        };
        let is_composer = self.overlays.is_empty() && self.focus == PaneFocus::Composer;
        if is_vertical && is_composer {
            if !has_changed {
                self.move_beyond_edge(command == EditCommand::Up);
            }
        } else {
            self.after_edit();
        }
    }

    /// Returns the columns of a line of the composer, or of the form's prompt.
    fn composer_columns(&self) -> usize {
        let areas = divide_screen(self);
        let composer = areas
            .session
            .and_then(|session| session.composer)
            .filter(|_| self.overlays.is_empty());
        let room = composer.map_or(areas.overlay.width.saturating_sub(4), |area| area.width);
        usize::from(room.saturating_sub(COMPOSER_MARK_COLUMNS))
    }

    /// At the edges of the text: to waiting prompts from an empty composer, else to earlier
    /// prompts.
    fn move_beyond_edge(&mut self, is_up: bool) {
        let Some(open) = &self.open else { return };
        let composing = &open.composing;
        let is_in_queue = composing.queue_edit.is_some() || (is_up && open.composer.is_empty());
        let is_first_step = composing.history.is_none() && composing.queue_edit.is_none();
        if is_up && is_first_step && self.take_back_prompt() {
            return;
        }
        let Some(open) = &self.open else { return };
        if open.composing.history.is_none() && is_in_queue && self.edit_queued(is_up) {
            return;
        }
        self.walk_history(is_up);
    }

    /// Returns the text field that has the focus.
    pub(super) fn focused_field(&mut self) -> Option<&mut TextBuffer> {
        match self.overlays.last_mut() {
            Some(Overlay::Palette(palette)) => Some(&mut palette.query),
            Some(Overlay::NewSession) => match self.form.field {
                NewSessionField::Directory => Some(&mut self.form.directory),
                // A text that is typed while the session starts would be in no session.
                NewSessionField::Prompt => {
                    Some(&mut self.form.prompt).filter(|_| !self.form.is_starting)
                }
                NewSessionField::Agent | NewSessionField::Mode => None,
            },
            Some(Overlay::Reader(_)) => None,
            Some(Overlay::AskForm(form)) => form.focused_text(),
            Some(Overlay::PickList(list)) => {
                (list.source != PickSource::Question).then_some(&mut list.query)
            }
            Some(Overlay::Rename(input)) => Some(&mut input.title),
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
            (Some(Overlay::AskForm(form)), _) => form.error = None,
            (Some(Overlay::PickList(_)), _) => self.note_query(),
            (Some(Overlay::Reader(_) | Overlay::Rename(_)), _) => {}
            (None, PaneFocus::List) => self.list.sort(),
            (None, PaneFocus::Composer | PaneFocus::Transcript | PaneFocus::Ask) => {
                if let Some(open) = &mut self.open {
                    open.composing.history = None;
                }
                self.refresh_completion();
                self.note_draft();
            }
        }
    }

    /// Keeps the text of the composer as the session's draft.
    pub(super) fn note_draft(&mut self) {
        let Some(open) = &self.open else { return };
        let text = open.composing.chips.expand_all(&open.unsent_text());
        self.drafts.set(DraftKey::Session(open.id.clone()), &text, self.now.elapsed);
    }

    fn is_filter_typed(&self) -> bool {
        self.list.filter.is_some()
    }
}
