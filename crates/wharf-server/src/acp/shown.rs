//! How far each watched session has been shown to a client, and how far a second ago: a cancel
//! means the turn that the client could see, and not the one behind a turn of its own that has just
//! ended.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use wharf_host::core::{Seq, SessionId};

/// A client may take this long to learn of an event that was sent to it, and the host to hear the
/// reply.
const SETTLED_AFTER: Duration = Duration::from_secs(1);
/// Positions are kept at this distance, so that a fast stream costs little.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(super) struct ShownUpTo(Mutex<HashMap<SessionId, Progress>>);

/// How one session has been shown.
#[derive(Debug)]
struct Progress {
    /// The last event that the client was shown since it joined; `None` before the first.
    shown: Option<Seq>,
    /// From where on the client is shown the session.
    start: Seq,
    noted_at: Instant,
    /// The end of the history when the client joined.
    joined: Seq,
    /// Earlier positions, the newest at the back.
    samples: VecDeque<(Instant, Seq)>,
}

impl ShownUpTo {
    /// Notes that the client has come to the session, when everything up to `head` was past.
    pub(super) fn arrive(&self, session: &SessionId, head: Seq, at: Instant) {
        let new = || Progress {
            shown: None,
            start: head,
            noted_at: at,
            joined: head,
            samples: VecDeque::new(),
        };
        self.lock().entry(session.clone()).or_insert_with(new);
    }

    /// Notes that the client joins and is shown the events after `start`; those up to `history` are
    /// past for it.
    pub(super) fn join(&self, session: &SessionId, start: Seq, history: Seq, at: Instant) {
        let mut shown = self.lock();
        let new = || Progress {
            shown: None,
            start,
            noted_at: at,
            joined: history,
            samples: VecDeque::new(),
        };
        let progress = shown.entry(session.clone()).or_insert_with(new);
        progress.start = progress.start.max(start);
        if progress.shown.is_none() {
            // The client comes back to an event, so the host shows it the events that it missed as
            // news.
            progress.joined = progress.joined.min(history);
        }
        progress.samples.push_back((at, history));
        progress.forget_old(at);
    }

    pub(super) fn note(&self, session: &SessionId, seq: Seq, at: Instant) {
        let mut shown = self.lock();
        let Some(progress) = shown.get_mut(session) else {
            let samples = VecDeque::new();
            let new = Progress {
                shown: Some(seq),
                start: seq,
                noted_at: at,
                joined: seq,
                samples,
            };
            shown.insert(session.clone(), new);
            return;
        };
        (progress.shown, progress.noted_at) = (Some(seq), at);
        if progress.samples.back().is_none_or(|(last, _)| at >= *last + SAMPLE_EVERY) {
            progress.samples.push_back((at, seq));
            progress.forget_old(at);
        }
    }

    /// Returns the last event that the client was shown; `None` before the first.
    pub(super) fn get(&self, session: &SessionId) -> Option<Seq> {
        self.lock().get(session).and_then(|progress| progress.shown)
    }

    /// Returns the last event that the client knows: shown, or before its joining. `None` if it has
    /// not joined yet.
    pub(super) fn seen(&self, session: &SessionId) -> Option<Seq> {
        self.lock()
            .get(session)
            .map(|progress| progress.shown.unwrap_or_default().max(progress.start))
    }

    /// Returns the last event that had been shown a second before `at`, or that was history when
    /// the client joined.
    pub(super) fn settled(&self, session: &SessionId, at: Instant) -> Option<Seq> {
        self.lock().get(session).map(|progress| progress.settled(at))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Progress>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress {
    fn settled(&self, at: Instant) -> Seq {
        let is_old = |noted: Instant| at >= noted + SETTLED_AFTER;
        let old = self.samples.iter().filter(|(noted, _)| is_old(*noted)).map(|(_, seq)| *seq);
        let latest = self.shown.filter(|_| is_old(self.noted_at));
        old.chain(latest).fold(self.joined, Seq::max)
    }

    /// Forgets positions that a newer one, old enough itself, makes superfluous.
    fn forget_old(&mut self, at: Instant) {
        while self.samples.get(1).is_some_and(|(noted, _)| at >= *noted + SETTLED_AFTER) {
            if let Some((_, seq)) = self.samples.pop_front() {
                self.joined = self.joined.max(seq);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_settle_a_second_after_they_were_shown() {
        let shown = ShownUpTo::default();
        let session = SessionId::new("s");
        let start = Instant::now();
        let after = |millis: u64| start + Duration::from_millis(millis);
        assert_eq!((shown.get(&session), shown.settled(&session, start)), (None, None));
        shown.join(&session, Seq(3), Seq(5), start);
        assert_eq!((shown.get(&session), shown.settled(&session, start)), (None, Some(Seq(5))));
        assert_eq!(shown.seen(&session), Some(Seq(3)));
        for (millis, seq) in [(10, 6), (20, 7), (150, 8)] {
            shown.note(&session, Seq(seq), after(millis));
        }
        assert_eq!(shown.get(&session), Some(Seq(8)));
        assert_eq!(shown.settled(&session, after(1_009)), Some(Seq(5)));
        // The last position counts, also if nothing follows it.
        assert_eq!(shown.settled(&session, after(1_150)), Some(Seq(8)));
    }

    #[test]
    fn a_client_that_is_not_shown_a_session_yet_has_seen_what_was_past_when_it_came() {
        let shown = ShownUpTo::default();
        let session = SessionId::new("s");
        let start = Instant::now();
        shown.arrive(&session, Seq(5), start);
        // Its own turn ends in event 8, before the session is shown to it: a cancel now was meant
        // for that turn.
        assert_eq!(
            (shown.seen(&session), shown.settled(&session, start)),
            (Some(Seq(5)), Some(Seq(5)))
        );
        shown.join(&session, Seq::ZERO, Seq(9), start);
        assert_eq!(
            (shown.seen(&session), shown.settled(&session, start)),
            (Some(Seq(5)), Some(Seq(5)))
        );
        shown.join(&session, Seq(3), Seq(3), start);
        assert_eq!(shown.settled(&session, start), Some(Seq(3)));
    }

    #[test]
    fn a_fast_stream_keeps_few_positions() {
        let shown = ShownUpTo::default();
        let session = SessionId::new("s");
        let start = Instant::now();
        for millis in 0..10_000 {
            shown.note(&session, Seq(millis), start + Duration::from_millis(millis));
        }
        assert!(shown.lock()[&session].samples.len() <= 12);
        let settled = shown.settled(&session, start + Duration::from_millis(9_999));
        assert!(settled.is_some_and(|seq| seq.0 > 8_800 && seq.0 < 9_000), "{settled:?}");
    }
}
