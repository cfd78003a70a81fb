//! The notifications of the terminal that were sent lately, and the questions that are announced
//! later.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Ends and failures of a session are announced at most once in this time.
const NOTICE_INTERVAL: Duration = Duration::from_secs(60);
/// A session announces so many questions in [`NOTICE_INTERVAL`]. Further ones wait, and are then
/// announced as one.
const MAX_QUESTIONS_PER_INTERVAL: usize = 6;

#[derive(Debug, Default)]
pub(crate) struct SentNotices {
    sessions: BTreeMap<String, SessionNotices>,
}

#[derive(Debug, Default)]
struct SessionNotices {
    /// The newest notification.
    last_at: Option<Duration>,
    questions_at: VecDeque<Duration>,
    /// The questions that wait, and when they are announced.
    held: Option<HeldQuestions>,
}

#[derive(Clone, Copy, Debug)]
struct HeldQuestions {
    count: usize,
    due: Duration,
}

impl SentNotices {
    /// Returns true if a question of the session may be announced now. Otherwise it is counted, and
    /// due later.
    pub(crate) fn admit_question(&mut self, session: &str, now: Duration) -> bool {
        let notices = self.sessions.entry(session.to_owned()).or_default();
        while notices.questions_at.front().is_some_and(|at| *at + NOTICE_INTERVAL <= now) {
            notices.questions_at.pop_front();
        }
        let oldest = notices.questions_at.front().copied();
        match oldest.filter(|_| notices.questions_at.len() >= MAX_QUESTIONS_PER_INTERVAL) {
            Some(oldest) => {
                let count = notices.held.map_or(0, |held| held.count) + 1;
                notices.held = Some(HeldQuestions { count, due: oldest + NOTICE_INTERVAL });
                false
            }
            None => {
                notices.questions_at.push_back(now);
                notices.last_at = Some(now);
                true
            }
        }
    }

    /// Returns true if an end or a failure of the session may be announced now.
    pub(crate) fn admit_end(&mut self, session: &str, now: Duration) -> bool {
        let notices = self.sessions.entry(session.to_owned()).or_default();
        let is_admitted = notices.last_at.is_none_or(|at| at + NOTICE_INTERVAL <= now);
        if is_admitted {
            notices.last_at = Some(now);
        }
        is_admitted
    }

    /// Returns when the next questions are to be announced that wait.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.sessions
            .values()
            .filter_map(|notices| notices.held)
            .map(|held| held.due)
            .min()
    }

    /// Takes the sessions whose questions are due, with the number of the questions.
    pub(crate) fn take_due(&mut self, now: Duration) -> Vec<(String, usize)> {
        let mut due = Vec::new();
        for (session, notices) in &mut self.sessions {
            if let Some(held) = notices.held.take_if(|held| held.due <= now) {
                due.push((session.clone(), held.count));
            }
        }
        due
    }

    pub(crate) fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.sessions.retain(|session, _| is_kept(session));
    }
}
