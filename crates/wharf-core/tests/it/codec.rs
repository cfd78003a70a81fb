//! Events are encoded as bytes and decoded again.

use std::sync::Arc;

use bytes::Bytes;
use wharf_core::{
    AcceptedContent, AgentEvent, AgentSetting, AgentTraits, Ask, AskEvent, AskId, AskKind,
    AskOutcome, CodecError, EndReason, Ending, Event, Fault, Millis, Origin, PauseReason,
    PromptEnd, PromptEvent, PromptId, Raw, Sender, Seq, Session, SessionEvent, SessionId,
    SettingSpelling, Settings, SettingsLoss, SpawnKey, StartKind, StartNo, Status, StorageEvent,
    ToolCall, ToolCallState, TurnLimit, UpdateKind, decode, decode_or_lost, encode,
};

use crate::stage::*;

const AT: Millis = Millis(1_763_240_000_123);

/// A payload that a parser would change: spellings, order, duplicates, big numbers, spaces.
const ODD: &str = r#"{"b": 1.0e+2,"a":-0, "b":"\u00e9\/\n","big":123456789012345678901234567890,"ü":[ ] ,"n":null}"#;

fn encoded(event: &Event) -> Bytes {
    let mut out = Vec::new();
    encode(event, AT, &mut out);
    out.into()
}

fn full_sender() -> Sender {
    Sender {
        chosen: wharf_core::ChosenId::parse("ann's \"phone\"").ok(),
        name: Some("Ann \"the\" tester\u{7}".into()),
        version: Some("1.2".into()),
        token: Some("tok_1".into()),
        parent: Some(SessionId::new("sess_0")),
        peer: Some(wharf_core::Peer { id: "ann's phone".into(), role: Some("driver".into()) }),
        ..sender("ann")
    }
}

fn ends() -> Vec<PromptEnd> {
    vec![
        PromptEnd::Answered { stop_reason: "end_turn".into(), frame: raw(ODD) },
        PromptEnd::Failed { frame: raw(ODD) },
        PromptEnd::Failed { frame: raw("null") },
        PromptEnd::Cancelled,
        PromptEnd::Removed { by: Some(full_sender()) },
        PromptEnd::Removed { by: None },
        PromptEnd::AgentExited,
        PromptEnd::StartFailed,
        PromptEnd::SessionEnded,
        PromptEnd::HostShutdown,
        PromptEnd::HostRestarted,
    ]
}

fn ask_outcomes() -> Vec<AskOutcome> {
    vec![
        AskOutcome::Answered { option: Some("allow".into()), answer: raw(ODD) },
        AskOutcome::Answered { option: None, answer: raw(ODD) },
        AskOutcome::Declined { answer: raw(ODD) },
        AskOutcome::Declined { answer: raw("null") },
        AskOutcome::Cancelled,
        AskOutcome::Withdrawn,
        AskOutcome::AgentGone,
    ]
}

fn asks() -> [Ask; 2] {
    let bare = Ask {
        id: AskId(7),
        kind: AskKind::Elicitation,
        agent_request: raw("0"),
        frame: raw(ODD),
        options: Vec::new(),
        tool_call: None,
        prompt: None,
    };
    let full = Ask {
        kind: AskKind::Permission,
        agent_request: raw(r#""7f\u0041""#),
        options: vec!["allow".into(), "re\"ject".into()],
        tool_call: Some("call_1".into()),
        prompt: Some(id("p1")),
        ..bare.clone()
    };
    [bare, full]
}

fn updates() -> Vec<Event> {
    let kinds = [
        UpdateKind::UserMessageChunk,
        UpdateKind::AgentMessageChunk,
        UpdateKind::AgentThoughtChunk,
        UpdateKind::ToolCall,
        UpdateKind::ToolCallUpdate,
        UpdateKind::Plan,
        UpdateKind::AvailableCommandsUpdate,
        UpdateKind::CurrentModeUpdate,
        UpdateKind::ConfigOptionUpdate,
        UpdateKind::SessionInfoUpdate,
        UpdateKind::UsageUpdate,
        UpdateKind::Other,
    ];
    let titles: [Option<Arc<str>>; 3] =
        [None, Some("A \"title\"\n\\ with ,\"frame\":{} in it".into()), Some("".into())];
    let update = |update, title: &Option<Arc<str>>| {
        Event::Agent(AgentEvent::Updated {
            update,
            frame: raw(ODD),
            title: title.clone(),
            tool: None,
        })
    };
    let mut events: Vec<Event> = kinds
        .into_iter()
        .flat_map(|kind| titles.iter().map(move |title| update(kind, title)))
        .collect();
    for state in [ToolCallState::Open, ToolCallState::Closed, ToolCallState::Cut] {
        let tool = Some(ToolCall { id: "t \"1\" ,\"frame\":".into(), state });
        events.push(Event::Agent(AgentEvent::Updated {
            update: UpdateKind::ToolCall,
            frame: raw(ODD),
            title: None,
            tool,
        }));
    }
    events
}

fn lives() -> Vec<Event> {
    let name = Some("room".into());
    let key = Some(SpawnKey { key: "k \"1\"".into(), digest: "9f".into() });
    let lineage = vec![SessionId::new("sess_a"), SessionId::new("sess_b")];
    let by = Some(full_sender());
    let origin_in_full = Origin {
        label: Some("l\u{1}".into()),
        name,
        by,
        key,
        lineage,
        ..origin()
    };
    let mut events = vec![
        Event::Session(SessionEvent::Created(origin())),
        Event::Session(SessionEvent::Created(origin_in_full)),
    ];
    for how in [StartKind::New, StartKind::Load, StartKind::Resume] {
        events.push(Event::Agent(AgentEvent::Starting { start: StartNo(u64::MAX), how }));
    }
    let traits = AgentTraits {
        load: true,
        resume: true,
        close: true,
        delete: true,
        queues: true,
        ready: true,
        ..AgentTraits::default()
    };
    let agent_session: Arc<str> = "7f-\u{1f980}".into();
    for traits in [traits, AgentTraits::default()] {
        let (start, agent_session) = (StartNo(1), agent_session.clone());
        events.push(Event::Agent(AgentEvent::Started {
            start,
            agent_session,
            traits,
            answer: raw(ODD),
        }));
    }
    for reason in [
        EndReason::AgentExited,
        EndReason::StartFailed,
        EndReason::Unresponsive,
        EndReason::User,
        EndReason::Closed,
        EndReason::Idle,
        EndReason::Memory,
        EndReason::LogFull,
        EndReason::HostShutdown,
        EndReason::HostRestarted,
    ] {
        let (status, message) = (Status::Error, Some("stderr:\n\tno".into()));
        events.push(Event::Session(SessionEvent::Ended(Ending {
            status,
            reason,
            exit_code: Some(-1),
            message,
            needs_login: false,
        })));
        events.push(Event::Session(SessionEvent::Ended(Ending {
            status: Status::Killed,
            reason,
            exit_code: None,
            message: None,
            needs_login: false,
        })));
    }
    for fault in [
        Fault::Malformed,
        Fault::NotUtf8,
        Fault::Oversized,
        Fault::ForeignSession,
        Fault::TooManyAsks,
        Fault::Suppressed,
    ] {
        events.push(Event::Agent(AgentEvent::Faulted { fault, detail: "a \"detail\"".into() }));
    }
    for why in [PauseReason::StorageFull, PauseReason::StorageReadOnly] {
        events.push(Event::Storage(StorageEvent::Paused { why }));
    }
    events.push(Event::Storage(StorageEvent::Continued));
    let start = StartNo(3);
    events.push(Event::Agent(AgentEvent::StartFailed {
        start,
        exit_code: None,
        message: None,
        retry_in: Millis(1),
    }));
    let message = Some("no \"agent\"".into());
    events.push(Event::Agent(AgentEvent::StartFailed {
        start,
        exit_code: Some(1),
        message,
        retry_in: Millis(15_000),
    }));
    let setting = |of, id: Option<&str>, category: Option<&str>| AgentSetting {
        of,
        id: id.map(raw),
        category: category.map(Into::into),
        value: raw(ODD),
    };
    events.push(Event::Agent(AgentEvent::SettingsChanged {
        settings: vec![
            setting(SettingSpelling::Mode, None, None),
            setting(SettingSpelling::Model, None, None),
            setting(SettingSpelling::Option, Some(r#""a\u0062""#), Some("mode")),
        ],
        are_all: false,
    }));
    events.push(Event::Agent(AgentEvent::SettingsChanged { settings: Vec::new(), are_all: false }));
    events
}

fn prompts() -> Vec<Event> {
    let prompt = || PromptId::new("p\"1");
    let mut events = vec![
        Event::Prompt(PromptEvent::Accepted {
            prompt: prompt(),
            sender: sender("a"),
            frame: raw(ODD),
            key: None,
            first: false,
        }),
        Event::Prompt(PromptEvent::Accepted {
            prompt: prompt(),
            sender: full_sender(),
            frame: raw(ODD),
            key: Some("k\\".into()),
            first: true,
        }),
        Event::Prompt(PromptEvent::Updated {
            prompt: prompt(),
            by: full_sender(),
            frame: raw(ODD),
            sender: None,
        }),
        Event::Prompt(PromptEvent::Updated {
            prompt: prompt(),
            by: full_sender(),
            frame: raw(ODD),
            sender: Some(full_sender()),
        }),
        Event::Prompt(PromptEvent::Moved { prompt: prompt(), by: full_sender(), position: 3 }),
        Event::Prompt(PromptEvent::TurnStarted { prompt: prompt(), content: Seq(4) }),
        Event::Prompt(PromptEvent::CancelRequested {
            prompt: prompt(),
            by: None,
            limit: Some(TurnLimit::NoProgress),
            reason: None,
        }),
        Event::Prompt(PromptEvent::CancelRequested {
            prompt: prompt(),
            by: Some(full_sender()),
            limit: None,
            reason: Some("enough".into()),
        }),
        Event::Prompt(PromptEvent::Requeued { prompt: prompt() }),
    ];
    let ended = |end| Event::Prompt(PromptEvent::Ended { prompt: prompt(), end, failure: None });
    events.extend(ends().into_iter().map(ended));
    events
}

fn one_of_each() -> Vec<Event> {
    let mut events = [updates(), lives(), prompts()].concat();
    events.extend(asks().map(|ask| Event::Ask(AskEvent::Opened(ask))));
    for outcome in ask_outcomes() {
        events.push(Event::Ask(AskEvent::Resolved {
            ask: AskId(7),
            outcome: outcome.clone(),
            by: None,
        }));
        events.push(Event::Ask(AskEvent::Resolved {
            ask: AskId(7),
            outcome,
            by: Some(full_sender()),
        }));
    }
    events.push(Event::Storage(StorageEvent::Snapshot(raw(r#"{"v":1,"state":{}}"#))));
    let body = raw(r#"{"kind":"dreamt","at":1763240000123, "of": {"electric":"sheep"}}"#);
    events.push(Event::Unknown { kind: "dreamt".into(), body });
    events
}

/// Events of titles, labels and the archive, and an ending with its later member.
fn descriptions() -> Vec<Event> {
    let (text, nothing): (Option<Arc<str>>, Option<Arc<str>>) =
        (Some("a \"b\"\u{1f980}".into()), None);
    let ending = Ending {
        status: Status::Error,
        reason: EndReason::StartFailed,
        exit_code: None,
        message: None,
        needs_login: true,
    };
    [
        SessionEvent::Renamed { title: text.clone(), by: Some(full_sender()) },
        SessionEvent::Renamed { title: nothing.clone(), by: None },
        SessionEvent::Labelled { label: text, by: Some(full_sender()) },
        SessionEvent::Labelled { label: nothing, by: None },
        SessionEvent::Archived { archived: true, by: Some(full_sender()) },
        SessionEvent::Archived { archived: false, by: None },
        SessionEvent::Ended(ending),
    ]
    .map(Event::from)
    .into()
}

#[test]
fn every_event_comes_back_as_it_was() {
    for event in one_of_each().into_iter().chain(descriptions()).chain(forks()) {
        let body = encoded(&event);
        assert_eq!(decode(&body), Ok((AT, event)), "{body:?}");
    }
}

/// Events of later versions of the same format, which the recorded ones do not have.
#[test]
fn later_events_are_read_as_they_were_written() {
    let failure = Some("out of memory\nstderr: \"killed\"".into());
    let failed = PromptEvent::Ended { prompt: id("p1"), end: PromptEnd::AgentExited, failure };
    let (status, reason) = (Status::Exited, EndReason::Finished);
    let finished = SessionEvent::Ended(Ending {
        status,
        reason,
        exit_code: None,
        message: None,
        needs_login: false,
    });
    for event in [Event::Prompt(failed), Event::Session(finished)] {
        let text = encoded(&event);
        assert_eq!(decode(&text).unwrap().1, event, "{text:?}");
    }
}

/// The encoded form of `one_of_each`, one event per line, as version 1 of the format writes it.
/// Never edited.
const EVERY_EVENT: &str = include_str!("../../../../fixtures/log/v1/every-event.jsonl");

#[test]
fn every_event_is_encoded_as_recorded() {
    let recorded: Vec<&str> = EVERY_EVENT.lines().collect();
    let events = one_of_each();
    assert_eq!(events.len(), recorded.len());
    for (event, recorded) in events.iter().zip(recorded) {
        assert_eq!(encoded(event), recorded);
    }
}

/// The encoded form of `descriptions`, in the same way. Never edited.
const DESCRIPTIONS: &str = include_str!("../../../../fixtures/log/v1/descriptions.jsonl");

#[test]
fn descriptions_are_encoded_as_recorded() {
    let encoded: Vec<_> = descriptions().iter().map(encoded).collect();
    assert_eq!(encoded, DESCRIPTIONS.lines().collect::<Vec<_>>());
}

/// The first events of a fork.
fn forks() -> Vec<Event> {
    let fork = Origin { forked_from: Some(fork_source()), ..origin() };
    let starting = AgentEvent::Starting { start: StartNo(1), how: StartKind::Fork };
    vec![Event::Session(SessionEvent::Created(fork)), Event::Agent(starting)]
}

/// The encoded form of `forks`, in the same way. Never edited.
const FORKS: &str = include_str!("../../../../fixtures/log/v1/forks.jsonl");

#[test]
fn forks_are_encoded_as_recorded() {
    let encoded: Vec<_> = forks().iter().map(encoded).collect();
    assert_eq!(encoded, FORKS.lines().collect::<Vec<_>>());
}

#[test]
fn every_event_is_one_line_that_begins_with_kind_and_time() {
    for event in one_of_each().into_iter().chain(descriptions()) {
        let body = encoded(&event);
        assert!(!body.iter().any(|byte| matches!(byte, b'\n' | b'\r')));
        let text = std::str::from_utf8(&body).unwrap();
        let (kind, rest) = text.strip_prefix(r#"{"kind":""#).unwrap().split_once('"').unwrap();
        assert!(rest.starts_with(r#","at":1763240000123"#), "{kind}: {text}");
        serde_json::from_str::<serde_json::Value>(text).unwrap();
    }
}

#[test]
fn update_is_encoded_in_the_documented_form() {
    let (update, frame) = (UpdateKind::AgentMessageChunk, raw(r#"{"method":"session/update"}"#));
    let event = Event::Agent(AgentEvent::Updated { update, frame, title: None, tool: None });
    let expected = r#"{"kind":"agent_updated","at":1763240000123,"update":"agent_message_chunk","frame":{"method":"session/update"}}"#;
    assert_eq!(encoded(&event), expected);
}

#[test]
fn encode_appends_to_the_buffer() {
    let mut out = b"before ".to_vec();
    encode(&Event::Prompt(PromptEvent::Requeued { prompt: id("p1") }), Millis(5), &mut out);
    assert_eq!(out, br#"before {"kind":"prompt_requeued","at":5,"prompt":"p1"}"#);
}

#[test]
fn an_updates_frame_is_a_part_of_the_body_not_a_copy() {
    for event in updates() {
        let body = encoded(&event);
        let Ok((_, Event::Agent(AgentEvent::Updated { frame, .. }))) = decode(&body) else {
            panic!("{body:?}")
        };
        assert!(body.as_ptr_range().contains(&frame.bytes().as_ptr()));
        assert!(body.ends_with(&[frame.bytes().as_ref(), b"}"].concat()));
    }
}

#[test]
fn an_update_in_another_order_of_members_is_read_too() {
    let body = Bytes::from_static(
        br#"{ "at":7,"later":[1], "frame":{"x":1.0},"kind":"agent_updated","update":"from_the_future"}"#,
    );
    let expected = Event::Agent(AgentEvent::Updated {
        update: UpdateKind::Other,
        frame: raw(r#"{"x":1.0}"#),
        title: None,
        tool: None,
    });
    assert_eq!(decode(&body), Ok((Millis(7), expected)));
}

#[test]
fn unknown_members_of_known_events_are_skipped() {
    let body = Bytes::from_static(
        br#"{"kind":"prompt_requeued","at":7,"mood":{"good":true},"prompt":"p1"}"#,
    );
    assert_eq!(
        decode(&body),
        Ok((Millis(7), Event::Prompt(PromptEvent::Requeued { prompt: id("p1") })))
    );
}

#[test]
fn an_unknown_event_is_written_again_as_it_came() {
    let body = Bytes::from_static(br#"{"kind":"dreamt","at":12, "of":"sheep" }"#);
    let (at, event) = decode(&body).unwrap();
    let mut again = Vec::new();
    encode(&event, at, &mut again);
    assert_eq!((at, again), (Millis(12), body.to_vec()));
}

#[test]
fn a_snapshot_of_a_newer_version_is_refused_by_number() {
    let body =
        Bytes::from_static(br#"{"kind":"snapshot","at":12,"saved":{"v":2,"shape":"unknown"}}"#);
    let error = decode(&body).unwrap_err();
    assert_eq!(error, CodecError::Newer { found: 2, known: 1 });
    assert_eq!(
        error.to_string(),
        "snapshot of format 2, but this version knows up to 1; use a newer wharf"
    );
}

#[test]
fn foreign_record_and_broken_event_are_different_errors() {
    for body in ["", "7", "{}", r#"{"kind":"created"}"#, r#"{"at":1}"#, "nonsense", "\u{fffd}"] {
        assert!(matches!(decode(&Bytes::from(body)), Err(CodecError::NotAnEvent { .. })), "{body}");
    }
    for body in [
        r#"{"kind":"created","at":1}"#,
        r#"{"kind":"agent_updated","at":1,"update":"plan"}"#,
        r#"{"kind":"prompt_ended","at":1,"prompt":"p1","end":{"how":"answered"}}"#,
        r#"{"kind":"ask_resolved","at":1,"ask":3,"outcome":{"how":"vanished"}}"#,
        r#"{"kind":"snapshot","at":1,"saved":[]}"#,
    ] {
        let error = decode(&Bytes::from(body)).unwrap_err();
        assert!(error.to_string().starts_with("malformed "), "{body}: {error}");
    }
}

#[test]
fn truncated_record_is_an_error_at_every_length() {
    for event in one_of_each().into_iter().chain(descriptions()) {
        let body = encoded(&event);
        for cut in 0..body.len() {
            // The hot path trusts the frame's shape (records are checksummed), the others do not.
            if let Ok((_, decoded)) = decode(&body.slice(..cut)) {
                assert!(matches!(decoded, Event::Agent(AgentEvent::Updated { .. })), "{decoded:?}");
            }
        }
    }
}

#[test]
fn text_that_is_not_utf8_is_no_update() {
    let body = Bytes::from_static(
        b"{\"kind\":\"agent_updated\",\"at\":1,\"update\":\"plan\",\"frame\":\"\xff\"}",
    );
    assert!(decode(&body).is_err());
}

/// The log of a version, as it was written then. Never edited: a new version gets a new file beside
/// it.
const V1: &str = include_str!("../../../../fixtures/log/v1/core-events.jsonl");

#[test]
fn the_log_of_version_1_loads() {
    let bodies: Vec<Bytes> = V1.lines().map(|line| Bytes::from_static(line.as_bytes())).collect();
    let decoded: Vec<_> = bodies.iter().map(|body| decode(body).unwrap()).collect();
    for (body, (at, event)) in bodies.iter().zip(&decoded) {
        let mut again = Vec::new();
        encode(event, *at, &mut again);
        assert_eq!(*body, again);
    }
    let entries: Vec<_> =
        (1..).zip(decoded).map(|(seq, (at, event))| (Seq(seq), at, event)).collect();
    let snapshot = entries
        .iter()
        .position(|entry| matches!(entry.2, Event::Storage(StorageEvent::Snapshot(_))))
        .unwrap();
    let whole = Session::restore(Settings::default(), entries.clone()).unwrap();
    let mut from_snapshot =
        Session::restore(Settings::default(), entries[snapshot..].to_vec()).unwrap();
    // Its sums of tokens were made by an older rule.
    assert!(from_snapshot.state().usage.is_outdated() && !whole.state().usage.is_outdated());
    from_snapshot.keep_outdated_sums();
    assert_eq!(whole.state(), from_snapshot.state());

    let state = whole.state();
    assert_eq!(state.head, Seq(entries.len() as u64));
    assert_eq!((state.status, state.start, state.resumable()), (Status::Killed, StartNo(2), true));
    assert_eq!(state.queue.iter().map(|queued| queued.prompt.as_str()).collect::<Vec<_>>(), ["p7"]);
    assert_eq!(state.latest.title.as_deref(), Some("Fix the \"parser\""));
    assert!(matches!(state.prompt_end(&id("p1")), Some(PromptEnd::Answered { .. })));
}

#[test]
fn payloads_are_refused_unless_they_are_one_line_of_text() {
    assert_eq!(Raw::new("{\n}"), None);
    assert_eq!(Raw::new("{\r}"), None);
    assert_eq!(Raw::new(vec![0xff_u8]), None);
    assert_eq!(raw(ODD).detached(), raw(ODD));
}

#[test]
fn capabilities_that_were_added_later_are_kept() {
    let accepts = Some(AcceptedContent { image: true, audio: false, embedded: true });
    let traits = AgentTraits { fork: true, accepts, ..AgentTraits::default() };
    let event = Event::Agent(AgentEvent::Started {
        start: StartNo(1),
        agent_session: "a".into(),
        traits,
        answer: raw("{}"),
    });
    assert_eq!(decode(&encoded(&event)).unwrap(), (AT, event));
}

const UNREADABLE: &str = include_str!("../../../../fixtures/log/v1/unreadable-events.jsonl");

#[test]
fn unreadable_events_are_lost_with_their_time_and_never_newer_snapshots() {
    let lines: Vec<&str> = UNREADABLE.lines().collect();
    let expected = [
        (Some(1_000), SettingsLoss::None),
        (Some(1_001), SettingsLoss::None),
        (Some(1_002), SettingsLoss::Certain),
        (Some(1_003), SettingsLoss::Certain),
        (Some(1_004), SettingsLoss::Certain),
        (Some(1_005), SettingsLoss::Possible),
        (None, SettingsLoss::Possible),
    ];
    assert_eq!(lines.len(), expected.len());
    for (seq, (line, (at, settings))) in (1..).zip(lines.into_iter().zip(expected)) {
        let body = Bytes::copy_from_slice(line.as_bytes());
        decode(&body).unwrap_err();
        let found = decode_or_lost(Seq(seq), &body).unwrap();
        let Event::Lost(lost) = &found.event else { panic!("{line}") };
        assert_eq!(
            (found.at, lost.settings, lost.first),
            (at.map(Millis), settings, Seq(seq)),
            "{line}"
        );
    }
    let newer = Bytes::from_static(br#"{"kind":"snapshot","at":1,"saved":{"v":99,"state":{}}}"#);
    assert!(matches!(decode_or_lost(Seq(1), &newer), Err(CodecError::Newer { .. })));
}
