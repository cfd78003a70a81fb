//! The events of a page of the log. Lines that cannot be read have something in their place, so
//! that every reader learns of them.

use wharf_core::{CodecError, Epoch, Event, LostEvents, Millis, Seq, decode_or_lost};
use wharf_store::{DamagedRange, RecordPage};

use super::cursor::Entry;

/// A snapshot of a newer version of Wharf.
#[derive(Debug)]
pub(super) struct NewerSnapshot {
    pub(super) seq: Seq,
    pub(super) error: CodecError,
}

/// Decodes the events of a page up to `head`, in order.
pub(super) fn decode_page(page: &RecordPage, head: Seq) -> Result<Vec<Entry>, NewerSnapshot> {
    let mut found = FoundEvents {
        entries: Vec::with_capacity(page.records.len() + page.damage.len()),
        timeless: 0,
    };
    let mut damage = page.damage.iter().filter(|range| range.first <= head.0).peekable();
    for record in page.records.iter().filter(|record| record.seq <= head.0) {
        while let Some(range) = damage.next_if(|range| range.last < record.seq) {
            found.push_damage(range, head);
        }
        let seq = Seq(record.seq);
        let epoch = Epoch(record.epoch);
        let decoded =
            decode_or_lost(seq, &record.body).map_err(|error| NewerSnapshot { seq, error })?;
        found.push(seq, Some(epoch), decoded.at, decoded.event);
    }
    for range in damage {
        found.push_damage(range, head);
    }
    found.finish();
    Ok(found.entries)
}

/// The entries of a page. Damaged lines have lost their epoch and time. They get the epoch of the
/// event before them, which is the same on each page (rule 1.5), and the time of the next one. The
/// first lines of a log get the epoch of the next event.
struct FoundEvents {
    entries: Vec<Entry>,
    /// The number of entries at the end that wait for an epoch or a time.
    timeless: usize,
}

impl FoundEvents {
    fn push_damage(&mut self, range: &DamagedRange, head: Seq) {
        let last = Seq(range.last).min(head);
        // Readers of a session are not told where the host keeps its logs.
        let place = range.place.rsplit('/').next().unwrap_or_default();
        let lost = LostEvents::of_damage(Seq(range.first), last, place);
        let epoch = (range.epoch > 0).then_some(Epoch(range.epoch));
        self.push(last, epoch, None, Event::Lost(lost));
    }

    fn push(&mut self, seq: Seq, epoch: Option<Epoch>, at: Option<Millis>, event: Event) {
        let entry = Entry {
            seq,
            epoch: epoch.unwrap_or_default(),
            at: at.unwrap_or_default(),
            event,
        };
        if let (Some(epoch), Some(at)) = (epoch, at) {
            self.date_waiting(epoch, at);
        } else {
            self.timeless += 1;
        }
        self.entries.push(entry);
    }

    fn date_waiting(&mut self, epoch: Epoch, at: Millis) {
        let from = self.entries.len() - std::mem::take(&mut self.timeless);
        for entry in &mut self.entries[from..] {
            if entry.epoch == Epoch::default() {
                entry.epoch = epoch;
            }
            if entry.at == Millis::default() {
                entry.at = at;
            }
        }
    }

    /// At the end of a page the event before tells about when it was.
    fn finish(&mut self) {
        let before = self.entries.len() - self.timeless;
        if let Some((epoch, at)) = before
            .checked_sub(1)
            .map(|place| (self.entries[place].epoch, self.entries[place].at))
        {
            self.date_waiting(epoch, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use wharf_core::SettingsLoss;
    use wharf_store::LogRecord;

    use super::*;

    fn record(seq: u64, body: &str) -> LogRecord {
        LogRecord { seq, epoch: 3, body: Bytes::copy_from_slice(body.as_bytes()) }
    }

    fn seen(page: &RecordPage, head: u64) -> Vec<(u64, u64, u64, Option<SettingsLoss>)> {
        let entries = decode_page(page, Seq(head)).unwrap();
        let loss =
            |event: &Event| if let Event::Lost(lost) = event { Some(lost.settings) } else { None };
        entries
            .iter()
            .map(|entry| (entry.seq.0, entry.epoch.0, entry.at.0, loss(&entry.event)))
            .collect()
    }

    #[test]
    fn lost_lines_keep_their_place_and_get_the_time_of_the_next_event() {
        let damage =
            |first, last, epoch| DamagedRange { place: "x".to_owned(), first, last, epoch };
        let page = RecordPage {
            records: vec![
                record(2, r#"{"kind":"paused","at":7,"why":"storage_full"}"#),
                record(3, "{\"kind\":\"prompt_ended\",\"at\":8,\"a\tb\":1}"),
                record(6, r#"{"kind":"continued","at":9}"#),
                record(8, r#"{"kind":"continued","at":11}"#),
            ],
            damage: vec![damage(1, 1, 0), damage(4, 5, 2), damage(7, 7, 3)],
        };
        let none = Some(SettingsLoss::None);
        let possible = Some(SettingsLoss::Possible);
        let all = [
            (1, 3, 7, none),
            (2, 3, 7, None),
            (3, 3, 8, none),
            (5, 2, 9, possible),
            (6, 3, 9, None),
            (7, 3, 11, possible),
            (8, 3, 11, None),
        ];
        assert_eq!(seen(&page, 8), all);
        assert_eq!(seen(&page, 7)[5], (7, 3, 9, possible), "at the end of a page");
        assert_eq!(
            seen(&RecordPage { records: Vec::new(), ..page }, 4),
            [(1, 0, 0, none), (4, 2, 0, possible)]
        );
    }

    #[test]
    fn snapshot_of_a_newer_version_is_not_left_out() {
        let records = vec![record(9, r#"{"kind":"snapshot","at":1,"saved":{"v":99,"state":{}}}"#)];
        let newer = decode_page(&RecordPage { records, damage: Vec::new() }, Seq(9)).unwrap_err();
        assert!(
            newer.seq == Seq(9) && matches!(newer.error, CodecError::Newer { .. }),
            "{newer:?}"
        );
    }
}
