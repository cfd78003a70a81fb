//! The ledger of an agent: the work between host and agent that is under way, for the host that
//! comes after this one.
//!
//! It is a file in memory that the agent's keeper holds too, so it lasts exactly as long as the
//! agent. The host appends a record *before* it does something; the thing itself tells whether it
//! was done:
//! - [`Ledger::note_reads`] comes before the append to the log and says how far the agent's output
//!   is taken in once each event is in the log. The length of the log tells which of them counts.
//! - [`Ledger::note_line`] comes before a line is put into the input file and says where the line
//!   will end. The length of the input file tells whether it was put there.
//!
//! Nothing in the ledger is ever taken back, so a record that was cut off by the host's death is
//! simply the last one.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rustix::fs::SeekFrom;
use wharf_core::Seq;

use super::kept_files::{PAGE_BYTES, file_size, read_range, release_range, write_at};
use super::turn_status::TurnStatus;

/// The first page holds the status for the keeper. The records begin behind it.
const RECORDS_START: u64 = PAGE_BYTES;
const PAGE_LENGTH: usize = 4096;
/// Once the records take more bytes than this, the host rewrites the ledger without the settled
/// records.
const MAX_RECORD_BYTES: u64 = 512 << 10;
/// A request of the agent that can be repeated is kept up to this size; a larger one is answered
/// with an error.
const MAX_REPEATED_BYTES: usize = 64 << 10;

/// The events after which the host notes that it owes the agent no line, as in a long turn: the
/// next host reads the events behind the last note.
const SENT_NOTE_INTERVAL: u64 = 10_000;

/// The length and the kind of a record.
const HEAD_BYTES: usize = 5;

const KIND_READS: u8 = 1;
const KIND_LINE: u8 = 2;
const KIND_TAKEN: u8 = 3;
const KIND_SETTLED: u8 = 4;
/// Holds records that replace all records before it.
const KIND_REWRITTEN: u8 = 5;
/// The highest id of a request to the agent.
const KIND_LAST_ID: u8 = 7;
/// Fills a page.
const KIND_PADDING: u8 = 6;

/// The meaning of a line to the agent, as far as a later host has to know it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LineNote<'a> {
    /// A later host does not need to know of it.
    Plain,
    /// It is the effect of this event: a later host does not send it again.
    Effect(Seq),
    /// It answers this request of the agent. `line` is the end of the request's line in the output,
    /// if that is being taken in.
    Answer { id: &'a [u8], line: u64 },
    /// It is a request under this id. `setting` is the request's frame if its success changes a
    /// setting.
    Request { id: u64, setting: Option<&'a [u8]> },
}

/// A request of the agent that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenRequest {
    pub(crate) id: Bytes,
    /// The frame as it is served, if it can be served again.
    pub(crate) repeatable: Option<Bytes>,
}

/// The work that a host has left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InFlight {
    /// How far the agent's output is in the log.
    pub(crate) read_offset: u64,
    /// The agent was sent the lines of all events up to this one.
    pub(crate) sent_through: Seq,
    /// Requests of the agent without an answer, by the end of their line.
    pub(crate) open_requests: BTreeMap<u64, OpenRequest>,
    /// Lines behind `read_offset` whose requests were taken or answered already, by their end.
    pub(crate) known_lines: BTreeSet<u64>,
    /// Requests to the agent without an answer, each with its frame if it asks for a setting.
    pub(crate) requests: BTreeMap<u64, Option<Bytes>>,
    /// The highest id of a request to the agent so far.
    pub(crate) last_request_id: u64,
    /// The end of the last whole line in the input file.
    pub(crate) input_end: u64,
}

/// A ledger that several parts of a session write to.
#[derive(Clone, Debug)]
pub(crate) struct LedgerHandle(Arc<Mutex<Ledger>>);

impl LedgerHandle {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(crate) struct Ledger {
    file: OwnedFd,
    start: u64,
    end: u64,
    /// The reads that are in the log: the last event and how far the output was taken in with it.
    confirmed: (Seq, u64),
    /// The same for the reads that were noted last.
    noted: (Seq, u64),
    open: InFlight,
    status: TurnStatus,
    buffer: Vec<u8>,
    /// No record is given up, however many there are.
    keeps_records: bool,
}

impl Ledger {
    /// Begins a ledger in an empty file.
    pub(crate) fn create(file: OwnedFd) -> io::Result<LedgerHandle> {
        let ledger =
            Self::at(file, InFlight::default(), (Seq::ZERO, 0), RECORDS_START, RECORDS_START);
        ledger.status.write_to(&ledger.file)?;
        Ok(LedgerHandle(Arc::new(Mutex::new(ledger))))
    }

    fn at(file: OwnedFd, open: InFlight, confirmed: (Seq, u64), start: u64, end: u64) -> Self {
        let status = TurnStatus::default();
        let buffer = Vec::new();
        Self {
            file,
            start,
            end,
            confirmed,
            noted: confirmed,
            open,
            status,
            buffer,
            keeps_records: false,
        }
    }

    /// Reads the ledger of an agent that another host has left. `head` is the last event of the
    /// log, `input_size` the length of the input file.
    pub(crate) fn recover(
        file: OwnedFd,
        head: Seq,
        input_size: u64,
    ) -> io::Result<(LedgerHandle, InFlight)> {
        let status = TurnStatus::read(&file);
        let LedgerRecords { start, bytes, .. } = find_records(&file)?;
        let mut recovery = Recovery { head, input_size, ..Recovery::default() };
        let mut at = 0;
        while let Some((kind, body, length)) = next_record(&bytes[at..]) {
            recovery
                .take(kind, body)
                .ok_or_else(|| io::Error::other("the ledger has a record that cannot be read"))?;
            at += length;
        }
        // Behind a record that was cut off there must be nothing that could be taken for one.
        rustix::fs::ftruncate(&file, start + at as u64)?;
        let (open, confirmed) = recovery.finish();
        let mut ledger = Self::at(file, open.clone(), confirmed, start, start + at as u64);
        ledger.status = status;
        // Records that do not count now must not count later, when the log or the input file has
        // grown.
        ledger.rewrite()?;
        Ok((LedgerHandle(Arc::new(Mutex::new(ledger))), open))
    }

    /// Notes how far the output is taken in when each event from `first` on is in the log.
    pub(crate) fn note_reads(
        &mut self,
        first: Seq,
        offsets: impl ExactSizeIterator<Item = u64>,
    ) -> io::Result<()> {
        let count = offsets.len() as u64;
        let mut last = self.noted.1;
        self.begin_record(KIND_READS);
        self.buffer.extend_from_slice(&first.0.to_le_bytes());
        for offset in offsets {
            last = offset;
            self.buffer.extend_from_slice(&offset.to_le_bytes());
        }
        self.write_record()?;
        self.noted = (Seq(first.0 + count.saturating_sub(1)), last);
        Ok(())
    }

    /// Keeps all further records. A ledger on the disk must tell of every event that a power cut
    /// may take out of the log.
    pub(crate) fn keep_records(&mut self) {
        self.keeps_records = true;
    }

    /// Notes that the log has all events of the last [`Ledger::note_reads`].
    pub(crate) fn confirm_reads(&mut self) -> io::Result<()> {
        self.confirmed = self.noted;
        // Lines up to here are not read again.
        self.open.known_lines.clear();
        let is_long = self.end - self.start > MAX_RECORD_BYTES;
        if is_long && !self.keeps_records { self.rewrite() } else { Ok(()) }
    }

    /// Returns how far the output is in the log for good.
    pub(crate) fn confirmed_offset(&self) -> u64 {
        self.confirmed.1
    }

    /// Notes a line that is put into the input file next and ends at `end` there.
    pub(crate) fn note_line(&mut self, note: LineNote<'_>, end: u64) -> io::Result<()> {
        self.buffer = line_record(note, end)?;
        self.append_buffer()?;
        self.open.note_line(note, end);
        Ok(())
    }

    /// Notes, from time to time, that the lines of all events up to this one are in the input file.
    pub(crate) fn note_sent_through(&mut self, event: Seq) -> io::Result<()> {
        if event.0 < self.open.sent_through.0 + SENT_NOTE_INTERVAL {
            return Ok(());
        }
        self.note_line(LineNote::Effect(event), self.open.input_end)
    }

    /// Notes that a request of the agent, whose line ends at `line` of the output, is being served.
    /// A request with `repeatable` is served again by the next host if this one does not answer it.
    pub(crate) fn note_taken(
        &mut self,
        line: u64,
        id: &[u8],
        repeatable: Option<&Bytes>,
    ) -> io::Result<()> {
        let repeatable = repeatable.filter(|frame| frame.len() <= MAX_REPEATED_BYTES);
        self.buffer = taken_record(line, id, repeatable)?;
        self.append_buffer()?;
        let request = OpenRequest {
            id: Bytes::copy_from_slice(id),
            repeatable: repeatable.cloned(),
        };
        self.open.open_requests.insert(line, request);
        Ok(())
    }

    /// Notes that the agent has answered a request, in the line that ends at `line` of its output.
    pub(crate) fn note_settled(&mut self, id: u64, line: u64) -> io::Result<()> {
        if self.open.requests.remove(&id).is_none() {
            return Ok(());
        }
        self.buffer = make_record(KIND_SETTLED, &[id, line], &[])?;
        self.append_buffer()
    }

    /// Notes the state of the turn for a keeper without a host.
    pub(crate) fn set_turn_status(&mut self, status: TurnStatus) -> io::Result<()> {
        if status == self.status {
            return Ok(());
        }
        self.status = status;
        self.status.write_to(&self.file)
    }

    fn begin_record(&mut self, kind: u8) {
        self.buffer.clear();
        push_head(&mut self.buffer, kind);
    }

    fn write_record(&mut self) -> io::Result<()> {
        finish_record(&mut self.buffer, 0)?;
        self.append_buffer()
    }

    fn append_buffer(&mut self) -> io::Result<()> {
        write_at(&self.file, &self.buffer, self.end)?;
        self.end += self.buffer.len() as u64;
        Ok(())
    }

    /// Writes all that still counts as one record at the beginning of a page, and then gives the
    /// memory of the earlier records back. A reader in between finds both, which say the same.
    fn rewrite(&mut self) -> io::Result<()> {
        let start = (self.end + HEAD_BYTES as u64).next_multiple_of(PAGE_BYTES);
        self.begin_record(KIND_PADDING);
        self.buffer
            .resize(usize::try_from(start - self.end).map_err(io::Error::other)?, 0);
        self.write_record()?;
        self.begin_record(KIND_REWRITTEN);
        for record in self.open.to_records(self.confirmed) {
            self.buffer.extend_from_slice(&record?);
        }
        self.write_record()?;
        // A ledger that a keeper has left is on a disk, whose power may be cut. In memory this does
        // nothing.
        rustix::fs::fdatasync(&self.file)?;
        release_range(&self.file, RECORDS_START, start);
        self.start = start;
        Ok(())
    }
}

fn push_head(record: &mut Vec<u8>, kind: u8) {
    record.extend_from_slice(&[0, 0, 0, 0, kind]);
}

/// Sets the length of the record that begins at `start`.
fn finish_record(buffer: &mut [u8], start: usize) -> io::Result<()> {
    let length = u32::try_from(buffer.len() - start).map_err(io::Error::other)?;
    buffer[start..start + 4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

fn make_record(kind: u8, numbers: &[u64], rest: &[&[u8]]) -> io::Result<Vec<u8>> {
    let mut record = Vec::new();
    push_head(&mut record, kind);
    record.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    rest.iter().for_each(|part| record.extend_from_slice(part));
    finish_record(&mut record, 0)?;
    Ok(record)
}

fn line_record(note: LineNote<'_>, end: u64) -> io::Result<Vec<u8>> {
    let (code, number, bytes): (u64, u64, &[u8]) = match note {
        LineNote::Plain => (0, 0, &[]),
        LineNote::Effect(seq) => (1, seq.0, &[]),
        LineNote::Answer { id, line } => (2, line, id),
        LineNote::Request { id, setting: None } => (3, id, &[]),
        LineNote::Request { id, setting: Some(frame) } => (4, id, frame),
    };
    make_record(KIND_LINE, &[end, code, number], &[bytes])
}

fn taken_record(line: u64, id: &[u8], repeatable: Option<&Bytes>) -> io::Result<Vec<u8>> {
    make_record(
        KIND_TAKEN,
        &[line, id.len() as u64],
        &[id, repeatable.map_or(&[], |frame| &frame[..])],
    )
}

impl InFlight {
    /// Returns the records that say all of this.
    fn to_records(&self, confirmed: (Seq, u64)) -> impl Iterator<Item = io::Result<Vec<u8>>> {
        let reads = make_record(KIND_READS, &[confirmed.0.0, confirmed.1], &[]);
        let sent = line_record(LineNote::Effect(self.sent_through), self.input_end);
        let last_id = make_record(KIND_LAST_ID, &[self.last_request_id], &[]);
        let taken = self.open_requests.iter();
        let taken = taken
            .map(|(line, request)| taken_record(*line, &request.id, request.repeatable.as_ref()));
        let requests = self.requests.iter().map(|(id, setting)| {
            line_record(LineNote::Request { id: *id, setting: setting.as_deref() }, self.input_end)
        });
        let known = self
            .known_lines
            .iter()
            .map(|line| line_record(LineNote::Answer { id: &[], line: *line }, 0));
        [reads, sent, last_id].into_iter().chain(taken).chain(requests).chain(known)
    }

    fn note_line(&mut self, note: LineNote<'_>, end: u64) {
        self.input_end = self.input_end.max(end);
        match note {
            LineNote::Plain => {}
            LineNote::Effect(seq) => self.sent_through = self.sent_through.max(seq),
            LineNote::Answer { id, line } => {
                let answered = self
                    .open_requests
                    .iter()
                    .find(|(_, request)| request.id == id)
                    .map(|(at, _)| *at);
                self.open_requests.retain(|at, _| Some(*at) != answered);
                self.known_lines.extend(Some(line).filter(|line| *line > self.read_offset));
            }
            LineNote::Request { id, setting } => {
                self.last_request_id = self.last_request_id.max(id);
                self.requests.insert(id, setting.map(Bytes::copy_from_slice));
            }
        }
    }
}

/// A ledger that is being read.
#[derive(Debug, Default)]
struct Recovery {
    head: Seq,
    input_size: u64,
    read: (Seq, u64),
    open: InFlight,
    /// Requests that were answered, each with the end of the answer's line.
    settled: Vec<(u64, u64)>,
}

impl Recovery {
    /// Takes one record. Returns `None` if it cannot be read.
    fn take(&mut self, kind: u8, body: &[u8]) -> Option<()> {
        let mut fields = Fields(body);
        match kind {
            KIND_READS => {
                let mut seq = Seq(fields.take_number()?);
                while let Some(offset) = fields.take_number() {
                    if seq <= self.head {
                        self.read = (seq, offset);
                    }
                    seq = seq.next();
                }
            }
            KIND_LINE => {
                let end = fields.take_number()?;
                let code = fields.take_number()?;
                let number = fields.take_number()?;
                let note = match code {
                    0 => LineNote::Plain,
                    1 => LineNote::Effect(Seq(number)),
                    2 => LineNote::Answer { id: fields.0, line: number },
                    3 => LineNote::Request { id: number, setting: None },
                    4 => LineNote::Request { id: number, setting: Some(fields.0) },
                    _ => return None,
                };
                if end <= self.input_size {
                    self.open.note_line(note, end);
                }
            }
            KIND_TAKEN => {
                let line = fields.take_number()?;
                let length = usize::try_from(fields.take_number()?).ok()?;
                let (id, frame) = fields.0.split_at_checked(length)?;
                let repeatable = (!frame.is_empty()).then(|| Bytes::copy_from_slice(frame));
                self.open
                    .open_requests
                    .insert(line, OpenRequest { id: Bytes::copy_from_slice(id), repeatable });
                self.open.known_lines.insert(line);
            }
            KIND_LAST_ID => self.open.last_request_id = fields.take_number()?,
            KIND_SETTLED => self.settled.push((fields.take_number()?, fields.take_number()?)),
            KIND_REWRITTEN => {
                *self = Self {
                    head: self.head,
                    input_size: self.input_size,
                    ..Self::default()
                };
                let mut rest = body;
                while let Some((kind, body, length)) = next_record(rest) {
                    self.take(kind, body)?;
                    rest = &rest[length..];
                }
            }
            // Padding, or a record of a later version, which raises the keeper's protocol if it
            // must be understood.
            _ => {}
        }
        Some(())
    }

    fn finish(self) -> (InFlight, (Seq, u64)) {
        let Self { read, mut open, settled, .. } = self;
        open.read_offset = read.1;
        // An answer behind this offset is read again.
        for (id, _) in settled.into_iter().filter(|(_, line)| *line <= read.1) {
            open.requests.remove(&id);
        }
        open.known_lines = open.known_lines.split_off(&(read.1 + 1));
        (open, read)
    }
}

/// The ledger is in memory: it fails only if that is used up, and then costs exactness and nothing
/// else.
pub(crate) fn log_ledger_fault(noted: std::io::Result<()>) {
    if let Err(error) = noted {
        tracing::warn!(%error, "work with the agent cannot be noted for the next host");
    }
}

/// The records of a ledger, as far as they are needed.
#[derive(Debug)]
pub(super) struct LedgerRecords {
    /// The end of the page with the status. In a new ledger the records begin there.
    pub(super) first_page_end: u64,
    start: u64,
    pub(super) bytes: Vec<u8>,
}

/// Finds the records of a ledger behind the part whose memory was given back.
pub(super) fn find_records(file: &OwnedFd) -> io::Result<LedgerRecords> {
    let size = file_size(file)?;
    let mut start = rustix::fs::seek(file, SeekFrom::Data(RECORDS_START))
        .unwrap_or(size)
        .max(RECORDS_START);
    let mut bytes = read_range(file, start, size)?;
    // A file system may give back less than it was asked for, in its own larger blocks: then zeros
    // are left.
    let records = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    let zeros = records - records % PAGE_LENGTH;
    bytes.drain(..zeros);
    start += zeros as u64;
    Ok(LedgerRecords { first_page_end: RECORDS_START, start, bytes })
}

/// Returns the kind, the body and the whole length of the first record. Returns `None` if it is not
/// there as a whole.
fn next_record(bytes: &[u8]) -> Option<(u8, &[u8], usize)> {
    let length = u32::from_le_bytes(*bytes.first_chunk::<4>()?) as usize;
    let record = bytes.get(..length)?;
    Some((*record.get(4)?, &record[HEAD_BYTES..], length))
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take_number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }
}

#[cfg(test)]
mod tests {
    use super::super::kept_files::create_file;
    use super::*;

    /// Reads a copy, so that the ledger can go on.
    fn recover(ledger: &LedgerHandle, head: u64, input_size: u64) -> InFlight {
        let ledger = ledger.lock();
        let copy = create_file("copy").unwrap();
        for (from, to) in [(0, RECORDS_START), (ledger.start, ledger.end)] {
            write_at(&copy, &read_range(&ledger.file, from, to).unwrap(), from).unwrap();
        }
        Ledger::recover(copy, Seq(head), input_size).unwrap().1
    }

    fn new_ledger() -> LedgerHandle {
        Ledger::create(create_file("ledger").unwrap()).unwrap()
    }

    #[test]
    fn log_decides_how_far_the_output_was_read() {
        let ledger = new_ledger();
        ledger.lock().note_reads(Seq(5), [100, 200, 300].into_iter()).unwrap();
        assert_eq!(recover(&ledger, 4, 0).read_offset, 0);
        assert_eq!(recover(&ledger, 6, 0).read_offset, 200);
        assert_eq!(recover(&ledger, 7, 0).read_offset, 300);
        assert_eq!(recover(&ledger, 90, 0).read_offset, 300);
    }

    #[test]
    fn input_file_decides_which_lines_were_sent() {
        let ledger = new_ledger();
        ledger.lock().note_line(LineNote::Effect(Seq(3)), 50).unwrap();
        ledger
            .lock()
            .note_line(LineNote::Request { id: 9, setting: Some(b"{}") }, 80)
            .unwrap();
        let known = recover(&ledger, 3, 79);
        assert_eq!((known.sent_through, known.input_end, known.requests.len()), (Seq(3), 50, 0));
        assert_eq!(
            recover(&ledger, 3, 80).requests,
            BTreeMap::from([(9, Some(Bytes::from_static(b"{}")))])
        );
    }

    #[test]
    fn request_is_open_until_its_answer_is_in_the_input_file() {
        let ledger = new_ledger();
        let frame = Bytes::from_static(b"frame");
        ledger.lock().note_taken(40, b"7", Some(&frame)).unwrap();
        ledger.lock().note_line(LineNote::Answer { id: b"7", line: 0 }, 30).unwrap();
        let request = OpenRequest { id: Bytes::from_static(b"7"), repeatable: Some(frame) };
        let unanswered = recover(&ledger, 0, 29);
        assert_eq!(unanswered.open_requests, BTreeMap::from([(40, request)]));
        assert_eq!(
            unanswered.known_lines,
            BTreeSet::from([40]),
            "its line is not in the log and will be read again"
        );
        assert_eq!(recover(&ledger, 0, 30).open_requests, BTreeMap::new());
        ledger.lock().note_reads(Seq(1), [40].into_iter()).unwrap();
        assert_eq!(recover(&ledger, 1, 30).known_lines, BTreeSet::new());
    }

    #[test]
    fn note_that_did_not_count_does_not_count_when_the_input_file_has_grown() {
        let ledger = new_ledger();
        ledger.lock().note_taken(40, b"7", None).unwrap();
        ledger.lock().note_line(LineNote::Answer { id: b"7", line: 0 }, 30).unwrap();
        let file = ledger.lock().file.try_clone().unwrap();
        let (next, known) = Ledger::recover(file, Seq(0), 0).unwrap();
        assert_eq!(known.open_requests.len(), 1);
        next.lock().note_line(LineNote::Plain, 60).unwrap();
        assert_eq!(recover(&next, 0, 60).open_requests.len(), 1, "its answer was never sent");
    }

    #[test]
    fn line_that_was_answered_and_is_read_again_stays_known_over_two_hosts() {
        let ledger = new_ledger();
        ledger.lock().note_line(LineNote::Answer { id: b"7", line: 40 }, 30).unwrap();
        let file = ledger.lock().file.try_clone().unwrap();
        let (next, known) = Ledger::recover(file, Seq(0), 30).unwrap();
        assert_eq!(known.known_lines, BTreeSet::from([40]));
        assert_eq!(recover(&next, 0, 30).known_lines, BTreeSet::from([40]));
    }

    #[test]
    fn answer_that_will_be_read_again_leaves_its_request_open() {
        let ledger = new_ledger();
        ledger.lock().note_line(LineNote::Request { id: 1, setting: None }, 10).unwrap();
        ledger.lock().note_settled(1, 500).unwrap();
        assert_eq!(recover(&ledger, 0, 10).requests, BTreeMap::from([(1, None)]));
        ledger.lock().note_reads(Seq(1), [500].into_iter()).unwrap();
        assert_eq!(recover(&ledger, 1, 10).requests, BTreeMap::new());
    }

    #[test]
    fn ledger_is_rewritten_without_a_change_and_gives_memory_back() {
        let ledger = new_ledger();
        ledger.lock().note_taken(11, b"\"open\"", None).unwrap();
        ledger
            .lock()
            .note_line(LineNote::Request { id: 1, setting: Some(b"set") }, 7)
            .unwrap();
        for seq in 1..200_000 {
            ledger.lock().note_line(LineNote::Effect(Seq(seq)), 7 + seq).unwrap();
            ledger.lock().note_reads(Seq(seq), [20 + seq].into_iter()).unwrap();
            ledger.lock().confirm_reads().unwrap();
        }
        let known = recover(&ledger, 199_999, 200_006);
        assert_eq!(
            (known.sent_through, known.read_offset, known.input_end),
            (Seq(199_999), 200_019, 200_006)
        );
        assert_eq!((known.open_requests.len(), known.requests.len()), (1, 1));
        let blocks = rustix::fs::fstat(&ledger.lock().file).unwrap().st_blocks;
        assert!(blocks * 512 < 2 << 20, "{blocks} blocks");
    }

    /// Cuts the ledger at every byte, as a killed host would, and goes on with it.
    #[test]
    fn ledger_that_was_cut_off_anywhere_is_a_prefix_and_goes_on() {
        let whole = new_ledger();
        for seq in 1..=20 {
            whole.lock().note_reads(Seq(seq), [seq * 10].into_iter()).unwrap();
            whole.lock().note_line(LineNote::Effect(Seq(seq)), seq * 5).unwrap();
        }
        let bytes = read_range(&whole.lock().file, 0, 1 << 20).unwrap();
        let mut before = (0, 0);
        for cut in usize::try_from(RECORDS_START).unwrap()..=bytes.len() {
            let file = create_file("cut").unwrap();
            write_at(&file, &bytes[..cut], 0).unwrap();
            let (ledger, known) = Ledger::recover(file, Seq(1000), 1000).unwrap();
            let now = (known.read_offset, known.sent_through.0);
            assert!(now >= before && now.0 <= 200 && now.1 <= 20, "{now:?} after {before:?}");
            before = now;
            ledger.lock().note_reads(Seq(999), [12_345].into_iter()).unwrap();
            assert_eq!(recover(&ledger, 1000, 1000).read_offset, 12_345);
        }
        assert_eq!(before, (200, 20));
    }

    #[test]
    fn long_turn_without_lines_is_noted_as_sent_from_time_to_time() {
        let ledger = new_ledger();
        ledger.lock().note_line(LineNote::Effect(Seq(3)), 50).unwrap();
        let records_end = |ledger: &LedgerHandle| ledger.lock().end;
        let before = records_end(&ledger);
        ledger.lock().note_sent_through(Seq(SENT_NOTE_INTERVAL)).unwrap();
        assert_eq!(records_end(&ledger), before, "it is not noted for each event");
        ledger.lock().note_sent_through(Seq(SENT_NOTE_INTERVAL + 3)).unwrap();
        let known = recover(&ledger, SENT_NOTE_INTERVAL + 9, 50);
        assert_eq!((known.sent_through, known.input_end), (Seq(SENT_NOTE_INTERVAL + 3), 50));
        // The line before the note is not in the input file, so that neither counts.
        let known = recover(&ledger, SENT_NOTE_INTERVAL + 9, 49);
        assert_eq!(known.sent_through, Seq::ZERO);
    }
}
