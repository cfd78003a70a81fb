//! Properties of the readers of frames: one function per target of `fuzz/`, called by `cargo fuzz`
//! and by a test alike. A function panics if its property does not hold.

use std::sync::Arc;

use bytes::Bytes;
use wharf_core::{
    AgentEvent, AgentTraits, Ask, AskEvent, AskId, AskKind, AskOutcome, ClientId, Event, Millis,
    PromptEnd, PromptEvent, PromptId, Raw, Sender, StartNo, UpdateKind, decode, encode,
};
use wharf_json::{Json, ReadError};

use crate::{FrameKind, ScanError};

/// A frame is refused, or its ids are where the scanner says, and replacing them changes nothing
/// else about it.
pub fn envelope(data: &[u8]) {
    let Ok(found) = crate::scan(data) else { return };
    if let Some(id) = &found.id {
        assert!(Json::parse(&data[id.clone()]).is_ok(), "the id is not a value");
    }
    if let Some(session) = &found.session {
        let text = Json::parse(&data[session.span.clone()]).ok().and_then(Json::text);
        assert_eq!(text.as_deref(), Some(&*session.value), "the session is not what stands there");
    }
    assert_eq!(
        found.kind == FrameKind::Notification,
        found.id.is_none(),
        "all but notifications have an id"
    );
    let line = crate::one_line(Bytes::copy_from_slice(data));
    assert!(!line.contains(&b'\n'), "one line has no break");
    assert!(
        crate::scan(&line).is_ok_and(|line| line.kind == found.kind),
        "one line is the same frame"
    );
    let changed = crate::with_session(data, &found, "other", Some(b"\"x\""));
    match crate::scan(&changed) {
        Ok(again) => {
            assert_eq!(
                (again.kind, &again.method, again.update),
                (found.kind, &found.method, found.update)
            );
            assert_eq!(
                again.session.map(|session| session.value),
                found.session.map(|_| "other".into())
            );
            assert_eq!(again.id.map(|id| &changed[id]), found.id.map(|_| &b"\"x\""[..]));
        }
        Err(error) => panic!("the frame with other ids is refused: {error}"),
    }
}

/// The scanner, the reader and the event codec agree on which bytes are JSON. The scanner calls a
/// frame `NotUtf8` or `NotJson` exactly where the reader does. A frame that is JSON comes back from
/// each kind of event that may hold it. Bytes that are no JSON come back from no kind, except an
/// update without title and tool call: it is read without a parser, since the scanner has seen its
/// frame before the log did.
pub fn readers(data: &[u8]) {
    let read = Json::parse(data).map(|_| ());
    match (crate::scan(data), &read) {
        (Ok(_) | Err(ScanError::Batch | ScanError::NotMessage(_)), Ok(()))
        | (Err(ScanError::NotUtf8), Err(ReadError::NotUtf8))
        | (Err(ScanError::NotJson(_)), Err(ReadError::NotJson(_))) => {}
        (scanned, read) => {
            panic!("{}: the scanner says {scanned:?}, the reader {read:?}", data.escape_ascii())
        }
    }
    // Blanks around a frame are no part of it: the codec may leave them out.
    let line = crate::one_line(Bytes::copy_from_slice(data.trim_ascii()));
    if read.is_err() {
        return expect_refused_by_codec(line);
    }
    let Some(frame) = Raw::new(line) else {
        panic!("{}: JSON in one line is no payload", data.escape_ascii())
    };
    for event in events_with(&frame) {
        let at = Millis(1);
        let mut written = Vec::new();
        encode(&event, at, &mut written);
        match decode(&Bytes::from(written)) {
            Ok(again) => assert_eq!(again, (at, event)),
            Err(error) => {
                panic!("{}: the reader takes it, the codec does not: {error}", data.escape_ascii())
            }
        }
    }
}

/// Panics if an event comes back with this frame although the frame is not JSON. Does not check a
/// frame that has become JSON without the control bytes around it.
fn expect_refused_by_codec(line: Bytes) {
    if Json::parse(&line).is_ok() {
        return;
    }
    let Some(frame) = Raw::new(line) else { return };
    for event in events_with(&frame) {
        if matches!(event, Event::Agent(AgentEvent::Updated { title: None, tool: None, .. })) {
            continue;
        }
        let mut written = Vec::new();
        encode(&event, Millis(1), &mut written);
        if let Ok((_, again)) = decode(&Bytes::from(written)) {
            assert_ne!(again, event, "the reader refuses this frame, the codec does not");
        }
    }
}

/// Returns an event of each kind that holds a frame of an agent or a client.
fn events_with(frame: &Raw) -> Vec<Event> {
    let prompt = PromptId::new("prompt_1");
    let sender = Sender {
        client: ClientId::new("client_1"),
        chosen: None,
        name: None,
        version: None,
        token: None,
        parent: None,
        peer: None,
    };
    let ask = Ask {
        id: AskId(1),
        kind: AskKind::Permission,
        agent_request: frame.clone(),
        options: vec!["allow".into()],
        tool_call: None,
        prompt: None,
        frame: frame.clone(),
    };
    let answered = PromptEnd::Answered { stop_reason: "end_turn".into(), frame: frame.clone() };
    let ends = [answered, PromptEnd::Failed { frame: frame.clone() }];
    let outcomes = [
        AskOutcome::Answered { option: Some(Arc::from("allow")), answer: frame.clone() },
        AskOutcome::Declined { answer: frame.clone() },
    ];
    let update = UpdateKind::SessionInfoUpdate;
    let updates = [None, Some(Arc::from("title"))].map(|title| {
        Event::Agent(AgentEvent::Updated { update, frame: frame.clone(), title, tool: None })
    });
    let started = AgentEvent::Started {
        start: StartNo(1),
        agent_session: "agent".into(),
        traits: AgentTraits::default(),
        answer: frame.clone(),
    };
    let accepted = PromptEvent::Accepted {
        prompt: prompt.clone(),
        sender: sender.clone(),
        frame: frame.clone(),
        key: None,
        first: false,
    };
    let updated = PromptEvent::Updated {
        prompt: prompt.clone(),
        by: sender,
        frame: frame.clone(),
        sender: None,
    };
    let ended = ends.map(|end| {
        Event::Prompt(PromptEvent::Ended { prompt: prompt.clone(), end, failure: None })
    });
    let resolved =
        outcomes.map(|outcome| Event::Ask(AskEvent::Resolved { ask: AskId(1), outcome, by: None }));
    let others = [
        Event::Agent(started),
        Event::Prompt(accepted),
        Event::Prompt(updated),
        Event::Ask(AskEvent::Opened(ask)),
    ];
    updates.into_iter().chain(ended).chain(resolved).chain(others).collect()
}

/// A record is refused, or read the same again after it was written.
pub fn event(data: &[u8]) {
    let Ok((at, event)) = decode(&Bytes::copy_from_slice(data)) else { return };
    let mut written = Vec::new();
    encode(&event, at, &mut written);
    match decode(&Bytes::from(written)) {
        Ok(again) => assert_eq!(again, (at, event)),
        Err(error) => panic!("what was written cannot be read: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use wharf_testkit::fuzzing::run_fuzz_target;

    #[test]
    fn any_frame_is_refused_or_keeps_its_ids() {
        run_fuzz_target("envelope", super::envelope).unwrap();
    }

    #[test]
    fn scanner_reader_and_codec_accept_the_same_frames() {
        run_fuzz_target("readers", super::readers).unwrap();
    }

    #[test]
    fn any_record_is_refused_or_read_as_it_was_written() {
        run_fuzz_target("event", super::event).unwrap();
    }
}
