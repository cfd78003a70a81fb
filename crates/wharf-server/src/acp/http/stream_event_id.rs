//! The place of a message in a stream: the `id` of its server-sent event.
//!
//! `<epoch>-<seq>` is the message of that event of the log, `<epoch>-<seq>.<n>` the n-th of several
//! before the last, `<epoch>-<seq>+<k>` the k-th message past the log after it, and `@<run>`
//! follows where the stream shows the log a second time, as it does when the client loads the
//! session again.

use std::fmt;
use std::str::FromStr;

use wharf_host::core::{Epoch, EventId, Seq, parse_digits};

/// The last message of an event.
const LAST: u32 = u32::MAX;

/// Sorts as the messages go out. The epoch comes last: it does not order anything, since `seq`
/// does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StreamEventId {
    pub(super) run: u32,
    pub(super) seq: Seq,
    /// Messages past the log since that event.
    beside: u32,
    /// The number of the message among the event's; 0 for those past the log.
    part: u32,
    epoch: Epoch,
}

impl StreamEventId {
    /// Comes before all messages.
    pub(super) const START: Self =
        Self { run: 1, seq: Seq::ZERO, beside: 0, part: 0, epoch: Epoch(0) };

    /// The id of an event that makes one message.
    pub(super) fn of(run: u32, EventId { epoch, seq }: EventId) -> Self {
        Self { run, seq, beside: 0, part: LAST, epoch }
    }

    /// Returns the id of the next message that an event makes.
    pub(super) fn event(self, epoch: Epoch, seq: Seq, last: bool) -> Self {
        let goes_on = self.seq == seq && self.beside == 0 && self.part != LAST;
        let part = if last { LAST } else { 1 };
        let next = Self { run: self.run, seq, beside: 0, part, epoch };
        if goes_on && !last {
            Self { part: self.part + 1, ..next }
        } else if next > self {
            next
        } else {
            Self { run: self.run + 1, ..next }
        }
    }

    /// Returns the id of the next message past the log.
    pub(super) fn beside(self) -> Self {
        Self { beside: self.beside + 1, part: 0, ..self }
    }

    /// Returns true if the event made more messages after this one.
    pub(super) fn is_partial(self) -> bool {
        self.beside == 0 && self.part != LAST
    }

    /// Returns the event that this is a message of, or that it came after.
    pub(super) fn event_id(self) -> EventId {
        EventId { epoch: self.epoch, seq: self.seq }
    }
}

impl fmt::Display for StreamEventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.event_id().fmt(f)?;
        match (self.beside, self.part) {
            (0, LAST) => {}
            (0, part) => write!(f, ".{part}")?,
            (beside, _) => write!(f, "+{beside}")?,
        }
        if self.run > 1 { write!(f, "@{}", self.run) } else { Ok(()) }
    }
}

/// The text is not the id of a stream's event.
#[derive(Debug)]
pub(super) struct NotStreamEventId;

impl FromStr for StreamEventId {
    type Err = NotStreamEventId;

    fn from_str(id: &str) -> Result<Self, NotStreamEventId> {
        fn number<N: FromStr>(text: &str) -> Result<N, NotStreamEventId> {
            parse_digits(text).ok_or(NotStreamEventId)
        }
        let (id, run) = match id.split_once('@') {
            Some((id, run)) => (id, number(run)?),
            None => (id, 1),
        };
        let (id, beside, part) = match (id.split_once('+'), id.split_once('.')) {
            (Some((id, beside)), _) => (id, number(beside)?, 0),
            (None, Some((id, part))) => (id, 0, number(part)?),
            (None, None) => (id, 0, LAST),
        };
        let EventId { epoch, seq } = id.parse().map_err(|_| NotStreamEventId)?;
        Ok(Self { run, seq, beside, part, epoch })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seq: u64) -> (Epoch, Seq) {
        (Epoch(3), Seq(seq))
    }

    #[test]
    fn marks_read_as_they_are_written() {
        for id in ["3-7", "3-7.1", "3-7+2", "3-7@2", "3-7.4@12", "0-0+1"] {
            assert_eq!(id.parse::<StreamEventId>().unwrap().to_string(), id);
        }
        for wrong in [
            "",
            "7",
            "3-",
            "-7",
            "3-7.",
            "3-7+",
            "3-7@",
            "3-+7",
            "a-b",
            "3-7.1.2",
            "3-99999999999999999999",
        ] {
            assert!(wrong.parse::<StreamEventId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn marks_sort_as_the_messages_go_out() {
        let mut marks = vec![StreamEventId::START, StreamEventId::START.beside()];
        for step in 0..6 {
            let last = marks[marks.len() - 1];
            let (epoch, seq) = at(if step < 3 { 7 } else { 9 });
            marks.push(match step {
                0 | 1 => last.event(epoch, seq, false),
                2 | 3 => last.event(epoch, seq, true),
                _ => last.beside(),
            });
        }
        let names: Vec<String> = marks.iter().skip(1).map(ToString::to_string).collect();
        assert_eq!(names, ["0-0+1", "3-7.1", "3-7.2", "3-7", "3-9", "3-9+1", "3-9+2"]);
        assert!(marks.is_sorted());
    }

    #[test]
    fn a_log_that_is_shown_again_is_a_new_run() {
        let (epoch, seq) = at(7);
        let first = StreamEventId::START.event(epoch, seq, true);
        let again = first.event(epoch, seq, true);
        assert_eq!(again.to_string(), "3-7@2");
        assert_eq!(first.beside().event(epoch, Seq(2), true).to_string(), "3-2@2");
        assert!(again > first);
    }
}
