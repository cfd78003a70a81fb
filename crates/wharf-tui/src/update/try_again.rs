//! Trying a turn again that failed: its prompt is sent again, whole (rule 19.9).

use std::time::Duration;

use serde_json::{Value, json};
use wharf_api::{
    Content, EndCause, RowBody, RowPage, RowPart, RowPrompt, SessionPatch, SpawnArgs,
    SpawnedSession, TranscriptRow,
};

use crate::api_call::{
    PromptWhen, change_session, read_row, read_turn_prompts, resume_session, send_prompt,
    spawn_session,
};
use crate::effect::DraftKey;
use crate::failures::FailureKind;
use crate::model::{
    AgainPrompt, CallPurpose, OpenSession, RowsLink, SentPrompt, TriedTurn, TuiState,
};
use crate::rows::RowPlace;
use crate::session_words::has_failed;

/// The newest turn, if it failed.
struct FailedTurn {
    end: RowPlace,
    turn: Option<String>,
    /// The row of its prompt, if it is held.
    prompt: Option<String>,
}

impl TuiState {
    /// Sends the prompt of the newest turn again if it failed, or brings back an agent that failed
    /// without a turn.
    pub(super) fn try_again(&mut self) {
        if self.options.is_readonly {
            self.tell("an observer sends and changes nothing");
            return;
        }
        let Some(open) = &self.open else {
            self.tell("no session is open");
            return;
        };
        // Whether there is a turn to repeat is known when the rows are there.
        if matches!(open.link, RowsLink::Opening { .. }) {
            self.tell("the session is still opening");
            return;
        }
        let session = open.id.clone();
        let is_gone = self.open_info().is_some_and(has_failed);
        let Some(failed) = find_failed_turn(open) else {
            if !is_gone {
                self.tell("the last turn did not fail");
            } else if self.require_host() {
                self.bring_agent_back(&session);
            }
            return;
        };
        if open.tried_again == Some(failed.end) {
            self.tell("it is being tried again");
            return;
        }
        if !self.require_host() {
            return;
        }
        if let Some(open) = &mut self.open {
            open.tried_again = Some(failed.end);
        }
        self.tell("trying again…");
        let tried = TriedTurn { session: session.clone(), end: failed.end, turn: failed.turn };
        match failed.prompt {
            Some(row) => self.call(read_row(&session, &row), CallPurpose::TryAgain(tried)),
            None => self.call(
                read_turn_prompts(&session, tried.turn.as_deref()),
                CallPurpose::FindPrompt(tried),
            ),
        }
    }

    /// Returns true if the newest turn, or the start of the agent, has failed.
    pub(super) fn can_try_again(&self) -> bool {
        let has_turn = self.open.as_ref().is_some_and(|open| find_failed_turn(open).is_some());
        has_turn || self.open_info().is_some_and(has_failed)
    }

    fn bring_agent_back(&mut self, session: &str) {
        if self.calls.changes().any(|call| matches!(call, CallPurpose::StartAgain { .. })) {
            self.tell("it is being tried again");
            return;
        }
        if self.is_over(session) {
            self.start_like(session, None);
        } else {
            self.call(resume_session(session), CallPurpose::Change { failed: "not resumed" });
        }
        self.tell("trying again…");
    }

    /// Returns true if the agent of the session cannot come back.
    fn is_over(&self, session: &str) -> bool {
        self.list
            .get(session)
            .is_some_and(|info| !info.status.is_alive() && !info.resumable)
    }

    /// The prompts of the turn were found; their rows may be cut.
    pub(super) fn take_found_prompt(&mut self, tried: &TriedTurn, page: &RowPage) {
        match page.rows.iter().find(|row| is_prompt_of_client(row)) {
            Some(row) => {
                self.call(read_row(&tried.session, &row.id), CallPurpose::TryAgain(tried.clone()))
            }
            None => {
                self.forget_try(tried);
                self.tell_error("not tried again: the prompt is not known");
            }
        }
    }

    /// The whole prompt is there: it is sent to the session, or to a new one if its agent cannot
    /// come back.
    pub(super) fn send_prompt_again(&mut self, tried: &TriedTurn, row: &TranscriptRow) {
        let RowBody::Prompt(prompt) = &row.body else {
            self.forget_try(tried);
            return;
        };
        if prompt
            .parts
            .iter()
            .any(|part| matches!(part, RowPart::Text(text) if text.cut.is_some()))
        {
            self.forget_try(tried);
            self.tell_error("not tried again: the prompt is too long to be read whole");
            return;
        }
        let text = text_of_prompt(prompt);
        let session = tried.session.clone();
        if prompt.parts.iter().any(|part| matches!(part, RowPart::Blob(_))) {
            self.forget_try(tried);
            self.restore_prompt(&session, &text);
            self.tell("the prompt has images: attach them again, then send it");
            return;
        }
        let content = content_of_prompt(prompt, &text);
        if self.is_over(&session) {
            self.start_like(
                &session,
                Some(AgainPrompt { text, content: content.json().to_owned() }),
            );
            return;
        }
        self.send_content(session, text, content);
    }

    fn send_content(&mut self, session: String, text: String, content: Content) {
        let key = self.new_idempotency_key();
        let call = send_prompt(&session, content, PromptWhen::InTurn, &key);
        self.send_later(SentPrompt { session, text, key }, call);
    }

    /// Starts a session of the same agent, directory and label. It gets the prompt once it is
    /// there: the prompt of a start is lost if the agent fails at once.
    fn start_like(&mut self, session: &str, prompt: Option<AgainPrompt>) {
        let Some(info) = self.list.get(session) else { return };
        let args = SpawnArgs {
            adapter: info.adapter_slug.clone(),
            cwd: Some(info.cwd.clone()),
            label: info.label.clone(),
            ..SpawnArgs::default()
        };
        // The new session has everything that was in a session whose agent has never run.
        let replaced = (info.end_reason == Some(EndCause::StartFailed)).then(|| session.to_owned());
        let agent = self.choices.adapters.iter().find(|agent| agent.slug == args.adapter);
        let variables = agent.map(|agent| agent.variables.clone()).unwrap_or_default();
        let key = self.new_idempotency_key();
        let since = self.now.elapsed;
        self.call(
            spawn_session(&args, variables, &key),
            CallPurpose::StartAgain { replaced, prompt, since },
        );
    }

    /// The session that takes the place of one whose agent cannot come back is made.
    pub(super) fn finish_start_again(
        &mut self,
        spawned: SpawnedSession,
        replaced: Option<&str>,
        prompt: Option<AgainPrompt>,
        since: Duration,
    ) {
        let id = spawned.session.id.clone();
        if let Some(replaced) = replaced {
            let patch = SessionPatch { archived: Some(true), ..SessionPatch::default() };
            self.call(
                change_session(replaced, &patch),
                CallPurpose::Change { failed: "not archived" },
            );
        }
        let is_awaited = self.last_key_at <= since;
        self.open_made_session(spawned, is_awaited, "started · Ctrl-T shows it");
        if let Some(replaced) = replaced.filter(|_| is_awaited) {
            self.move_draft(replaced, &id);
        }
        if let Some(prompt) = prompt {
            let content = wharf_json::read_own(prompt.content.as_bytes());
            let content = content.unwrap_or_else(|_| Content::from_text(&prompt.text));
            self.send_content(id, prompt.text, content);
        }
    }

    /// Moves an unsent text to the session that takes the place of its own.
    fn move_draft(&mut self, from: &str, to: &str) {
        let key = DraftKey::Session(from.to_owned());
        let text = self.drafts.text(&key).to_owned();
        if !text.is_empty() {
            self.drafts.set(key, "", self.now.elapsed);
            self.left_drafts.remove(from);
            self.restore_prompt(to, &text);
        }
    }

    /// Lets the turn be tried again: the last attempt came to nothing.
    pub(super) fn forget_try(&mut self, tried: &TriedTurn) {
        if let Some(open) = self.find_open(&tried.session)
            && open.tried_again == Some(tried.end)
        {
            open.tried_again = None;
        }
    }
}

/// Returns the newest turn if it failed and its prompt does not run again by itself.
fn find_failed_turn(open: &OpenSession) -> Option<FailedTurn> {
    let mut newest_first = open.rows.iter().rev();
    let is_turn =
        |row: &TranscriptRow| matches!(row.body, RowBody::TurnEnd(_) | RowBody::Prompt(_));
    let (end, row) = newest_first.find(|(_, row)| is_turn(row))?;
    let RowBody::TurnEnd(turn) = &row.body else { return None };
    let is_requeued = turn.next.as_ref().is_some_and(|next| next.requeued);
    if FailureKind::of_turn(turn).is_none() || is_requeued {
        return None;
    }
    // A turn may have several prompts: it began with the first one.
    let mut prompts = newest_first.filter(|(_, row)| is_prompt_of_client(row));
    let prompt = match &row.turn {
        Some(turn) => prompts.rfind(|(_, row)| row.turn.as_ref() == Some(turn)),
        None => prompts.next(),
    };
    Some(FailedTurn {
        end,
        turn: row.turn.clone(),
        prompt: prompt.map(|(_, row)| row.id.clone()),
    })
}

/// Returns true for a prompt that a client has sent. An agent may report others.
fn is_prompt_of_client(row: &TranscriptRow) -> bool {
    matches!(&row.body, RowBody::Prompt(prompt) if !prompt.by.agent)
}

/// Returns the text of a prompt as it was written, without names in the place of files.
fn text_of_prompt(prompt: &RowPrompt) -> String {
    let text = |part: &RowPart| match part {
        RowPart::Text(text) => Some(text.text.clone()),
        RowPart::Blob(_) | RowPart::File(_) | RowPart::Unknown => None,
    };
    prompt.parts.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}

/// Returns the content of a prompt as it was written.
fn content_of_prompt(prompt: &RowPrompt, text: &str) -> Content {
    let link = |part: &RowPart| match part {
        RowPart::File(file) => {
            let name = file
                .name
                .as_deref()
                .or_else(|| file.uri.rsplit('/').next())
                .unwrap_or(&file.uri);
            Some(json!({ "type": "resource_link", "uri": file.uri, "name": name }))
        }
        RowPart::Text(_) | RowPart::Blob(_) | RowPart::Unknown => None,
    };
    let links: Vec<Value> = prompt.parts.iter().filter_map(link).collect();
    if links.is_empty() {
        return Content::from_text(text);
    }
    let blocks: Vec<Value> =
        std::iter::once(json!({ "type": "text", "text": text })).chain(links).collect();
    // A list of blocks always is JSON.
    wharf_json::read_own(Value::from(blocks).to_string().as_bytes())
        .unwrap_or_else(|_| Content::from_text(text))
}
