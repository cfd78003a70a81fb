//! Reads pages of records. Holds no lock during a read, verifies every checksum, and reports ranges that it cannot
//! read.

use std::fs::File;
use std::path::Path;

use super::log::{FileLog, View};
use super::segment::Segment;
use super::walk::{Line, Walk};
use super::{failed, line, lock};
use crate::{Damage, Page, Record, StoreError};

/// Bytes per read. Small enough that a record that is kept in memory keeps little else alive.
const CHUNK_MIN: usize = 16 << 10;
const CHUNK_MAX: usize = 1 << 20;

/// Positions at which some readers will continue, so that following a log needs no search.
#[derive(Debug, Default)]
pub(super) struct Hints {
    ring: [Hint; 8],
    next: usize,
}

/// The record `seq` starts at `offset` in the segment that begins with `first`.
#[derive(Clone, Copy, Debug, Default)]
struct Hint {
    seq: u64,
    first: u64,
    offset: u64,
}

impl Hints {
    fn get(&self, seq: u64, first: u64) -> Option<u64> {
        self.ring.iter().find(|hint| hint.seq == seq && hint.first == first).map(|hint| hint.offset)
    }

    fn put(&mut self, hint: Hint) {
        match self.ring.iter_mut().find(|old| old.seq == hint.seq) {
            Some(old) => *old = hint,
            None => {
                self.ring[self.next] = hint;
                self.next = (self.next + 1) % self.ring.len();
            }
        }
    }
}

struct Reading<'a> {
    log: &'a FileLog,
    page: Page,
    /// The first requested seq.
    from: u64,
    /// The next seq to be found.
    expected: u64,
    max_bytes: usize,
    taken: usize,
}

/// The position in a segment: its file, the last seq that belongs to it, and the offset where bad bytes began.
struct Place<'a> {
    segment: &'a Segment,
    file: &'a File,
    len: u64,
    last: u64,
    bad: Option<u64>,
}

pub(super) fn page(log: &FileLog, from: u64, max_bytes: usize) -> Result<Page, StoreError> {
    let view = log.view();
    let from = from.max(1);
    let mut reading = Reading { log, page: Page::default(), from, expected: from, max_bytes, taken: 0 };
    if from <= view.head.seq {
        reading.run(&view)?;
    }
    Ok(reading.page)
}

impl Reading<'_> {
    fn run(&mut self, view: &View) -> Result<(), StoreError> {
        let start = view.sealed.partition_point(|segment| segment.first <= self.from).saturating_sub(1);
        for (nth, segment) in view.sealed.iter().enumerate().skip(start) {
            let next = view.sealed.get(nth + 1).unwrap_or(&view.active).first;
            if next > self.expected {
                let (file, len) = segment.open()?;
                let full = self.segment(Place { segment, file: &file, len, last: next - 1, bad: None })?;
                if full {
                    return Ok(());
                }
                self.keep(next, next, 0);
            }
        }
        let (segment, last) = (&*view.active, view.head.seq);
        if !self.segment(Place { segment, file: &view.file, len: view.len, last, bad: None })? {
            self.keep(last + 1, segment.first, view.len);
        }
        Ok(())
    }

    /// Reads records of one segment. Returns true if the page is full.
    fn segment(&mut self, mut place: Place<'_>) -> Result<bool, StoreError> {
        if self.expected < place.segment.first {
            self.lose(place.segment.first - 1, format!("{}: no segment holds them", self.log.dir.display()));
        }
        let reading = failed("reading", &place.segment.path);
        let at = self.start(&place).map_err(&reading)?;
        let mut walk = Walk::new(place.file, at, place.len, self.max_bytes.clamp(CHUNK_MIN, CHUNK_MAX));
        while let Some(line) = walk.next_line().map_err(&reading)? {
            if self.line(&walk, &line, &mut place) {
                return Ok(true);
            }
        }
        if self.expected <= place.last {
            let bad = place.bad.unwrap_or(place.len);
            self.lose(place.last, stretch(&place.segment.path, bad, place.len));
        }
        Ok(false)
    }

    /// Returns the offset at which reading starts in a segment.
    fn start(&self, place: &Place<'_>) -> std::io::Result<u64> {
        if let Some(offset) = lock(&self.log.hints).get(self.expected, place.segment.first) {
            return Ok(offset);
        }
        let seek = || place.segment.seek(place.file, place.len, self.expected);
        let Some(point) = seek()? else { return Ok(0) };
        let mut walk = Walk::new(place.file, point.offset, place.len, CHUNK_MIN);
        let found = walk.next_line()?.and_then(|line| line::parse(&walk.bytes()[line.range]));
        if found.is_some_and(|found| found.seq == point.seq) {
            return Ok(point.offset);
        }
        // Either the index is wrong or the record at this offset is damaged.
        place.segment.reindex(place.file, place.len)?;
        Ok(seek()?.map_or(0, |point| point.offset))
    }

    /// Adds one line to the page. Returns true if the page is full without it.
    fn line(&mut self, walk: &Walk<'_>, line: &Line, place: &mut Place<'_>) -> bool {
        let bytes = &walk.bytes()[line.range.clone()];
        let Some(found) = line::parse(bytes).filter(|found| line.whole && self.fits(found.seq, place.last)) else {
            if line.offset > 0 || line::parse_header(bytes).is_none() {
                place.bad.get_or_insert(line.offset);
            }
            return false;
        };
        if found.seq < self.from {
            place.bad = None;
            return false;
        }
        if !self.page.records.is_empty() && self.taken + bytes.len() > self.max_bytes {
            self.keep(self.expected, place.segment.first, place.bad.unwrap_or(line.offset));
            return true;
        }
        let bad = place.bad.take().unwrap_or(line.offset);
        if found.seq > self.expected {
            self.lose(found.seq - 1, stretch(&place.segment.path, bad, line.offset));
        }
        self.expected = found.seq + 1;
        self.taken += bytes.len();
        let body = walk.bytes().slice(line.range.start + found.body.start..line.range.start + found.body.end);
        self.page.records.push(Record { seq: found.seq, epoch: found.epoch, body });
        false
    }

    /// Returns false for a record that was read before or belongs elsewhere.
    fn fits(&self, seq: u64, last: u64) -> bool {
        seq <= last && (seq < self.from || seq >= self.expected)
    }

    fn lose(&mut self, last: u64, place: String) {
        self.page.damage.push(Damage { place, first: self.expected, last });
        self.expected = last + 1;
    }

    fn keep(&self, seq: u64, first: u64, offset: u64) {
        lock(&self.log.hints).put(Hint { seq, first, offset });
    }
}

fn stretch(path: &Path, from: u64, to: u64) -> String {
    format!("{}: bytes {from}..{to}", path.display())
}
