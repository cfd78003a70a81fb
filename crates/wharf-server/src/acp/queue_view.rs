//! Follows the prompt queue for one client and makes its `queue_changed` updates, each with the
//! state after the last event that the client was shown.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::Instant as Moment;
use wharf_host::Entry;
use wharf_host::core::{Event, PromptEvent, PromptId, QueuedPrompt, Raw, Sender, Seq, SessionId};

use super::updates::{prompt_preview, update, who};

/// The entries that an update holds; the total says how many there are.
const MAX_SHOWN_ENTRIES: usize = 100;
/// The shortest time between two updates: a client gets at most ten in a second.
const UPDATE_EVERY: Duration = Duration::from_millis(100);

/// The queue as far as the view has come.
#[derive(Debug, Default)]
pub(super) struct QueueView {
    /// The events up to here are in it.
    upto: Seq,
    waiting: Vec<Waiting>,
    /// Prompts whose turn runs: one may come back into the queue.
    running: Vec<Waiting>,
    /// The queue in the last update that the client got.
    told: Vec<Waiting>,
    /// When the next update may go out; `None`: at once.
    next_at: Option<Moment>,
}

/// A prompt that waits.
#[derive(Clone, Debug, PartialEq)]
struct Waiting {
    prompt: PromptId,
    sender: Value,
    preview: String,
    editor: Option<Value>,
}

impl Waiting {
    fn new(prompt: &PromptId, sender: &Sender, frame: &Raw, editor: Option<&Sender>) -> Self {
        let prompt = prompt.clone();
        let preview = prompt_preview(frame);
        Self {
            prompt,
            sender: who(sender),
            preview,
            editor: editor.map(who),
        }
    }
}

impl QueueView {
    /// The queue as it was after the event `upto`.
    pub(super) fn new(queued: &[QueuedPrompt], upto: Seq) -> Self {
        let waiting = queued.iter().map(|queued| {
            Waiting::new(&queued.prompt, &queued.sender, &queued.frame, queued.edited_by.as_ref())
        });
        Self { upto, waiting: waiting.collect(), ..Self::default() }
    }

    /// Takes an event in.
    pub(super) fn apply(&mut self, entry: &Entry) {
        if entry.seq <= self.upto {
            return;
        }
        self.upto = entry.seq;
        if let Event::Prompt(PromptEvent::Accepted { prompt, sender, frame, first, .. }) =
            &entry.event
        {
            let at = if *first { 0 } else { self.waiting.len() };
            self.waiting.insert(at, Waiting::new(prompt, sender, frame, None));
        } else if let Event::Prompt(PromptEvent::Updated { prompt, by, frame, .. }) = &entry.event {
            for waiting in self.waiting.iter_mut().filter(|waiting| waiting.prompt == *prompt) {
                (waiting.preview, waiting.editor) = (prompt_preview(frame), Some(who(by)));
            }
        } else if let Event::Prompt(PromptEvent::Moved { prompt, position, .. }) = &entry.event {
            if let Some(moved) = take(&mut self.waiting, prompt) {
                self.waiting.insert((*position).min(self.waiting.len()), moved);
            }
        } else if let Event::Prompt(PromptEvent::TurnStarted { prompt, .. }) = &entry.event {
            self.running.extend(take(&mut self.waiting, prompt));
        } else if let Event::Prompt(PromptEvent::Requeued { prompt }) = &entry.event {
            if let Some(again) = take(&mut self.running, prompt) {
                self.waiting.insert(0, again);
            }
        } else if let Event::Prompt(PromptEvent::Ended { prompt, .. }) = &entry.event {
            let _ = take(&mut self.running, prompt).or_else(|| take(&mut self.waiting, prompt));
        }
    }

    /// Returns when to send the client an update; `None` if it knows the queue as it is.
    pub(super) fn due(&self, now: Moment) -> Option<Moment> {
        (self.waiting != self.told).then(|| self.next_at.unwrap_or(now))
    }

    /// The update, if it is time for one.
    pub(super) fn take_update(&mut self, session: &SessionId, now: Moment) -> Option<Bytes> {
        self.due(now).filter(|at| *at <= now)?;
        self.told.clone_from(&self.waiting);
        self.next_at = Some(now + UPDATE_EVERY);
        let entries = self.waiting.iter().take(MAX_SHOWN_ENTRIES).enumerate().map(|(position, waiting)| {
            let Waiting { prompt, sender, preview, editor } = waiting;
            let mut entry =
                json!({ "promptId": prompt.as_str(), "position": position, "sentBy": sender, "preview": preview });
            if let Some(editor) = editor {
                entry["editedBy"] = editor.clone();
            }
            entry
        });
        let body = json!({ "prompts": entries.collect::<Vec<_>>(), "total": self.waiting.len() });
        Some(update(session, "queue_changed", body))
    }
}

fn take(list: &mut Vec<Waiting>, prompt: &PromptId) -> Option<Waiting> {
    let at = list.iter().position(|waiting| waiting.prompt == *prompt)?;
    Some(list.remove(at))
}
