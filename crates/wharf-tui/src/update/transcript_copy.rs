//! Copying a row or a turn.

use wharf_api::{RowBody, TranscriptRow};

use crate::effect::TuiEffect;
use crate::model::TuiState;
use crate::rows::{join_parts, row_text};

impl TuiState {
    pub(super) fn copy_selected_row(&mut self) {
        match self.selected_row().map(row_text).filter(|text| !text.is_empty()) {
            Some(text) => self.emit(TuiEffect::Copy(text)),
            None => self.tell("no row is selected"),
        }
    }

    /// Copies the prompt, the messages and the names of the steps of the selected row's turn.
    pub(super) fn copy_selected_turn(&mut self) {
        let Some(row) = self.selected_row() else {
            self.tell("no row is selected");
            return;
        };
        let turn = row.turn.as_deref();
        let rows = self.open.as_ref().into_iter().flat_map(|open| open.rows.iter());
        let texts: Vec<String> = rows
            .filter(|(_, row)| row.turn.as_deref() == turn)
            .filter_map(|(_, row)| turn_text(row))
            .collect();
        self.emit(TuiEffect::Copy(texts.join("\n\n")));
    }
}

/// Returns the text of a row in a copied turn; `None` for rows that are not part of the
/// conversation.
fn turn_text(row: &TranscriptRow) -> Option<String> {
    match &row.body {
        RowBody::Prompt(prompt) => {
            let text = join_parts(&prompt.parts);
            Some(
                text.trim()
                    .lines()
                    .map(|line| format!("> {line}"))
                    .collect::<Vec<_>>()
                    .join("\n"),
            )
        }
        RowBody::Message(message) => Some(join_parts(&message.parts).trim().to_owned()),
        RowBody::Tool(_) if row.parent.is_none() => Some(format!("[{}]", row.summary)),
        RowBody::Tool(_)
        | RowBody::Thought(_)
        | RowBody::Plan(_)
        | RowBody::Ask(_)
        | RowBody::Notice(_)
        | RowBody::TurnEnd(_)
        | RowBody::Unknown => None,
    }
}
