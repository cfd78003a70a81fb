//! Forms: a new session, and the form of an agent's question.

use std::time::Duration;

use wharf_api::SpawnedSession;

use crate::api_call::{list_adapters, list_places, spawn_session};
use crate::composer::TextBuffer;
use crate::effect::DraftKey;
use crate::keymap::FormCommand;
use crate::model::{ANSWER_GUARD, CallPurpose, NewSessionField, Overlay, TuiState};

const FIELDS: [NewSessionField; 4] = [
    NewSessionField::Directory,
    NewSessionField::Agent,
    NewSessionField::Mode,
    NewSessionField::Prompt,
];

impl TuiState {
    /// Asks the host for agents and directories.
    pub(super) fn load_start_choices(&mut self) {
        self.call(list_adapters(), CallPurpose::Adapters);
        self.call(list_places(), CallPurpose::Places);
    }

    /// Opens the form, with the cursor in the prompt.
    pub(super) fn open_form(&mut self) {
        if self.options.is_readonly {
            self.tell("an observer starts no sessions");
            return;
        }
        if self.form.error.take().is_some() {
            // A directory that was refused is not tried again.
            self.form.directory =
                TextBuffer::with_text(self.options.directory.as_deref().unwrap_or_default());
        }
        self.form.field = NewSessionField::Prompt;
        if !self.overlays.iter().any(|overlay| matches!(overlay, Overlay::NewSession)) {
            self.overlays.push(Overlay::NewSession);
        }
        if self.connection.is_connected() {
            self.load_start_choices();
        }
    }

    pub(super) fn run_form_command(&mut self, command: FormCommand) {
        if let Some(Overlay::AskForm(form)) = self.overlays.last_mut() {
            match command {
                FormCommand::NextField => form.move_focus(1),
                FormCommand::PreviousField => form.move_focus(form.fields.len().saturating_sub(1)),
                FormCommand::NextValue | FormCommand::PreviousValue => {
                    let focused = form.focused;
                    if let Some(field) = form.fields.get_mut(focused) {
                        field.change_value(command == FormCommand::NextValue);
                    }
                }
                FormCommand::Submit => self.submit_ask_form(),
            }
            return;
        }
        match command {
            FormCommand::NextField => self.move_field(1),
            FormCommand::PreviousField => self.move_field(FIELDS.len() - 1),
            FormCommand::NextValue => self.change_value(true),
            FormCommand::PreviousValue => self.change_value(false),
            FormCommand::Submit => self.submit_form(),
        }
    }

    fn move_field(&mut self, by: usize) {
        let place = FIELDS.iter().position(|field| *field == self.form.field).unwrap_or_default();
        if let Some(field) = FIELDS.get((place + by) % FIELDS.len()) {
            self.form.field = *field;
        }
    }

    fn change_value(&mut self, is_next: bool) {
        match self.form.field {
            NewSessionField::Agent => {
                let slugs: Vec<&str> =
                    self.choices.startable().iter().map(|agent| agent.slug.as_str()).collect();
                let current =
                    self.form.chosen_agent(&self.choices).map(|agent| agent.slug.as_str());
                let next = step_value(&slugs, current, is_next).map(str::to_owned);
                if next.is_some() {
                    self.form.agent = next;
                    self.form.mode = None;
                }
            }
            NewSessionField::Mode => {
                let agent = self.form.chosen_agent(&self.choices);
                let modes = agent.map(|agent| agent.modes.iter().map(|mode| mode.id.as_str()));
                // The empty value stands for the agent's own choice.
                let modes: Vec<&str> =
                    std::iter::once("").chain(modes.into_iter().flatten()).collect();
                let next = step_value(
                    &modes,
                    Some(self.form.mode.as_deref().unwrap_or_default()),
                    is_next,
                );
                self.form.mode = next.filter(|mode| !mode.is_empty()).map(str::to_owned);
            }
            NewSessionField::Directory => {
                let directories = self.choices.directories(self.options.directory.as_deref());
                let directories: Vec<&str> = directories.iter().map(String::as_str).collect();
                let next = step_value(&directories, Some(self.form.directory.text()), is_next);
                if let Some(directory) = next {
                    self.form.directory.set_text(directory);
                }
            }
            NewSessionField::Prompt => {}
        }
    }

    fn submit_ask_form(&mut self) {
        if !self.require_host() {
            return;
        }
        let now = self.now.elapsed;
        let Some(Overlay::AskForm(form)) = self.overlays.last_mut() else { return };
        if now < form.opened_at + ANSWER_GUARD {
            return;
        }
        let session = form.session.clone();
        let ask = form.ask;
        match form.to_content() {
            Ok(content) => {
                if let Some(Overlay::AskForm(form)) = self.overlays.pop() {
                    self.sent_form = Some(form);
                }
                self.send_form_answer(session, ask, Some(content));
            }
            Err(reason) => form.error = Some(reason),
        }
    }

    fn submit_form(&mut self) {
        if self.form.prompt.break_line_at_backslash() {
            self.after_edit();
            return;
        }
        if self.form.is_starting || !self.require_host() {
            return;
        }
        let args = match self.form.to_spawn(&self.choices) {
            Ok(args) => args,
            Err(reason) => {
                self.form.error = Some(reason);
                return;
            }
        };
        let variables = self
            .form
            .chosen_agent(&self.choices)
            .map(|agent| agent.variables.clone())
            .unwrap_or_default();
        self.form.is_starting = true;
        self.form.error = None;
        let key = self.new_idempotency_key();
        let since = self.now.elapsed;
        self.call(spawn_session(&args, variables, &key), CallPurpose::Spawn { since });
    }

    /// The session is made: the form closes, and the session opens if the person waits for it.
    pub(super) fn finish_form(&mut self, spawned: SpawnedSession, since: Duration) {
        self.form.is_starting = false;
        let prompt = std::mem::take(&mut self.form.prompt);
        // The agent failed before the prompt was taken.
        let lost_prompt = spawned.prompt_id.is_none().then(|| prompt.text().to_owned());
        let id = spawned.session.id.clone();
        self.drafts.set(DraftKey::NewSession, "", self.now.elapsed);
        let before = self.overlays.len();
        self.overlays.retain(|overlay| !matches!(overlay, Overlay::NewSession));
        let is_awaited = self.overlays.len() < before || self.last_key_at <= since;
        self.open_made_session(spawned, is_awaited, "started · Ctrl-T shows it");
        if let Some(text) = lost_prompt.filter(|text| !text.is_empty()) {
            self.restore_prompt(&id, &text);
        }
    }

    /// The copy is made. It opens if the person has pressed no key since.
    pub(super) fn finish_fork(&mut self, spawned: SpawnedSession, since: Duration) {
        let is_awaited = self.last_key_at <= since;
        self.open_made_session(spawned, is_awaited, "copied · Ctrl-T shows it");
    }

    pub(super) fn open_made_session(
        &mut self,
        spawned: SpawnedSession,
        is_awaited: bool,
        note: &str,
    ) {
        let id = spawned.session.id.clone();
        self.list.put(spawned.session);
        self.list.sort();
        if !is_awaited {
            self.tell(note);
            return;
        }
        if let Some(warning) = spawned.warnings.first() {
            self.tell(warning.clone());
        }
        self.open_session(&id);
        if let Some(open) = &mut self.open {
            open.is_started_here = true;
        }
    }
}

/// Returns the value after or before the current one, around the ends.
fn step_value<'a>(values: &[&'a str], current: Option<&str>, is_next: bool) -> Option<&'a str> {
    let place = values.iter().position(|value| Some(*value) == current);
    let count = values.len();
    let next = match (place, is_next) {
        (Some(place), true) => (place + 1) % count.max(1),
        (Some(place), false) => (place + count - 1) % count.max(1),
        (None, _) => 0,
    };
    values.get(next).copied()
}
