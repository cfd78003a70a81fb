//! The marks of persons: how far each has seen each session, and which sessions it has muted (rules
//! 14.5, 14.7). They cannot be derived from the logs, so they have a small file of their own. Lost
//! marks are harmless: something is unread again.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use wharf_config::write_private;
use wharf_core::{EventId, SessionId};

/// The person of the local socket, the host's own token and `auth = "none"`.
pub const OWNER: &str = "owner";

/// The file is written at most this often.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);
const FILE_VERSION: u32 = 1;

/// One person's marks of one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionMarks {
    /// The last event that the person has seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<EventId>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub muted: bool,
}

impl SessionMarks {
    /// Returns true if the person has seen this event. An event of a later epoch took its number
    /// after the mark was made.
    pub fn has_seen(&self, event: EventId) -> bool {
        self.seen.is_some_and(|seen| event.seq <= seen.seq && event.epoch <= seen.epoch)
    }
}

type MarksByPerson = BTreeMap<String, BTreeMap<SessionId, SessionMarks>>;

#[derive(Serialize)]
struct FileContentRef<'a> {
    version: u32,
    people: &'a MarksByPerson,
}

#[derive(Deserialize)]
struct FileContent {
    version: u32,
    people: MarksByPerson,
}

#[derive(Debug)]
pub(crate) struct People {
    marks: Arc<Mutex<MarksByPerson>>,
    changed: Mutex<Option<SyncSender<()>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl People {
    /// Reads the file and starts its writer. A damaged file is kept aside, and marks begin afresh.
    pub(crate) fn load(path: PathBuf) -> Self {
        let marks = Arc::new(Mutex::new(read_marks(&path)));
        // One waiting change is enough: the writer writes all marks.
        let (changed, inbox) = sync_channel(1);
        let written = Arc::clone(&marks);
        let thread = std::thread::Builder::new()
            .name("wharf-people".to_owned())
            .spawn(move || write_changes(&path, &written, &inbox));
        if let Err(error) = &thread {
            tracing::error!(%error, "no thread for the marks of persons: they are lost at the next start");
        }
        Self {
            marks,
            changed: Mutex::new(Some(changed)),
            thread: Mutex::new(thread.ok()),
        }
    }

    pub(crate) fn marks(&self, person: &str, session: &SessionId) -> SessionMarks {
        self.lock()
            .get(person)
            .and_then(|sessions| sessions.get(session))
            .copied()
            .unwrap_or_default()
    }

    /// Raises the person's mark. Returns false if it was as high already.
    pub(crate) fn raise_seen(&self, person: &str, session: &SessionId, seen: EventId) -> bool {
        self.change(person, session, |marks| {
            let is_higher = marks.seen.is_none_or(|before| before < seen);
            if is_higher {
                marks.seen = Some(seen);
            }
            is_higher
        })
    }

    pub(crate) fn set_muted(&self, person: &str, session: &SessionId, muted: bool) -> bool {
        self.change(person, session, |marks| std::mem::replace(&mut marks.muted, muted) != muted)
    }

    fn change(
        &self,
        person: &str,
        session: &SessionId,
        change: impl FnOnce(&mut SessionMarks) -> bool,
    ) -> bool {
        let mut people = self.lock();
        let mut marks = people
            .get(person)
            .and_then(|sessions| sessions.get(session))
            .copied()
            .unwrap_or_default();
        if !change(&mut marks) {
            return false;
        }
        people.entry(person.to_owned()).or_default().insert(session.clone(), marks);
        drop(people);
        self.note_change();
        true
    }

    /// Removes the marks of a session that is deleted.
    pub(crate) fn forget_session(&self, session: &SessionId) {
        self.retain(|_, sessions| {
            sessions.remove(session);
        });
    }

    pub(crate) fn retain_sessions(&self, is_known: impl Fn(&SessionId) -> bool) {
        self.retain(|_, sessions| sessions.retain(|session, _| is_known(session)));
    }

    /// Removes the persons that no token belongs to any more.
    pub(crate) fn retain_persons(&self, persons: &HashSet<String>) {
        self.retain(|person, sessions| {
            if person != OWNER && !persons.contains(person) {
                sessions.clear();
            }
        });
    }

    fn retain(&self, mut keep: impl FnMut(&str, &mut BTreeMap<SessionId, SessionMarks>)) {
        let mut people = self.lock();
        let count = |people: &MarksByPerson| people.values().map(BTreeMap::len).sum::<usize>();
        let before = count(&people);
        people.retain(|person, sessions| {
            keep(person, sessions);
            !sessions.is_empty()
        });
        let is_changed = count(&people) != before;
        drop(people);
        if is_changed {
            self.note_change();
        }
    }

    /// Writes the last changes and stops.
    pub(crate) fn finish(&self) {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    fn note_change(&self) {
        if let Some(changed) = &*self.changed.lock().unwrap_or_else(PoisonError::into_inner) {
            // A full channel holds a change that is not written yet.
            let _ = changed.try_send(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, MarksByPerson> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_marks(path: &Path) -> MarksByPerson {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return MarksByPerson::new(),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the marks of persons cannot be read; all is unread");
            return MarksByPerson::new();
        }
    };
    match wharf_json::read_own::<FileContent>(&text) {
        Ok(content) if content.version == FILE_VERSION => content.people,
        Ok(FileContent { version, .. }) => set_aside(path, &format!("its version is {version}")),
        Err(error) => set_aside(path, &error.to_string()),
    }
}

fn set_aside(path: &Path, why: &str) -> MarksByPerson {
    let aside = path.with_extension("json.damaged");
    let kept = std::fs::rename(path, &aside)
        .map_or_else(|error| error.to_string(), |()| aside.display().to_string());
    tracing::warn!(path = %path.display(), why, kept, "the marks of persons are damaged; they begin afresh");
    MarksByPerson::new()
}

/// Writes all marks some time after a change, so that a busy person costs one write per interval.
fn write_changes(path: &Path, marks: &Mutex<MarksByPerson>, inbox: &Receiver<()>) {
    let mut is_failing = false;
    while inbox.recv().is_ok() {
        let due = Instant::now() + WRITE_INTERVAL;
        let is_last = loop {
            match inbox.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => break false,
                Err(RecvTimeoutError::Disconnected) => break true,
            }
        };
        match write_marks(path, marks) {
            Ok(()) => is_failing = false,
            Err(error) if !std::mem::replace(&mut is_failing, true) => {
                tracing::warn!(path = %path.display(), %error, "the marks of persons cannot be written");
            }
            Err(_) => {}
        }
        if is_last {
            return;
        }
    }
}

fn write_marks(path: &Path, marks: &Mutex<MarksByPerson>) -> std::io::Result<()> {
    let text = {
        let people = marks.lock().unwrap_or_else(PoisonError::into_inner);
        serde_json::to_vec(&FileContentRef { version: FILE_VERSION, people: &people })?
    };
    write_private(path, &text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn event(text: &str) -> EventId {
        text.parse().unwrap()
    }

    #[test]
    fn marks_rise_and_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("people.json");
        let session = SessionId::new("sess_1");
        let people = People::load(path.clone());
        assert!(people.raise_seen(OWNER, &session, event("2-7")));
        assert!(!people.raise_seen(OWNER, &session, event("2-6")), "marks never fall");
        assert!(
            people.raise_seen(OWNER, &session, event("3-5")),
            "the log was cut and went on in another epoch"
        );
        assert!(
            people.set_muted("tok_a", &session, true) && !people.set_muted("tok_a", &session, true)
        );
        people.finish();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

        let people = People::load(path.clone());
        assert_eq!(
            people.marks(OWNER, &session),
            SessionMarks { seen: Some(event("3-5")), muted: false }
        );
        assert_eq!(people.marks("tok_a", &session), SessionMarks { seen: None, muted: true });
        people.retain_persons(&HashSet::new());
        assert_eq!(people.marks("tok_a", &session), SessionMarks::default());
        people.forget_session(&session);
        people.finish();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), r#"{"version":1,"people":{}}"#);
    }

    #[test]
    fn event_of_a_later_epoch_is_not_seen_by_an_earlier_mark() {
        let marks = SessionMarks { seen: Some(event("3-45")), muted: false };
        for (text, seen) in [("3-45", true), ("2-9", true), ("3-46", false), ("4-40", false)] {
            assert_eq!(marks.has_seen(event(text)), seen, "{text}");
        }
        assert!(!SessionMarks::default().has_seen(event("1-1")));
    }

    #[test]
    fn damaged_file_is_kept_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("people.json");
        for text in
            ["", "{", r#"{"version":9,"people":{}}"#, r#"{"version":1,"people":{"owner":7}}"#]
        {
            std::fs::write(&path, text).unwrap();
            let people = People::load(path.clone());
            assert_eq!(people.marks(OWNER, &SessionId::new("sess_1")), SessionMarks::default());
            assert_eq!(
                std::fs::read_to_string(dir.path().join("people.json.damaged")).unwrap(),
                text
            );
            people.finish();
        }
    }
}
