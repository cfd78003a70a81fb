//! A message on its way out: shared bytes where they can be shared, counted where they cannot.

use std::sync::Arc;

use bytes::Bytes;
use wharf_host::{Batch, BytePermit, CountPermit};

/// The bytes of a message in order, and what counts them while they wait.
#[derive(Clone, Debug)]
pub(super) struct OutFrame {
    parts: Parts,
    /// The events that the bytes belong to.
    _batch: Option<Batch>,
    _permit: Option<Arc<BytePermit>>,
    /// The connection's turn to have a history built, until this is out.
    turn: Option<Arc<CountPermit>>,
}

#[derive(Clone, Debug)]
enum Parts {
    Whole(Bytes),
    /// A shared message with something put into it.
    Extended([Bytes; 3]),
}

impl From<Bytes> for OutFrame {
    fn from(bytes: Bytes) -> Self {
        Self {
            parts: Parts::Whole(bytes),
            _batch: None,
            _permit: None,
            turn: None,
        }
    }
}

impl OutFrame {
    /// Returns a message that shares the bytes before and after the inserted ones.
    pub(super) fn extended(before: Bytes, inserted: Bytes, after: Bytes) -> Self {
        Self {
            parts: Parts::Extended([before, inserted, after]),
            ..Bytes::new().into()
        }
    }

    /// Keeps the events counted for as long as their bytes are needed.
    pub(super) fn of_batch(self, batch: &Batch) -> Self {
        Self { _batch: Some(batch.clone()), ..self }
    }

    pub(super) fn counted_by(self, permit: Option<Arc<BytePermit>>) -> Self {
        Self { _permit: permit, ..self }
    }

    pub(super) fn in_turn(self, turn: Option<CountPermit>) -> Self {
        Self { turn: turn.map(Arc::new), ..self }
    }

    /// The message is out, or waits where it no longer holds others up.
    pub(super) fn end_turn(&mut self) {
        self.turn = None;
    }

    pub(super) fn parts(&self) -> &[Bytes] {
        match &self.parts {
            Parts::Whole(bytes) => std::slice::from_ref(bytes),
            Parts::Extended(parts) => parts,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.parts().iter().map(Bytes::len).sum()
    }

    /// The message in one piece, for those that are not large.
    pub(super) fn into_bytes(self) -> Bytes {
        match self.parts {
            Parts::Whole(bytes) => bytes,
            Parts::Extended(parts) => parts.concat().into(),
        }
    }

    /// Copies what follows `offset` to the end of `chunk`, up to so many bytes; returns how many.
    pub(super) fn copy_to(
        &self,
        mut offset: usize,
        limit: usize,
        chunk: &mut bytes::BytesMut,
    ) -> usize {
        let mut left = limit;
        for part in self.parts() {
            let skipped = offset.min(part.len());
            offset -= skipped;
            let taken = (part.len() - skipped).min(left);
            chunk.extend_from_slice(&part[skipped..skipped + taken]);
            left -= taken;
        }
        limit - left
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;

    #[test]
    fn a_message_is_copied_piece_by_piece_across_its_parts() {
        let part = |text: &'static str| Bytes::from_static(text.as_bytes());
        let frame = OutFrame::extended(part("abc"), part("XY"), part("defg"));
        assert_eq!((frame.len(), frame.clone().into_bytes()), (9, part("abcXYdefg")));
        let mut whole = BytesMut::new();
        let mut at = 0;
        while at < frame.len() {
            let copied = frame.copy_to(at, 2, &mut whole);
            assert!((1..=2).contains(&copied));
            at += copied;
        }
        assert_eq!(whole, "abcXYdefg");
        assert_eq!(frame.copy_to(9, 2, &mut whole), 0);
    }
}
