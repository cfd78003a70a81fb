//! The index of words: finds the rows of all transcripts that have given words, the newest first.
//!
//! A row has a place in the index. Places are in the order of the times at which rows were created,
//! so that the newest hits come first without sorting, and a page reads little more than it
//! returns.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Statement, Transaction, params};

use super::rows::{ROW_COLUMNS, convert_row};
use super::sessions::find_session;
use super::sqlite::{row_key, session_of_key};
use super::{FoundRow, FoundRows, IndexStep, RowWords, WordPhrase, WordSearch};
use crate::LogId;

/// A place holds the time in milliseconds above these bits, and below them a number for rows of the
/// same millisecond.
const TIE_BITS: u32 = 21;
const MAX_MILLIS: u64 = (1 << (63 - TIE_BITS)) - 1;
/// A selection of at most so many sessions is looked up in the index; a larger one is checked hit
/// by hit.
const MAX_INDEXED_SESSIONS: usize = 64;
/// The rows that are taken out of the index in one transaction.
const REMOVED_AT_ONCE: i64 = 16;

/// The words are divided by spaces already, so the plainest tokenizer will do. `tags` has a word
/// for the session and one for the kind, by which a selection is as quick as a word. The index of
/// beginnings makes short ones cheap: without it SQLite would collect the rows of every word that
/// begins so. With `secure-delete` words of deleted rows leave the file at once.
///
/// `unindexed` has the rows that were written after their words. It changes together with the rows,
/// so that a crash forgets none of them.
pub(super) const CREATE_WORD_INDEX: &str = "
    CREATE VIRTUAL TABLE search USING fts5(key UNINDEXED, tags, words, tokenize = 'ascii', prefix = '3');
    INSERT INTO search (search, rank) VALUES ('secure-delete', 1);
    CREATE TABLE row_place (key INTEGER PRIMARY KEY, place INTEGER NOT NULL);
    CREATE TABLE unindexed (key INTEGER PRIMARY KEY);
";

/// Writes the words of the next rows of a transcript that wait for it, in the order of their
/// numbers. Returns true if there may be more of them.
pub(super) fn index_some_rows(
    transaction: &Transaction<'_>,
    id: &LogId,
    step: &IndexStep<'_>,
) -> rusqlite::Result<bool> {
    let Some(session) = find_session(transaction, id)?.map(|session| session.number) else {
        return Ok(false);
    };
    let mut select = transaction.prepare(
        "SELECT key, seq, rev, kind, turn, json, checksum, place
         FROM unindexed JOIN row USING (key) LEFT JOIN row_place USING (key)
         WHERE key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3",
    )?;
    let limit = i64::try_from(step.max_rows).unwrap_or(i64::MAX);
    let mut rows = select.query(params![row_key(session, 0), row_key(session, u64::MAX), limit])?;
    let mut writer = WordWriter::new(transaction, session)?;
    let mut forget = transaction.prepare("DELETE FROM unindexed WHERE key = ?1")?;
    let mut count = 0;
    let mut bytes = 0;
    let mut keys = Vec::new();
    while bytes <= step.max_bytes
        && let Some(found) = rows.next()?
    {
        let key = found.get(0)?;
        let place = found.get(7)?;
        let row = convert_row(found)?;
        writer.write(key, &row.kind, place, &(step.read_words)(&row))?;
        (count, bytes) = (count + 1, bytes + row.json.len());
        keys.push(key);
    }
    // The statement that reads them must not see its rows go.
    drop(rows);
    for key in keys {
        forget.execute([key])?;
    }
    Ok(count >= step.max_rows || bytes > step.max_bytes)
}

/// Returns true if rows of a session wait for their words.
pub(super) fn has_unindexed_rows(find: &mut Statement<'_>, session: i64) -> rusqlite::Result<bool> {
    find.exists([row_key(session, 0), row_key(session, u64::MAX)])
}

pub(super) const FIND_UNINDEXED: &str =
    "SELECT 1 FROM unindexed WHERE key BETWEEN ?1 AND ?2 LIMIT 1";

/// Writes the words of one transcript's rows.
struct WordWriter<'a> {
    session: i64,
    find_newest: Statement<'a>,
    insert: Statement<'a>,
    put_place: Statement<'a>,
    update: Statement<'a>,
    delete: Statement<'a>,
    delete_place: Statement<'a>,
}

impl<'a> WordWriter<'a> {
    fn new(transaction: &'a Transaction<'_>, session: i64) -> rusqlite::Result<Self> {
        Ok(Self {
            session,
            find_newest: transaction
                .prepare("SELECT rowid FROM search WHERE rowid BETWEEN ?1 AND ?2 ORDER BY rowid DESC LIMIT 1")?,
            insert: transaction.prepare("INSERT INTO search (rowid, key, tags, words) VALUES (?1, ?2, ?3, ?4)")?,
            put_place: transaction.prepare("INSERT INTO row_place VALUES (?1, ?2)")?,
            // Most changes of a row leave its words as they are.
            update: transaction.prepare("UPDATE search SET words = ?2 WHERE rowid = ?1 AND words <> ?2")?,
            delete: transaction.prepare(DELETE_WORDS)?,
            delete_place: transaction.prepare(DELETE_PLACE)?,
        })
    }

    /// Writes the words of a row that has this place so far.
    fn write(
        &mut self,
        key: i64,
        kind: &str,
        place: Option<i64>,
        row: &RowWords,
    ) -> rusqlite::Result<()> {
        match (place, row.words.is_empty()) {
            (None, true) => {}
            (Some(place), false) => {
                self.update.execute(params![place, row.words])?;
            }
            (Some(place), true) => {
                self.delete.execute([place])?;
                self.delete_place.execute([key])?;
            }
            (None, false) => {
                let first = row.at_millis.min(MAX_MILLIS).cast_signed() << TIE_BITS;
                let last = first | ((1 << TIE_BITS) - 1);
                let newest: Option<i64> =
                    self.find_newest.query_row([first, last], |row| row.get(0)).optional()?;
                let place = newest.map_or(first, |newest| newest + 1);
                let tags = format!("{} {}", session_tag(self.session), kind_tag(kind));
                self.insert.execute(params![place, key, tags, row.words])?;
                self.put_place.execute([key, place])?;
            }
        }
        Ok(())
    }
}

const DELETE_WORDS: &str = "DELETE FROM search WHERE rowid = ?1";
const DELETE_PLACE: &str = "DELETE FROM row_place WHERE key = ?1";

/// Takes some rows of a session out of the index, before the rows themselves are deleted: those
/// after a key. Returns the last key, `None` if there was no such row.
///
/// SQLite looks for every word of a row in every part of the index to overwrite it, which takes
/// milliseconds for a row. The caller must not do that for a long session at once: nothing else
/// could be written meanwhile.
pub(super) fn remove_some_words(
    transaction: &Transaction<'_>,
    id: &LogId,
    after: i64,
) -> rusqlite::Result<Option<i64>> {
    let Some(session) = find_session(transaction, id)?.map(|session| session.number) else {
        return Ok(None);
    };
    let first = row_key(session, 0);
    let last = row_key(session, u64::MAX);
    // Words that are not written yet must not be written any more.
    transaction.execute("DELETE FROM unindexed WHERE key BETWEEN ?1 AND ?2", [first, last])?;
    let mut select = transaction
        .prepare("SELECT key, place FROM row_place WHERE key > ?1 AND key BETWEEN ?2 AND ?3 ORDER BY key LIMIT ?4")?;
    let rows = select
        .query_map([after, first, last, REMOVED_AT_ONCE], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let rows: Vec<(i64, i64)> = rows.collect::<rusqlite::Result<_>>()?;
    let mut delete = transaction.prepare(DELETE_WORDS)?;
    let mut forget = transaction.prepare(DELETE_PLACE)?;
    for (key, place) in &rows {
        delete.execute([place])?;
        forget.execute([key])?;
    }
    Ok(rows.last().map(|(key, _)| *key))
}

/// Looks for rows in one state of the database.
pub(super) fn search_words(
    connection: &Connection,
    search: &WordSearch<'_>,
) -> rusqlite::Result<FoundRows> {
    // The hits and their rows must be of one state.
    let transaction = connection.unchecked_transaction()?;
    let Some(expression) = match_expression(&transaction, search)? else {
        return Ok(FoundRows::default());
    };
    let mut select = transaction.prepare(
        "SELECT rowid, key FROM search WHERE search MATCH ?1 AND rowid < ?2 ORDER BY rowid DESC",
    )?;
    let before = search.before.map_or(i64::MAX, |place| i64::try_from(place).unwrap_or(i64::MAX));
    let mut hits = select.query(params![expression, before])?;
    let mut sessions = KnownSessions { transaction: &transaction, search, known: HashMap::new() };
    let mut get_row =
        transaction.prepare(&format!("SELECT {ROW_COLUMNS} FROM row WHERE key = ?1"))?;
    let mut found = FoundRows::default();
    let mut looked_at = 0;
    while let Some(hit) = hits.next()? {
        let (place, key): (i64, i64) = (hit.get(0)?, hit.get(1)?);
        if found.rows.len() >= search.max_rows || looked_at >= search.max_looked_at {
            // The place of this hit is below the next page.
            found.next = Some(place.cast_unsigned() + 1);
            break;
        }
        looked_at += 1;
        if let Some(id) = sessions.find(session_of_key(key))?
            && let Some(row) = get_row.query_row([key], convert_row).optional()?
        {
            found.rows.push(FoundRow { id, row });
        }
    }
    Ok(found)
}

/// The sessions of hits, as far as they were met.
struct KnownSessions<'a> {
    transaction: &'a Transaction<'a>,
    search: &'a WordSearch<'a>,
    /// `None` for a session that is not selected.
    known: HashMap<i64, Option<LogId>>,
}

impl KnownSessions<'_> {
    /// Returns the session's id if the search selects it.
    fn find(&mut self, session: i64) -> rusqlite::Result<Option<LogId>> {
        if let Some(known) = self.known.get(&session) {
            return Ok(known.clone());
        }
        let mut select = self
            .transaction
            .prepare("SELECT bucket, name FROM session WHERE session = ?1 AND fold = ?2")?;
        let read = |row: &rusqlite::Row<'_>| {
            Ok(LogId::new(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?))
        };
        let id = select.query_row(params![session, self.search.fold], read).optional()?.flatten();
        let id = id.filter(|id| (self.search.is_selected)(id));
        self.known.insert(session, id.clone());
        Ok(id)
    }
}

/// Returns the query in the language of FTS5, `None` if nothing can match. Every word is quoted: no
/// text can be an operator.
fn match_expression(
    connection: &Connection,
    search: &WordSearch<'_>,
) -> rusqlite::Result<Option<String>> {
    let phrases: Vec<String> = search.phrases.iter().filter_map(quote_phrase).collect();
    if phrases.is_empty() {
        return Ok(None);
    }
    let mut expression = format!("words : ({})", phrases.join(" AND "));
    let mut restrict = |tags: Vec<String>| {
        let tags: Vec<String> = tags.iter().map(|tag| quote_word(tag)).collect();
        expression.push_str(&format!(" AND tags : ({})", tags.join(" OR ")));
    };
    if !search.kinds.is_empty() {
        restrict(search.kinds.iter().map(|kind| kind_tag(kind)).collect());
    }
    if let Some(only) = search.only.filter(|only| only.len() <= MAX_INDEXED_SESSIONS) {
        let mut numbers = Vec::new();
        for id in only {
            numbers.extend(find_session(connection, id)?.map(|session| session.number));
        }
        if numbers.is_empty() {
            return Ok(None);
        }
        restrict(numbers.into_iter().map(session_tag).collect());
    }
    Ok(Some(expression))
}

fn quote_phrase(phrase: &WordPhrase) -> Option<String> {
    let mut quoted = quote_word(&phrase.words.join(" "));
    if phrase.is_prefix {
        quoted.push('*');
    }
    phrase.words.iter().any(|word| !word.is_empty()).then_some(quoted)
}

/// Returns the text as a string of FTS5, which ends at a NUL.
fn quote_word(word: &str) -> String {
    format!("\"{}\"", word.replace('\0', " ").replace('"', "\"\""))
}

fn session_tag(session: i64) -> String {
    format!("s{session}")
}

/// Returns the word of a kind. It has letters only, so that it stays one word and differs from the
/// word of every session.
fn kind_tag(kind: &str) -> String {
    let letters: String = kind.chars().filter(char::is_ascii_alphabetic).collect();
    format!("k{letters}")
}
