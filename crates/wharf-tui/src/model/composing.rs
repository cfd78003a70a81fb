//! Everything about the composer beside its text: the walk through earlier prompts, completion,
//! chips, and the waiting prompt that is being edited.

use super::ComposerChips;

#[derive(Debug, Default)]
pub(crate) struct ComposingState {
    pub(crate) history: Option<HistoryWalk>,
    /// Prompts of the session that were read for the walk, the newest first; `None` before they
    /// were asked for.
    pub(crate) older_prompts: Option<Vec<String>>,
    pub(crate) completion: Option<Completion>,
    /// The place of the word whose completion the person closed.
    pub(crate) closed_completion: Option<usize>,
    pub(crate) chips: ComposerChips,
    pub(crate) queue_edit: Option<QueueEdit>,
    /// The person has confirmed that sending now interrupts the turn.
    pub(crate) is_send_now_confirmed: bool,
}

/// A walk through earlier prompts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HistoryWalk {
    /// 0 is the newest prompt.
    pub(crate) index: usize,
    /// The text that was there before.
    pub(crate) typed: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    /// The place of the `/` or `@` in the text.
    pub(crate) start: usize,
    /// The text between there and the cursor.
    pub(crate) word: String,
    pub(crate) items: Vec<CompletionItem>,
    pub(crate) selected: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompletionItem {
    /// The text that takes the place of the word.
    pub(crate) text: String,
    pub(crate) detail: String,
}

/// A waiting prompt in the composer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueEdit {
    pub(crate) prompt: String,
    /// The text of the prompt before the change.
    pub(crate) original: String,
    /// The text that was in the composer.
    pub(crate) typed: String,
}

impl ComposingState {
    /// Forgets the pasted texts that none of these texts names. The text that was cleared last is
    /// among them: Ctrl-Y brings it back.
    pub(crate) fn forget_pastes_beside(&mut self, texts: &[&str]) {
        let typed = self.queue_edit.as_ref().map(|edit| edit.typed.as_str());
        let walked = self.history.as_ref().map(|walk| walk.typed.as_str());
        let all: Vec<&str> = texts.iter().copied().chain(typed).chain(walked).collect();
        self.chips.forget_pastes_beside(&all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pasted_texts_are_forgotten_once_no_text_names_them() {
        let mut composing = ComposingState::default();
        let chips: Vec<String> = ["one", "two", "three"]
            .iter()
            .map(|text| composing.chips.add_paste(text))
            .collect();
        composing.queue_edit = Some(QueueEdit {
            prompt: "prm_1".to_owned(),
            original: String::new(),
            typed: chips[2].clone(),
        });
        composing.forget_pastes_beside(&[&format!("look: {}", chips[1])]);
        assert_eq!(composing.chips.expand_pastes(&chips.concat()), format!("{}twothree", chips[0]));
        assert_eq!(
            composing.chips.add_paste("four"),
            "[pasted 1 lines #4]",
            "a number is used once"
        );
    }
}
