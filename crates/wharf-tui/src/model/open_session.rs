//! The session that is open: its rows, its composer, and the places of its parts.

use std::time::Duration;

use crate::composer::join_texts;
use wharf_api::{AskState, RowAsk, RowBody, RowPlan, TurnPhase};

use super::{AskDock, ComposingState, TranscriptView};
use crate::composer::TextBuffer;
use crate::input::StreamId;
use crate::rows::{RowPlace, RowSet};

/// The rows that are held.
const MAX_HELD_ROWS: usize = 2_000;

/// The stream of the session's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowsLink {
    /// The first page has not come yet.
    Opening {
        since: Duration,
    },
    Live,
    /// The connection is gone, the rows stay.
    Lost,
}

/// How far the person is in interrupting the turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum InterruptStep {
    #[default]
    Idle,
    /// A second Esc until then interrupts.
    Armed { until: Duration },
    /// The agent was asked to end the turn; a further Esc forces it.
    Asked { since: Duration },
}

/// The interrupt of one turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TurnInterrupt {
    pub(crate) step: InterruptStep,
    /// The turn that is meant. The next one may begin before the client sees the end of this one.
    pub(crate) turn: Option<String>,
}

/// The session that is open.
#[derive(Debug)]
pub(crate) struct OpenSession {
    pub(crate) id: String,
    pub(crate) stream: StreamId,
    pub(crate) link: RowsLink,
    /// The reason why the rows are not followed now.
    pub(crate) rows_loss: Option<String>,
    /// This client has just started the session: none of its rows is news.
    pub(crate) is_started_here: bool,
    pub(crate) rows: RowSet,
    pub(crate) view: TranscriptView,
    pub(crate) composer: TextBuffer,
    pub(crate) composing: ComposingState,
    pub(crate) dock: AskDock,
    pub(crate) interrupt: TurnInterrupt,
    /// The end of the failed turn that is being tried again.
    pub(crate) tried_again: Option<RowPlace>,
    /// The mode that Shift-Tab requested last, and until when it counts as the current one.
    pub(crate) requested_mode: Option<(String, Duration)>,
    /// An older page was requested.
    pub(crate) is_loading_older: bool,
    /// A newer page was requested.
    pub(crate) is_loading_newer: bool,
    /// The row that was reported as seen, or is about to be, and when.
    pub(crate) seen: Option<(String, Duration)>,
    pub(crate) is_seen_reported: bool,
}

impl OpenSession {
    pub(crate) fn new(id: String, stream: StreamId, draft: &str, now: Duration) -> Self {
        Self {
            id,
            stream,
            link: RowsLink::Opening { since: now },
            rows_loss: None,
            is_started_here: false,
            rows: RowSet::new(MAX_HELD_ROWS),
            view: TranscriptView::default(),
            composer: TextBuffer::with_text(draft),
            composing: ComposingState::default(),
            dock: AskDock::default(),
            interrupt: TurnInterrupt::default(),
            tried_again: None,
            requested_mode: None,
            is_loading_older: false,
            is_loading_newer: false,
            seen: None,
            is_seen_reported: false,
        }
    }

    /// Returns the text that was typed and not sent, also if a waiting prompt is being edited.
    pub(crate) fn unsent_text(&self) -> String {
        let text = self.composer.text();
        match &self.composing.queue_edit {
            Some(edit) if edit.original == text => edit.typed.clone(),
            Some(edit) => join_texts(text, &edit.typed),
            None => text.to_owned(),
        }
    }

    /// Returns the open asks, the oldest first. An ask whose row is not loaded is left out.
    pub(crate) fn open_asks(&self) -> Vec<&RowAsk> {
        let ids = self.rows.state().map(|state| state.asks.as_slice()).unwrap_or_default();
        let open_ask = |id: &String| {
            let RowBody::Ask(ask) = &self.rows.get_pinned(RowPlace::of_id(id))?.body else {
                return None;
            };
            (ask.state == AskState::Open).then_some(&**ask)
        };
        ids.iter().filter_map(open_ask).collect()
    }

    /// Returns an ask by its id, also if it is over.
    pub(crate) fn find_ask(&self, id: u64) -> Option<&RowAsk> {
        self.rows.iter().rev().find_map(|(_, row)| {
            let RowBody::Ask(ask) = &row.body else { return None };
            (ask.ask_id == id).then_some(&**ask)
        })
    }

    /// Returns the plan that is pinned above the composer. An agent that has ended has none to
    /// follow.
    pub(crate) fn pinned_plan(&self) -> Option<&RowPlan> {
        let state = self.rows.state().filter(|state| state.session.status.is_alive())?;
        let id = state.plan.as_deref()?;
        let RowBody::Plan(plan) = &self.rows.get_pinned(RowPlace::of_id(id))?.body else {
            return None;
        };
        Some(plan)
    }

    /// Returns the turn of the newest row that belongs to one.
    pub(crate) fn newest_turn(&self) -> Option<&str> {
        self.rows.newest_turn()
    }

    /// Ends the interrupt of a turn that is over.
    pub(crate) fn drop_old_interrupt(&mut self) {
        if !self.is_turn_running() || self.newest_turn() != self.interrupt.turn.as_deref() {
            self.interrupt = TurnInterrupt::default();
        }
    }

    /// Returns true while a turn runs or waits for an answer.
    pub(crate) fn is_turn_running(&self) -> bool {
        self.rows.state().is_some_and(|state| state.session.turn != TurnPhase::Idle)
    }
}
