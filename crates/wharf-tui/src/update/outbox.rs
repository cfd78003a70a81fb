//! Prompts on their way to the host: sending, sending again, and taking back (rule 19.8).

use crate::composer::join_texts;
use wharf_api::ErrorCode;

use crate::api_call::ApiCall;
use crate::effect::DraftKey;
use crate::input::ApiFailure;
use crate::model::{CallPurpose, HostPresence, SentPrompt, TuiState};

impl TuiState {
    /// Returns true if the client can send a prompt, now or when the host answers again; otherwise
    /// tells the person why it cannot.
    pub(super) fn can_deliver(&mut self) -> bool {
        self.is_host_silent() || self.require_host()
    }

    /// Sends a prompt when those of its session before it are answered.
    pub(super) fn send_later(&mut self, prompt: SentPrompt, call: ApiCall) {
        self.keep_outgoing(&prompt.session);
        self.outbox.add(prompt, call);
        self.deliver_prompts();
    }

    /// Sends the prompts whose time has come.
    pub(super) fn deliver_prompts(&mut self) {
        if !self.connection.is_connected() {
            return;
        }
        for (prompt, call) in self.outbox.take_due(self.now.elapsed) {
            self.call(call, CallPurpose::SendPrompt(prompt));
        }
    }

    /// The host has taken a prompt.
    pub(super) fn finish_prompt(&mut self, prompt: &SentPrompt) {
        let is_taken_back = self.outbox.remove(&prompt.key).is_none()
            && self.unanswered_prompts.forget(&prompt.key);
        if is_taken_back {
            self.tell("the host had taken the prompt already: it runs");
        }
        self.keep_outgoing(&prompt.session);
        self.deliver_prompts();
    }

    /// Sends a prompt again whose answer did not come. A text that the host refuses comes back.
    pub(super) fn fail_prompt(&mut self, prompt: &SentPrompt, failure: &ApiFailure) {
        if failure.code.is_none() {
            self.outbox.retry_later(&prompt.key, self.now.elapsed);
            return;
        }
        // A prompt that the person has taken back is in its field already.
        if self.outbox.remove(&prompt.key).is_some() {
            self.restore_prompt(&prompt.session, &prompt.text);
            self.keep_outgoing(&prompt.session);
            if let Some(open) = self.find_open(&prompt.session) {
                open.tried_again = None;
            }
            self.tell_error(format!("not sent: {}", failure.text));
            // Sent again as it is, it is the same prompt: the host may have taken it before.
            if failure.code != Some(ErrorCode::IDEMPOTENCY_KEY_REUSED) {
                self.unanswered_prompts.add(prompt.clone());
            }
        }
        self.deliver_prompts();
    }

    /// Takes the newest prompt that the host does not take back into its empty field. Returns false
    /// if there is none. Sent again as it is, it is the same prompt.
    pub(super) fn take_back_prompt(&mut self) -> bool {
        let Some(open) = self.open.as_ref().filter(|open| open.composer.is_empty()) else {
            return false;
        };
        let is_away = !matches!(self.connection, HostPresence::Connected);
        let newest = self.outbox.of_session(&open.id).next_back();
        let Some(key) = newest
            .filter(|one| is_away || one.is_held_up())
            .map(|one| one.prompt.key.clone())
        else {
            return false;
        };
        let Some(outgoing) = self.outbox.remove(&key) else { return false };
        let prompt = outgoing.prompt;
        self.restore_prompt(&prompt.session, &prompt.text);
        self.keep_outgoing(&prompt.session);
        if let Some(open) = self.find_open(&prompt.session) {
            open.tried_again = None;
        }
        // The host may have it, under this key or from an earlier time on its way.
        self.unanswered_prompts.add(prompt);
        true
    }

    /// Has the draft on disk hold the prompts that the host has not taken.
    fn keep_outgoing(&mut self, session: &str) {
        self.drafts
            .mark_unsaved(DraftKey::Session(session.to_owned()), self.now.elapsed);
    }

    /// Has the drafts on disk hold all prompts that the host has not taken.
    pub(super) fn keep_all_outgoing(&mut self) {
        for session in self.outbox.sessions() {
            self.keep_outgoing(&session);
        }
    }

    /// Returns a draft as it is kept on disk: after the prompts that the host has not taken, which
    /// the next client may send.
    pub(super) fn draft_on_disk(&self, key: &DraftKey, text: String) -> String {
        let DraftKey::Session(session) = key else { return text };
        let outgoing = self.outbox.of_session(session).rev();
        outgoing.fold(text, |text, outgoing| join_texts(&outgoing.prompt.text, &text))
    }
}
