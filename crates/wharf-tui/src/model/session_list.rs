//! The sessions of the host, their order, the selection and the filter.

use std::collections::BTreeMap;

use wharf_api::SessionInfo;

use super::{ListEntry, NewestLines, SentNotices, needs_person, order_sessions};
use crate::composer::TextBuffer;

/// All sessions that the person sees.
#[derive(Debug, Default)]
pub(crate) struct SessionList {
    sessions: BTreeMap<String, SessionInfo>,
    /// The first snapshot has come.
    pub(crate) is_loaded: bool,
    /// The entries as they are shown. They follow the sessions with a delay while keys are pressed.
    entries: Vec<ListEntry>,
    /// The selected session, by its id: the selection follows it.
    pub(crate) selected: Option<String>,
    /// The filter while it is typed or in force.
    pub(crate) filter: Option<TextBuffer>,
    /// The entries do not show the newest order.
    pub(crate) is_order_stale: bool,
    pub(crate) last_lines: NewestLines,
    pub(crate) notices: SentNotices,
    /// The name of a host on another machine.
    pub(crate) host_name: Option<String>,
    /// The client was started for one session, which is open: the list does not choose the first
    /// screen.
    pub(crate) is_target_open: bool,
}

impl SessionList {
    pub(crate) fn get(&self, id: &str) -> Option<&SessionInfo> {
        self.sessions.get(id)
    }

    pub(crate) fn sessions(&self) -> impl Iterator<Item = &SessionInfo> {
        self.sessions.values()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    pub(crate) fn entries(&self) -> &[ListEntry] {
        &self.entries
    }

    /// Takes these sessions in the place of all others, and returns the earlier ones.
    pub(crate) fn replace_all(
        &mut self,
        sessions: Vec<SessionInfo>,
    ) -> BTreeMap<String, SessionInfo> {
        let before = std::mem::take(&mut self.sessions);
        for session in sessions {
            self.note_output(before.get(&session.id), &session);
            self.sessions.insert(session.id.clone(), session);
        }
        self.notices.retain(|id| self.sessions.contains_key(id));
        self.is_loaded = true;
        self.is_order_stale = true;
        before
    }

    /// Puts a session in, and returns the state it had before.
    pub(crate) fn put(&mut self, session: SessionInfo) -> Option<SessionInfo> {
        self.is_order_stale = true;
        let before = self.sessions.remove(&session.id);
        self.note_output(before.as_ref(), &session);
        self.sessions.insert(session.id.clone(), session);
        before
    }

    /// Marks the last line of a session as stale if its log has grown, so that the client reads the
    /// line again. A change of its memory use does not count, since it comes more often.
    fn note_output(&mut self, before: Option<&SessionInfo>, session: &SessionInfo) {
        if before.is_none_or(|before| before.last_seq != session.last_seq) {
            self.last_lines.mark_stale(&session.id);
        }
    }

    pub(crate) fn remove(&mut self, id: &str) {
        self.sessions.remove(id);
        self.last_lines.remove(id);
        self.notices.retain(|session| session != id);
        self.sort();
    }

    /// Puts the entries in order. The selection stays on its session; a session that is gone leaves
    /// it to the next one.
    pub(crate) fn sort(&mut self) {
        let filter = self.filter.as_ref().map(TextBuffer::text).unwrap_or_default();
        let place = self.selected_index();
        self.entries = order_sessions(&self.sessions, filter);
        self.is_order_stale = false;
        if self.selected_index().is_none() {
            let ids: Vec<&str> = self.shown_ids().collect();
            let near = place.unwrap_or_default().min(ids.len().saturating_sub(1));
            self.selected = ids.get(near).map(|id| (*id).to_owned());
        }
    }

    /// Yields the ids of the sessions as they are shown.
    pub(crate) fn shown_ids(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter_map(|entry| match entry {
            ListEntry::Session(id) => Some(id.as_str()),
            ListEntry::NeedsYou | ListEntry::Workspace { .. } | ListEntry::Archive => None,
        })
    }

    fn selected_index(&self) -> Option<usize> {
        let selected = self.selected.as_deref()?;
        self.shown_ids().position(|id| id == selected)
    }

    /// Moves the selection by so many sessions; it stops at the ends.
    pub(crate) fn move_selection(&mut self, by: isize) {
        let count = self.shown_ids().count();
        let from = self.selected_index().unwrap_or_default();
        let to = from.saturating_add_signed(by).min(count.saturating_sub(1));
        let selected = self.shown_ids().nth(to).map(str::to_owned);
        self.selected = selected;
    }

    /// Returns how many sessions need the person, without this one.
    pub(crate) fn count_waiting(&self, besides: Option<&str>) -> usize {
        let others = self.sessions.iter().filter(|(id, _)| Some(id.as_str()) != besides);
        others.filter(|(_, session)| needs_person(session)).count()
    }

    /// Tells how many sessions need the person, without this one; empty if there is none.
    pub(crate) fn describe_waiting(&self, besides: Option<&str>) -> String {
        match self.count_waiting(besides) {
            0 => String::new(),
            1 => "1 needs you".to_owned(),
            count => format!("{count} need you"),
        }
    }

    /// Returns the session that needs the person after this one, in the order of the list, from the
    /// beginning if need be.
    pub(crate) fn next_waiting(&self, after: Option<&str>) -> Option<&str> {
        let all = order_sessions(&self.sessions, "");
        let waiting: Vec<&str> = all
            .iter()
            .filter_map(|entry| match entry {
                ListEntry::Session(id) => self.sessions.get_key_value(id),
                ListEntry::NeedsYou | ListEntry::Workspace { .. } | ListEntry::Archive => None,
            })
            .filter(|(_, session)| needs_person(session))
            .map(|(id, _)| id.as_str())
            .collect();
        let place = after.and_then(|after| waiting.iter().position(|id| *id == after));
        let next = place.map_or(0, |place| place + 1);
        waiting
            .get(next)
            .or_else(|| waiting.first())
            .copied()
            .filter(|id| Some(*id) != after)
    }
}
