//! Answers of the host to calls, each by the purpose of its call.

use serde::de::DeserializeOwned;
use wharf_api::{
    AdapterList, FileList, HostInfo, PlaceList, QueueEntry, RowPage, SearchPage, SpawnedSession,
    TranscriptRow,
};

use crate::api_call::send_queued;
use crate::input::{ApiFailure, CallId};
use crate::model::{CallPurpose, OpenSession, Overlay, TuiState, TurnInterrupt};

/// Reads an answer as a type of the contract.
pub(super) fn read_answer<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiFailure> {
    wharf_json::read_own(body).map_err(|error| ApiFailure {
        code: None,
        text: format!("the host's answer is not readable: {error}"),
    })
}

impl TuiState {
    pub(super) fn handle_answer(&mut self, call: CallId, answer: Result<Vec<u8>, ApiFailure>) {
        let Some(purpose) = self.calls.finish(call) else { return };
        let outcome = answer.and_then(|body| self.take_answer(call, &purpose, &body));
        if let Err(failure) = outcome {
            self.take_failure(call, purpose, failure);
        }
    }

    fn take_answer(
        &mut self,
        call: CallId,
        purpose: &CallPurpose,
        body: &[u8],
    ) -> Result<(), ApiFailure> {
        match purpose {
            CallPurpose::LastLine { session } => self.take_last_line(session, &read_answer(body)?),
            CallPurpose::PromptHistory { stream } => {
                self.take_prompt_history(*stream, &read_answer(body)?)
            }
            CallPurpose::QueuedText { stream, prompt } => {
                self.edit_whole_prompt(*stream, prompt, read_answer::<QueueEntry>(body)?);
            }
            CallPurpose::ReadRow { stream } => {
                let row: TranscriptRow = read_answer(body)?;
                if let Some(open) = self.open.as_mut().filter(|open| open.stream == *stream) {
                    open.rows.load(vec![row]);
                    self.after_rows_changed();
                }
            }
            CallPurpose::OlderRows { stream } => {
                let page: RowPage = read_answer(body)?;
                if let Some(open) = self.open.as_mut().filter(|open| open.stream == *stream) {
                    open.is_loading_older = false;
                    open.rows.load_older(page);
                    open.limit_held_rows();
                    if open.view.seek.is_some() {
                        self.seek_row();
                    } else {
                        self.fill_screen();
                    }
                }
            }
            CallPurpose::NewerRows { stream } => self.take_newer_rows(*stream, read_answer(body)?),
            CallPurpose::Reading(purpose) => self.take_reading_answer(purpose, body)?,
            CallPurpose::Adapters => {
                self.choices.adapters = read_answer::<AdapterList>(body)?.adapters
            }
            CallPurpose::Places => self.choices.places = Some(read_answer::<PlaceList>(body)?),
            CallPurpose::Spawn { since } => {
                self.finish_form(read_answer::<SpawnedSession>(body)?, *since)
            }
            CallPurpose::Files { session, query } => {
                self.show_found_files(session, query, read_answer::<FileList>(body)?);
            }
            CallPurpose::Upload { .. } => self.finish_upload(call, &read_answer(body)?),
            CallPurpose::Search { query } => {
                self.show_hits(query, read_answer::<SearchPage>(body)?)
            }
            CallPurpose::Fork { since } => {
                self.finish_fork(read_answer::<SpawnedSession>(body)?, *since)
            }
            CallPurpose::FindPrompt(tried) => self.take_found_prompt(tried, &read_answer(body)?),
            CallPurpose::TryAgain(tried) => self.send_prompt_again(tried, &read_answer(body)?),
            CallPurpose::StartAgain { replaced, prompt, since } => {
                self.finish_start_again(
                    read_answer(body)?,
                    replaced.as_deref(),
                    prompt.clone(),
                    *since,
                );
            }
            CallPurpose::Host => self.note_host(&read_answer::<HostInfo>(body)?),
            CallPurpose::SaveQueued(edit) => {
                if edit.is_sent_now {
                    let call = send_queued(&edit.session, &edit.prompt);
                    self.call(call, CallPurpose::Change { failed: "not sent" });
                }
            }
            CallPurpose::SendPrompt(prompt) => self.finish_prompt(prompt),
            CallPurpose::Change { .. }
            | CallPurpose::NextMode { .. }
            | CallPurpose::Interrupt { .. }
            | CallPurpose::AnswerAsk { .. }
            | CallPurpose::MarkSeen => {}
        }
        Ok(())
    }

    fn take_failure(&mut self, call: CallId, purpose: CallPurpose, failure: ApiFailure) {
        match purpose {
            CallPurpose::SendPrompt(prompt) => self.fail_prompt(&prompt, &failure),
            CallPurpose::SaveQueued(edit) => {
                self.restore_prompt(&edit.session, &edit.text);
                self.tell_error(format!("the waiting prompt was not changed: {}", failure.text));
            }
            CallPurpose::Spawn { .. } => {
                self.form.is_starting = false;
                if !self.overlays.iter().any(|overlay| matches!(overlay, Overlay::NewSession)) {
                    self.tell_error(format!("not started: {}", failure.text));
                }
                self.form.error = Some(failure.text);
            }
            CallPurpose::AnswerAsk { session, ask } => {
                if let Some(open) = self.find_open(&session)
                    && open.dock.answering == Some(ask)
                {
                    open.dock.answering = None;
                }
                if let Some(form) =
                    self.sent_form.take().filter(|form| form.ask == ask && form.session == session)
                {
                    self.overlays.push(Overlay::AskForm(form));
                }
                self.tell_error(format!("not answered: {}", failure.text));
            }
            CallPurpose::Interrupt { session } => {
                if let Some(open) = self.find_open(&session) {
                    open.interrupt = TurnInterrupt::default();
                }
                self.tell_error(format!("not interrupted: {}", failure.text));
            }
            CallPurpose::FindPrompt(tried) | CallPurpose::TryAgain(tried) => {
                self.forget_try(&tried);
                self.tell_error(format!("not tried again: {}", failure.text));
            }
            CallPurpose::StartAgain { .. } => {
                if let Some(open) = &mut self.open {
                    open.tried_again = None;
                }
                self.tell_error(format!("not started: {}", failure.text));
            }
            CallPurpose::OlderRows { stream } => {
                self.stop_seeking(stream);
                if let Some(open) = &mut self.open {
                    open.is_loading_older = false;
                }
                self.tell_error(format!("older rows cannot be read: {}", failure.text));
            }
            CallPurpose::NewerRows { stream } => {
                if let Some(open) = self.open.as_mut().filter(|open| open.stream == stream) {
                    open.is_loading_newer = false;
                }
                self.tell_error(format!("newer rows cannot be read: {}", failure.text));
            }
            CallPurpose::Reading(purpose) => self.take_reading_failure(&purpose, &failure.text),
            CallPurpose::ReadRow { .. } => self.tell_error(failure.text),
            CallPurpose::Change { failed } => {
                self.tell_error(format!("{failed}: {}", failure.text))
            }
            CallPurpose::NextMode { stream } => self.fail_next_mode(stream, &failure.text),
            CallPurpose::Upload { .. } => self.fail_upload(call, &failure.text),
            CallPurpose::Search { .. } => {
                self.tell_error(format!("not searched: {}", failure.text))
            }
            CallPurpose::Fork { .. } => self.tell_error(format!("not copied: {}", failure.text)),
            CallPurpose::QueuedText { .. } => {
                self.tell_error(format!("the waiting prompt cannot be edited: {}", failure.text));
            }
            CallPurpose::LastLine { session } => {
                self.list.last_lines.finish_reading(&session, None, self.now.elapsed)
            }
            // The client does not report these failures: it repeats the request at the next
            // occasion, and loses no data.
            CallPurpose::PromptHistory { .. }
            | CallPurpose::MarkSeen
            | CallPurpose::Adapters
            | CallPurpose::Places
            | CallPurpose::Files { .. }
            | CallPurpose::Host => {}
        }
    }

    pub(super) fn find_open(&mut self, session: &str) -> Option<&mut OpenSession> {
        self.open.as_mut().filter(|open| open.id == session)
    }
}
