//! The state of the turn, on the first page of an agent's ledger: for a keeper without a host, and
//! for the clock of the next one.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use wharf_core::Millis;

use super::kept_files::{read_range, write_at};
use crate::ids::Now;
use crate::monotonic::monotonic_millis;

const STATUS_BYTES: u64 = 32;
const STATUS_MARK: u64 = 0x3172_6570_6565_6b77;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TurnStatus {
    pub(crate) is_running: bool,
    /// The session's time at which the turn has to end, in milliseconds since 1970; 0 for none.
    pub(crate) deadline_ms: u64,
    /// The session's time minus the [monotonic clock](monotonic_millis), in milliseconds; 0 if it
    /// is not known. The session's time falls behind the wall clock when the machine sleeps in a
    /// turn.
    pub(crate) clock_lead_ms: u64,
}

impl TurnStatus {
    /// Reads the status of a ledger. A ledger without one counts as one without a turn.
    pub(super) fn read(ledger: &OwnedFd) -> Self {
        let bytes = read_range(ledger, 0, STATUS_BYTES).unwrap_or_default();
        let mut numbers = bytes.as_chunks().0.iter().copied().map(u64::from_le_bytes);
        if numbers.next() != Some(STATUS_MARK) {
            return Self::default();
        }
        let mut take_number = || numbers.next().unwrap_or_default();
        Self {
            is_running: take_number() != 0,
            deadline_ms: take_number(),
            clock_lead_ms: take_number(),
        }
    }

    pub(super) fn write_to(self, ledger: &OwnedFd) -> io::Result<()> {
        let Self { is_running, deadline_ms, clock_lead_ms } = self;
        let fields = [STATUS_MARK, is_running.into(), deadline_ms, clock_lead_ms];
        write_at(ledger, &fields.map(u64::to_le_bytes).concat(), 0)
    }

    /// Returns the session's time: that of the host that wrote this, as if it had gone on.
    pub(crate) fn session_time(self) -> Option<Millis> {
        (self.clock_lead_ms > 0).then(|| Millis(monotonic_millis() + self.clock_lead_ms))
    }

    /// Returns how long the running turn may still last, if it has a deadline.
    pub(super) fn time_left(self) -> Option<Duration> {
        let now = self.session_time().unwrap_or_else(Now::millis);
        (self.is_running && self.deadline_ms > 0)
            .then(|| Duration::from_millis(self.deadline_ms.saturating_sub(now.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::kept_files::create_file;
    use super::*;

    #[test]
    fn keeper_reads_the_state_of_the_turn() {
        let ledger = create_file("test").unwrap();
        assert_eq!(TurnStatus::read(&ledger), TurnStatus::default());
        let status = TurnStatus { is_running: true, deadline_ms: 77, clock_lead_ms: 5 };
        status.write_to(&ledger).unwrap();
        assert_eq!(TurnStatus::read(&ledger), status);
    }

    #[test]
    fn status_of_a_host_that_knew_no_clock_has_its_turn_and_no_lead() {
        let ledger = create_file("test").unwrap();
        write_at(&ledger, &[STATUS_MARK, 1, 77].map(u64::to_le_bytes).concat(), 0).unwrap();
        assert_eq!(
            TurnStatus::read(&ledger),
            TurnStatus { is_running: true, deadline_ms: 77, clock_lead_ms: 0 }
        );
    }
}
