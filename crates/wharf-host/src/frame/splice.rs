//! Replacing a part of a frame, byte for byte elsewhere.

use bytes::Bytes;
use wharf_json::Json;

use super::{Envelope, Span};

/// The frame with `parts` (in order, not overlapping) replaced.
pub fn splice(frame: &[u8], parts: &mut [(Span, &[u8])]) -> Vec<u8> {
    parts.sort_by_key(|(span, _)| span.start);
    let grown: usize = parts.iter().map(|(_, with)| with.len()).sum();
    let mut out = Vec::with_capacity(frame.len() + grown);
    let mut done = 0;
    for (span, with) in parts.iter() {
        out.extend_from_slice(&frame[done..span.start]);
        out.extend_from_slice(with);
        done = span.end;
    }
    out.extend_from_slice(&frame[done..]);
    out
}

/// Finds the place in `frame` where a member (JSON text) becomes the first of `object`, which is a part of the frame. Returns it
/// with the text to put there. `None` if `object` is no object of the frame.
pub fn first_member(frame: &[u8], object: Json<'_>, mut member: String) -> Option<(Span, String)> {
    let at = object.span_in(frame).filter(|_| object.is_object())?.start + 1;
    if object.members().next().is_some() {
        member.push(',');
    }
    Some((at..at, member))
}

/// The frame with its `id` replaced. `id` is JSON text.
pub fn with_id(frame: &[u8], envelope: &Envelope<'_>, id: &[u8]) -> Bytes {
    match &envelope.id {
        Some(span) => splice(frame, &mut [(span.clone(), id)]).into(),
        None => Bytes::copy_from_slice(frame),
    }
}

/// The frame with `params.sessionId` replaced, and its `id` too if one is given.
pub fn with_session(frame: &[u8], envelope: &Envelope<'_>, session: &str, id: Option<&[u8]>) -> Bytes {
    let quoted = serde_json::Value::from(session).to_string();
    let mut parts: Vec<(Span, &[u8])> = Vec::with_capacity(2);
    if let Some(text) = &envelope.session {
        parts.push((text.span.clone(), quoted.as_bytes()));
    }
    if let (Some(span), Some(id)) = (&envelope.id, id) {
        parts.push((span.clone(), id));
    }
    splice(frame, &mut parts).into()
}

/// A frame may come pretty-printed; a log line and a pipe cannot carry that. Raw line breaks can only stand
/// between JSON tokens, so a space says the same (rule 1.6).
pub fn one_line(frame: Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', &frame).is_none() {
        return frame;
    }
    frame.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect::<Vec<u8>>().into()
}
