//! Whole rows: texts that were cut are filled in from the database, up to a bound (rule 13.6).

use wharf_api::{RowBody, RowCut, RowPart, RowTextPart, TranscriptRow};
use wharf_store::{StoreError, StoredBlob, TextSlice};

use super::live::LiveState;
use super::row_cache::missing_row;

/// The most bytes of text that are filled into one row.
const MAX_FILLED_BYTES: usize = 1024 * 1024;
/// The most bytes of a page of text.
const MAX_TEXT_PAGE_BYTES: usize = 256 * 1024;

impl LiveState {
    /// Returns the row with this id, or that holds this event, with its texts whole as far as they
    /// fit.
    pub(super) fn whole_row(&mut self, id: &str) -> Result<Option<TranscriptRow>, StoreError> {
        let Some(number) = self.find_containing(id)? else { return Ok(None) };
        self.write()?;
        let mut row = self.rows.row(number)?.ok_or_else(|| missing_row(number))?;
        self.fill_in(number, &mut row)?;
        Ok(Some(row))
    }

    /// Returns a page of the whole text of a row's part.
    pub(super) fn text_page(
        &mut self,
        id: &str,
        part: &str,
        offset: u64,
    ) -> Result<Option<TextSlice>, StoreError> {
        let Some(number) = self.rows.find_id(id)? else { return Ok(None) };
        self.write()?;
        if let Some(slice) = self.rows.text(number, part, offset, MAX_TEXT_PAGE_BYTES)? {
            return Ok(Some(slice));
        }
        // The row itself has the whole of a short text.
        let row = self.rows.row(number)?.ok_or_else(|| missing_row(number))?;
        let Some(text) = find_text(&row, part) else { return Ok(None) };
        let from =
            text.floor_char_boundary(usize::try_from(offset).unwrap_or(usize::MAX).min(text.len()));
        let end = text.floor_char_boundary((from + MAX_TEXT_PAGE_BYTES).min(text.len()));
        Ok(Some(TextSlice {
            text: text[from..end].to_owned(),
            offset: from as u64,
            total: text.len() as u64,
        }))
    }

    pub(super) fn blob(&mut self, name: &str) -> Result<Option<StoredBlob>, StoreError> {
        self.write()?;
        self.rows.blob(name)
    }

    /// Fills in the texts of a row that were cut. The changes must have been written.
    pub(super) fn fill_in(&self, number: u64, row: &mut TranscriptRow) -> Result<(), StoreError> {
        let mut room = MAX_FILLED_BYTES;
        let mut whole = |cut: &RowCut| -> Result<Option<String>, StoreError> {
            let Some(part) = cut.whole.as_deref().and_then(part_name) else { return Ok(None) };
            if cut.bytes > room as u64 {
                return Ok(None);
            }
            let Some(slice) = self.rows.text(number, part, 0, room)? else { return Ok(None) };
            room = room.saturating_sub(slice.text.len());
            Ok((slice.total == slice.text.len() as u64 && slice.total >= cut.bytes)
                .then_some(slice.text))
        };
        let parts: &mut [RowPart] = match &mut row.body {
            RowBody::Prompt(prompt) => &mut prompt.parts,
            RowBody::Message(text) | RowBody::Thought(text) => &mut text.parts,
            RowBody::Tool(tool) => {
                if let Some(output) = &mut tool.output
                    && let Some(cut) = &output.cut
                    && let Some(text) = whole(cut)?
                {
                    (output.text, output.cut) = (text, None);
                }
                if let Some(cut) = &tool.input_cut
                    && let Some(text) = whole(cut)?
                    && let Ok(input) = wharf_json::read_own(text.as_bytes())
                {
                    (tool.input, tool.input_cut) = (Some(input), None);
                }
                &mut tool.parts
            }
            RowBody::Plan(_)
            | RowBody::Ask(_)
            | RowBody::Notice(_)
            | RowBody::TurnEnd(_)
            | RowBody::Unknown => &mut [],
        };
        for part in parts {
            if let RowPart::Text(RowTextPart { text, cut }) = part
                && let Some(known) = cut.as_ref()
                && let Some(whole) = whole(known)?
            {
                (*text, *cut) = (whole, None);
            }
        }
        Ok(())
    }
}

/// Returns the name of the part in the address of a whole text.
fn part_name(address: &str) -> Option<&str> {
    address.split_once("?part=").map(|(_, part)| part)
}

/// Returns the text of a part that the row holds whole: the output of a tool call, or a part by its
/// index.
fn find_text<'a>(row: &'a TranscriptRow, part: &str) -> Option<&'a str> {
    let parts = match &row.body {
        RowBody::Prompt(prompt) => &prompt.parts,
        RowBody::Message(text) | RowBody::Thought(text) => &text.parts,
        RowBody::Tool(tool) if part == "output" => {
            return tool
                .output
                .as_ref()
                .filter(|output| output.cut.is_none())
                .map(|output| output.text.as_str());
        }
        RowBody::Tool(tool) => &tool.parts,
        RowBody::Plan(_)
        | RowBody::Ask(_)
        | RowBody::Notice(_)
        | RowBody::TurnEnd(_)
        | RowBody::Unknown => {
            return None;
        }
    };
    match parts.get(part.parse::<usize>().ok()?)? {
        RowPart::Text(RowTextPart { text, cut: None }) => Some(text),
        RowPart::Text(_) | RowPart::Blob(_) | RowPart::File(_) | RowPart::Unknown => None,
    }
}
