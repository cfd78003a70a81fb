//! One line of a log: a CRC-32 in eight hex digits, a space, and a JSON object, which is a record
//! or the header of a segment.

use std::ops::Range;

/// The format that this version writes, and the newest that it reads.
pub(super) const LOG_FORMAT: u32 = 1;

/// The length of checksum and space before the payload.
const PREFIX_BYTES: usize = 9;

pub(super) struct ParsedRecord {
    pub(super) seq: u64,
    pub(super) epoch: u64,
    /// The range of the body within the line.
    pub(super) body: Range<usize>,
}

/// The first line of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) format: u32,
    pub(super) first: u64,
    /// The log's epoch when the segment was created, so that an empty segment has one too.
    pub(super) epoch: u64,
}

pub(crate) fn push_line(out: &mut Vec<u8>, payload: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(b"00000000 ");
    payload(out);
    let crc = crc32fast::hash(&out[start + PREFIX_BYTES..]);
    for (place, shift) in out[start..start + 8].iter_mut().zip((0..8).rev()) {
        *place = b"0123456789abcdef"[(crc >> (shift * 4)) as usize & 15];
    }
    out.push(b'\n');
}

/// Returns the payload of a line (without its newline) if its checksum is right.
pub(crate) fn checked_payload(line: &[u8]) -> Option<&[u8]> {
    let (prefix, payload) = line.split_at_checked(PREFIX_BYTES)?;
    let mut crc = 0_u32;
    for &digit in &prefix[..8] {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        crc = crc << 4 | u32::from(value);
    }
    (prefix[8] == b' ' && crc32fast::hash(payload) == crc).then_some(payload)
}

pub(super) fn push_record(out: &mut Vec<u8>, seq: u64, epoch: u64, body: &[u8]) {
    push_line(out, |out| {
        push_number(out, b"{\"seq\":", seq);
        push_number(out, b",\"epoch\":", epoch);
        out.extend_from_slice(b",\"event\":");
        out.extend_from_slice(body);
        out.push(b'}');
    });
}

/// Parses the line of a record. Returns `None` if it is incomplete or no record.
pub(super) fn parse_record(line: &[u8]) -> Option<ParsedRecord> {
    let payload = checked_payload(line)?;
    let (seq, rest) = parse_number(payload.strip_prefix(b"{\"seq\":")?)?;
    let (epoch, rest) = parse_number(rest.strip_prefix(b",\"epoch\":")?)?;
    let body = rest.strip_prefix(b",\"event\":")?.strip_suffix(b"}")?;
    let end = line.len() - 1;
    Some(ParsedRecord { seq, epoch, body: end - body.len()..end })
}

pub(super) fn push_header(out: &mut Vec<u8>, first: u64, epoch: u64) {
    push_line(out, |out| {
        push_number(out, b"{\"wharf_log\":", LOG_FORMAT.into());
        push_number(out, b",\"first\":", first);
        push_number(out, b",\"epoch\":", epoch);
        out.push(b'}');
    });
}

/// Parses a segment's header. For a newer format only the version is known.
pub(super) fn parse_header(line: &[u8]) -> Option<SegmentHeader> {
    let (format, rest) = parse_number(checked_payload(line)?.strip_prefix(b"{\"wharf_log\":")?)?;
    let format = u32::try_from(format).unwrap_or(u32::MAX);
    if format > LOG_FORMAT {
        return Some(SegmentHeader { format, first: 0, epoch: 0 });
    }
    let (first, rest) = parse_number(rest.strip_prefix(b",\"first\":")?)?;
    let (epoch, rest) = parse_number(rest.strip_prefix(b",\"epoch\":")?)?;
    (rest == b"}").then_some(SegmentHeader { format, first, epoch })
}

pub(crate) fn push_number(out: &mut Vec<u8>, before: &[u8], number: u64) {
    out.extend_from_slice(before);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Returns the decimal number at the beginning of `text`, and the rest.
pub(crate) fn parse_number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let mut value = 0_u64;
    for &digit in &text[..digits] {
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    (digits > 0).then_some((value, &text[digits..]))
}
