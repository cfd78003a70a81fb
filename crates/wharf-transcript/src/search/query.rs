//! The query of a search: words that must all occur, and quoted phrases.

use super::words::split_words;

/// The most bytes of a query.
pub const MAX_QUERY_BYTES: usize = 1_000;
/// The most words of a query, those of phrases among them.
pub const MAX_QUERY_WORDS: usize = 32;
/// A shorter beginning of a word would match too much to be of use; it is looked for as a whole
/// word.
const MIN_PREFIX_CHARS: usize = 3;

/// Words that follow one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPhrase {
    pub words: Vec<String>,
    /// True if the last word may go on.
    pub is_prefix: bool,
}

/// A query: phrases that must all occur in a row, in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchQuery {
    phrases: Vec<SearchPhrase>,
}

/// Says why a text cannot be used as a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    #[error("there is no word to look for")]
    Empty,
    #[error("a query has at most {MAX_QUERY_BYTES} bytes")]
    TooLong,
    #[error("a query has at most {MAX_QUERY_WORDS} words")]
    TooManyWords,
}

impl SearchQuery {
    /// Reads a query. Every text of a fair length that has a word is one: there are no operators
    /// that could be misspelt.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        if text.len() > MAX_QUERY_BYTES {
            return Err(QueryError::TooLong);
        }
        let mut phrases = Vec::new();
        for (index, piece) in text.split('"').enumerate() {
            // Every second piece is between quotes.
            match index % 2 {
                0 => phrases.extend(piece.split_whitespace().filter_map(read_phrase)),
                _ => phrases.extend(read_phrase(piece)),
            }
        }
        // A closing quote says that the last word is complete.
        let is_closed =
            text.trim_end().ends_with('"') && text.matches('"').count().is_multiple_of(2);
        if let Some(last) = phrases.last_mut().filter(|_| !is_closed) {
            last.is_prefix =
                last.words.last().is_some_and(|word| word.chars().count() >= MIN_PREFIX_CHARS);
        }
        match phrases.iter().map(|phrase| phrase.words.len()).sum::<usize>() {
            0 => Err(QueryError::Empty),
            count if count > MAX_QUERY_WORDS => Err(QueryError::TooManyWords),
            _ => Ok(Self { phrases }),
        }
    }

    pub fn phrases(&self) -> &[SearchPhrase] {
        &self.phrases
    }
}

/// Reads words that follow one another. A path or a name with punctuation has several.
fn read_phrase(text: &str) -> Option<SearchPhrase> {
    let words: Vec<String> = split_words(text).into_iter().map(|span| span.word).collect();
    (!words.is_empty()).then_some(SearchPhrase { words, is_prefix: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phrases(text: &str) -> Vec<String> {
        let query = SearchQuery::parse(text).unwrap();
        let show = |phrase: &SearchPhrase| {
            phrase.words.join("+") + if phrase.is_prefix { "*" } else { "" }
        };
        query.phrases().iter().map(show).collect()
    }

    #[test]
    fn query_has_words_phrases_and_a_last_word_that_may_go_on() {
        assert_eq!(phrases("Fix the Pars"), ["fix", "the", "pars*"]);
        assert_eq!(phrases("\"fix the\" parser"), ["fix+the", "parser*"]);
        assert_eq!(
            phrases("parser \"fix the\" "),
            ["parser", "fix+the"],
            "a closed phrase is complete"
        );
        assert_eq!(
            phrases("parser \"fix the"),
            ["parser", "fix+the*"],
            "a phrase that is being typed"
        );
        assert_eq!(phrases("src/row_sto"), ["src+row+sto*"]);
        assert_eq!(phrases("src/a.rs"), ["src+a+rs"], "two letters are a whole word");
        assert_eq!(phrases("解析"), ["解+析"]);
    }

    #[test]
    fn operators_are_words_and_punctuation_is_nothing() {
        assert_eq!(
            phrases("a AND NEAR(b OR) -c {d} : ^e*"),
            ["a", "and", "near+b", "or", "c", "d", "e"]
        );
        for text in ["", " ", "\"", "\"\"", "*", "()", "\u{0}", "…"] {
            assert_eq!(SearchQuery::parse(text), Err(QueryError::Empty), "{text:?}");
        }
        assert_eq!(SearchQuery::parse(&"x".repeat(10_000)), Err(QueryError::TooLong));
        assert_eq!(SearchQuery::parse(&"x ".repeat(33)), Err(QueryError::TooManyWords));
    }
}
