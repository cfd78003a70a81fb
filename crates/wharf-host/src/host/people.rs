//! The marks of persons, as surfaces read and set them (rules 14.5 to 14.7).

use std::collections::HashSet;

use wharf_core::{EventId, Seq, SessionId};

use super::Host;
use crate::people::SessionMarks;

impl Host {
    /// Returns the person's marks of a session.
    pub fn marks(&self, person: &str, session: &SessionId) -> SessionMarks {
        self.inner.people.marks(person, session)
    }

    /// Raises the person's mark of a session. It never falls.
    pub fn mark_seen(&self, person: &str, session: &SessionId, seen: EventId) {
        if self.inner.people.raise_seen(person, session, seen) {
            self.inner.registry.note_change();
        }
    }

    /// Mutes the session for this person, or ends that.
    pub fn set_muted(&self, person: &str, session: &SessionId, muted: bool) {
        if self.inner.people.set_muted(person, session, muted) {
            self.inner.registry.note_change();
        }
    }

    /// Removes the marks of all persons but the owner and these.
    pub fn retain_persons(&self, persons: &HashSet<String>) {
        self.inner.people.retain_persons(persons);
    }

    /// Returns the id of an event that this host has appended or could append next.
    pub fn event_id_of_now(&self, seq: Seq) -> EventId {
        EventId { epoch: self.inner.storage.epoch(), seq }
    }
}
