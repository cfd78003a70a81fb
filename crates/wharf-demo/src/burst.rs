//! Numbered message chunks as fast as a pipe takes them: lines are assembled in large blocks,
//! without a JSON library.

use std::io::Write;

use serde_json::json;

use crate::turn::{RunningTurn, TurnStop};

/// Bytes per write. Linux pipes hold 64 KiB, so a larger block would only wait in two pieces.
const BLOCK_BYTES: usize = 64 * 1024;

/// A run of `agent_message_chunk` updates. The text of each is its index, a blank, dots and a line
/// break: `size` bytes, or more where the index needs them.
#[derive(Debug)]
pub struct ChunkBurst {
    head: Vec<u8>,
    dots: Vec<u8>,
}

impl ChunkBurst {
    pub fn new(session: &str, message_id: &str, size: usize) -> Self {
        let head = format!(
            concat!(
                r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":{},"update":{{"#,
                r#""sessionUpdate":"agent_message_chunk","messageId":{},"content":{{"type":"text","text":""#
            ),
            json!(session),
            json!(message_id)
        );
        Self { head: head.into_bytes(), dots: vec![b'.'; size] }
    }

    /// Appends the line with this index.
    pub fn push_line(&self, index: u64, block: &mut Vec<u8>) {
        block.extend_from_slice(&self.head);
        let start = block.len();
        let _ = write!(block, "{index} ");
        let used = block.len() - start + 1;
        block.extend_from_slice(self.dots.get(used..).unwrap_or_default());
        block.extend_from_slice(b"\\n\"}}}}\n");
    }

    /// Sends lines 0 to `count` in blocks, or each by itself. Returns the number of lines sent
    /// before the turn was stopped.
    pub fn send(
        &self,
        turn: &mut RunningTurn,
        count: u64,
        each: bool,
    ) -> (u64, Result<(), TurnStop>) {
        let mut block = Vec::with_capacity(BLOCK_BYTES + self.head.len() + self.dots.len() + 64);
        let mut sent = 0;
        for index in 0..count {
            self.push_line(index, &mut block);
            if each || block.len() >= BLOCK_BYTES || index + 1 == count {
                if let Err(stop) = turn.check_stop().and_then(|()| turn.send_bytes(&block)) {
                    return (sent, Err(stop));
                }
                block.clear();
                sent = index + 1;
            }
        }
        (sent, Ok(()))
    }
}
