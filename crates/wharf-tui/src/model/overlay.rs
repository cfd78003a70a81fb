//! Overlays lie over the panes and take all keys.

use super::{AskFormInput, PickList, ReaderText};
use crate::composer::TextBuffer;
use crate::keymap::{KeyBinding, all_bindings};

#[derive(Debug)]
pub(crate) enum Overlay {
    Palette(Palette),
    /// The form for a new session; its fields are in `TuiState::form`.
    NewSession,
    Reader(ReaderText),
    AskForm(AskFormInput),
    PickList(PickList),
    Rename(RenameInput),
}

/// The command palette.
#[derive(Debug, Default)]
pub(crate) struct Palette {
    pub(crate) query: TextBuffer,
    pub(crate) selected: usize,
}

impl Palette {
    /// Returns the commands whose title has all words of the query.
    pub(crate) fn matches(&self) -> Vec<&'static KeyBinding> {
        let words: Vec<String> =
            self.query.text().split_whitespace().map(str::to_lowercase).collect();
        let fits = |binding: &&KeyBinding| {
            let title = binding.title.to_lowercase();
            words.iter().all(|word| title.contains(word))
        };
        all_bindings().filter(|binding| binding.is_in_palette()).filter(fits).collect()
    }
}

/// The new title of a session.
#[derive(Debug, Default)]
pub(crate) struct RenameInput {
    pub(crate) session: String,
    pub(crate) title: TextBuffer,
}
