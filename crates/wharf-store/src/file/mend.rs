//! Opens a log: finds its segments, scans the end of the last one, and cuts a half-written record
//! that a crash left there.
//!
//! Only bad bytes that reach the very end are torn. Bad bytes followed by a whole record are
//! damage: they stay in place, and a read reports them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::points::SegmentIndex;
use super::segment::{self, Segment, SegmentScan};
use super::{dirs, line, wrap_error};
use crate::{Head, LogId, Mended, StoreError};

pub(super) struct OpenedLog {
    pub(super) sealed: Vec<Arc<Segment>>,
    pub(super) active: Segment,
    /// The file of the active segment.
    pub(super) file: File,
    /// Length of the active segment.
    pub(super) len: u64,
    pub(super) head: Head,
    pub(super) mended: Mended,
}

pub(super) fn open_log(dir: &Path, id: &LogId) -> Result<OpenedLog, StoreError> {
    let found = match dirs::list_segments(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(StoreError::NotFound(id.clone()));
        }
        found => found.map_err(wrap_error("listing", dir))?,
    };
    let Some((last, before)) = found.split_last() else {
        let source = io::Error::new(ErrorKind::InvalidData, "its segments are gone");
        return Err(wrap_error("opening", dir)(source));
    };
    let path = dir.join(dirs::segment_name(last.first));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .map_err(wrap_error("opening", &path))?;
    let size = file.metadata().map_err(wrap_error("reading the size of", &path))?.len();
    let header = read_header(&file, &path, id)?;
    let scan = scan_tail(&file, &path, last.first, size).map_err(wrap_error("reading", &path))?;

    let mended = cut_torn_end(dir, &path, &file, last.first, scan.valid_end, size)?;
    let mut len = scan.valid_end;
    let epoch = match (scan.last, header) {
        (Some((_, epoch)), _) => epoch,
        (None, Some(epoch)) => epoch,
        (None, None) => before.last().map_or(Ok(0), |previous| tail_epoch(dir, id, previous))?,
    };
    if len == 0 {
        len = segment::write_header(&file, last.first, epoch)
            .map_err(wrap_error("writing", &path))?;
    }
    let seq = scan.last.map_or(last.first - 1, |(seq, _)| seq);
    let bytes = before.iter().map(|segment| segment.bytes).sum::<u64>() + len;
    let sealed = before
        .iter()
        .map(|segment| {
            Arc::new(Segment::new(segment.first, dir.join(dirs::segment_name(segment.first)), None))
        })
        .collect();
    let active = Segment::new(last.first, path, Some(scan.points));
    Ok(OpenedLog {
        sealed,
        active,
        file,
        len,
        head: Head { seq, epoch, bytes },
        mended,
    })
}

/// Returns the epoch in the header, if it can be read. Fails if a newer version of Wharf wrote it.
fn read_header(file: &File, path: &Path, id: &LogId) -> Result<Option<u64>, StoreError> {
    match segment::read_header(file).map_err(wrap_error("reading", path))? {
        Some(header) if header.format > line::LOG_FORMAT => Err(StoreError::Newer {
            id: id.clone(),
            found: header.format,
            known: line::LOG_FORMAT,
        }),
        header => Ok(header.map(|header| header.epoch)),
    }
}

/// Scans the end of a segment, starting from its index if that is valid.
fn scan_tail(file: &File, path: &Path, first: u64, len: u64) -> io::Result<SegmentScan> {
    let idx = path.with_extension("idx");
    if let Some((points, _)) = SegmentIndex::load(&idx, first, len)
        && points.last().is_some()
        && let Some(scan) = segment::scan_segment(file, first, len, points)?
    {
        return Ok(scan);
    }
    // An invalid index is deleted, so that it is not used when the segment has grown past it.
    match fs::remove_file(&idx) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let scan = segment::scan_segment(file, first, len, SegmentIndex::default())?;
    Ok(scan.unwrap_or(SegmentScan { points: SegmentIndex::default(), last: None, valid_end: 0 }))
}

/// Returns the epoch at the end of a sealed segment.
fn tail_epoch(dir: &Path, id: &LogId, segment: &dirs::SegmentFile) -> Result<u64, StoreError> {
    let path = dir.join(dirs::segment_name(segment.first));
    let file = File::open(&path).map_err(wrap_error("opening", &path))?;
    let header = read_header(&file, &path, id)?;
    let scan = scan_tail(&file, &path, segment.first, segment.bytes)
        .map_err(wrap_error("reading", &path))?;
    Ok(scan.last.map(|(_, epoch)| epoch).or(header).unwrap_or(0))
}

/// Moves the bytes behind `valid_end` into a file of their own. They are synced there before they
/// are cut here.
fn cut_torn_end(
    dir: &Path,
    path: &Path,
    file: &File,
    first: u64,
    valid_end: u64,
    len: u64,
) -> Result<Mended, StoreError> {
    let torn_bytes = len - valid_end;
    if torn_bytes > 0 {
        let torn = copy_torn_end(dir, first, valid_end, file, torn_bytes)
            .map_err(wrap_error("keeping the torn end of", path))?;
        torn.sync_all().map_err(wrap_error("keeping the torn end of", path))?;
        file.set_len(valid_end).map_err(wrap_error("cutting the torn end of", path))?;
    }
    Ok(Mended { torn_bytes })
}

fn copy_torn_end(dir: &Path, first: u64, offset: u64, file: &File, size: u64) -> io::Result<File> {
    let torn = torn_file(dir, first, offset)?;
    let mut at = 0;
    let mut chunk = vec![0; 1 << 16];
    while at < size {
        let wanted = usize::try_from(size - at).map_or(chunk.len(), |left| left.min(chunk.len()));
        file.read_exact_at(&mut chunk[..wanted], offset + at)?;
        torn.write_all_at(&chunk[..wanted], at)?;
        at += wanted as u64;
    }
    Ok(torn)
}

/// Creates a file for the cut bytes; bytes that were cut at the same offset before are kept.
fn torn_file(dir: &Path, first: u64, offset: u64) -> io::Result<File> {
    let name = |nth: u32| -> PathBuf {
        let again = if nth == 0 { String::new() } else { format!("-{nth}") };
        dir.join(format!("torn-{first}-{offset}{again}"))
    };
    let mut nth = 0;
    loop {
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(name(nth)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => nth += 1,
            other => return other,
        }
    }
}
