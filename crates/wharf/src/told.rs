//! What the host tells its operator on stderr, without secrets (rule 10.6).

use std::any::Any;
use std::io::{self, Write};

use tracing_subscriber::fmt::MakeWriter;
use wharf_host::redact::redact;

/// Stderr. What is written at once is one event of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told<W>(W);

impl Told<fn() -> io::Stderr> {
    pub(crate) const STDERR: Self = Self(io::stderr);
}

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for Told<W> {
    type Writer = Told<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Told(self.0.make_writer())
    }
}

impl<W: Write> Write for Told<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.0.write_all(redact(&String::from_utf8_lossy(event)).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A panic is one more event of the log.
pub(crate) fn tell_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        let trace = std::backtrace::Backtrace::capture();
        tracing::error!(place, thread, %trace, "a fault in Wharf itself: {}", words(panic.payload()));
    }));
}

/// The message, unless it was made of values: there may be anything in those, such as the text of a prompt.
fn words(payload: &dyn Any) -> &'static str {
    payload.downcast_ref::<&'static str>().copied().unwrap_or("(the message holds values and is not shown)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_an_event_is_not_written() -> io::Result<()> {
        let mut told = Told(Vec::new());
        let event = b"{\"message\":\"refused sk-ant-0123456789abcdefghij\",\"session\":\"sess_1\"}\n";
        assert_eq!(told.write(event)?, event.len());
        assert_eq!(told.0, b"{\"message\":\"refused sk-[redacted]\",\"session\":\"sess_1\"}\n");
        Ok(())
    }

    #[test]
    fn a_panics_message_is_told_only_if_it_was_written_in_the_source() {
        let prompt = "the text of a prompt";
        assert_eq!(words(&"a lock was poisoned"), "a lock was poisoned");
        assert!(!words(&format!("not a boundary in `{prompt}`")).contains(prompt));
    }
}
