//! The host's log on stderr, without secrets (rule 10.6). A log that cannot be written neither ends
//! nor delays the host.

use std::any::Any;
use std::io::{self, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing_subscriber::fmt::MakeWriter;
use wharf_host::redact::redact;

/// A pipe that says it has room takes this many bytes without waiting: POSIX's smallest `PIPE_BUF`
/// on Linux.
const BYTES_WITHOUT_WAITING: usize = 4_096;

/// The log's writer. One call of `write` is one event of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogWriter<W>(W);

impl LogWriter<fn() -> io::Stderr> {
    pub(crate) const STDERR: Self = Self(io::stderr);
}

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for LogWriter<W>
where
    W::Writer: AsFd,
{
    type Writer = LogWriter<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        LogWriter(self.0.make_writer())
    }
}

/// Always succeeds. An event that cannot be written (no space, no reader, a closed terminal) or
/// that would have to wait for a reader is dropped: the subscriber would report the error to the
/// same place, and panic when that fails.
impl<W: Write + AsFd> Write for LogWriter<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = redact(&String::from_utf8_lossy(event));
        for part in text.as_bytes().chunks(BYTES_WITHOUT_WAITING) {
            if !has_room(&self.0) || self.0.write_all(part).is_err() {
                break;
            }
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

/// Returns false if a write would wait, as it does on a full pipe or a terminal that was stopped
/// with Ctrl-S.
fn has_room(out: &impl AsFd) -> bool {
    let mut out = [PollFd::new(out, PollFlags::OUT)];
    poll(&mut out, Some(&Timespec::default())).map_or(true, |ready| ready > 0)
}

/// Makes every panic an event of the log. The hook itself must not panic, which would abort the
/// host: the log's writer never fails, and the subscriber does not report errors of its own.
pub(crate) fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        let trace = std::backtrace::Backtrace::capture();
        tracing::error!(place, thread, %trace, "a fault in Wharf itself: {}", panic_message(panic.payload()));
    }));
}

/// The message, unless it was made of values: there may be anything in those, such as the text of a
/// prompt.
fn panic_message(payload: &dyn Any) -> &'static str {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .unwrap_or("(the message holds values and is not shown)")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    #[test]
    fn a_key_in_an_event_is_not_written() -> io::Result<()> {
        let mut told = LogWriter(tempfile::tempfile()?);
        let event =
            b"{\"message\":\"refused sk-ant-0123456789abcdefghij\",\"session\":\"sess_1\"}\n";
        assert_eq!(told.write(event)?, event.len());
        let mut written = String::new();
        told.0.rewind()?;
        told.0.read_to_string(&mut written)?;
        assert_eq!(written, "{\"message\":\"refused sk-[redacted]\",\"session\":\"sess_1\"}\n");
        Ok(())
    }

    #[test]
    fn event_is_dropped_when_its_reader_is_gone_or_hangs() -> io::Result<()> {
        let (reader, writer) = io::pipe()?;
        let mut told = LogWriter(writer);
        let event = [b'x'; 10_000];
        for _ in 0..100 {
            assert_eq!(told.write(&event)?, event.len());
        }
        drop(reader);
        assert_eq!(told.write(&event)?, event.len());
        told.flush()
    }

    #[test]
    fn a_panics_message_is_told_only_if_it_was_written_in_the_source() {
        let prompt = "the text of a prompt";
        assert_eq!(panic_message(&"a lock was poisoned"), "a lock was poisoned");
        assert!(!panic_message(&format!("not a boundary in `{prompt}`")).contains(prompt));
    }
}
