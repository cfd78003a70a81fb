//! All keys in one table (`table/`): each command with its name, its keys and the place where they
//! act. Updates, the palette, the help, the bottom line and the documentation read this table and
//! nothing else.

mod commands;
mod key;
mod table;

pub use commands::{
    AskCommand, ComposerCommand, EditCommand, FormCommand, GlobalCommand, ListCommand, MenuCommand,
    ReaderCommand, TranscriptCommand, TuiCommand,
};
pub use key::{KeyCode, KeyPress};

use std::collections::HashMap;

/// The place in which a key acts. A key of `Everywhere` acts unless the focused place binds it
/// otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyScope {
    Everywhere,
    List,
    Transcript,
    Composer,
    /// Every field that text is typed into.
    TextField,
    Ask,
    /// The form for a new session.
    Form,
    /// A list of choices over the screen: the palette, a completion, a question.
    Menu,
    /// A text over the whole screen: the help, a diff.
    Reader,
}

/// A command with its keys.
#[derive(Clone, Copy, Debug)]
pub struct KeyBinding {
    pub scope: KeyScope,
    pub command: TuiCommand,
    /// Each is a key or a chord of two, such as `ctrl-x ctrl-e`. The first one is shown.
    pub keys: &'static [&'static str],
    /// The command in the palette and the help: a sentence without its full stop.
    pub title: &'static str,
    /// The command in the bottom line, if it is shown there.
    pub short: Option<&'static str>,
}

impl KeyBinding {
    /// Returns true if the palette lists it: commands that need no place on the screen.
    pub const fn is_in_palette(&self) -> bool {
        matches!(
            self.scope,
            KeyScope::Everywhere | KeyScope::List | KeyScope::Transcript | KeyScope::Composer
        ) && !matches!(self.command, TuiCommand::Edit(_))
    }

    /// Returns the first key as people write it: `Ctrl-P`.
    pub fn key_label(&self) -> String {
        self.keys.first().map(|keys| label_chord(keys)).unwrap_or_default()
    }

    /// Returns all keys as people write them.
    pub fn key_labels(&self) -> Vec<String> {
        self.keys.iter().map(|keys| label_chord(keys)).collect()
    }
}

fn label_chord(keys: &str) -> String {
    let presses = keys.split(' ').filter_map(KeyPress::parse);
    presses.map(|press| press.to_string()).collect::<Vec<_>>().join(" ")
}

/// Returns the bindings of all places, in the order of the help.
pub fn all_bindings() -> impl Iterator<Item = &'static KeyBinding> {
    table::TABLES.iter().flat_map(|table| table.iter())
}

/// The outcome of a key press.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyMeaning {
    Run(TuiCommand),
    /// The first key of a chord.
    Prefix,
    Unbound,
}

/// Finds commands by keys.
#[derive(Debug)]
pub(crate) struct Keymap {
    chords: HashMap<(KeyScope, Vec<KeyPress>), TuiCommand>,
}

impl Keymap {
    pub(crate) fn new() -> Self {
        let mut chords = HashMap::new();
        for binding in all_bindings() {
            for keys in binding.keys {
                let presses = keys.split(' ').filter_map(KeyPress::parse).collect();
                chords.insert((binding.scope, presses), binding.command);
            }
        }
        Self { chords }
    }

    /// Returns the meaning of a key after the first key of a chord, if there was one. Earlier
    /// scopes go first. The second key of a chord acts in upper case too, since people write
    /// `Ctrl-X R`.
    pub(crate) fn find(
        &self,
        scopes: &[KeyScope],
        prefix: Option<KeyPress>,
        key: KeyPress,
    ) -> KeyMeaning {
        let meaning = self.find_exact(scopes, prefix, key);
        if let KeyCode::Char(letter) = key.code
            && prefix.is_some()
            && meaning == KeyMeaning::Unbound
        {
            let lower = KeyPress { code: KeyCode::Char(letter.to_ascii_lowercase()), ..key };
            return self.find_exact(scopes, prefix, lower);
        }
        meaning
    }

    fn find_exact(
        &self,
        scopes: &[KeyScope],
        prefix: Option<KeyPress>,
        key: KeyPress,
    ) -> KeyMeaning {
        let chord: Vec<KeyPress> = prefix.into_iter().chain([key]).collect();
        for scope in scopes {
            if let Some(command) = self.chords.get(&(*scope, chord.clone())) {
                return KeyMeaning::Run(*command);
            }
            let begins = |(bound, presses): &(KeyScope, Vec<KeyPress>)| {
                bound == scope && presses.len() > chord.len() && presses.starts_with(&chord)
            };
            if self.chords.keys().any(begins) {
                return KeyMeaning::Prefix;
            }
        }
        KeyMeaning::Unbound
    }
}

#[cfg(test)]
mod tests;
