//! The sparse index of a segment: the offsets of some of its records. Stored beside it as `.idx`;
//! derived from the segment and never authoritative.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use super::line;

/// One point per this many bytes: a seek reads half of it in vain, and a full segment has about a
/// thousand points.
pub(super) const POINT_STRIDE_BYTES: u64 = 64 << 10;
const INDEX_FORMAT: u64 = 1;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SegmentIndex(Vec<IndexPoint>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IndexPoint {
    pub(super) seq: u64,
    pub(super) offset: u64,
}

impl SegmentIndex {
    /// Takes note of a record; only some become points.
    pub(super) fn note_record(&mut self, seq: u64, offset: u64) {
        if self.0.last().is_none_or(|last| offset >= last.offset + POINT_STRIDE_BYTES) {
            self.0.push(IndexPoint { seq, offset });
        }
    }

    /// Returns the last point that is not after `seq`.
    pub(super) fn seek(&self, seq: u64) -> Option<IndexPoint> {
        let after = self.0.partition_point(|point| point.seq <= seq);
        Some(self.0[after.checked_sub(1)?])
    }

    pub(super) fn last(&self) -> Option<IndexPoint> {
        self.0.last().copied()
    }

    /// Returns a copy without the points at or behind `len`.
    pub(super) fn truncated(&self, len: u64) -> Self {
        Self(self.0[..self.0.partition_point(|point| point.offset < len)].to_vec())
    }

    /// Writes the index of the segment's first `len` bytes. Needs no sync: an incomplete index is
    /// built again.
    pub(super) fn store(&self, path: &Path, first: u64, len: u64) -> io::Result<()> {
        let mut out = Vec::with_capacity(64 + self.0.len() * 24);
        line::push_line(&mut out, |out| {
            line::push_number(out, b"{\"wharf_idx\":", INDEX_FORMAT);
            line::push_number(out, b",\"first\":", first);
            line::push_number(out, b",\"len\":", len);
            out.extend_from_slice(b",\"points\":[");
            for (nth, point) in self.0.iter().enumerate() {
                line::push_number(out, if nth == 0 { b"[" } else { b",[" }, point.seq);
                line::push_number(out, b",", point.offset);
                out.push(b']');
            }
            out.extend_from_slice(b"]}");
        });
        let temporary = path.with_extension("idx-new");
        super::dirs::create_file(&temporary)?.write_all(&out)?;
        fs::rename(&temporary, path)
    }

    /// Returns the stored index and the number of bytes that it covers, or `None` if no stored
    /// index is valid.
    pub(super) fn load(path: &Path, first: u64, len: u64) -> Option<(Self, u64)> {
        let bytes = fs::read(path).ok()?;
        let payload = line::checked_payload(bytes.strip_suffix(b"\n")?)?;
        let mut numbers = payload
            .split(|b| !b.is_ascii_digit())
            .filter(|text| !text.is_empty())
            .map(|text| line::parse_number(text));
        let mut next = || numbers.next().flatten().map(|(value, _)| value);
        let format = next()?;
        let of = next()?;
        let covered = next()?;
        if format != INDEX_FORMAT || of != first || covered > len {
            return None;
        }
        let mut points = Vec::new();
        while let Some(seq) = next() {
            points.push(IndexPoint { seq, offset: next()? });
        }
        let rising = points
            .windows(2)
            .all(|two| two[0].seq < two[1].seq && two[0].offset < two[1].offset);
        let inside = points.iter().all(|point| point.seq >= first && point.offset < covered);
        (rising && inside).then_some((Self(points), covered))
    }
}
