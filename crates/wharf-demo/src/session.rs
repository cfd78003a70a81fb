//! One conversation of the demo agent: its state between prompts, and how the state is restored
//! from the history.

use std::path::Path;
use std::sync::mpsc::SyncSender;

use serde_json::{Value, json};

use crate::burst::ChunkBurst;
use crate::history::DemoHistory;
use crate::settings::DemoSettings;
use crate::turn::PromptSignal;
use crate::wire::{self, MessageWriter};

/// The running prompt.
#[derive(Debug)]
pub(crate) struct DemoPrompt {
    pub(crate) request: Value,
    pub(crate) turn: SyncSender<PromptSignal>,
}

#[derive(Debug)]
pub(crate) struct DemoSession {
    pub(crate) id: String,
    pub(crate) cwd: String,
    pub(crate) title: Option<String>,
    pub(crate) settings: DemoSettings,
    /// The number of prompts so far, which keeps message ids unique over restarts.
    pub(crate) turns: u64,
    /// The number of simulated tokens so far.
    pub(crate) used: u64,
    /// True if the user answered "always" to an edit.
    pub(crate) always: bool,
    pub(crate) running: Option<DemoPrompt>,
    history: DemoHistory,
}

impl DemoSession {
    pub(crate) fn create(directory: &Path, cwd: &str) -> Self {
        let (id, history) = DemoHistory::create(directory, cwd);
        Self::new(id, cwd, history)
    }

    /// Restores a session from its file.
    pub(crate) fn open(directory: &Path, id: &str) -> std::io::Result<Self> {
        let history = DemoHistory::open(directory, id)?;
        let records = history.read_records();
        let mut session = Self::new(id.to_owned(), "", history);
        for record in &records {
            session.apply_record(record);
        }
        Ok(session)
    }

    /// Copies a stored session with its conversation, whichever process created it.
    pub(crate) fn copy(directory: &Path, source: &str, cwd: &str) -> std::io::Result<Self> {
        let records = DemoHistory::open(directory, source)?.read_records();
        let mut copy = Self::create(directory, cwd);
        for record in records.iter().filter(|record| record.get("cwd").is_none()) {
            copy.history.append(record);
            copy.apply_record(record);
        }
        Ok(copy)
    }

    fn new(id: String, cwd: &str, history: DemoHistory) -> Self {
        Self {
            id,
            cwd: cwd.to_owned(),
            title: None,
            settings: DemoSettings::for_new_session(),
            turns: 0,
            used: 0,
            always: false,
            running: None,
            history,
        }
    }

    fn apply_record(&mut self, record: &Value) {
        if let Some(cwd) = record["cwd"].as_str() {
            self.cwd = cwd.to_owned();
        } else if let Some(title) = record["title"].as_str() {
            self.title = Some(title.to_owned());
        } else if record["settings"].is_object() {
            self.settings.restore(&record["settings"]);
        } else if let Some(turn) = record["turn"].as_u64() {
            self.turns = turn;
            self.used = record["used"].as_u64().unwrap_or_default();
        }
    }

    /// Counts a new prompt and records it with all its blocks.
    pub(crate) fn begin_turn(&mut self, prompt: &Value) {
        let blocks = prompt.as_array().map(Vec::as_slice).unwrap_or_default();
        self.turns += 1;
        self.used += 12 + prompt.to_string().len() as u64 / 4;
        self.history.append(&json!({ "turn": self.turns, "used": self.used }));
        let message = format!("msg-{}-user", self.turns);
        for block in blocks {
            let update = json!({ "sessionUpdate": "user_message_chunk", "messageId": message, "content": block });
            self.history.append(&json!({ "update": update }));
        }
    }

    pub(crate) fn set_title(&mut self, title: String) {
        self.history.append(&json!({ "title": title }));
        self.title = Some(title);
    }

    pub(crate) fn record_settings(&self) {
        self.history.append(&self.settings.to_record());
    }

    /// Records an update that was sent, for a later replay.
    pub(crate) fn record_update(&self, update: &Value) {
        self.history.append(&json!({ "update": update }));
    }

    /// Records a burst by its numbers, from which it can be repeated exactly.
    pub(crate) fn record_burst(&self, message_id: &str, count: u64, size: usize) {
        self.history
            .append(&json!({ "burst": { "messageId": message_id, "count": count, "size": size } }));
    }

    /// Sends the whole conversation again.
    pub(crate) fn replay(&self, output: &MessageWriter) -> std::io::Result<()> {
        for record in self.history.read_records() {
            if let Some(update) = record.get("update") {
                output.send_message(&wire::update_frame(&self.id, update))?;
            } else if let Some(burst) = record.get("burst") {
                self.replay_burst(burst, output)?;
            }
        }
        Ok(())
    }

    fn replay_burst(&self, burst: &Value, output: &MessageWriter) -> std::io::Result<()> {
        let size = burst["size"]
            .as_u64()
            .and_then(|size| usize::try_from(size).ok())
            .unwrap_or_default();
        let lines =
            ChunkBurst::new(&self.id, burst["messageId"].as_str().unwrap_or_default(), size);
        let mut block = Vec::new();
        for index in 0..burst["count"].as_u64().unwrap_or_default() {
            block.clear();
            lines.push_line(index, &mut block);
            output.send_bytes(&block)?;
        }
        Ok(())
    }
}
