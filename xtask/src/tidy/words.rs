//! Rule: comments and test names put their subject first. A sentence that opens with "What", "Who"
//! or "Nobody" hides it.

use super::source::Source;
use super::{Finding, Repo};

const RULE: &str = "subject-first";

const COMMENT_OPENINGS: &[&str] =
    &["What", "Who", "Whose", "Whoever", "Whatever", "Those", "One that", "None", "Nobody"];
const TEST_NAME_OPENINGS: &[&str] = &[
    "what_",
    "who_",
    "whose_",
    "whoever_",
    "whatever_",
    "whichever_",
    "those_",
    "one_that_",
    "none_",
    "nobody_",
];

pub(super) fn check(repo: &Repo) -> Vec<Finding> {
    repo.sources
        .iter()
        .flat_map(|source| check_comments(source).chain(check_test_names(source)))
        .collect()
}

/// Yields the first lines of the comments that are not in test code.
pub(super) fn product_comments(source: &Source) -> impl Iterator<Item = &str> + '_ {
    let starts: Vec<usize> = std::iter::once(0)
        .chain(source.text.match_indices('\n').map(|(at, _)| at + 1))
        .collect();
    comments(source)
        .filter(move |(line, _)| !source.is_test_at(starts[line - 1]))
        .map(|(_, text)| text)
}

pub(super) fn hides_subject(comment: &&str) -> bool {
    hidden_opening(comment).is_some()
}

/// Returns the opening of a sentence that hides its subject.
pub(super) fn hidden_opening(sentence: &str) -> Option<&'static str> {
    COMMENT_OPENINGS.iter().copied().find(|opening| opens_with(sentence, opening))
}

fn check_comments(source: &Source) -> impl Iterator<Item = Finding> + '_ {
    comments(source).filter_map(|(line, text)| {
        let opening = hidden_opening(text)?;
        let message = format!("the comment opens with {opening:?}; name the subject first");
        Some(Finding::failure(&source.path, line, RULE, message))
    })
}

/// Yields the first line of each comment with its line number.
fn comments(source: &Source) -> impl Iterator<Item = (usize, &str)> + '_ {
    let lines = source.text.lines().zip(source.code.lines()).enumerate();
    let mut in_comment = false;
    lines.filter_map(move |(number, (text, code))| {
        let comment = text
            .get(code.trim_end().len()..)
            .unwrap_or_default()
            .trim_start()
            .strip_prefix("//");
        let is_whole_line = comment.is_some() && code.trim().is_empty();
        let continues = std::mem::replace(&mut in_comment, is_whole_line) && is_whole_line;
        let words = comment?.trim_start_matches(['/', '!']).trim_start();
        (!continues).then_some((number + 1, words))
    })
}

fn opens_with(text: &str, opening: &str) -> bool {
    text.strip_prefix(opening)
        .is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '`'))
}

fn check_test_names(source: &Source) -> impl Iterator<Item = Finding> + '_ {
    source.find("fn ").filter(|at| source.is_test_at(*at)).filter_map(|at| {
        let name = &source.code[at + "fn ".len()..];
        let opening = TEST_NAME_OPENINGS.iter().find(|opening| name.starts_with(**opening))?;
        let message = format!("the test's name opens with `{opening}`; name the subject first");
        Some(Finding::failure(&source.path, source.line_of(at), RULE, message))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source::new(Path::new(path), text.to_owned())
    }

    #[test]
    fn comments_that_hide_their_subject_are_found_once_each() {
        let text = "//! What this is.\n\n/// The host. Who asks is told.\n/// What follows is the same comment.\nfn a() {} // Nobody calls it.\n";
        let source = source("crates/a/src/a.rs", text);
        let lines: Vec<usize> = check_comments(&source).map(|finding| finding.line).collect();
        assert_eq!(lines, [1, 5]);
    }

    #[test]
    fn words_inside_of_strings_and_longer_words_are_no_openings() {
        let text = "let a = \"// What\"; // Nonetheless.\n// Whatsoever\n\n// `None` is fine\n";
        assert_eq!(check_comments(&source("crates/a/src/a.rs", text)).count(), 0);
    }

    #[test]
    fn test_names_that_hide_their_subject_are_found() {
        let text = "#[test]\nfn who_asks_is_told() {}\nfn host_answers_whoever_asks() {}\n";
        assert_eq!(check_test_names(&source("crates/a/tests/it/a.rs", text)).count(), 1);
        assert_eq!(check_test_names(&source("crates/a/src/a.rs", text)).count(), 0);
    }
}
