//! Whether anything has come from the host since something was sent to it (rule 19.8).

use std::time::Duration;

/// A live host has sent something by then, at least the answer to a probe.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// A request may take longer than this. Whether the host is alive is asked then.
const PROBE_DELAY: Duration = Duration::from_secs(2);
/// The pause between two questions to a host that does not answer.
const PROBE_INTERVAL: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(crate) struct HostWatch {
    /// Since when the client has awaited something from the host without hearing from it.
    unheard_since: Option<Duration>,
    /// When the host is to be probed; `None` if it need not be, or while a probe is on its way.
    probe_at: Option<Duration>,
    is_probing: bool,
}

impl HostWatch {
    /// Notes that something is awaited of the host, from now on unless it was awaited before.
    pub(crate) fn note_sent(&mut self, now: Duration) {
        if self.unheard_since.is_none() {
            self.unheard_since = Some(now);
            self.probe_at = Some(now + PROBE_DELAY);
        }
    }

    /// Stops the wait: the host has sent something, no call is open, or the streams report that the
    /// host is gone.
    pub(crate) const fn clear(&mut self) {
        self.unheard_since = None;
        self.probe_at = None;
    }

    /// Starts the wait again, after a time in which the client did not read.
    pub(crate) fn restart(&mut self, now: Duration) {
        if self.unheard_since.take().is_some() {
            self.note_sent(now);
        }
    }

    /// Has the host probed after a pause.
    pub(crate) fn probe_later(&mut self, now: Duration) {
        self.probe_at = Some(now + PROBE_INTERVAL);
    }

    /// Notes that the answer to a probe has come, or that there is none.
    pub(crate) const fn finish_probe(&mut self) {
        self.is_probing = false;
    }

    /// Returns true if the host is to be probed now, and notes that it is.
    pub(crate) fn begin_due_probe(&mut self, now: Duration) -> bool {
        let is_due = !self.is_probing && self.probe_at.is_some_and(|at| at <= now);
        if is_due {
            self.is_probing = true;
            self.probe_at = None;
        }
        is_due
    }

    /// Returns when the host counts as silent.
    pub(crate) fn silent_at(&self) -> Option<Duration> {
        self.unheard_since.map(|since| since + ANSWER_TIMEOUT)
    }

    /// Returns when the host is to be probed.
    pub(crate) fn next_probe(&self) -> Option<Duration> {
        self.probe_at.filter(|_| !self.is_probing)
    }
}
