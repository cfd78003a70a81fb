//! A text with a cursor. It is edited by grapheme clusters, as in readline.

use unicode_segmentation::UnicodeSegmentation;

use crate::keymap::EditCommand;

/// The changes that can be undone.
const MAX_UNDO_STEPS: usize = 100;

/// A text that is typed.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextBuffer {
    text: String,
    /// A byte index between two grapheme clusters.
    cursor: usize,
    /// The text that was cut or cleared last.
    killed: String,
    /// Earlier texts with their cursors, the newest last.
    undo: Vec<(String, usize)>,
    /// The last command cut text: the next cut joins it.
    is_killing: bool,
    /// The last change was the typing of a character: the next one belongs to the same step.
    is_typing: bool,
}

impl TextBuffer {
    /// Makes a buffer with this text and the cursor at its end.
    pub(crate) fn with_text(text: &str) -> Self {
        Self { text: text.to_owned(), cursor: text.len(), ..Self::default() }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) const fn cursor(&self) -> usize {
        self.cursor
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Replaces the whole text. The old one can be brought back by an undo.
    pub(crate) fn set_text(&mut self, text: &str) {
        self.remember();
        self.text = text.to_owned();
        self.cursor = self.text.len();
    }

    /// Empties the buffer and returns its text. It can be put in again with `Yank`.
    pub(crate) fn clear(&mut self) -> String {
        self.remember();
        self.cursor = 0;
        let text = std::mem::take(&mut self.text);
        self.killed.clone_from(&text);
        text
    }

    pub(crate) fn type_char(&mut self, character: char) {
        if !self.is_typing || character.is_whitespace() {
            self.remember();
        }
        self.is_killing = false;
        self.text.insert(self.cursor, character);
        self.cursor += character.len_utf8();
        self.is_typing = true;
    }

    pub(crate) fn insert(&mut self, text: &str) {
        self.remember();
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
    }

    pub(crate) fn set_cursor(&mut self, cursor: usize) {
        self.is_typing = false;
        self.cursor = cursor;
    }

    /// Replaces the text between a place and the cursor.
    pub(crate) fn replace_before_cursor(&mut self, start: usize, text: &str) {
        self.remember();
        self.text.replace_range(start..self.cursor, text);
        self.cursor = start + text.len();
    }

    /// Ends the line before the cursor: a backslash there is replaced by the line break. Returns
    /// false without a backslash.
    pub(crate) fn break_line_at_backslash(&mut self) -> bool {
        if !self.text[..self.cursor].ends_with('\\') {
            return false;
        }
        self.remember();
        self.text.replace_range(self.cursor - 1..self.cursor, "\n");
        true
    }

    /// Runs an editing command. Returns false if the cursor could not move: it is at an edge.
    pub(crate) fn edit(&mut self, command: EditCommand) -> bool {
        let before = self.cursor;
        let length = self.text.len();
        let was_killing = std::mem::take(&mut self.is_killing);
        match command {
            EditCommand::NewLine => self.insert("\n"),
            EditCommand::Left => self.cursor = self.cluster_before(),
            EditCommand::Right => self.cursor = self.cluster_after(),
            EditCommand::Up => return self.move_up(),
            EditCommand::Down => return self.move_down(),
            EditCommand::WordLeft => self.cursor = self.word_before(),
            EditCommand::WordRight => self.cursor = self.word_after(),
            EditCommand::LineStart => self.cursor = self.line_start(),
            EditCommand::LineEnd => self.cursor = self.line_end(),
            EditCommand::DeleteBefore => self.remove(self.cluster_before(), before),
            EditCommand::DeleteAfter => self.remove(before, self.cluster_after()),
            EditCommand::KillWord => self.kill(self.word_before(), before, was_killing),
            EditCommand::KillToLineStart => self.kill(self.line_start(), before, was_killing),
            EditCommand::KillToLineEnd => {
                // At the end of a line the line break is cut.
                let end = self.line_end();
                self.kill(
                    before,
                    if end == before { self.cluster_after() } else { end },
                    was_killing,
                );
            }
            EditCommand::Yank => {
                let killed = self.killed.clone();
                self.insert(&killed);
            }
            EditCommand::Undo => {
                if let Some((text, cursor)) = self.undo.pop() {
                    (self.text, self.cursor) = (text, cursor);
                }
            }
        }
        self.is_typing = false;
        self.cursor != before || self.text.len() != length
    }

    fn remember(&mut self) {
        self.is_typing = false;
        if self.undo.len() >= MAX_UNDO_STEPS {
            self.undo.remove(0);
        }
        self.undo.push((self.text.clone(), self.cursor));
    }

    fn remove(&mut self, from: usize, to: usize) {
        if from < to {
            self.remember();
            self.text.replace_range(from..to, "");
            self.cursor = from;
        }
    }

    /// Cuts a part of the text. Cuts in a row are put in again together, in the order of the text.
    fn kill(&mut self, from: usize, to: usize, joins: bool) {
        self.is_killing = true;
        if from < to {
            let cut = &self.text[from..to];
            self.killed = match (joins, to == self.cursor) {
                (true, true) => format!("{cut}{}", self.killed),
                (true, false) => format!("{}{cut}", self.killed),
                (false, _) => cut.to_owned(),
            };
            self.remove(from, to);
        }
    }

    fn cluster_before(&self) -> usize {
        self.text[..self.cursor]
            .grapheme_indices(true)
            .next_back()
            .map_or(0, |(at, _)| at)
    }

    fn cluster_after(&self) -> usize {
        let rest = &self.text[self.cursor..];
        rest.graphemes(true)
            .next()
            .map_or(self.text.len(), |cluster| self.cursor + cluster.len())
    }

    fn word_before(&self) -> usize {
        let words = self.text[..self.cursor].split_word_bound_indices();
        words
            .rev()
            .find(|(_, word)| word.chars().any(char::is_alphanumeric))
            .map_or(0, |(at, _)| at)
    }

    fn word_after(&self) -> usize {
        let mut words = self.text[self.cursor..].split_word_bound_indices();
        let word = words.find(|(_, word)| word.chars().any(char::is_alphanumeric));
        word.map_or(self.text.len(), |(at, word)| self.cursor + at + word.len())
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..]
            .find('\n')
            .map_or(self.text.len(), |at| self.cursor + at)
    }

    fn move_up(&mut self) -> bool {
        let start = self.line_start();
        if start == 0 {
            return false;
        }
        let column = self.text[start..self.cursor].graphemes(true).count();
        let above = self.text[..start - 1].rfind('\n').map_or(0, |at| at + 1);
        self.cursor = self.place_in_line(above, start - 1, column);
        self.is_typing = false;
        true
    }

    fn move_down(&mut self) -> bool {
        let end = self.line_end();
        if end == self.text.len() {
            return false;
        }
        let column = self.text[self.line_start()..self.cursor].graphemes(true).count();
        let below_end = self.text[end + 1..].find('\n').map_or(self.text.len(), |at| end + 1 + at);
        self.cursor = self.place_in_line(end + 1, below_end, column);
        self.is_typing = false;
        true
    }

    /// Returns the index of the cluster with this number between two indices, or the later index.
    fn place_in_line(&self, start: usize, end: usize, column: usize) -> usize {
        self.text[start..end]
            .grapheme_indices(true)
            .nth(column)
            .map_or(end, |(at, _)| start + at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types the text with `|` for the cursor, runs the commands and returns the outcome in the
    /// same way.
    fn after(start: &str, commands: &[EditCommand]) -> String {
        let cursor = start.find('|').unwrap();
        let mut buffer = TextBuffer::with_text(&start.replace('|', ""));
        buffer.cursor = cursor;
        for command in commands {
            buffer.edit(*command);
        }
        let mut text = buffer.text().to_owned();
        text.insert(buffer.cursor(), '|');
        text
    }

    #[test]
    fn cursor_moves_and_deletes_by_grapheme_clusters() {
        assert_eq!(after("a👩‍👩‍👧|b", &[EditCommand::Left]), "a|👩‍👩‍👧b");
        assert_eq!(after("ae\u{301}|", &[EditCommand::DeleteBefore]), "a|");
        assert_eq!(after("|日本", &[EditCommand::Right, EditCommand::DeleteAfter]), "日|");
        assert_eq!(
            after("|", &[EditCommand::DeleteBefore, EditCommand::Left, EditCommand::DeleteAfter]),
            "|"
        );
    }

    #[test]
    fn words_and_lines_are_cut_and_put_in_again() {
        assert_eq!(after("one two|", &[EditCommand::KillWord]), "one |");
        assert_eq!(after("one two|", &[EditCommand::KillWord, EditCommand::Yank]), "one two|");
        let two_cuts = [EditCommand::KillWord, EditCommand::KillWord, EditCommand::Yank];
        assert_eq!(after("one two three|", &two_cuts), "one two three|", "cuts in a row join");
        assert_eq!(after("a\nbc|d\ne", &[EditCommand::KillToLineStart]), "a\n|d\ne");
        assert_eq!(
            after("a\n|bcd\ne", &[EditCommand::KillToLineEnd, EditCommand::KillToLineEnd]),
            "a\n|e"
        );
        assert_eq!(after("one |two", &[EditCommand::WordRight, EditCommand::WordLeft]), "one |two");
    }

    #[test]
    fn lines_above_and_below_keep_the_column_and_the_edges_are_told() {
        assert_eq!(after("ab\ncde|", &[EditCommand::Up]), "ab|\ncde");
        assert_eq!(after("a|b\n\ncd", &[EditCommand::Down, EditCommand::Down]), "ab\n\n|cd");
        assert!(!TextBuffer::with_text("one").edit(EditCommand::Up));
        assert!(!TextBuffer::with_text("one").edit(EditCommand::Down));
    }

    #[test]
    fn cleared_text_comes_back_and_undo_takes_words() {
        let mut buffer = TextBuffer::default();
        "two words".chars().for_each(|character| buffer.type_char(character));
        buffer.edit(EditCommand::Undo);
        assert_eq!(buffer.text(), "two");
        assert_eq!(buffer.clear(), "two");
        buffer.edit(EditCommand::Yank);
        assert_eq!(buffer.text(), "two");
    }
}
