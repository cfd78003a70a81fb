//! A recorded agent, which answers frame by frame from the transcript of a real one.
//!
//! A transcript is a file of JSON lines `{"dir": "->", "msg": …}` (client to agent) and `{"dir":
//! "<-", "msg": …}` (agent to client), in the order in which they crossed the wire. A message that
//! arrives is matched with the next recorded one of the same method (any response matches the next
//! recorded response), and the agent's frames up to the next message of the client follow. Only the
//! ids of responses are replaced.

use std::fs;
use std::io::{self, BufRead, Write};
use std::path::Path;

use serde_json::Value;
use wharf_demo::wire::{self, MessageReader, MessageWriter, RpcMessage};

/// One recorded message.
#[derive(Debug, Clone)]
pub struct TranscriptRecord {
    pub dir: FrameDirection,
    pub msg: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameDirection {
    ToAgent,
    FromAgent,
}

/// Reads a transcript.
pub fn read_transcript(path: &Path) -> io::Result<Vec<TranscriptRecord>> {
    fs::read_to_string(path)?
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(parse_record)
        .collect()
}

fn parse_record(line: &str) -> io::Result<TranscriptRecord> {
    let mut record: Value = serde_json::from_str(line)?;
    let dir = match record["dir"].as_str() {
        Some("->") => FrameDirection::ToAgent,
        Some("<-") => FrameDirection::FromAgent,
        _ => return Err(io::Error::other(format!("no direction in {line}"))),
    };
    Ok(TranscriptRecord { dir, msg: record["msg"].take() })
}

/// Serves one client from the transcript until its input ends.
pub(super) fn play_transcript(
    path: &Path,
    input: impl BufRead,
    output: impl Write + Send + 'static,
) -> io::Result<()> {
    let mut player = TranscriptPlayer {
        records: read_transcript(path)?,
        next: 0,
        output: MessageWriter::new(output),
    };
    let mut reader = MessageReader::new(input);
    while let Some(message) = reader.next_message()? {
        match message {
            RpcMessage::Request { id, method, .. } => player.answer_request(&id, &method)?,
            RpcMessage::Notification { method, .. } => {
                player.follow_message(Some(&method), &Value::Null)?
            }
            RpcMessage::Response { .. } => player.follow_message(None, &Value::Null)?,
            RpcMessage::Malformed(_) | RpcMessage::Invalid(_) => {}
        }
    }
    Ok(())
}

struct TranscriptPlayer {
    records: Vec<TranscriptRecord>,
    /// The first record that was not sent yet.
    next: usize,
    output: MessageWriter,
}

impl TranscriptPlayer {
    fn answer_request(&mut self, id: &Value, method: &str) -> io::Result<()> {
        if self.find_message(Some(method)).is_none() {
            let fault = wire::error_object(
                wire::METHOD_NOT_FOUND,
                format!("not in the transcript: {method}"),
            );
            return self.output.send_message(&wire::error_frame(id, fault));
        }
        self.follow_message(Some(method), id)
    }

    /// Sends the frames that followed the recorded message. A message that was not recorded has no
    /// effect.
    fn follow_message(&mut self, method: Option<&str>, id: &Value) -> io::Result<()> {
        let Some(found) = self.find_message(method) else { return Ok(()) };
        let recorded_id = self.records[found].msg["id"].clone();
        self.next = found + 1;
        // A turn may end behind a later message of the client, so the id is replaced in all later
        // frames.
        for record in &mut self.records[found + 1..] {
            let is_answer =
                record.dir == FrameDirection::FromAgent && record.msg.get("method").is_none();
            if method.is_some() && is_answer && record.msg["id"] == recorded_id {
                record.msg["id"] = id.clone();
                break;
            }
        }
        while let Some(TranscriptRecord { dir: FrameDirection::FromAgent, msg }) =
            self.records.get(self.next)
        {
            self.output.send_message(msg)?;
            self.next += 1;
        }
        Ok(())
    }

    /// Finds the client's next message of this method, from the current position on and then from
    /// the beginning.
    fn find_message(&self, method: Option<&str>) -> Option<usize> {
        let fits = |place: &usize| {
            let TranscriptRecord { dir, msg } = &self.records[*place];
            *dir == FrameDirection::ToAgent && msg["method"].as_str() == method
        };
        (self.next..self.records.len()).find(fits).or_else(|| (0..self.next).find(fits))
    }
}
