//! Events of the stream of the open session's rows.

use wharf_api::{RowBody, RowStreamEvent};

use crate::api_call::read_row;
use crate::input::{StreamId, StreamInput};
use crate::model::{CallPurpose, RowsLink, ScrollAnchor, TuiState};
use crate::rows::{RowEffect, RowPlace};

impl TuiState {
    pub(super) fn handle_rows_stream(
        &mut self,
        stream: StreamId,
        input: StreamInput<RowStreamEvent>,
    ) {
        let Some(open) = self.open.as_mut().filter(|open| open.stream == stream) else { return };
        match input {
            StreamInput::Connected => {
                open.rows_loss = None;
                if open.link == RowsLink::Lost {
                    open.link = RowsLink::Live;
                }
            }
            StreamInput::Event(event) => self.handle_row_event(event),
            StreamInput::Silent => {
                self.note_rows_lost("the host does not answer".to_owned(), true);
                self.note_silent();
            }
            StreamInput::Lost { reason, retry_in } => {
                self.note_rows_lost(reason, retry_in.is_some())
            }
            StreamInput::Refused { reason, .. } => self.note_rows_lost(reason, true),
        }
    }

    /// Notes that the client does not follow the rows now. A session whose first page has not come
    /// stays in the state of opening, since the client does not know it yet.
    fn note_rows_lost(&mut self, reason: String, is_retried: bool) {
        let Some(open) = &mut self.open else { return };
        if open.link == RowsLink::Live {
            open.link = RowsLink::Lost;
        }
        if is_retried {
            open.rows_loss = Some(reason);
        } else {
            self.tell_error(reason);
        }
    }

    fn handle_row_event(&mut self, event: RowStreamEvent) {
        let Some(open) = &mut self.open else { return };
        let is_page = matches!(event, RowStreamEvent::Page(_));
        let is_first_page = is_page && matches!(open.link, RowsLink::Opening { .. });
        if is_page {
            open.link = RowsLink::Live;
        }
        match open.rows.apply(event) {
            RowEffect::None | RowEffect::Changed(_) | RowEffect::State => {}
            RowEffect::Stale(row) => {
                let call = read_row(&open.id, &row);
                let stream = open.stream;
                self.call(call, CallPurpose::ReadRow { stream });
            }
            RowEffect::Gap { before, rows } => {
                // Too much has happened to fill the gap: the newest page takes the place of all
                // rows.
                open.rows.restart(rows, Some(before));
                open.view.anchor = ScrollAnchor::End;
                open.view.selected = None;
            }
            RowEffect::Gone => {
                self.tell_error("this session was deleted");
                self.close_session();
                return;
            }
        }
        if is_first_page {
            self.mark_unseen_rows();
        }
        self.after_rows_changed();
        if is_page {
            self.fill_screen();
        }
    }

    /// Marks the rows that the person has not seen in any client. A prompt is often the person's
    /// own last act, and notices of the host alone are no news.
    fn mark_unseen_rows(&mut self) {
        let attention = self.open_info().and_then(|info| info.attention.as_ref());
        let seen = attention
            .and_then(|attention| attention.seen.as_deref())
            .map(RowPlace::after_event);
        let (Some(open), Some(seen)) =
            (self.open.as_mut().filter(|open| !open.is_started_here), seen)
        else {
            return;
        };
        let mut unseen = open.rows.iter_from(seen).peekable();
        let own_prompt = unseen
            .next_if(|(_, row)| matches!(row.body, RowBody::Prompt(_)))
            .map(|(place, _)| place);
        if unseen.any(|(_, row)| !matches!(row.body, RowBody::Notice(_))) {
            open.view.unread_after = Some(own_prompt.unwrap_or(seen));
            open.view.fold_revision += 1;
        }
    }

    /// Brings everything that depends on the rows up to date.
    pub(super) fn after_rows_changed(&mut self) {
        let Some(open) = &mut self.open else { return };
        open.limit_held_rows();
        open.drop_old_interrupt();
        self.drop_started_queue_edit();
        self.seek_row();
        self.refresh_dock();
    }
}
