//! The end of an agent's stderr, kept in a small ring buffer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;

use crate::redact::redact;

/// Bounds the kept part of stderr; enough for a stack trace.
const MAX_STDERR_BYTES: usize = 8 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct StderrTail(Arc<Mutex<VecDeque<u8>>>);

impl StderrTail {
    /// Reads stderr until its end, so that the agent never blocks on a full pipe.
    pub(super) fn follow_stderr(mut stderr: ChildStderr) -> Self {
        let tail = Self(Arc::default());
        let ring = Arc::clone(&tail.0);
        tokio::spawn(async move {
            let mut chunk = vec![0_u8; 4096];
            while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
                let mut ring = ring.lock().unwrap_or_else(PoisonError::into_inner);
                ring.extend(&chunk[..read]);
                let over = ring.len().saturating_sub(MAX_STDERR_BYTES);
                ring.drain(..over);
            }
        });
        tail
    }

    /// Returns the last lines as text, without colours and secrets: they end up in messages and logs.
    pub(crate) fn text(&self) -> String {
        let ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = ring.iter().copied().collect();
        redact(strip_control_characters(&String::from_utf8_lossy(&bytes)).trim())
    }
}

/// Drops terminal escape sequences and other control characters except line breaks.
fn strip_control_characters(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => {
                // CSI: up to a letter.
                chars.by_ref().find(char::is_ascii_alphabetic);
            }
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::strip_control_characters;

    #[test]
    fn colours_are_dropped_and_lines_stay() {
        assert_eq!(strip_control_characters("\u{1b}[31merror\u{1b}[0m: no\r\nmore"), "error: no\nmore");
    }
}
