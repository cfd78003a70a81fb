//! The decision whom to tell of what, and when: a state machine over the descriptors of all
//! sessions. It reads no clock.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use wharf_config::{NotifyKind, NotifySettings};
use wharf_core::{Epoch, EventId};

use super::{Cause, Notification};
use crate::descriptor::Descriptor;
use crate::people::SessionMarks;

/// The least time between two notifications about ends of turns and failures of one session.
const MIN_INTERVAL: Duration = Duration::from_secs(60);
/// The most notifications about asks of one session within [`MIN_INTERVAL`]. Further asks wait, and
/// one notification then reports them together.
const MAX_ASKS_PER_INTERVAL: usize = 6;

/// A session shows its newest end, or a pause that hides it: older ones do not come back.
const MAX_REMEMBERED_ENDS: usize = 8;

/// Decides, and remembers the notifications of each session. Times count from the host's start.
#[derive(Debug)]
pub(super) struct NotifyDecider {
    /// Events of earlier runs of the host are past.
    epoch: Epoch,
    sessions: HashMap<String, ToldSession>,
    /// False while there are no receivers. Events of that time count as past once there is a
    /// receiver.
    is_on: bool,
    /// Devices have subscribed to push messages.
    pub(super) has_devices: bool,
}

#[derive(Debug, Default)]
struct ToldSession {
    /// The newest ask that a notification has reported, or that needed no notification.
    ask: Option<EventId>,
    /// The newest ends and failures that a notification has reported, or that needed no
    /// notification. An end that is hidden for a while, because the session was killed or paused,
    /// does not count as new when the session shows it again.
    raised: VecDeque<EventId>,
    /// The same for a pause that has no event, for as long as it lasts.
    is_pause_told: bool,
    raised_at: Option<Duration>,
    asks_at: VecDeque<Duration>,
}

/// The outcome of one look at all sessions.
#[derive(Debug, Default)]
pub(super) struct Decision {
    pub(super) tell: Vec<Notification>,
    /// When to look again, if something waits for the time.
    pub(super) next_at: Option<Duration>,
}

impl NotifyDecider {
    pub(super) fn new(epoch: Epoch, settings: &NotifySettings) -> Self {
        Self {
            epoch,
            sessions: HashMap::new(),
            is_on: settings.has_receiver(),
            has_devices: false,
        }
    }

    /// Looks at all sessions, each with the marks of the owner.
    pub(super) fn decide<'a>(
        &mut self,
        settings: &NotifySettings,
        sessions: impl Iterator<Item = (&'a Descriptor, SessionMarks)>,
        now: Duration,
    ) -> Decision {
        let was_on =
            std::mem::replace(&mut self.is_on, settings.has_receiver() || self.has_devices);
        let mut decision = Decision::default();
        if !self.is_on {
            return decision;
        }
        let mut before = std::mem::take(&mut self.sessions);
        for (session, marks) in sessions {
            let mut told = before.remove(&session.id).unwrap_or_default();
            let causes = list_causes(session, &marks);
            told.is_pause_told &= causes
                .iter()
                .any(|cause| cause.kind != NotifyKind::NeedsAnswer && cause.row.is_none());
            for cause in causes {
                let is_silent = !was_on || marks.muted || !settings.on.contains(&cause.kind);
                let is_past = cause.row.is_some_and(|row| row.epoch != self.epoch);
                if is_silent || is_past || is_short(session, &cause, settings) {
                    told.note_past(&cause);
                } else if told.is_new(&cause) {
                    match told.wait_until(cause.kind, now) {
                        Some(at) => {
                            decision.next_at =
                                Some(decision.next_at.map_or(at, |next| next.min(at)))
                        }
                        None => {
                            let told_before = told.ask;
                            told.note_told(&cause, now);
                            let notification = Notification::new(session, &cause, settings.content);
                            decision.tell.push(Notification { told_before, ..notification });
                        }
                    }
                }
            }
            self.sessions.insert(session.id.clone(), told);
        }
        decision
    }
}

/// Returns the reasons that hold at the moment: an open ask, and an end that the person has not
/// seen.
pub(super) fn list_causes<'a>(session: &'a Descriptor, marks: &SessionMarks) -> Vec<Cause<'a>> {
    let attention = &session.attention;
    let ask = attention.newest_ask.as_ref().or(attention.ask.as_ref()).map(|ask| Cause {
        kind: NotifyKind::NeedsAnswer,
        row: Some(ask.row),
        since: &ask.since,
        why: ask.kind_word(),
        text: ask.text.as_deref(),
    });
    let raised = attention
        .raised
        .as_ref()
        .filter(|raised| raised.row.is_none_or(|row| !marks.has_seen(row)));
    let raised = raised.map(|raised| Cause {
        kind: if raised.is_failure { NotifyKind::Failed } else { NotifyKind::Finished },
        row: raised.row,
        since: &raised.since,
        why: &raised.why,
        text: raised.text.as_deref(),
    });
    ask.into_iter().chain(raised).collect()
}

/// Returns true for the end of a short turn (`min_turn`). A person waits beside such a turn and
/// needs no notification.
fn is_short(session: &Descriptor, cause: &Cause<'_>, settings: &NotifySettings) -> bool {
    if cause.kind != NotifyKind::Finished {
        return false;
    }
    let ran_for = session
        .attention
        .raised
        .as_ref()
        .and_then(|raised| raised.ran_for_millis)
        .map(Duration::from_millis);
    match (settings.min_turn.to_std(), ran_for) {
        (Some(min), Some(ran_for)) => ran_for < min,
        (Some(min), None) => !min.is_zero(),
        (None, _) => true,
    }
}

impl ToldSession {
    fn is_new(&self, cause: &Cause<'_>) -> bool {
        match cause.kind {
            NotifyKind::NeedsAnswer => cause.row > self.ask,
            NotifyKind::Failed | NotifyKind::Finished => match cause.row {
                Some(row) => !self.raised.contains(&row),
                None => !self.is_pause_told,
            },
        }
    }

    /// Returns the time at which a further notification of this kind may be sent; `None` if it may
    /// now.
    fn wait_until(&mut self, kind: NotifyKind, now: Duration) -> Option<Duration> {
        let last = match kind {
            NotifyKind::NeedsAnswer => {
                self.asks_at.retain(|at| *at + MIN_INTERVAL > now);
                self.asks_at
                    .front()
                    .copied()
                    .filter(|_| self.asks_at.len() >= MAX_ASKS_PER_INTERVAL)
            }
            NotifyKind::Failed | NotifyKind::Finished => self.raised_at,
        };
        last.map(|last| last + MIN_INTERVAL).filter(|at| *at > now)
    }

    fn note_past(&mut self, cause: &Cause<'_>) {
        match cause.kind {
            NotifyKind::NeedsAnswer => self.ask = self.ask.max(cause.row),
            NotifyKind::Failed | NotifyKind::Finished => match cause.row {
                Some(row) if !self.raised.contains(&row) => {
                    self.raised.push_back(row);
                    self.raised.drain(..self.raised.len().saturating_sub(MAX_REMEMBERED_ENDS));
                }
                Some(_) => {}
                None => self.is_pause_told = true,
            },
        }
    }

    fn note_told(&mut self, cause: &Cause<'_>, now: Duration) {
        self.note_past(cause);
        match cause.kind {
            NotifyKind::NeedsAnswer => self.asks_at.push_back(now),
            NotifyKind::Failed | NotifyKind::Finished => self.raised_at = Some(now),
        }
    }
}

#[cfg(test)]
mod tests;
