//! A session's past as typed entries: chunks joined to messages, tool calls folded to their last
//! state (rule 4.3).

use std::collections::HashMap;

use serde_json::{Value, json};
use wharf_acp::{AgentUpdate, ChunkUpdate, Payload, ToolUpdate};
use wharf_host::core::{
    AgentEvent, Ask, AskEvent, AskId, AskOutcome, Event, PromptEvent, PromptId, Raw, Seq,
    UpdateKind,
};
use wharf_host::{Cursor, Entry, format_timestamp};
use wharf_json::{CutPair, Json, TextChunk};

use crate::acp::terminals;
use crate::acp::updates::who;

/// Folds entries one by one.
#[derive(Debug, Default)]
pub(in crate::acp) struct History {
    entries: Vec<Value>,
    bytes: usize,
    /// Prompts that were accepted and have not begun.
    prompts: HashMap<PromptId, (Value, Value)>,
    tools: HashMap<String, usize>,
    /// Tool calls that began before this history does, as they stood then; `None` until one is
    /// needed.
    earlier_tools: Option<HashMap<String, Value>>,
    asks: HashMap<AskId, usize>,
    plan: Option<usize>,
    /// The half of a character that the last text ended with.
    cut: CutPair,
    /// True if an update of an older entry came after the last message, which ends it if it has no
    /// id.
    is_apart: bool,
}

/// The history is too large or cannot be read: it is streamed instead.
#[derive(Debug)]
pub(in crate::acp) struct NotInline;

impl History {
    /// The typed history from the cursor to `head`, if it stays under `limit` bytes.
    pub(in crate::acp) async fn read(
        mut cursor: Cursor,
        head: Seq,
        limit: usize,
    ) -> Result<Vec<Value>, NotInline> {
        let mut history = Self::default();
        let begin = cursor.position();
        while cursor.position() < head {
            let batch = cursor.next().await.map_err(|_| NotInline)?;
            for entry in batch.entries().iter().filter(|entry| entry.seq <= head) {
                history.recall(&cursor, entry).await;
                history.recall_tools(&cursor, begin, entry, limit).await?;
                history.fold(entry);
            }
            if history.bytes > limit {
                return Err(NotInline);
            }
        }
        Ok(history.entries)
    }

    /// The last event of the message with this id.
    pub(in crate::acp) async fn after_message(
        mut cursor: Cursor,
        head: Seq,
        message: &str,
    ) -> Option<Seq> {
        let mut last = None;
        while cursor.position() < head {
            let batch = cursor.next().await.ok()?;
            for entry in batch.entries().iter().filter(|entry| entry.seq <= head) {
                if let Event::Agent(AgentEvent::Updated { frame, .. }) = &entry.event
                    && is_of_message(frame, message)
                {
                    last = Some(entry.seq);
                }
            }
        }
        last
    }

    /// The open asks as history entries.
    pub(in crate::acp) async fn pending_only(cursor: Cursor, asks: &[Ask]) -> Vec<Value> {
        let mut history = Self::default();
        for ask in asks {
            if let Some(entry) = entry_at(&cursor, Seq(ask.id.0)).await {
                history.push(&entry, Self::pending(ask));
            }
        }
        history.entries
    }

    /// Reads what a turn is about where that was said before this history begins.
    async fn recall(&mut self, cursor: &Cursor, entry: &Entry) {
        let Event::Prompt(PromptEvent::TurnStarted { prompt, content }) = &entry.event else {
            return;
        };
        if self.prompts.contains_key(prompt) {
            return;
        }
        if let Some(Entry { event, .. }) = entry_at(cursor, *content).await
            && let Some((frame, sender)) = event.prompt_content()
        {
            self.prompts
                .insert(prompt.clone(), (params(frame)["prompt"].take(), who(sender)));
        }
    }

    /// Reads the tool calls that began before this history, when one of them is updated in it: an
    /// update says only what changed (rule 12.11).
    async fn recall_tools(
        &mut self,
        cursor: &Cursor,
        begin: Seq,
        entry: &Entry,
        limit: usize,
    ) -> Result<(), NotInline> {
        let is_update = matches!(
            entry.event,
            Event::Agent(AgentEvent::Updated { update: UpdateKind::ToolCallUpdate, .. })
        );
        if !is_update || begin == Seq::ZERO || self.earlier_tools.is_some() {
            return Ok(());
        }
        let mut past = Self::default();
        let mut cursor = cursor.clone_at(Seq::ZERO.next());
        while cursor.position() < begin {
            let batch = cursor.next().await.map_err(|_| NotInline)?;
            for entry in batch.entries().iter().filter(|entry| entry.seq <= begin) {
                if let Event::Agent(AgentEvent::Updated {
                    update: UpdateKind::ToolCall | UpdateKind::ToolCallUpdate,
                    frame,
                    ..
                }) = &entry.event
                    && let Ok(payload) = Payload::open(frame.as_str())
                {
                    past.tool(entry, ToolUpdate::of(payload));
                }
            }
            if past.bytes > limit {
                return Err(NotInline);
            }
        }
        let Self { mut entries, tools, .. } = past;
        self.earlier_tools =
            Some(tools.into_iter().map(|(id, at)| (id, entries[at].take())).collect());
        Ok(())
    }

    fn pending(ask: &Ask) -> Value {
        json!({
            "type": "permission_request", "toolCallId": ask.tool_call, "status": "pending",
            "request": params(&ask.frame),
        })
    }

    fn fold(&mut self, entry: &Entry) {
        if let Some((kind, frame)) = entry.event.agent_update() {
            self.updated(entry, kind, frame);
        } else if let Event::Prompt(PromptEvent::Accepted { prompt, frame, sender, .. }) =
            &entry.event
        {
            self.prompts
                .insert(prompt.clone(), (params(frame)["prompt"].take(), who(sender)));
        } else if let Event::Prompt(PromptEvent::Updated { prompt, frame, .. }) = &entry.event {
            if let Some((content, _)) = self.prompts.get_mut(prompt) {
                *content = params(frame)["prompt"].take();
            }
        } else if let Event::Prompt(PromptEvent::TurnStarted { prompt, .. }) = &entry.event {
            let (content, by) = self.prompts.remove(prompt).unwrap_or_default();
            self.plan = None;
            self.push(entry, json!({ "type": "prompt", "content": content, "sentBy": by }));
        } else if let Event::Prompt(PromptEvent::Ended { end, prompt, .. }) = &entry.event {
            // A prompt that never began was no turn.
            if self.prompts.remove(prompt).is_none() {
                self.push(
                    entry,
                    json!({ "type": "turn_complete", "stopReason": end.stop_reason() }),
                );
            }
        } else if let Event::Ask(AskEvent::Opened(ask)) = &entry.event {
            self.asks.insert(ask.id, self.entries.len());
            self.push(entry, Self::pending(ask));
        } else if let Event::Ask(AskEvent::Resolved { ask, outcome, by }) = &entry.event {
            self.is_apart = true;
            self.resolve(*ask, outcome, by.as_ref().map(who));
        }
    }

    fn updated(&mut self, entry: &Entry, kind: UpdateKind, frame: &Raw) {
        let Ok(payload) = Payload::open(frame.as_str()) else { return };
        match payload.of_kind(kind) {
            AgentUpdate::AgentMessageChunk(chunk) => self.chunk(entry, "agent_message", chunk),
            AgentUpdate::AgentThoughtChunk(chunk) => self.chunk(entry, "agent_thought", chunk),
            AgentUpdate::ToolCall(call) | AgentUpdate::ToolCallUpdate(call) => {
                self.is_apart = true;
                self.tool(entry, call);
            }
            AgentUpdate::Plan(plan) => {
                self.is_apart = true;
                self.show_plan(entry, plan);
            }
            AgentUpdate::AvailableCommands(_)
            | AgentUpdate::CurrentMode(_)
            | AgentUpdate::ConfigOptions(_)
            | AgentUpdate::SessionInfo(_) => {}
            AgentUpdate::UserMessageChunk(_)
            | AgentUpdate::Usage(_)
            | AgentUpdate::UserMessage(_)
            | AgentUpdate::AgentMessage(_)
            | AgentUpdate::AgentThought(_)
            | AgentUpdate::State(_)
            | AgentUpdate::ToolCallContentChunk(_)
            | AgentUpdate::PlanUpdate(_)
            | AgentUpdate::PlanRemoved(_)
            | AgentUpdate::Subagent(_)
            | AgentUpdate::Notice(_)
            | AgentUpdate::Compaction(_)
            | AgentUpdate::CompactionSummaryChunk(_)
            | AgentUpdate::SessionMessage(_)
            | AgentUpdate::SessionMessageChunk(_)
            | AgentUpdate::Unknown(_) => self.is_apart = true,
        }
    }

    /// Shows the plan of a turn, in place of the one before.
    fn show_plan(&mut self, entry: &Entry, plan: Payload<'_>) {
        let entries = value_of(plan.close().last_member("entries"));
        match self.plan {
            Some(at) => self.entries[at]["entries"] = entries,
            None => {
                self.plan = Some(self.entries.len());
                self.push(entry, json!({ "type": "plan", "entries": entries }));
            }
        }
    }

    /// Joins a chunk to the message before it, if it is of the same one.
    fn chunk(&mut self, entry: &Entry, kind: &str, chunk: ChunkUpdate<'_>) {
        let update = chunk.close();
        let id = value_of(update.last_member("messageId"));
        let content = update.last_member("content");
        let text = content
            .and_then(|content| content.last_member("text"))
            .and_then(Json::text_chunk);
        let content = value_of(content);
        let is_apart = std::mem::take(&mut self.is_apart) && id.is_null();
        if let Some(last) = self.entries.last_mut()
            && last["type"] == kind
            && last["messageId"] == id
            && !is_apart
        {
            self.bytes += content.to_string().len();
            append(&mut last["content"], content, text.as_ref(), &mut self.cut);
            return;
        }
        self.cut = CutPair::default();
        if let Some(text) = &text {
            self.cut.join(text);
        }
        self.push(entry, json!({ "type": kind, "messageId": id, "content": [content] }));
    }

    fn tool(&mut self, entry: &Entry, call: ToolUpdate<'_>) {
        let mut update = call.without_tag();
        terminals::as_text(&mut update);
        let id = update["toolCallId"].as_str().unwrap_or_default().to_owned();
        match self.tools.get(&id) {
            Some(at) => {
                self.bytes += update.to_string().len();
                if let (Some(known), Some(new)) =
                    (self.entries[*at].as_object_mut(), update.as_object())
                {
                    known.extend(new.iter().map(|(name, value)| (name.clone(), value.clone())));
                }
            }
            None => {
                let earlier = self.earlier_tools.as_mut().and_then(|earlier| earlier.remove(&id));
                if let (Some(Value::Object(mut known)), Some(new)) =
                    (earlier, update.as_object_mut())
                {
                    known.append(new);
                    update = known.into();
                }
                self.tools.insert(id, self.entries.len());
                update["type"] = "tool_call".into();
                self.push(entry, update);
            }
        }
    }

    fn resolve(&mut self, ask: AskId, outcome: &AskOutcome, by: Option<Value>) {
        let Some(entry) = self.asks.remove(&ask).map(|at| &mut self.entries[at]) else { return };
        entry["status"] = "resolved".into();
        entry["resolvedBy"] = by.into();
        if let AskOutcome::Answered { option: Some(option), .. } = outcome {
            entry["chosenOptionId"] = option.as_ref().into();
        }
    }

    fn push(&mut self, entry: &Entry, mut value: Value) {
        value["seq"] = entry.seq.0.into();
        value["timestamp"] = format_timestamp(entry.at).into();
        self.bytes += value.to_string().len();
        self.entries.push(value);
    }
}

/// Text goes on where text ended; anything else is a block of its own.
fn append(content: &mut Value, block: Value, chunk: Option<&TextChunk<'_>>, cut: &mut CutPair) {
    let Some(blocks) = content.as_array_mut() else { return };
    // In place: a message may have a hundred thousand chunks.
    if block["type"] == "text"
        && let Some(last) = blocks.last_mut().filter(|last| last["type"] == "text")
        && let Some(Value::String(text)) = last.get_mut("text")
    {
        if let Some(chunk) = chunk {
            cut.append(text, chunk);
        }
    } else {
        *cut = CutPair::default();
        if let Some(chunk) = chunk {
            cut.join(chunk);
        }
        blocks.push(block);
    }
}

pub(in crate::acp) async fn entry_at(cursor: &Cursor, seq: Seq) -> Option<Entry> {
    let batch = cursor.clone_at(seq).next().await.ok()?;
    batch.entries().first().filter(|entry| entry.seq == seq).cloned()
}

fn params(frame: &Raw) -> Value {
    wharf_acp::to_value(frame.bytes())["params"].take()
}

/// Returns true if the update is a piece of this message.
fn is_of_message(frame: &Raw, message: &str) -> bool {
    let id = Payload::open(frame.as_str())
        .ok()
        .and_then(|update| update.close().last_member("messageId"));
    id.and_then(Json::text).is_some_and(|id| id == message)
}

fn value_of(member: Option<Json<'_>>) -> Value {
    member.map(Json::to_value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use wharf_host::core::{Epoch, Millis};

    use super::*;

    fn updated(update: UpdateKind, members: Value) -> Event {
        let frame = Raw::new(json!({ "params": { "update": members } }).to_string()).unwrap();
        Event::Agent(AgentEvent::Updated { update, frame, title: None, tool: None })
    }

    fn says(text: &str) -> Event {
        updated(
            UpdateKind::AgentMessageChunk,
            json!({ "content": { "type": "text", "text": text } }),
        )
    }

    fn tool(status: &str) -> Event {
        updated(UpdateKind::ToolCall, json!({ "toolCallId": "t", "status": status }))
    }

    /// Returns the texts of the agent's messages.
    fn messages(events: Vec<Event>) -> Vec<String> {
        let mut history = History::default();
        for (seq, event) in (1..).zip(events) {
            history.fold(&Entry { seq: Seq(seq), epoch: Epoch(1), at: Millis(0), event });
        }
        let said = history.entries.iter().filter(|entry| entry["type"] == "agent_message");
        said.map(|entry| entry["content"][0]["text"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    #[test]
    fn messages_without_ids_are_separated_by_updates_of_older_entries() {
        let plan = || updated(UpdateKind::Plan, json!({ "entries": [] }));
        let usage = updated(UpdateKind::UsageUpdate, json!({ "used": 1 }));
        let commands =
            updated(UpdateKind::AvailableCommandsUpdate, json!({ "availableCommands": [] }));
        assert_eq!(messages(vec![says("on"), says("e")]), ["one"]);
        assert_eq!(
            messages(vec![says("on"), commands, says("e")]),
            ["one"],
            "a state in the middle of a message"
        );
        for (before, between) in
            [(plan(), plan()), (tool("pending"), tool("completed")), (plan(), usage)]
        {
            let what = format!("{between:?}");
            assert_eq!(
                messages(vec![before, says("one"), between, says("two")]),
                ["one", "two"],
                "{what}"
            );
        }
    }
}
