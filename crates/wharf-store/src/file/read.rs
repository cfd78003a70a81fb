//! Reads pages of records. Holds no lock during a read, verifies every checksum, and reports ranges
//! that it cannot read.

use std::fs::File;
use std::path::Path;

use super::log::{FileLog, LogView};
use super::segment::Segment;
use super::walk::{FoundLine, LineWalk};
use super::{line, lock_mutex, wrap_error};
use crate::{DamagedRange, LogRecord, RecordPage, StoreError};

/// Bytes per read. Small enough that a record that is kept in memory keeps little else alive.
const MIN_CHUNK_BYTES: usize = 16 << 10;
const MAX_CHUNK_BYTES: usize = 1 << 20;

/// Positions at which some readers will continue, so that following a log needs no search.
#[derive(Debug, Default)]
pub(super) struct ReadHints {
    ring: [ReadHint; 8],
    next: usize,
}

/// The record `seq` starts at `offset` in the segment that begins with `first`.
#[derive(Clone, Copy, Debug, Default)]
struct ReadHint {
    seq: u64,
    first: u64,
    offset: u64,
    /// The epoch of the record before it, if it is known.
    epoch_before: Option<u64>,
}

impl ReadHints {
    fn get(&self, seq: u64, first: u64) -> Option<ReadHint> {
        self.ring.iter().find(|hint| hint.seq == seq && hint.first == first).copied()
    }

    fn put(&mut self, hint: ReadHint) {
        match self.ring.iter_mut().find(|old| old.seq == hint.seq) {
            Some(old) => *old = hint,
            None => {
                self.ring[self.next] = hint;
                self.next = (self.next + 1) % self.ring.len();
            }
        }
    }
}

struct PageRead<'a> {
    log: &'a FileLog,
    page: RecordPage,
    /// The first requested seq.
    from: u64,
    /// The next seq to be found.
    expected: u64,
    /// The epoch of the last record before `expected`, if one was met.
    epoch_before: Option<u64>,
    max_bytes: usize,
    taken: usize,
}

/// The position in a segment: its file, the last seq that belongs to it, and the offset where bad
/// bytes began.
struct SegmentPosition<'a> {
    segment: &'a Segment,
    file: &'a File,
    len: u64,
    last: u64,
    bad: Option<u64>,
}

pub(super) fn read_page(
    log: &FileLog,
    from: u64,
    max_bytes: usize,
) -> Result<RecordPage, StoreError> {
    let view = log.view();
    let from = from.max(1);
    let mut reading = PageRead {
        log,
        page: RecordPage::default(),
        from,
        expected: from,
        epoch_before: None,
        max_bytes,
        taken: 0,
    };
    if from <= view.head.seq {
        reading.read_segments(&view)?;
    }
    let unknown = reading.page.damage.first().filter(|range| range.epoch == 0 && range.first > 1);
    if let Some(first) = unknown.map(|range| range.first) {
        // Another segment that cannot be read must not cost this page.
        let epoch = find_epoch_before(&view, first).unwrap_or(0);
        reading
            .page
            .damage
            .iter_mut()
            .take_while(|range| range.epoch == 0)
            .for_each(|range| range.epoch = epoch);
    }
    Ok(reading.page)
}

/// Returns the epoch of the last readable record before `seq`, 0 if there is none. Only needed for
/// damage at the beginning of a page and of a segment.
fn find_epoch_before(view: &LogView, seq: u64) -> Result<u64, StoreError> {
    let segments = std::iter::once(&view.active).chain(view.sealed.iter().rev());
    for segment in segments.filter(|segment| segment.first < seq) {
        let (file, len) = segment.open()?;
        let reading = wrap_error("reading", &segment.path);
        let point = segment.seek(&file, len, seq - 1).map_err(&reading)?;
        // An index that is wrong leads nowhere: then the whole segment is read.
        for offset in [point.map_or(0, |point| point.offset), 0] {
            let mut walk = LineWalk::new(&file, offset, len, MAX_CHUNK_BYTES);
            let mut before = None;
            while let Some(line) = walk.next_line().map_err(&reading)? {
                let found =
                    line::parse_record(&walk.buffer()[line.range.clone()]).filter(|_| line.whole);
                match found {
                    Some(found) if found.seq >= seq => break,
                    Some(found) => before = Some(found.epoch),
                    None => {}
                }
            }
            if let Some(epoch) = before {
                return Ok(epoch);
            }
        }
    }
    Ok(0)
}

impl PageRead<'_> {
    fn read_segments(&mut self, view: &LogView) -> Result<(), StoreError> {
        let start = view
            .sealed
            .partition_point(|segment| segment.first <= self.from)
            .saturating_sub(1);
        for (nth, segment) in view.sealed.iter().enumerate().skip(start) {
            let next = view.sealed.get(nth + 1).unwrap_or(&view.active).first;
            if next > self.expected {
                let (file, len) = segment.open()?;
                let full = self.read_segment(SegmentPosition {
                    segment,
                    file: &file,
                    len,
                    last: next - 1,
                    bad: None,
                })?;
                if full {
                    return Ok(());
                }
                self.keep_hint(next, next, 0);
            }
        }
        let segment = &*view.active;
        let last = view.head.seq;
        if !self.read_segment(SegmentPosition {
            segment,
            file: &view.file,
            len: view.len,
            last,
            bad: None,
        })? {
            self.keep_hint(last + 1, segment.first, view.len);
        }
        Ok(())
    }

    /// Reads records of one segment. Returns true if the page is full.
    fn read_segment(&mut self, mut place: SegmentPosition<'_>) -> Result<bool, StoreError> {
        if self.expected < place.segment.first {
            self.record_damage(
                place.segment.first - 1,
                format!("{}: no segment holds them", self.log.dir.display()),
            );
        }
        let reading = wrap_error("reading", &place.segment.path);
        let at = self.start_offset(&place).map_err(&reading)?;
        let mut walk = LineWalk::new(
            place.file,
            at,
            place.len,
            self.max_bytes.clamp(MIN_CHUNK_BYTES, MAX_CHUNK_BYTES),
        );
        while let Some(line) = walk.next_line().map_err(&reading)? {
            if self.take_line(&walk, &line, &mut place) {
                return Ok(true);
            }
        }
        if self.expected <= place.last {
            let bad = place.bad.unwrap_or(place.len);
            self.record_damage(place.last, describe_range(&place.segment.path, bad, place.len));
        }
        Ok(false)
    }

    /// Returns the offset at which reading starts in a segment.
    fn start_offset(&mut self, place: &SegmentPosition<'_>) -> std::io::Result<u64> {
        let hint = lock_mutex(&self.log.hints).get(self.expected, place.segment.first);
        if let Some(hint) = hint {
            self.epoch_before = self.epoch_before.or(hint.epoch_before);
            return Ok(hint.offset);
        }
        let seek = || place.segment.seek(place.file, place.len, self.expected);
        let Some(point) = seek()? else { return Ok(0) };
        let mut walk = LineWalk::new(place.file, point.offset, place.len, MIN_CHUNK_BYTES);
        let found = walk
            .next_line()?
            .and_then(|line| line::parse_record(&walk.buffer()[line.range]));
        if found.is_some_and(|found| found.seq == point.seq) {
            return Ok(point.offset);
        }
        // Either the index is wrong or the record at this offset is damaged.
        place.segment.rebuild_index(place.file, place.len)?;
        Ok(seek()?.map_or(0, |point| point.offset))
    }

    /// Adds one line to the page. Returns true if the page is full without it.
    fn take_line(
        &mut self,
        walk: &LineWalk<'_>,
        line: &FoundLine,
        place: &mut SegmentPosition<'_>,
    ) -> bool {
        let bytes = &walk.buffer()[line.range.clone()];
        let Some(found) = line::parse_record(bytes)
            .filter(|found| line.whole && self.fits_page(found.seq, place.last))
        else {
            if line.offset > 0 || line::parse_header(bytes).is_none() {
                place.bad.get_or_insert(line.offset);
            }
            return false;
        };
        if found.seq < self.from {
            place.bad = None;
            self.epoch_before = Some(found.epoch);
            return false;
        }
        if !self.page.records.is_empty() && self.taken + bytes.len() > self.max_bytes {
            self.keep_hint(self.expected, place.segment.first, place.bad.unwrap_or(line.offset));
            return true;
        }
        let bad = place.bad.take().unwrap_or(line.offset);
        if found.seq > self.expected {
            self.record_damage(
                found.seq - 1,
                describe_range(&place.segment.path, bad, line.offset),
            );
        }
        self.expected = found.seq + 1;
        self.epoch_before = Some(found.epoch);
        self.taken += bytes.len();
        let body = walk
            .buffer()
            .slice(line.range.start + found.body.start..line.range.start + found.body.end);
        self.page.records.push(LogRecord { seq: found.seq, epoch: found.epoch, body });
        false
    }

    /// Returns false for a record that was read before or belongs elsewhere.
    fn fits_page(&self, seq: u64, last: u64) -> bool {
        seq <= last && (seq < self.from || seq >= self.expected)
    }

    fn record_damage(&mut self, last: u64, place: String) {
        let epoch = self.epoch_before.unwrap_or_default();
        self.page.damage.push(DamagedRange { place, first: self.expected, last, epoch });
        self.expected = last + 1;
    }

    fn keep_hint(&self, seq: u64, first: u64, offset: u64) {
        lock_mutex(&self.log.hints).put(ReadHint {
            seq,
            first,
            offset,
            epoch_before: self.epoch_before,
        });
    }
}

fn describe_range(path: &Path, from: u64, to: u64) -> String {
    format!("{}: bytes {from}..{to}", path.display())
}
