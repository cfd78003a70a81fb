//! Idempotency keys: which submissions are one and the same prompt (rule 7.5).

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{PromptEnd, PromptId};

/// A client that retries does so within minutes; a thousand prompts of one session are days.
const MAX_KEYS: usize = 1_000;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Keys(VecDeque<Keyed>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Keyed {
    pub(super) key: Arc<str>,
    pub(super) prompt: PromptId,
    /// `None` while it waits or runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) end: Option<PromptEnd>,
}

impl Keys {
    pub(super) fn get(&self, key: &str) -> Option<&Keyed> {
        self.0.iter().rev().find(|keyed| *keyed.key == *key)
    }

    pub(super) fn find(&self, prompt: &PromptId) -> Option<&Keyed> {
        self.0.iter().rev().find(|keyed| keyed.prompt == *prompt)
    }

    pub(super) fn add(&mut self, key: Arc<str>, prompt: PromptId) {
        if self.0.len() >= MAX_KEYS {
            self.0.pop_front();
        }
        self.0.push_back(Keyed { key, prompt, end: None });
    }

    pub(super) fn end(&mut self, prompt: &PromptId, end: &PromptEnd) {
        if let Some(keyed) = self.0.iter_mut().rev().find(|keyed| keyed.prompt == *prompt) {
            keyed.end = Some(end.clone());
        }
    }
}
