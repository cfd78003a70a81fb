//! Events → `amux/*` frames (rule 9.2). Turn and queue item ids are made of prompt ids: they are
//! the same for every client and after every restart.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use wharf_host::Entry;
use wharf_host::core::{
    Ask, AskEvent, AskId, AskOutcome, Event, Member, PromptEnd, PromptEvent, PromptId, Raw, Role,
    Sender, Turn,
};
use wharf_json::Json;

use super::note::Note;
use crate::acp::view::{Before, ViewExtension};

/// Prompts that came by `amux/queue_prompt` have ids that begin so: they are queue items even if
/// they need not wait.
pub(super) const QUEUE_ITEM: &str = "aq-";

/// Makes the frames for one amux client, and keeps the turns and queue items that the client knows.
#[derive(Debug)]
pub(super) struct Frames {
    name: Arc<str>,
    /// Turns that run, each with the client that began it.
    drivers: BTreeMap<PromptId, Arc<str>>,
    newest: Option<PromptId>,
    /// Prompts that were shown as queue items.
    items: BTreeMap<PromptId, QueueItem>,
    /// Prompts that replace a turn, each with the prompt of that turn.
    steers: BTreeMap<PromptId, Option<PromptId>>,
}

/// A prompt that was shown as a queue item.
#[derive(Debug)]
struct QueueItem {
    peer: Arc<str>,
    is_waiting: bool,
}

impl Frames {
    /// For a client that joins while these turns run.
    pub(super) fn new(name: Arc<str>, turns: &[Turn]) -> Self {
        let drivers = turns
            .iter()
            .map(|turn| (turn.prompt.clone(), turn.sender.shown_id().into()))
            .collect();
        let newest = turns.last().map(|turn| turn.prompt.clone());
        Self {
            name,
            drivers,
            newest,
            items: BTreeMap::new(),
            steers: BTreeMap::new(),
        }
    }
}

impl ViewExtension for Frames {
    fn show_event(&mut self, entry: &Entry, before: Before) -> Vec<Bytes> {
        let notes =
            if let Event::Prompt(PromptEvent::Accepted { prompt, sender, frame, first, .. }) =
                &entry.event
            {
                self.accepted(prompt, sender, frame, *first, before.busy)
            } else if let Event::Prompt(PromptEvent::CancelRequested {
                prompt, by, reason, ..
            }) = &entry.event
            {
                self.cancelled(prompt, by.as_ref(), reason.as_deref())
            } else if let Event::Prompt(PromptEvent::Ended { prompt, end, .. }) = &entry.event {
                self.ended(prompt, end, before.waited)
            } else if let Event::Ask(AskEvent::Opened(ask)) = &entry.event {
                self.opened(ask)
            } else if let Event::Ask(AskEvent::Resolved { ask, outcome, by }) = &entry.event {
                self.resolved(*ask, outcome, by.as_ref())
            } else {
                Vec::new()
            };
        finish(notes, entry, before.live)
    }

    fn start_turn(
        &mut self,
        entry: &Entry,
        frame: &Raw,
        sender: &Sender,
        live: bool,
    ) -> Vec<Bytes> {
        let Event::Prompt(PromptEvent::TurnStarted { prompt, .. }) = &entry.event else {
            return Vec::new();
        };
        self.drivers.insert(prompt.clone(), sender.shown_id().into());
        self.newest = Some(prompt.clone());
        let replaced = self.steers.remove(prompt).flatten();
        let content =
            Json::parse(frame.bytes()).and_then(|request| request.at(&["params", "prompt"]));
        let content = content.ok().flatten().map_or("[]", Json::raw);
        let turn = self
            .note("turn_started")
            .with("amuxTurnId", turn_id(prompt))
            .with("peerId", sender.shown_id())
            .with("peerName", sender.name.as_deref())
            .with(
                "role",
                sender
                    .peer
                    .as_ref()
                    .and_then(|peer| peer.role.as_deref())
                    .unwrap_or("controller"),
            )
            .raw("content", content)
            .maybe("supersedesTurnId", replaced.map(|replaced| turn_id(&replaced)));
        let mut notes = vec![turn];
        if let Some(item) = self.items.get_mut(prompt) {
            item.is_waiting = false;
            notes.push(
                self.item("queue_item_submitted", prompt).with("amuxTurnId", turn_id(prompt)),
            );
        }
        finish(notes, entry, live)
    }

    // The queue items of a client that went stay, without their owner.
    fn tell_presence(&self, member: &Member, connected: bool) -> Vec<Bytes> {
        let sender = &member.sender;
        let peer = sender.shown_id();
        if !connected {
            let owned =
                self.items.iter().filter(|(_, item)| item.is_waiting && *item.peer == *peer);
            let orphaned = owned.map(|(prompt, _)| {
                self.item("queue_item_orphaned", prompt).with("peerId", peer).end()
            });
            return std::iter::once(self.note("peer_left").with("peerId", peer).end())
                .chain(orphaned)
                .collect();
        }
        let role = match member.role {
            Role::Observer => "observer",
            Role::Controller => sender
                .peer
                .as_ref()
                .and_then(|peer| peer.role.as_deref())
                .unwrap_or("controller"),
        };
        let joined = self.note("peer_joined").with("peerId", peer);
        vec![joined.with("peerName", sender.name.as_deref()).with("role", role).end()]
    }
}

impl Frames {
    fn accepted(
        &mut self,
        prompt: &PromptId,
        sender: &Sender,
        frame: &Raw,
        first: bool,
        busy: bool,
    ) -> Vec<Note> {
        if first {
            let replaced = self.newest.clone().filter(|newest| self.drivers.contains_key(newest));
            let mode = if replaced.is_some() { "hard" } else { "prompt" };
            let turn = turn_id(replaced.as_ref().unwrap_or(prompt));
            self.steers.insert(prompt.clone(), replaced);
            let control = self.note("control_submitted").with("kind", "steer").with("mode", mode);
            return vec![
                control
                    .with("peerId", sender.shown_id())
                    .with("amuxTurnId", turn)
                    .with("text", text_of(frame)),
            ];
        }
        if !busy && !prompt.as_str().starts_with(QUEUE_ITEM) {
            return Vec::new();
        }
        let item = QueueItem { peer: sender.shown_id().into(), is_waiting: true };
        self.items.insert(prompt.clone(), item);
        let added = self.item("queue_item_added", prompt).with("peerId", sender.shown_id());
        vec![added.with("text", text_of(frame)).with("status", "queued")]
    }

    fn cancelled(&self, prompt: &PromptId, by: Option<&Sender>, reason: Option<&str>) -> Vec<Note> {
        let steered = self.steers.values().any(|replaced| replaced.as_ref() == Some(prompt));
        let note = self.note("turn_cancelled").with("amuxTurnId", turn_id(prompt));
        let note = note.with("cancelledBy", by.map(Sender::shown_id));
        let note = note.with("originalDriver", self.drivers.get(prompt).map(|driver| &**driver));
        vec![note.maybe("reason", reason.or(steered.then_some("hard_steer")))]
    }

    fn ended(&mut self, prompt: &PromptId, end: &PromptEnd, waited: bool) -> Vec<Note> {
        let item = self.items.remove(prompt).is_some();
        self.steers.remove(prompt);
        if waited {
            // It never was a turn.
            return if item { vec![self.removed(prompt, end)] } else { Vec::new() };
        }
        self.drivers.remove(prompt);
        let turn = turn_id(prompt);
        let mut notes = vec![
            self.note("turn_complete")
                .with("amuxTurnId", turn.as_str())
                .with("stopReason", end.stop_reason()),
        ];
        if item {
            let completed = self.item("queue_item_completed", prompt).with("amuxTurnId", turn);
            notes.push(completed.with("stopReason", end.stop_reason()));
        }
        notes
    }

    fn removed(&self, prompt: &PromptId, end: &PromptEnd) -> Note {
        let (by, reason) = match end {
            PromptEnd::Removed { by } => (by.as_ref().map(Sender::shown_id), "unqueued"),
            PromptEnd::Answered { .. }
            | PromptEnd::Failed { .. }
            | PromptEnd::Cancelled
            | PromptEnd::AgentExited
            | PromptEnd::StartFailed
            | PromptEnd::SessionEnded
            | PromptEnd::HostShutdown
            | PromptEnd::HostRestarted => (None, end.stop_reason()),
        };
        self.item("queue_item_removed", prompt)
            .with("removedBy", by)
            .with("reason", reason)
    }

    /// Tells of an ask. This frame cannot be answered: the request itself comes besides, to clients
    /// that may answer.
    fn opened(&self, ask: &Ask) -> Vec<Note> {
        let request = match wharf_acp::peek::<AgentRequest<'_>>(ask.frame.bytes()) {
            Ok(request) => request,
            Err(error) => {
                tracing::error!(%error, "an ask in the log cannot be shown");
                return Vec::new();
            }
        };
        let note = self.note("agent_request_opened").with("requestId", ask.id.0);
        let note = note
            .with("requestMethod", &*request.method)
            .raw("requestParams", request.params.raw());
        vec![note.maybe("amuxTurnId", ask.prompt.as_ref().map(turn_id))]
    }

    fn resolved(&self, ask: AskId, outcome: &AskOutcome, by: Option<&Sender>) -> Vec<Note> {
        let note = self.note("agent_request_resolved").with("requestId", ask.0);
        let by = by.map(Sender::shown_id);
        let note = match outcome {
            AskOutcome::Answered { answer, .. } | AskOutcome::Declined { answer } => {
                let reply = wharf_acp::peek::<Reply<'_>>(answer.bytes()).unwrap_or_default();
                let note = note.with("resolvedBy", by);
                match (reply.result, reply.error) {
                    (Some(result), _) => note.raw("result", result.raw()),
                    (None, Some(error)) => note.raw("error", error.raw()),
                    (None, None) => note,
                }
            }
            AskOutcome::Cancelled => note.with("resolvedBy", by.unwrap_or("mux:turn-ended")),
            AskOutcome::Withdrawn => note.with("resolvedBy", "agent:cancelled"),
            AskOutcome::AgentGone => note.with("resolvedBy", "mux:turn-ended"),
        };
        vec![note]
    }

    fn note(&self, method: &str) -> Note {
        Note::new(method, &self.name)
    }

    fn item(&self, method: &str, prompt: &PromptId) -> Note {
        self.note(method).with("queueItemId", prompt.as_str())
    }
}

fn finish(notes: Vec<Note>, entry: &Entry, live: bool) -> Vec<Bytes> {
    notes
        .into_iter()
        .map(|note| if live { note.end() } else { note.recorded(entry).end() })
        .collect()
}

pub(super) fn turn_id(prompt: &PromptId) -> String {
    format!("at-{prompt}")
}

/// Returns the frame for a client that joins.
pub(super) fn session_context(name: &str, cwd: &str) -> Bytes {
    Note::new("session_context", name).with("cwd", cwd).end()
}

/// Returns the frame for every peer when a prompt is refused.
pub(super) fn session_busy(name: &str, held_by: Option<&str>) -> Bytes {
    Note::new("session_busy", name).with("busy", true).with("heldBy", held_by).end()
}

/// Returns the text of a prompt, without its other content.
fn text_of(prompt: &Raw) -> String {
    let request = wharf_acp::to_value(prompt.bytes());
    let blocks = request["params"]["prompt"].as_array().cloned().unwrap_or_default();
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    texts.join("\n")
}

#[derive(Deserialize)]
struct AgentRequest<'a> {
    #[serde(borrow)]
    method: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    params: Json<'a>,
}

#[derive(Default, Deserialize)]
struct Reply<'a> {
    #[serde(borrow)]
    result: Option<Json<'a>>,
    #[serde(borrow)]
    error: Option<Json<'a>>,
}

#[cfg(test)]
mod tests;
