//! Replaces parts of a frame. Every other byte stays.

use bytes::Bytes;
use wharf_json::Json;

use super::{Envelope, Span};

/// Returns the frame with `parts` replaced, which must not overlap.
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

/// Finds the place in `frame` where a member (JSON text) becomes the first of `object`, which is a
/// part of the frame. Returns it with the text to put there. Returns `None` if `object` is not a
/// JSON object, or does not lie in the frame.
pub fn first_member(frame: &[u8], object: Json<'_>, mut member: String) -> Option<(Span, String)> {
    let at = object.span_in(frame).filter(|_| object.is_object())?.start + 1;
    if object.members().next().is_some() {
        member.push(',');
    }
    Some((at..at, member))
}

/// Returns the frame with its `id` replaced. `id` is JSON text.
pub fn with_id(frame: &[u8], envelope: &Envelope<'_>, id: &[u8]) -> Bytes {
    match &envelope.id {
        Some(span) => splice(frame, &mut [(span.clone(), id)]).into(),
        None => Bytes::copy_from_slice(frame),
    }
}

/// Returns the frame with `params.sessionId` replaced, and with another `id` if one is given.
pub fn with_session(
    frame: &[u8],
    envelope: &Envelope<'_>,
    session: &str,
    id: Option<&[u8]>,
) -> Bytes {
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

pub(super) fn has_line_break(frame: &[u8]) -> bool {
    memchr::memchr2(b'\n', b'\r', frame).is_some()
}

/// Replaces the line breaks of a pretty-printed frame by spaces, since a frame takes one line in
/// the log and on a pipe. Raw line breaks occur only between JSON tokens, so the meaning stays
/// (rule 1.6).
pub fn one_line(frame: Bytes) -> Bytes {
    if !has_line_break(&frame) {
        return frame;
    }
    frame
        .iter()
        .map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte })
        .collect::<Vec<u8>>()
        .into()
}
