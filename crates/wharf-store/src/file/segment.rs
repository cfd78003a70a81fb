//! A segment: one file of a log, named by the seq of its first record.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::line::{self, SegmentHeader};
use super::points::{IndexPoint, SegmentIndex};
use super::walk::LineWalk;
use super::{dirs, lock_mutex, wrap_error};
use crate::StoreError;

/// Bytes per read in a scan.
const SCAN_CHUNK_BYTES: usize = 1 << 20;
/// Longer than any header.
const MAX_HEADER_BYTES: usize = 256;

#[derive(Debug)]
pub(super) struct Segment {
    pub(super) first: u64,
    pub(super) path: PathBuf,
    /// `None` until it is loaded.
    points: Mutex<Option<SegmentIndex>>,
}

/// The result of a scan.
#[derive(Debug)]
pub(super) struct SegmentScan {
    pub(super) points: SegmentIndex,
    /// The seq and epoch of the last whole record.
    pub(super) last: Option<(u64, u64)>,
    /// The end of the last whole line.
    pub(super) valid_end: u64,
}

impl Segment {
    pub(super) fn new(first: u64, path: PathBuf, points: Option<SegmentIndex>) -> Self {
        Self { first, path, points: Mutex::new(points) }
    }

    /// Creates the file of a new segment with its header and returns it with its length. Leaves no
    /// file if it fails.
    pub(super) fn create(dir: &Path, first: u64, epoch: u64) -> io::Result<(Self, File, u64)> {
        let path = dir.join(dirs::segment_name(first));
        let file = dirs::create_file(&path)?;
        match write_header(&file, first, epoch) {
            Ok(len) => Ok((Self::new(first, path, Some(SegmentIndex::default())), file, len)),
            Err(error) => {
                // A file that remains holds no record and is overwritten next time.
                let _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }

    pub(super) fn idx_path(&self) -> PathBuf {
        self.path.with_extension("idx")
    }

    pub(super) fn note_points(&self, marks: &[IndexPoint]) {
        let mut points = lock_mutex(&self.points);
        for mark in marks {
            points.get_or_insert_default().note_record(mark.seq, mark.offset);
        }
    }

    /// Returns the index of the first `len` bytes.
    pub(super) fn index_up_to(&self, len: u64) -> SegmentIndex {
        lock_mutex(&self.points)
            .as_ref()
            .map(|points| points.truncated(len))
            .unwrap_or_default()
    }

    /// Returns the offset at which a search for `seq` starts. Loads the index of a sealed segment,
    /// or builds it if there is none.
    pub(super) fn seek(&self, file: &File, len: u64, seq: u64) -> io::Result<Option<IndexPoint>> {
        let mut points = lock_mutex(&self.points);
        if points.is_none() {
            let stored = SegmentIndex::load(&self.idx_path(), self.first, len)
                .filter(|(_, covered)| *covered == len);
            *points = Some(match stored {
                Some((stored, _)) => stored,
                None => self.build_index(file, len)?,
            });
        }
        Ok(points.as_ref().and_then(|points| points.seek(seq)))
    }

    /// Builds the index again after it turned out to be wrong.
    pub(super) fn rebuild_index(&self, file: &File, len: u64) -> io::Result<()> {
        let points = self.build_index(file, len)?;
        *lock_mutex(&self.points) = Some(points);
        Ok(())
    }

    fn build_index(&self, file: &File, len: u64) -> io::Result<SegmentIndex> {
        let points = scan_segment(file, self.first, len, SegmentIndex::default())?
            .map(|scan| scan.points)
            .unwrap_or_default();
        // If it cannot be stored, only the next opening is slower.
        let _ = points.store(&self.idx_path(), self.first, len);
        Ok(points)
    }

    /// Opens a sealed segment and returns its file and length. It is opened for each read, so that
    /// a long log holds no file handles.
    pub(super) fn open(&self) -> Result<(File, u64), StoreError> {
        let file = File::open(&self.path).map_err(wrap_error("opening", &self.path))?;
        let len = file.metadata().map_err(wrap_error("reading the size of", &self.path))?.len();
        Ok((file, len))
    }
}

pub(super) fn write_header(file: &File, first: u64, epoch: u64) -> io::Result<u64> {
    let mut header = Vec::new();
    line::push_header(&mut header, first, epoch);
    file.write_all_at(&header, 0)?;
    Ok(header.len() as u64)
}

/// Reads the header, if it is readable.
pub(super) fn read_header(file: &File) -> io::Result<Option<SegmentHeader>> {
    let mut start = [0; MAX_HEADER_BYTES];
    let mut known = 0;
    while known < MAX_HEADER_BYTES {
        match file.read_at(&mut start[known..], known as u64)? {
            0 => break,
            more => known += more,
        }
    }
    let Some(length) = memchr::memchr(b'\n', &start[..known]) else { return Ok(None) };
    Ok(line::parse_header(&start[..length]))
}

/// Reads the lines after the last of `points` and finds the end of the last whole one. Returns
/// `None` if the last point is not the start of that record, so that the points belong to another
/// file.
pub(super) fn scan_segment(
    file: &File,
    first: u64,
    len: u64,
    mut points: SegmentIndex,
) -> io::Result<Option<SegmentScan>> {
    let start = points.last();
    let (at, mut expected) = start.map_or((0, first), |point| (point.offset, point.seq));
    let mut walk = LineWalk::new(file, at, len, SCAN_CHUNK_BYTES);
    let mut last = None;
    let mut valid_end = at;
    while let Some(line) = walk.next_line()? {
        let bytes = &walk.buffer()[line.range.clone()];
        match line::parse_record(bytes).filter(|found| line.whole && found.seq >= expected) {
            Some(found) => {
                if last.is_none() && start.is_some_and(|point| point.seq != found.seq) {
                    return Ok(None);
                }
                points.note_record(found.seq, line.offset);
                last = Some((found.seq, found.epoch));
                expected = found.seq.saturating_add(1);
                valid_end = line.end;
            }
            None if line.offset == 0 && line.whole && line::parse_header(bytes).is_some() => {
                valid_end = line.end
            }
            None if start.is_some_and(|point| point.offset == line.offset) => return Ok(None),
            None => {}
        }
    }
    Ok(if start.is_some() && last.is_none() {
        None
    } else {
        Some(SegmentScan { points, last, valid_end })
    })
}
