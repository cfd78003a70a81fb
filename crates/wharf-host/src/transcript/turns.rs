//! Turns of a transcript: a prompt, its answer and its end (rule 13.7).

use wharf_api::{RowBody, RowPart, TranscriptRow};
use wharf_store::StoreError;

use super::live::LiveState;
use super::row_cache::{RowScan, missing_row};

/// The most bytes of a turn's text.
const MAX_TURN_TEXT_BYTES: usize = 1024 * 1024;

/// A turn by its rows.
#[derive(Clone, Debug)]
pub struct TurnRows {
    /// The prompt.
    pub first: TranscriptRow,
    /// The last row; of a turn that has ended the row that says how.
    pub last: TranscriptRow,
    pub has_ended: bool,
}

/// The agent's answer in a turn.
#[derive(Clone, Debug)]
pub struct TurnText {
    pub turn: TurnRows,
    /// The messages, with blank lines between them.
    pub text: String,
    /// True if the text is longer than this.
    pub is_cut: bool,
}

/// A page of turns, the newest first.
#[derive(Clone, Debug)]
pub struct TurnSlice {
    pub turns: Vec<TurnRows>,
    /// The id of the oldest turn's first row, if there are older ones.
    pub before: Option<String>,
}

impl LiveState {
    /// Returns turns, the newest first. Returns `None` if the row `before` does not exist.
    pub(super) fn list_turns(
        &self,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Option<TurnSlice>, StoreError> {
        let mut last = match before {
            None => self.rows.count(),
            Some(id) => match self.rows.find_id(id)? {
                Some(number) => number - 1,
                None => return Ok(None),
            },
        };
        let kinds = ["prompt".to_owned()];
        let mut turns = Vec::new();
        while last > 0 {
            let scan = RowScan {
                first: 1,
                last,
                kinds: &kinds,
                newest_first: true,
                max_rows: limit + 1,
                max_bytes: usize::MAX,
            };
            let prompts = self.rows.scan(&scan)?;
            let Some(oldest) = prompts.last() else { break };
            last = oldest.number - 1;
            for prompt in prompts {
                // A message of the user that the agent reported does not begin a turn.
                if !begins_turn(&prompt.row) {
                    continue;
                }
                if turns.len() == limit {
                    let before = turns.last().map(|turn: &TurnRows| turn.first.id.clone());
                    return Ok(Some(TurnSlice { turns, before }));
                }
                turns.push(self.turn_rows(prompt.number, prompt.row)?);
            }
        }
        Ok(Some(TurnSlice { turns, before: None }))
    }

    /// Returns the newest turn of a prompt with its text.
    pub(super) fn turn_text(&mut self, prompt: &str) -> Result<Option<TurnText>, StoreError> {
        let Some((first, last)) = self.turn_bounds(prompt)? else { return Ok(None) };
        let head = self.rows.row(first)?.ok_or_else(|| missing_row(first))?;
        let turn = self.turn_rows(first, head)?;
        let mut text = String::new();
        let mut is_cut = false;
        let kinds = ["message".to_owned()];
        let mut from = first;
        while !is_cut {
            let scan = RowScan {
                first: from,
                last,
                kinds: &kinds,
                newest_first: false,
                max_rows: 64,
                max_bytes: 1 << 20,
            };
            let messages = self.rows.scan(&scan)?;
            let Some(newest) = messages.last() else { break };
            from = newest.number + 1;
            for mut message in messages
                .into_iter()
                .filter(|message| message.row.turn.as_deref() == Some(prompt))
            {
                if is_cut_message(&message.row) {
                    self.write()?;
                    self.fill_in(message.number, &mut message.row)?;
                }
                is_cut |= !append_message(&mut text, &message.row);
            }
        }
        Ok(Some(TurnText { turn, text, is_cut }))
    }

    fn turn_rows(&self, first: u64, head: TranscriptRow) -> Result<TurnRows, StoreError> {
        let prompt = head.turn.clone().unwrap_or_default();
        let end = self.turn_end(first, &prompt)?;
        let number = end.unwrap_or(self.rows.count());
        let last = self.rows.row(number)?.ok_or_else(|| missing_row(number))?;
        Ok(TurnRows { first: head, last, has_ended: end.is_some() })
    }
}

fn begins_turn(row: &TranscriptRow) -> bool {
    matches!(&row.body, RowBody::Prompt(prompt) if !prompt.by.agent) && row.turn.is_some()
}

fn is_cut_message(row: &TranscriptRow) -> bool {
    let RowBody::Message(message) = &row.body else { return false };
    message
        .parts
        .iter()
        .any(|part| matches!(part, RowPart::Text(text) if text.cut.is_some()))
}

/// Appends the text of a message. Returns false if not all of it fits or is there.
fn append_message(text: &mut String, row: &TranscriptRow) -> bool {
    let RowBody::Message(message) = &row.body else { return true };
    let mut is_whole = true;
    let mut is_first = true;
    for part in &message.parts {
        let RowPart::Text(part) = part else { continue };
        if is_first && !text.is_empty() && !part.text.is_empty() {
            text.push_str("\n\n");
        }
        is_first &= part.text.is_empty();
        let room = MAX_TURN_TEXT_BYTES.saturating_sub(text.len());
        let fits = part.text.floor_char_boundary(room.min(part.text.len()));
        text.push_str(&part.text[..fits]);
        is_whole &= fits == part.text.len() && part.cut.is_none();
    }
    is_whole
}
