//! The newest changes of a transcript, for readers that follow it: appended text as text, all else
//! as the number of a row.

use std::collections::{BTreeMap, VecDeque};

use wharf_core::{Millis, Seq};
use wharf_transcript::RowChange;

/// The most bytes of changes that are kept.
const MAX_RING_BYTES: usize = 1024 * 1024;
/// The cost of a change besides its text.
const CHANGE_OVERHEAD_BYTES: usize = 96;

/// The change of one row between two points of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MergedChange {
    /// It is new, or has changed otherwise than by growing at one end.
    Whole,
    /// One part of it has grown, or the end of a part that is cut.
    Grown { from: u64, rev: u64, part: usize, text: String, at: Millis, is_tail: bool },
}

/// The changes of consecutive events.
#[derive(Debug)]
struct ChangeSet {
    /// The last event before, and the last event of the set.
    from: Seq,
    to: Seq,
    changes: BTreeMap<u64, MergedChange>,
    bytes: usize,
}

#[derive(Debug, Default)]
pub(super) struct ChangeRing {
    sets: VecDeque<ChangeSet>,
    bytes: usize,
}

/// Collects the changes of consecutive events, one for each row.
#[derive(Debug, Default)]
pub(super) struct ChangeCollector(BTreeMap<u64, MergedChange>);

impl ChangeCollector {
    /// Adds the changes of one event.
    pub(super) fn add(&mut self, seq: Seq, at: Millis, changes: &mut Vec<RowChange>) {
        for change in changes.drain(..) {
            let (number, change) = match change {
                RowChange::Row { number, .. } => (number, MergedChange::Whole),
                RowChange::Append { number, from, part, text, is_tail } => {
                    (number, MergedChange::Grown { from, rev: seq.0, part, text, at, is_tail })
                }
            };
            merge_change(&mut self.0, number.0, change);
        }
    }
}

impl ChangeRing {
    /// Adds the changes of the events after `from` up to `to`. The oldest ones are dropped when
    /// there are too many.
    pub(super) fn push(&mut self, from: Seq, to: Seq, changes: ChangeCollector) {
        let changes = changes.0;
        let text_bytes = |change: &MergedChange| match change {
            MergedChange::Whole => 0,
            MergedChange::Grown { text, .. } => text.len(),
        };
        let bytes = CHANGE_OVERHEAD_BYTES
            + changes
                .values()
                .map(|change| CHANGE_OVERHEAD_BYTES + text_bytes(change))
                .sum::<usize>();
        self.bytes += bytes;
        self.sets.push_back(ChangeSet { from, to, changes, bytes });
        while self.bytes > MAX_RING_BYTES
            && let Some(oldest) = self.sets.pop_front()
        {
            self.bytes -= oldest.bytes;
        }
    }

    /// Returns the changes of all events after `position` by the numbers of their rows; `None` if
    /// not all of them are here.
    pub(super) fn after(&self, position: Seq) -> Option<BTreeMap<u64, MergedChange>> {
        let mut merged = BTreeMap::new();
        let newer = self.sets.iter().filter(|set| set.to > position);
        let mut expected = None;
        for set in newer {
            if expected.is_some_and(|expected| expected != set.from)
                || (expected.is_none() && set.from > position)
            {
                return None;
            }
            expected = Some(set.to);
            for (number, change) in &set.changes {
                // A reader within a set does not know how far each row had grown there.
                let change = if set.from < position { MergedChange::Whole } else { change.clone() };
                merge_change(&mut merged, *number, change);
            }
        }
        expected.map(|_| merged)
    }
}

fn merge_change(changes: &mut BTreeMap<u64, MergedChange>, number: u64, change: MergedChange) {
    let Some(earlier) = changes.get_mut(&number) else {
        changes.insert(number, change);
        return;
    };
    match (&mut *earlier, change) {
        (
            MergedChange::Grown { rev, part, text, at, is_tail, .. },
            MergedChange::Grown {
                from,
                rev: now,
                part: grown,
                text: more,
                at: then,
                is_tail: is_still_tail,
            },
        ) if *rev == from && *part == grown && *is_tail == is_still_tail => {
            text.push_str(&more);
            (*rev, *at) = (now, then);
        }
        (MergedChange::Whole | MergedChange::Grown { .. }, _) => *earlier = MergedChange::Whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wharf_transcript::RowNumber;

    fn collect(changes: &[(u64, RowChange)]) -> ChangeCollector {
        let mut collector = ChangeCollector::default();
        for (seq, change) in changes {
            collector.add(Seq(*seq), Millis(*seq), &mut vec![change.clone()]);
        }
        collector
    }

    fn grown(number: u64, from: u64, text: &str) -> RowChange {
        RowChange::Append {
            number: RowNumber(number),
            from,
            part: 0,
            text: text.to_owned(),
            is_tail: false,
        }
    }

    fn whole(number: u64) -> RowChange {
        RowChange::Row { number: RowNumber(number), from: 1 }
    }

    #[test]
    fn appends_of_one_row_are_joined_and_other_changes_are_the_whole_row() {
        let mut ring = ChangeRing::default();
        ring.push(Seq(4), Seq(6), collect(&[(5, grown(1, 4, "a")), (6, grown(1, 5, "b"))]));
        ring.push(Seq(6), Seq(8), collect(&[(7, grown(1, 6, "c")), (8, whole(2))]));
        let joined = MergedChange::Grown {
            from: 4,
            rev: 7,
            part: 0,
            text: "abc".to_owned(),
            at: Millis(7),
            is_tail: false,
        };
        assert_eq!(
            ring.after(Seq(4)),
            Some(BTreeMap::from([(1, joined), (2, MergedChange::Whole)]))
        );
        let last = MergedChange::Grown {
            from: 6,
            rev: 7,
            part: 0,
            text: "c".to_owned(),
            at: Millis(7),
            is_tail: false,
        };
        assert_eq!(ring.after(Seq(6)), Some(BTreeMap::from([(1, last), (2, MergedChange::Whole)])));
    }

    #[test]
    fn reader_within_a_set_gets_whole_rows_and_reader_before_the_ring_gets_none() {
        let mut ring = ChangeRing::default();
        ring.push(Seq(4), Seq(6), collect(&[(5, grown(1, 4, "a")), (6, grown(1, 5, "b"))]));
        assert_eq!(ring.after(Seq(5)), Some(BTreeMap::from([(1, MergedChange::Whole)])));
        assert_eq!((ring.after(Seq(3)), ring.after(Seq(6))), (None, None));
    }

    #[test]
    fn ring_drops_its_oldest_changes_when_it_is_full() {
        let mut ring = ChangeRing::default();
        for seq in 1..=20 {
            ring.push(
                Seq(seq),
                Seq(seq + 1),
                collect(&[(seq + 1, grown(1, seq, &"x".repeat(100_000)))]),
            );
        }
        assert!(ring.bytes <= MAX_RING_BYTES, "{}", ring.bytes);
        assert_eq!(ring.after(Seq(1)), None);
        assert!(ring.after(Seq(20)).is_some());
    }
}
