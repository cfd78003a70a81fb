//! `fs/read_text_file` and `fs/write_text_file`, for regular text files beneath the roots.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::ServiceError;
use super::roots::{FileLocation, Roots};

/// Bounds the bytes that are read to reach the first line of an answer, as a multiple of the
/// answer's largest size.
const MAX_SCAN_FACTOR: usize = 64;

/// `NONBLOCK`: whatever replaces the file in between, opening it never waits for another process.
const OPEN_FLAGS: OFlags = OFlags::NOFOLLOW
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOCTTY);

/// Reads a text file, or `limit` lines of it from `line` (the first is 1) on.
pub(crate) fn read_text(
    roots: &Roots,
    path: &Path,
    line: Option<u32>,
    limit: Option<u32>,
    max_bytes: usize,
) -> Result<String, ServiceError> {
    let place = roots.find(path, false)?;
    require_regular_file(
        path,
        &place.stat().map_err(|error| ServiceError::from_io("read", path, error))?,
    )?;
    let (file, stat) = open_file(&place, OFlags::RDONLY)
        .map_err(|error| ServiceError::from_io("read", path, error))?;
    require_regular_file(path, &stat)?;
    let whole = line.unwrap_or(1) <= 1 && limit.is_none();
    if whole && u64::try_from(stat.st_size).unwrap_or(0) > max_bytes as u64 {
        return Err(too_large(path, max_bytes));
    }
    let skip = line.unwrap_or(1).saturating_sub(1);
    let bytes = read_lines(BufReader::with_capacity(64 << 10, file), skip, limit, max_bytes)
        .map_err(|error| ServiceError::from_io("read", path, error))?
        .ok_or_else(|| too_large(path, max_bytes))?;
    String::from_utf8(bytes).map_err(|_| ServiceError::unfit(path, "is not UTF-8 text"))
}

/// Writes a text file as a whole: readers see the old content or the new, unless nothing may be
/// created beside the file, which is then written in place. Missing directories are made, the mode
/// of an existing file is kept.
pub(crate) fn write_text(roots: &Roots, path: &Path, content: &str) -> Result<(), ServiceError> {
    let failed = |error: std::io::Error| ServiceError::from_io("write", path, error);
    let place = roots.find(path, true)?;
    let existing = match place.stat() {
        Ok(stat) => {
            require_regular_file(path, &stat)?;
            // A file that may not be written may not be replaced either.
            let (file, stat) =
                open_file(&place, OFlags::WRONLY).map_err(|error| failed(error.into()))?;
            require_regular_file(path, &stat)?;
            Some((file, Mode::from_raw_mode(stat.st_mode & 0o777)))
        }
        Err(Errno::NOENT) => None,
        Err(error) => return Err(failed(error.into())),
    };
    let draft = format!(".wharf-{}", crate::ids::random_text(12));
    let flags = OPEN_FLAGS | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let file = rustix::fs::openat(&place.dir, &draft, flags, Mode::from_raw_mode(0o666));
    let file = match (file, existing.as_ref()) {
        (Err(Errno::ACCESS | Errno::PERM | Errno::ROFS), Some((existing, _))) => {
            return write_in_place(existing, content).map_err(failed);
        }
        (file, _) => file.map_err(|error| failed(error.into()))?,
    };
    fill_draft(file.into(), content, existing.map(|(_, mode)| mode))
        .and_then(|()| Ok(rustix::fs::renameat(&place.dir, &draft, &place.dir, &place.name)?))
        .map_err(|error| {
            let _ = rustix::fs::unlinkat(&place.dir, &draft, rustix::fs::AtFlags::empty());
            failed(error)
        })
}

fn write_in_place(mut file: &File, content: &str) -> std::io::Result<()> {
    file.set_len(0)?;
    file.write_all(content.as_bytes())
}

fn fill_draft(mut file: File, content: &str, mode: Option<Mode>) -> std::io::Result<()> {
    file.write_all(content.as_bytes())?;
    if let Some(mode) = mode {
        rustix::fs::fchmod(&file, mode)?;
    }
    Ok(())
}

fn open_file(place: &FileLocation, access: OFlags) -> Result<(File, Stat), Errno> {
    let file = rustix::fs::openat(&place.dir, &place.name, OPEN_FLAGS | access, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    Ok((file.into(), stat))
}

fn require_regular_file(path: &Path, stat: &Stat) -> Result<(), ServiceError> {
    let kind = FileType::from_raw_mode(stat.st_mode);
    let why = if kind.is_dir() { "is a directory" } else { "is not a regular file" };
    kind.is_file().then_some(()).ok_or_else(|| ServiceError::unfit(path, why))
}

fn too_large(path: &Path, max_bytes: usize) -> ServiceError {
    ServiceError::unfit(
        path,
        format!("is larger than {max_bytes} bytes; read a part of it with line and limit"),
    )
}

/// Returns the lines after the first `skip`, line breaks included; `None` if they have more than
/// `max` bytes, or are too far from the beginning of the file.
fn read_lines(
    mut from: impl BufRead,
    skip: u32,
    limit: Option<u32>,
    max: usize,
) -> std::io::Result<Option<Vec<u8>>> {
    let mut out = Vec::new();
    let mut skip = skip;
    let mut left = limit;
    let mut scanned = 0_usize;
    while left != Some(0) {
        let ready = from.fill_buf()?;
        if ready.is_empty() {
            break;
        }
        let end = memchr::memchr(b'\n', ready);
        let piece = &ready[..end.map_or(ready.len(), |at| at + 1)];
        scanned = scanned.saturating_add(piece.len());
        if skip == 0 {
            out.extend_from_slice(piece);
        }
        if out.len() > max || scanned > max.saturating_mul(MAX_SCAN_FACTOR) {
            return Ok(None);
        }
        match (end, skip) {
            (None, _) => {}
            (Some(_), 0) => left = left.map(|left| left - 1),
            (Some(_), _) => skip -= 1,
        }
        let taken = piece.len();
        from.consume(taken);
    }
    Ok(Some(out))
}
