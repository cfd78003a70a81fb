//! The prompts that wait: editing in place, reordering, removing, and sending at once.

use crate::composer::join_texts;
use wharf_api::QueueEntry;

use crate::api_call::{PromptWhen, change_queued, read_queued, remove_queued, send_queued};
use crate::input::StreamId;
use crate::model::{CallPurpose, Overlay, PickAction, PickList, QueueEdit, TuiState};

impl TuiState {
    fn queue(&self) -> &[QueueEntry] {
        let state = self.open.as_ref().and_then(|open| open.rows.state());
        state.map(|state| state.queue.as_slice()).unwrap_or_default()
    }

    /// Puts a waiting prompt into the composer: the last one, or the one before that which is
    /// edited. Returns false without one.
    pub(super) fn edit_queued(&mut self, is_earlier: bool) -> bool {
        let edited = self.open.as_ref().and_then(|open| open.composing.queue_edit.as_ref());
        let place = edited
            .and_then(|edit| self.queue().iter().position(|entry| entry.prompt_id == edit.prompt));
        let wanted = match (place, is_earlier) {
            (None, true) => self.queue().len().checked_sub(1),
            (None, false) => None,
            (Some(place), true) => Some(place.saturating_sub(1)),
            (Some(place), false) => Some(place + 1),
        };
        let Some(entry) = wanted.and_then(|wanted| self.queue().get(wanted)).cloned() else {
            self.leave_queue_edit();
            return false;
        };
        if entry.shortened {
            self.request_whole_prompt(&entry.prompt_id);
            return true;
        }
        self.edit_entry(entry);
        true
    }

    /// Reads the text of a waiting prompt that is too long for the list.
    fn request_whole_prompt(&mut self, prompt: &str) {
        let Some(open) = &self.open else { return };
        let session = open.id.clone();
        let stream = open.stream;
        if self.require_host() {
            let purpose = CallPurpose::QueuedText { stream, prompt: prompt.to_owned() };
            self.call(read_queued(&session, prompt), purpose);
        }
    }

    /// Puts a waiting prompt into the composer whose whole text has come, unless the person has
    /// done something else since.
    pub(super) fn edit_whole_prompt(&mut self, stream: StreamId, prompt: &str, entry: QueueEntry) {
        let is_waiting = self.queue().iter().any(|waiting| waiting.prompt_id == prompt);
        let open = self.open.as_ref().filter(|open| open.stream == stream && is_waiting);
        if open.is_some_and(|open| open.composing.queue_edit.is_some() || open.composer.is_empty())
        {
            self.edit_entry(entry);
        }
    }

    fn edit_entry(&mut self, entry: QueueEntry) {
        let Some(open) = &mut self.open else { return };
        let typed = match open.composing.queue_edit.take() {
            Some(edit) => edit.typed,
            None => open.composer.text().to_owned(),
        };
        open.composer.set_text(&entry.text);
        open.composing.queue_edit =
            Some(QueueEdit { prompt: entry.prompt_id, original: entry.text, typed });
    }

    /// Leaves the waiting prompt as it was. Returns false if none is edited.
    pub(super) fn leave_queue_edit(&mut self) -> bool {
        let Some(open) = &mut self.open else { return false };
        let Some(edit) = open.composing.queue_edit.take() else { return false };
        open.composer.set_text(&edit.typed);
        self.note_draft();
        true
    }

    /// Ends the editing of a prompt that does not wait any more. Its text stays in the composer.
    pub(super) fn drop_started_queue_edit(&mut self) {
        let edited = self.open.as_ref().and_then(|open| open.composing.queue_edit.as_ref());
        let Some(edit) = edited.cloned() else { return };
        if self.queue().iter().any(|entry| entry.prompt_id == edit.prompt) {
            return;
        }
        let Some(open) = &mut self.open else { return };
        open.composing.queue_edit = None;
        let changed = Some(open.composer.text())
            .filter(|text| *text != edit.original)
            .unwrap_or_default();
        let joined = join_texts(changed, &edit.typed);
        open.composer.set_text(&joined);
        self.note_draft();
        self.tell("the prompt does not wait any more");
    }

    /// Returns the waiting prompt that a command means: the one being edited, else the last one.
    fn meant_entry(&mut self) -> Option<(String, String, usize)> {
        let session = self.open.as_ref()?.id.clone();
        let edited = self
            .open
            .as_ref()?
            .composing
            .queue_edit
            .as_ref()
            .map(|edit| edit.prompt.clone());
        let entry = match edited {
            Some(prompt) => self.queue().iter().find(|entry| entry.prompt_id == prompt),
            None => self.queue().last(),
        };
        let found = entry.map(|entry| (session, entry.prompt_id.clone(), entry.position));
        if found.is_none() {
            self.tell("no prompt waits");
        }
        found.filter(|_| self.require_host())
    }

    pub(super) fn remove_queued(&mut self) {
        let Some((session, prompt, _)) = self.meant_entry() else { return };
        self.leave_queue_edit();
        self.call(remove_queued(&session, &prompt), CallPurpose::Change { failed: "not removed" });
    }

    pub(super) fn move_queued(&mut self, is_up: bool) {
        let Some((session, prompt, position)) = self.meant_entry() else { return };
        let position = if is_up { position.saturating_sub(1) } else { position + 1 };
        let call = change_queued(&session, &prompt, None, Some(position));
        self.call(call, CallPurpose::Change { failed: "not moved" });
    }

    /// Ctrl-X Enter: the text, or else a waiting prompt, goes first, and the running turn is
    /// interrupted for it. Asks once per session.
    pub(super) fn send_now(&mut self) {
        let Some(open) = &mut self.open else { return };
        let is_text =
            open.composing.queue_edit.is_none() && !open.composer.text().trim().is_empty();
        if open.is_turn_running() && !open.composing.is_send_now_confirmed {
            let question = "Send now? The running turn is interrupted";
            let list = PickList::confirm(question, "Yes, send now", PickAction::SendNow);
            self.overlays.push(Overlay::PickList(list));
            return;
        }
        let edit = open.composing.queue_edit.as_ref();
        let is_changed = edit.is_some_and(|edit| edit.original != open.composer.text());
        if is_text || is_changed {
            self.send_composer(PromptWhen::Now);
            return;
        }
        let first = self.queue().first().map(|entry| entry.prompt_id.clone());
        let edited = self.open.as_ref().and_then(|open| open.composing.queue_edit.clone());
        let Some(prompt) = edited.map(|edit| edit.prompt).or(first) else {
            self.tell("no prompt waits");
            return;
        };
        let Some(session) =
            self.open.as_ref().map(|open| open.id.clone()).filter(|_| self.require_host())
        else {
            return;
        };
        self.leave_queue_edit();
        self.call(send_queued(&session, &prompt), CallPurpose::Change { failed: "not sent" });
    }
}
