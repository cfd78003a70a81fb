//! Titles, labels and the archive: a client's own description of the session (rule 14.9).

use super::{Draft, Session};
use crate::{Description, Event, Refusal, Reply, SessionEvent};

impl Session {
    pub(super) fn describe(&mut self, description: &Description, draft: &mut Draft) -> Reply {
        if self.live.observes(&description.by) {
            return Reply::Refused(Refusal::Observer);
        }
        for event in self.propose_description(description) {
            self.record(event, draft);
        }
        Reply::Done
    }

    /// Returns an event for each part of the description that differs from the state.
    pub(super) fn propose_description(&self, description: &Description) -> Vec<Event> {
        let Description { by, title, label, archived } = description;
        if self.live.observes(by) {
            return Vec::new();
        }
        let by = || Some(by.clone());
        let title = title.as_ref().filter(|title| **title != self.state.user_title);
        let label = label.as_ref().filter(|label| **label != self.state.origin.label);
        let archived = archived.filter(|archived| *archived != self.state.archived);
        let renamed = title.map(|title| SessionEvent::Renamed { title: title.clone(), by: by() });
        let labelled = label.map(|label| SessionEvent::Labelled { label: label.clone(), by: by() });
        let archived = archived.map(|archived| SessionEvent::Archived { archived, by: by() });
        [renamed, labelled, archived].into_iter().flatten().map(Event::from).collect()
    }

    /// Takes a session that asks out of the archive.
    pub(super) fn leave_archive(&mut self, draft: &mut Draft) {
        if self.state.archived {
            self.record(SessionEvent::Archived { archived: false, by: None }, draft);
        }
    }
}
