//! Search in rows: the words of a row, the words of a query, and the piece of a row that shows a
//! match (rule 13.11).
//!
//! It is *not* an index: that is the store's. Both sides of a comparison come from here, so that an
//! index needs to know nothing about languages.

mod query;
mod row_text;
mod snippet;
mod words;

pub use query::{MAX_QUERY_BYTES, MAX_QUERY_WORDS, QueryError, SearchPhrase, SearchQuery};
pub use row_text::{SEARCHED_KINDS, index_words};
pub use snippet::make_snippet;

#[cfg(test)]
mod tests;
