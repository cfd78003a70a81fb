//! A list of choices over the screen: settings, earlier prompts, questions with two answers, and
//! the hits of a search.

use std::time::Duration;

use serde_json::Value;

use crate::composer::TextBuffer;

#[derive(Debug)]
pub(crate) struct PickList {
    pub(crate) title: String,
    pub(crate) query: TextBuffer,
    pub(crate) items: Vec<PickItem>,
    pub(crate) selected: usize,
    pub(crate) source: PickSource,
    /// A sentence below the list, or in the place of an empty one.
    pub(crate) note: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PickItem {
    pub(crate) label: String,
    pub(crate) detail: String,
    pub(crate) action: PickAction,
}

/// The origin of the items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PickSource {
    /// All items are there; the query selects among them.
    Fixed,
    /// A question with fixed answers: the person types no query.
    Question,
    /// The host searches for the query, once it has not changed until `due`.
    Search { due: Option<Duration> },
}

/// The effect of a choice.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PickAction {
    Nothing,
    /// Puts an earlier prompt into the composer.
    TakePrompt(String),
    SetMode(String),
    SetModel(String),
    SetOption {
        id: String,
        value: Value,
    },
    KillSession(String),
    SendNow,
    OpenRow {
        session: String,
        row: String,
    },
}

impl PickList {
    pub(crate) fn new(title: &str, items: Vec<PickItem>) -> Self {
        Self {
            title: title.to_owned(),
            query: TextBuffer::default(),
            items,
            selected: 0,
            source: PickSource::Fixed,
            note: "nothing fits".to_owned(),
        }
    }

    /// Makes a question; the first answer leaves everything as it is.
    pub(crate) fn confirm(question: &str, yes: &str, action: PickAction) -> Self {
        let item = |label: &str, action: PickAction| PickItem {
            label: label.to_owned(),
            detail: String::new(),
            action,
        };
        let answers = vec![item("No", PickAction::Nothing), item(yes, action)];
        Self { source: PickSource::Question, ..Self::new(question, answers) }
    }

    /// Makes an empty search over all sessions.
    pub(crate) fn search() -> Self {
        let note = "words that a row has; \"two words\" in a row; the last word may be a beginning"
            .to_owned();
        Self {
            source: PickSource::Search { due: None },
            note,
            ..Self::new("Search all sessions", Vec::new())
        }
    }

    /// Returns the items that fit the query.
    pub(crate) fn matches(&self) -> Vec<&PickItem> {
        if matches!(self.source, PickSource::Search { .. }) {
            return self.items.iter().collect();
        }
        let words: Vec<String> =
            self.query.text().split_whitespace().map(str::to_lowercase).collect();
        let fits = |item: &&PickItem| {
            let text = format!("{} {}", item.label, item.detail).to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        self.items.iter().filter(fits).collect()
    }

    pub(crate) fn move_selection(&mut self, is_down: bool) {
        let last = self.matches().len().saturating_sub(1);
        self.selected =
            if is_down { (self.selected + 1).min(last) } else { self.selected.saturating_sub(1) };
    }
}
