//! Commands of the composer: sending, earlier prompts, the editor, leaving.

use crate::composer::join_texts;
use wharf_api::{RowBody, RowPage, TranscriptRow};

use crate::api_call::{PromptWhen, change_queued, prompt_content, read_prompts, send_prompt};
use crate::effect::{DraftKey, TuiEffect};
use crate::input::StreamId;
use crate::keymap::{ComposerCommand, EditCommand};
use crate::model::{
    CallPurpose, HistoryWalk, OpenSession, Overlay, PaneFocus, PickAction, PickItem, PickList,
    SavedQueueEdit, ScrollAnchor, SentPrompt, TuiState, UploadState,
};

const HISTORY_TITLE: &str = "Earlier prompts";

impl TuiState {
    pub(super) fn run_composer_command(&mut self, command: ComposerCommand) {
        if self.open.is_none() {
            self.tell("no session is open");
            return;
        }
        let is_harmless =
            matches!(command, ComposerCommand::FocusTranscript | ComposerCommand::DetachOrDelete);
        if self.options.is_readonly && !is_harmless {
            self.tell("an observer sends and changes nothing");
            return;
        }
        match command {
            ComposerCommand::Send => self.send_composer(PromptWhen::InTurn),
            ComposerCommand::SendNow => self.send_now(),
            ComposerCommand::RemoveQueued => self.remove_queued(),
            ComposerCommand::MoveQueuedUp => self.move_queued(true),
            ComposerCommand::MoveQueuedDown => self.move_queued(false),
            ComposerCommand::SearchHistory => self.open_history(),
            ComposerCommand::NextMode => self.set_next_mode(),
            ComposerCommand::OpenEditor => self.open_editor(),
            ComposerCommand::FocusTranscript => {
                self.focus = PaneFocus::Transcript;
                let is_following = |open: &OpenSession| {
                    open.view.anchor == ScrollAnchor::End || open.view.selected.is_none()
                };
                if self.open.as_ref().is_some_and(is_following) {
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

    fn open_editor(&mut self) {
        let Some(open) = &self.open else { return };
        let text = open.composing.chips.expand_pastes(open.composer.text());
        self.emit(TuiEffect::RunEditor(text));
    }

    /// Sends the text as a prompt. A text that the host does not take comes back.
    pub(super) fn send_composer(&mut self, when: PromptWhen) {
        let Some(open) = &mut self.open else { return };
        if when == PromptWhen::InTurn && open.composer.break_line_at_backslash() {
            self.after_edit();
            return;
        }
        let is_change = open.composing.queue_edit.is_some();
        if open.composer.text().trim().is_empty() || !self.can_send() {
            return;
        }
        let is_reachable = if is_change { self.require_host() } else { self.can_deliver() };
        let Some(open) = self.open.as_mut().filter(|_| is_reachable) else { return };
        let session = open.id.clone();
        let queue_edit = open.composing.queue_edit.take();
        let written = open.composer.clear();
        let text = open.composing.chips.expand_pastes(&written);
        let content =
            prompt_content(text.trim_end(), &kept_ids(&open.composing.chips.attached(&text)));
        open.composing.history = None;
        open.composing.completion = None;
        if let Some(edit) = queue_edit {
            open.composer.set_text(&edit.typed);
            let call = change_queued(&session, &edit.prompt, Some(content), None);
            let is_sent_now = when == PromptWhen::Now;
            let saved = SavedQueueEdit { session, prompt: edit.prompt, text, is_sent_now };
            self.call(call, CallPurpose::SaveQueued(saved));
        } else {
            self.go_to_newest();
            let known = self.unanswered_prompts.take_key(&session, &text);
            let key = known.unwrap_or_else(|| self.new_idempotency_key());
            let call = send_prompt(&session, content, when, &key);
            self.send_later(SentPrompt { session, text, key }, call);
        }
        if let Some(open) = &mut self.open {
            open.composing.forget_pastes_beside(&[&written, open.composer.text()]);
        }
        self.note_draft();
    }

    /// Returns true if the host has everything that belongs to the text; otherwise tells the person
    /// which attachment is still on its way.
    fn can_send(&mut self) -> bool {
        let Some(open) = &self.open else { return false };
        let attached = open.composing.chips.attached(open.composer.text());
        let sending =
            attached.iter().find(|upload| matches!(upload.state, UploadState::Sending(_)));
        let waits_for = sending.map(|upload| upload.chip.clone());
        if let Some(chip) = &waits_for {
            self.tell(format!("{chip} is still on its way to the host"));
        }
        waits_for.is_none()
    }

    /// Puts a text that was not sent back into its composer, before anything that was typed since.
    pub(super) fn restore_prompt(&mut self, session: &str, text: &str) {
        let Some(open) = self.open.as_mut().filter(|open| open.id == session) else {
            let key = DraftKey::Session(session.to_owned());
            let joined = join_texts(text, self.drafts.text(&key));
            self.drafts.set(key, &joined, self.now.elapsed);
            return;
        };
        match &mut open.composing.queue_edit {
            Some(edit) => edit.typed = join_texts(text, &edit.typed),
            None => {
                let joined = join_texts(text, open.composer.text());
                open.composer.set_text(&joined);
            }
        }
        self.note_draft();
    }

    /// Keeps all unsent texts, and the prompts that the host has not answered.
    pub(super) fn keep_texts(&mut self) {
        let sent: Vec<_> = self.calls.changes().filter_map(CallPurpose::changed_text).collect();
        for (session, text) in sent {
            self.restore_prompt(&session, &text);
        }
        self.keep_all_outgoing();
        self.save_drafts(None);
    }

    /// Returns the prompts of the session that are known, the newest first, each once.
    fn earlier_prompts(&self) -> Vec<String> {
        let mut prompts: Vec<String> = Vec::new();
        let Some(open) = &self.open else { return prompts };
        let loaded = open.rows.iter().rev().filter_map(|(_, row)| prompt_text(row));
        let older = open.composing.older_prompts.iter().flatten().cloned();
        for text in loaded.chain(older) {
            if !prompts.contains(&text) {
                prompts.push(text);
            }
        }
        prompts
    }

    /// Asks once for prompts that are older than the rows that are loaded.
    fn request_prompt_history(&mut self) {
        let is_connected = self.connection.is_connected();
        let Some(open) = self
            .open
            .as_mut()
            .filter(|open| is_connected && open.composing.older_prompts.is_none())
        else {
            return;
        };
        open.composing.older_prompts = Some(Vec::new());
        let call = read_prompts(&open.id);
        let stream = open.stream;
        self.call(call, CallPurpose::PromptHistory { stream });
    }

    pub(super) fn take_prompt_history(&mut self, stream: StreamId, page: &RowPage) {
        let Some(open) = self.open.as_mut().filter(|open| open.stream == stream) else { return };
        open.composing.older_prompts =
            Some(page.rows.iter().rev().filter_map(prompt_text).collect());
        let prompts = self.earlier_prompts();
        if let Some(Overlay::PickList(list)) = self.overlays.last_mut()
            && list.title == HISTORY_TITLE
        {
            list.items = prompts.into_iter().map(history_item).collect();
        }
    }

    /// Walks to an older or a newer prompt. Beyond the newest the typed text comes back.
    pub(super) fn walk_history(&mut self, is_older: bool) {
        self.request_prompt_history();
        let prompts = self.earlier_prompts();
        let Some(open) = &mut self.open else { return };
        let walk = open.composing.history.take();
        let typed = walk
            .as_ref()
            .map_or_else(|| open.composer.text().to_owned(), |walk| walk.typed.clone());
        let index = match (walk, is_older) {
            (None, true) => Some(0),
            (None, false) => return,
            (Some(walk), true) => Some((walk.index + 1).min(prompts.len().saturating_sub(1))),
            (Some(walk), false) => walk.index.checked_sub(1),
        };
        match index.and_then(|index| Some((index, prompts.get(index)?))) {
            Some((index, prompt)) => {
                open.composer.set_text(prompt);
                open.composing.history = Some(HistoryWalk { index, typed });
            }
            None => open.composer.set_text(&typed),
        }
        self.note_draft();
    }

    fn open_history(&mut self) {
        self.request_prompt_history();
        let mut list = PickList::new(
            HISTORY_TITLE,
            self.earlier_prompts().into_iter().map(history_item).collect(),
        );
        list.note = "no earlier prompt of this session has these words".to_owned();
        self.overlays.push(Overlay::PickList(list));
    }
}

/// Returns the text of a prompt's row.
fn prompt_text(row: &TranscriptRow) -> Option<String> {
    let RowBody::Prompt(prompt) = &row.body else { return None };
    Some(crate::rows::join_parts(&prompt.parts)).filter(|text| !text.trim().is_empty())
}

fn history_item(text: String) -> PickItem {
    PickItem {
        label: text.lines().next().unwrap_or_default().to_owned(),
        detail: match text.lines().count() {
            0 | 1 => String::new(),
            count => format!("{count} lines"),
        },
        action: PickAction::TakePrompt(text),
    }
}

/// Returns the ids of files that the host keeps.
fn kept_ids(uploads: &[&crate::model::AttachedUpload]) -> Vec<String> {
    let id = |upload: &&crate::model::AttachedUpload| match &upload.state {
        UploadState::Kept(id) => Some(id.clone()),
        UploadState::Sending(_) => None,
    };
    uploads.iter().filter_map(id).collect()
}
