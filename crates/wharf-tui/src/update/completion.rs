//! Completion in the composer: commands of the agent after `/`, files after `@`.

use wharf_api::FileList;

use crate::api_call::find_files;
use crate::model::{CallPurpose, Completion, CompletionItem, TuiState};

/// The most files of a completion.
const MAX_FILES: usize = 8;

impl TuiState {
    /// Brings the completion up to date with the text and the cursor.
    pub(super) fn refresh_completion(&mut self) {
        let Some(open) = &mut self.open else { return };
        let text = open.composer.text();
        let cursor = open.composer.cursor();
        let Some(start) = find_completed_word(text, cursor) else {
            open.composing.completion = None;
            open.composing.closed_completion = None;
            return;
        };
        let word = text[start..cursor].to_owned();
        if open.composing.closed_completion == Some(start) {
            return;
        }
        if let Some(beginning) = word.strip_prefix('/') {
            let items = self.find_commands(beginning);
            self.set_completion(Completion { start, word, items, selected: 0 });
            return;
        }
        let query = word[1..].to_owned();
        let held = open.composing.completion.take().filter(|held| held.start == start);
        let mut items = held.map(|held| held.items).unwrap_or_default();
        // The host still looks for the longer word. Of the files that it found before, those that
        // fit stay.
        items.retain(|item| item.text.to_lowercase().contains(&query.to_lowercase()));
        let session = open.id.clone();
        open.composing.completion = Some(Completion { start, word, items, selected: 0 });
        if self.connection.is_connected() {
            self.call(
                find_files(&session, &query, MAX_FILES),
                CallPurpose::Files { session, query },
            );
        }
    }

    fn set_completion(&mut self, completion: Completion) {
        if let Some(open) = &mut self.open {
            open.composing.completion =
                Some(completion).filter(|completion| !completion.items.is_empty());
        }
    }

    fn find_commands(&self, beginning: &str) -> Vec<CompletionItem> {
        let settings = self.open.as_ref().and_then(|open| open.rows.state()?.settings.as_deref());
        let beginning = beginning.to_lowercase();
        let commands = settings.map(|settings| settings.commands.as_slice()).unwrap_or_default();
        let item = |command: &wharf_api::AgentCommandInfo| CompletionItem {
            text: format!("/{}", command.name),
            detail: command.description.clone().unwrap_or_default(),
        };
        let fitting = commands
            .iter()
            .filter(|command| command.name.to_lowercase().starts_with(&beginning));
        fitting.map(item).collect()
    }

    /// Shows the files that the host found, if the person still looks for them.
    pub(super) fn show_found_files(&mut self, session: &str, query: &str, found: FileList) {
        let Some(open) = self.open.as_mut().filter(|open| open.id == session) else { return };
        let Some(completion) = &mut open.composing.completion else { return };
        if completion.word.strip_prefix('@') != Some(query) {
            return;
        }
        let item = |file: wharf_api::FileInfo| CompletionItem {
            text: format!("@{}", file.path),
            detail: if file.kind == wharf_api::FileKind::Directory { "directory" } else { "" }
                .to_owned(),
        };
        completion.items = found.files.into_iter().take(MAX_FILES).map(item).collect();
        completion.selected = 0;
    }

    /// Drops a completion whose word is not before the cursor any more: the text or the cursor was
    /// changed from elsewhere.
    pub(super) fn drop_stale_completion(&mut self) {
        let Some(open) = &mut self.open else { return };
        let text = open.composer.text();
        let cursor = open.composer.cursor();
        let fits = |held: &Completion| text.get(held.start..cursor) == Some(held.word.as_str());
        if !open.composing.completion.as_ref().is_none_or(fits) {
            open.composing.completion = None;
        }
    }

    /// Returns true if a completion with items is in view.
    pub(crate) fn has_completion(&self) -> bool {
        let completion = self.open.as_ref().and_then(|open| open.composing.completion.as_ref());
        completion.is_some_and(|completion| !completion.items.is_empty())
    }

    /// Moves the selection of the completion.
    pub(super) fn move_completion(&mut self, is_down: bool) {
        let completion = self.open.as_mut().and_then(|open| open.composing.completion.as_mut());
        let Some(completion) = completion else { return };
        let count = completion.items.len().max(1);
        let step = if is_down { 1 } else { count - 1 };
        completion.selected = (completion.selected + step) % count;
    }

    /// Takes the selected item. Returns false if the text has it already, so that Enter can send.
    pub(super) fn take_completion(&mut self) -> bool {
        let Some(open) = &mut self.open else { return false };
        let Some(completion) = open.composing.completion.take() else { return false };
        let Some(item) = completion.items.get(completion.selected) else { return false };
        if item.text == completion.word {
            return false;
        }
        open.composer
            .replace_before_cursor(completion.start, &format!("{} ", item.text));
        self.note_draft();
        true
    }

    /// Closes the completion and keeps the text. Returns false if none is open.
    pub(super) fn close_completion(&mut self) -> bool {
        let Some(open) = &mut self.open else { return false };
        let Some(completion) = open.composing.completion.take() else { return false };
        open.composing.closed_completion = Some(completion.start);
        !completion.items.is_empty()
    }
}

/// Returns the place of the `/` or `@` of the word before the cursor, if a completion belongs
/// there.
fn find_completed_word(text: &str, cursor: usize) -> Option<usize> {
    let before = &text[..cursor];
    let start = before
        .rfind(char::is_whitespace)
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    let word = &before[start..];
    let is_command = start == 0 && word.starts_with('/') && !word[1..].contains('/');
    (is_command || word.starts_with('@')).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::find_completed_word;

    #[test]
    fn completion_belongs_to_a_slash_at_the_start_and_an_at_anywhere() {
        let place = |text: &str| find_completed_word(text, text.len());
        assert_eq!(place("/he"), Some(0));
        assert_eq!(place("say /he"), None);
        assert_eq!(place("/usr/bin"), None, "a path");
        assert_eq!(place("see @src/p"), Some(4));
        assert_eq!(place("a@b"), None, "an address");
        assert_eq!(place("日本 @d"), Some(7));
        assert_eq!(place("@done "), None);
    }
}
