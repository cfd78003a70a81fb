//! How far each watched session has been shown to a client: a cancel means the turn that the client could see.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use wharf_host::core::{Seq, SessionId};

#[derive(Debug, Default)]
pub(super) struct ShownUpTo(Mutex<HashMap<SessionId, Seq>>);

impl ShownUpTo {
    pub(super) fn note(&self, session: &SessionId, seq: Seq) {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match shown.get_mut(session) {
            Some(known) => *known = seq,
            None => {
                shown.insert(session.clone(), seq);
            }
        }
    }

    pub(super) fn get(&self, session: &SessionId) -> Option<Seq> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(session).copied()
    }
}
