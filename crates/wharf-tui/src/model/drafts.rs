//! Unsent texts, one per session and one for the form. The shell keeps them on disk.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::effect::DraftKey;

/// How long after a change a text is written: not at every key.
const SAVE_DELAY: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(crate) struct DraftStore {
    texts: BTreeMap<DraftKey, String>,
    /// Texts that are to be written, and when.
    unsaved: BTreeMap<DraftKey, Duration>,
}

impl DraftStore {
    pub(crate) fn new(texts: Vec<(DraftKey, String)>) -> Self {
        Self { texts: texts.into_iter().collect(), unsaved: BTreeMap::new() }
    }

    pub(crate) fn text(&self, key: &DraftKey) -> &str {
        self.texts.get(key).map(String::as_str).unwrap_or_default()
    }

    /// Returns true if the session has an unsent text.
    pub(crate) fn has_text(&self, session: &str) -> bool {
        self.texts.contains_key(&DraftKey::Session(session.to_owned()))
    }

    /// Notes the text of a field. It is written a little later.
    pub(crate) fn set(&mut self, key: DraftKey, text: &str, now: Duration) {
        if self.text(&key) == text {
            return;
        }
        if text.is_empty() {
            self.texts.remove(&key);
        } else {
            self.texts.insert(key.clone(), text.to_owned());
        }
        self.unsaved.entry(key).or_insert(now + SAVE_DELAY);
    }

    /// Schedules a write of an unchanged text, since the prompts that are kept beside it have
    /// changed.
    pub(crate) fn mark_unsaved(&mut self, key: DraftKey, now: Duration) {
        self.unsaved.entry(key).or_insert(now + SAVE_DELAY);
    }

    /// Returns the texts whose time has come; all of them if `now` is `None`.
    pub(crate) fn take_due(&mut self, now: Option<Duration>) -> Vec<(DraftKey, String)> {
        let due: Vec<DraftKey> = self
            .unsaved
            .iter()
            .filter(|(_, at)| now.is_none_or(|now| **at <= now))
            .map(|(key, _)| key.clone())
            .collect();
        due.into_iter()
            .map(|key| {
                self.unsaved.remove(&key);
                let text = self.text(&key).to_owned();
                (key, text)
            })
            .collect()
    }

    pub(crate) fn next_save(&self) -> Option<Duration> {
        self.unsaved.values().min().copied()
    }
}
