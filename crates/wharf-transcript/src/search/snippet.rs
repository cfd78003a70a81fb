//! The piece of a row that shows why a search found it.

use wharf_api::{SnippetPart, TranscriptRow};

use super::query::{SearchPhrase, SearchQuery};
use super::row_text::searched_texts;
use super::words::{WordSpan, split_words};

/// The most characters of a snippet, without the signs that it goes on.
const MAX_SNIPPET_CHARS: usize = 200;
/// The characters before the first match.
const LEAD_CHARS: usize = 50;

/// A text of a row with the places that match.
struct MatchedText<'a> {
    text: &'a str,
    /// Byte ranges in their order that do not overlap.
    ranges: Vec<(usize, usize)>,
    /// How many phrases of the query it has.
    phrases: usize,
}

/// Returns a piece of the row's text around the first match, in parts that match and parts that do
/// not. Of several texts it is the one with the most of the query.
pub fn make_snippet(row: &TranscriptRow, query: &SearchQuery) -> Vec<SnippetPart> {
    let mut best: Option<MatchedText<'_>> = None;
    for text in searched_texts(row) {
        let found = find_matches(text, query);
        if best.as_ref().is_none_or(|best| found.phrases > best.phrases) {
            best = Some(found);
        }
    }
    best.map(|found| cut_snippet(&found)).unwrap_or_default()
}

fn find_matches<'a>(text: &'a str, query: &SearchQuery) -> MatchedText<'a> {
    let words = split_words(text);
    let mut ranges = Vec::new();
    let mut phrases = 0;
    for phrase in query.phrases() {
        let found = words.windows(phrase.words.len()).filter(|window| is_match(window, phrase));
        let before = ranges.len();
        ranges.extend(found.filter_map(|window| Some((window.first()?.start, window.last()?.end))));
        phrases += usize::from(ranges.len() > before);
    }
    MatchedText { text, ranges: join_ranges(ranges), phrases }
}

fn is_match(window: &[WordSpan], phrase: &SearchPhrase) -> bool {
    let last = phrase.words.len().saturating_sub(1);
    window.iter().zip(&phrase.words).enumerate().all(|(index, (span, word))| {
        match phrase.is_prefix && index == last {
            true => span.word.starts_with(word.as_str()),
            false => span.word == *word,
        }
    })
}

/// Returns ranges in their order that do not overlap.
fn join_ranges(mut ranges: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    ranges.sort_unstable();
    let mut joined: Vec<(usize, usize)> = Vec::new();
    for (start, end) in ranges {
        match joined.last_mut().filter(|last| start < last.1) {
            Some(last) => last.1 = last.1.max(end),
            None => joined.push((start, end)),
        }
    }
    joined
}

fn cut_snippet(found: &MatchedText<'_>) -> Vec<SnippetPart> {
    let first = found.ranges.first().map_or(0, |range| range.0);
    let start = snippet_start(found.text, first);
    let rest = &found.text[start..];
    let end = rest
        .char_indices()
        .nth(MAX_SNIPPET_CHARS)
        .map_or(found.text.len(), |(offset, _)| start + offset);
    let mut parts = Vec::new();
    let mut at = start;
    for (from, to) in &found.ranges {
        let from = (*from).clamp(at, end);
        let to = (*to).clamp(at, end);
        push_part(&mut parts, &found.text[at..from], false);
        push_part(&mut parts, &found.text[from..to], true);
        at = at.max(to);
    }
    push_part(&mut parts, &found.text[at..end], false);
    if start > 0 {
        mark_cut(&mut parts, true);
    }
    if end < found.text.len() {
        mark_cut(&mut parts, false);
    }
    parts
}

/// Returns where a snippet begins: some characters before the first match, after a space if there
/// is one.
fn snippet_start(text: &str, first: usize) -> usize {
    let before = &text[..first];
    let Some((start, _)) = before.char_indices().rev().nth(LEAD_CHARS) else { return 0 };
    let space = before[start..].char_indices().find(|(_, c)| c.is_whitespace());
    space.map_or(start, |(offset, c)| start + offset + c.len_utf8())
}

/// Adds text in one line.
fn push_part(parts: &mut Vec<SnippetPart>, text: &str, is_match: bool) {
    if text.is_empty() {
        return;
    }
    let text = text
        .chars()
        .map(|c| if c.is_whitespace() || c.is_control() { ' ' } else { c })
        .collect();
    parts.push(SnippetPart { text, is_match });
}

/// Puts the sign that the text goes on at an end.
fn mark_cut(parts: &mut Vec<SnippetPart>, at_start: bool) {
    let neighbour = if at_start { parts.first_mut() } else { parts.last_mut() };
    match neighbour {
        Some(part) if !part.is_match && at_start => part.text.insert(0, '…'),
        Some(part) if !part.is_match => part.text.push('…'),
        Some(_) | None => {
            let cut = SnippetPart { text: "…".to_owned(), is_match: false };
            if at_start { parts.insert(0, cut) } else { parts.push(cut) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snippet(text: &str, query: &str) -> String {
        let found = find_matches(text, &SearchQuery::parse(query).unwrap());
        let show = |part: &SnippetPart| {
            if part.is_match { format!("[{}]", part.text) } else { part.text.clone() }
        };
        cut_snippet(&found).iter().map(show).collect()
    }

    #[test]
    fn words_phrases_and_beginnings_are_marked() {
        assert_eq!(snippet("Fix the Parser\nin Größe", "gros parser"), "Fix the [Parser] in Größe");
        assert_eq!(
            snippet("Fix the Parser in Größe", "parser gros"),
            "Fix the [Parser] in [Größe]"
        );
        assert_eq!(
            snippet("look at src/row_store.rs now", "src/row"),
            "look at [src/row]_store.rs now"
        );
        assert_eq!(snippet("a b a b", "\"a b a\" b"), "[a b a] [b]");
        assert_eq!(snippet("nothing here", "else"), "nothing here");
    }

    #[test]
    fn long_text_is_cut_on_both_sides_between_characters() {
        let text = format!("{} Needle {}", "é😀x ".repeat(200), "é😀y ".repeat(200));
        let shown = snippet(&text, "needle");
        assert!(
            shown.starts_with('…') && shown.ends_with('…') && shown.contains("[Needle]"),
            "{shown}"
        );
        assert!(shown.chars().count() <= MAX_SNIPPET_CHARS + 4, "{shown}");
        let long = snippet(&"x".repeat(5_000), &"x".repeat(70));
        assert_eq!(long.chars().filter(|c| *c == 'x').count(), MAX_SNIPPET_CHARS, "{long}");
    }
}
