//! The terminal's title, notifications, and the report that the person has seen a session.

use std::collections::BTreeMap;
use std::time::Duration;

use wharf_api::{AttentionState, SessionInfo};
use wharf_render::text::{to_printable, truncate_to_columns};

use crate::api_call::mark_seen;
use crate::effect::TuiEffect;
use crate::model::{CallPurpose, PaneFocus, ScrollAnchor, TuiState, needs_person};
use crate::session_words::display_name;

/// A row counts as seen after it has been in view for this time.
const SEEN_DELAY: Duration = Duration::from_secs(1);
/// The columns of the subject in a notification.
const MAX_NOTIFIED_COLUMNS: usize = 140;

impl TuiState {
    /// Sets the terminal's title if it has changed.
    pub(super) fn refresh_title(&mut self) {
        let waiting = match self.list.count_waiting(None) {
            0 => String::new(),
            count => format!("({count}) "),
        };
        let name = self
            .open_info()
            .map(|info| display_name(info).unwrap_or(&info.adapter_slug).to_owned());
        let name = name.map(|name| format!(" · {}", to_printable(&name))).unwrap_or_default();
        let title = format!("{waiting}wharf{name}");
        if title != self.title {
            self.title.clone_from(&title);
            self.emit(TuiEffect::SetTitle(title));
        }
    }

    /// Announces the changes of sessions since `before`, which the client missed while the
    /// connection was lost.
    pub(super) fn announce_differences(&mut self, before: &BTreeMap<String, SessionInfo>) {
        let waiting: Vec<SessionInfo> =
            self.list.sessions().filter(|session| needs_person(session)).cloned().collect();
        for session in waiting {
            self.announce_change(before.get(&session.id), &session);
        }
    }

    /// Notifies a person who is elsewhere that a session needs an answer, has failed or has
    /// finished.
    pub(super) fn announce_change(&mut self, before: Option<&SessionInfo>, after: &SessionInfo) {
        let row = |session: &SessionInfo| {
            session.attention.as_ref().and_then(|attention| attention.row.clone())
        };
        let is_news = needs_person(after)
            && before.is_none_or(|before| row(before) != row(after) || !needs_person(before));
        let Some(attention) =
            after.attention.as_ref().filter(|attention| is_news && !attention.muted)
        else {
            return;
        };
        if self.is_attended() || self.options.is_readonly {
            return;
        }
        let now = self.now.elapsed;
        let is_admitted = match attention.state {
            AttentionState::NeedsAnswer => self.list.notices.admit_question(&after.id, now),
            AttentionState::Failed
            | AttentionState::Finished
            | AttentionState::Parked
            | AttentionState::Working
            | AttentionState::Quiet
            | AttentionState::Other(_) => self.list.notices.admit_end(&after.id, now),
        };
        if !is_admitted {
            return;
        }
        let what = match attention.state {
            AttentionState::NeedsAnswer => "asks",
            AttentionState::Failed => "failed",
            AttentionState::Finished
            | AttentionState::Parked
            | AttentionState::Working
            | AttentionState::Quiet
            | AttentionState::Other(_) => "finished",
        };
        let subject = attention.text.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
        self.notify_of(after, &format!("{what}{subject}"));
    }

    fn notify_of(&mut self, session: &SessionInfo, news: &str) {
        let name = display_name(session).unwrap_or(&session.adapter_slug);
        let body =
            truncate_to_columns(&to_printable(&format!("{name} — {news}")), MAX_NOTIFIED_COLUMNS);
        self.emit(TuiEffect::Notify { title: "wharf".to_owned(), body });
        self.emit(TuiEffect::Bell);
    }

    /// Announces the questions that came too fast to be announced one by one, if the session still
    /// waits for an answer.
    pub(super) fn announce_held_questions(&mut self) {
        for (session, count) in self.list.notices.take_due(self.now.elapsed) {
            let asks = |session: &&SessionInfo| {
                let attention = session.attention.as_ref();
                attention.is_some_and(|attention| {
                    attention.state == AttentionState::NeedsAnswer && !attention.muted
                })
            };
            let Some(waiting) = self.list.get(&session).filter(asks).cloned() else { continue };
            if !self.is_attended() {
                self.notify_of(&waiting, &format!("asks: {count} more"));
            }
        }
    }

    /// Returns the row whose end the person looks at and has not been reported as seen.
    fn row_in_sight(&self) -> Option<String> {
        let open = self.open.as_ref()?;
        let attention = self.open_info()?.attention.as_ref()?;
        let is_shown = self.focus != PaneFocus::List && self.overlays.is_empty();
        let is_at_end = open.view.anchor == ScrollAnchor::End && !open.rows.has_newer();
        let is_looked_at = is_shown && self.is_attended() && is_at_end;
        let has_row = |row: &String| open.rows.knows(row);
        attention
            .row
            .clone()
            .filter(|row| is_looked_at && attention.unread && has_row(row))
    }

    /// Reports the row that has been in sight for long enough.
    pub(super) fn report_seen(&mut self) {
        let row = self.row_in_sight();
        let now = self.now.elapsed;
        let connected = self.connection.is_connected();
        let Some(open) = &mut self.open else { return };
        let Some(row) = row else {
            open.seen = None;
            return;
        };
        match &open.seen {
            Some((seen, since)) if *seen == row => {
                if open.is_seen_reported || now < *since + SEEN_DELAY || !connected {
                    return;
                }
                open.is_seen_reported = true;
                let session = open.id.clone();
                self.call(mark_seen(&session, &row), CallPurpose::MarkSeen);
            }
            Some(_) | None => {
                open.seen = Some((row, now));
                open.is_seen_reported = false;
            }
        }
    }

    /// Returns when the row in sight is to be reported.
    pub(super) fn seen_report_at(&self) -> Option<Duration> {
        let open = self.open.as_ref()?;
        let (_, since) = open.seen.as_ref()?;
        (!open.is_seen_reported && self.connection.is_connected()).then_some(*since + SEEN_DELAY)
    }
}
