//! Parses server-sent events from bytes as they arrive.

use anyhow::{Context, bail};
use serde_json::Value;
use serde_json::value::RawValue;
use wharf_api::{RowStreamEvent, SessionStreamEvent, StreamEvent};

/// The most bytes of an event. The longest is the list of all sessions.
const MAX_EVENT_BYTES: usize = 64 << 20;

/// One server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// `message` if the stream does not say.
    pub(crate) kind: String,
    pub(crate) id: Option<String>,
    pub(crate) data: String,
}

impl SseEvent {
    /// Parses the data as an event of one session's stream.
    pub(crate) fn parse_session_event(&self) -> anyhow::Result<StreamEvent> {
        // Parsed leniently first: agents' data may hold numbers and texts that a strict reader
        // refuses.
        let data = wharf_acp::to_value(self.data.as_bytes());
        StreamEvent::read(&self.kind, data)
            .with_context(|| format!("reading the event {:?} of the host", self.kind))
    }

    /// Parses the data as an event of the stream of one session's rows.
    pub(crate) fn parse_row_event(&self) -> anyhow::Result<RowStreamEvent> {
        let data = wharf_acp::to_value(self.data.as_bytes());
        RowStreamEvent::read(&self.kind, data)
            .with_context(|| format!("reading the event {:?} of the host", self.kind))
    }

    /// Parses the data as an event of the stream of all sessions. Each session keeps its JSON text.
    pub(crate) fn parse_list_event(&self) -> anyhow::Result<SessionStreamEvent<Box<RawValue>>> {
        let data: Value = wharf_json::read_own(self.data.as_bytes())?;
        SessionStreamEvent::read(&self.kind, data)
            .with_context(|| format!("reading the event {:?} of the host", self.kind))
    }
}

/// Collects bytes into events.
#[derive(Debug, Default)]
pub(super) struct SseReader {
    line: Vec<u8>,
    kind: String,
    id: Option<String>,
    data: Option<String>,
}

impl SseReader {
    /// Adds bytes and returns the events that they complete.
    pub(super) fn feed_bytes(&mut self, bytes: &[u8]) -> anyhow::Result<Vec<SseEvent>> {
        let mut events = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if self.line.len() + self.data.as_ref().map_or(0, String::len) > MAX_EVENT_BYTES {
                bail!("an event of the host is longer than {MAX_EVENT_BYTES} bytes");
            }
            if self.line.last() == Some(&b'\n') {
                let line = std::mem::take(&mut self.line);
                let line = String::from_utf8_lossy(&line);
                events.extend(self.take_line(line.trim_end_matches(['\n', '\r'])));
            }
        }
        Ok(events)
    }

    fn take_line(&mut self, line: &str) -> Option<SseEvent> {
        if line.is_empty() {
            let kind = std::mem::take(&mut self.kind);
            let id = self.id.take();
            let data = self.data.take()?;
            return Some(SseEvent {
                kind: if kind.is_empty() { "message".to_owned() } else { kind },
                id,
                data,
            });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.kind),
            "id" => self.id = Some(value.to_owned()),
            "data" => match &mut self.data {
                Some(data) => data.extend(["\n", value]),
                None => self.data = Some(value.to_owned()),
            },
            // A comment, or a field that is not used here.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = ": hello\n\nevent: line\nid: 1-2.0\ndata: {\"line\":\"é\"}\n\n:\r\n\r\ndata: a\r\ndata:b\r\n\r\nevent: none\n\nretry: 5\ndata\n\ndata: cut";

    fn event(kind: &str, id: Option<&str>, data: &str) -> SseEvent {
        SseEvent {
            kind: kind.to_owned(),
            id: id.map(str::to_owned),
            data: data.to_owned(),
        }
    }

    #[test]
    fn events_come_whole_however_the_bytes_are_cut() {
        let expected = [
            event("line", Some("1-2.0"), "{\"line\":\"é\"}"),
            event("message", None, "a\nb"),
            event("message", None, ""),
        ];
        for size in 1..=STREAM.len() {
            let mut reader = SseReader::default();
            let events: Vec<SseEvent> = STREAM
                .as_bytes()
                .chunks(size)
                .flat_map(|piece| reader.feed_bytes(piece).unwrap())
                .collect();
            assert_eq!(events, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut reader = SseReader::default();
        let block = vec![b'x'; 1 << 20];
        assert!((0..70).any(|_| reader.feed_bytes(&block).is_err()));
    }
}
