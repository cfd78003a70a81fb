//! Streams by themselves: what is kept for readers that come back, and the bounds.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use wharf_config::Limits;
use wharf_host::ByteBudget;
use wharf_host::core::{Epoch, Seq, SessionId};

use super::stream::{LogRange, Marked, Stream, Unknown};
use super::stream_event_id::StreamEventId;
use super::streams::{StreamRefused, StreamWire, Streams};
use crate::acp::wire::{Again, FrameOrigin, Gate, Wire};

fn streams() -> Arc<Streams> {
    Streams::new(&ByteBudget::new(&Limits::default()), Arc::default())
}

fn session(name: &str) -> SessionId {
    SessionId::new(name)
}

fn event(stream: &mut Stream, seq: u64, again: Again) {
    let (session, epoch, seq) = (session("s"), Epoch(1), Seq(seq));
    stream.push(
        FrameOrigin::Event { session: &session, epoch, seq, last: true, again },
        Bytes::from_static(b"event").into(),
    );
}

fn answer(stream: &mut Stream, text: &str) {
    stream.push(FrameOrigin::Connection, Bytes::from(text.to_owned()).into());
}

fn names<'a>(messages: impl IntoIterator<Item = &'a Marked>) -> Vec<String> {
    messages.into_iter().map(|(mark, _)| mark.to_string()).collect()
}

fn mark(id: &str) -> StreamEventId {
    id.parse().unwrap()
}

#[test]
fn a_reader_without_an_id_gets_what_the_last_one_was_not_given() {
    let mut stream = Stream::new(None);
    stream.open(None).unwrap();
    event(&mut stream, 4, Again::FromLog);
    answer(&mut stream, "x");
    assert_eq!(names(&stream.take(1)), ["1-4"]);
    let seat = stream.open(None).unwrap();
    assert!(seat.missed.kept.is_empty() && seat.missed.log.is_empty());
    assert_eq!(names(&stream.take(usize::MAX)), ["1-4+1"]);
}

#[test]
fn a_reader_with_an_id_gets_all_that_came_after_it() {
    let mut stream = Stream::new(None);
    answer(&mut stream, "first");
    for seq in 4..=9 {
        event(&mut stream, seq, if seq == 7 { Again::Never } else { Again::FromLog });
    }
    answer(&mut stream, "last");
    let log = |from| vec![LogRange { run: 1, from: Seq(from), to: Seq(9) }];
    for (last, kept, range) in [
        ("0-0+1", &["1-7", "1-9+1"][..], log(4)),
        ("1-5", &["1-7", "1-9+1"], log(6)),
        ("1-7", &["1-9+1"], log(8)),
        ("1-9", &["1-9+1"], vec![]),
        ("1-9+1", &[], vec![]),
    ] {
        let missed = stream.open(Some(mark(last))).unwrap().missed;
        assert_eq!(
            (names(&missed.kept), missed.log.into_iter().collect::<Vec<_>>()),
            (kept.iter().map(ToString::to_string).collect(), range),
            "{last}"
        );
        assert!(stream.take(usize::MAX).is_empty(), "nothing comes twice");
    }
    for unknown in ["1-9+2", "1-10", "1-4@2"] {
        assert_eq!(stream.open(Some(mark(unknown))).err(), Some(Unknown), "{unknown}");
    }
}

#[test]
fn a_reader_who_missed_that_the_log_was_shown_again_gets_both() {
    let mut stream = Stream::new(None);
    for _ in 0..3 {
        for seq in 2..=4 {
            event(&mut stream, seq, Again::FromLog);
        }
        answer(&mut stream, "loaded");
    }
    let range = |run, from| LogRange { run, from: Seq(from), to: Seq(4) };
    let missed = stream.open(Some(mark("1-3"))).unwrap().missed;
    assert_eq!(missed.log, [range(1, 4), range(2, 2), range(3, 2)]);
    assert_eq!(names(&missed.kept), ["1-4+1", "1-4+1@2", "1-4+1@3"]);
    assert_eq!(stream.open(Some(mark("1-4+1@2"))).unwrap().missed.log, [range(3, 2)]);
    assert_eq!(stream.open(Some(mark("1-5@2"))).err(), Some(Unknown), "never sent");
    for _ in 0..20 {
        event(&mut stream, 4, Again::FromLog);
    }
    assert_eq!(stream.open(Some(mark("1-3"))).err(), Some(Unknown), "too long ago");
}

#[test]
fn a_stream_does_not_resume_before_discarded_messages() {
    let mut stream = Stream::new(None);
    let large = "x".repeat(100 * 1024);
    for _ in 0..4 {
        answer(&mut stream, &large);
    }
    assert_eq!(stream.open(Some(mark("0-0+1"))).err(), Some(Unknown));
    assert_eq!(names(&stream.open(Some(mark("0-0+2"))).unwrap().missed.kept), ["0-0+3", "0-0+4"]);
    answer(&mut stream, &large.repeat(10));
    assert_eq!(
        names(&stream.open(Some(mark("0-0+4"))).unwrap().missed.kept),
        ["0-0+5"],
        "the newest is kept, however large"
    );
}

#[test]
fn a_reader_that_is_behind_is_not_given_more_from_the_log() {
    let mut stream = Stream::new(None);
    assert_eq!(stream.gate(), Gate::Closed { since: None });
    let seat = stream.open(None).unwrap();
    assert_eq!(stream.gate(), Gate::Open);
    answer(&mut stream, &"x".repeat(100 * 1024));
    assert_eq!(stream.gate(), Gate::Full);
    stream.take(1);
    assert_eq!(stream.gate(), Gate::Open);
    let newer = stream.open(None).unwrap();
    assert!(!stream.leave(seat.number), "its place is taken");
    assert!(stream.leave(newer.number));
    assert!(matches!(stream.gate(), Gate::Closed { since: Some(_) }));
}

#[test]
fn a_large_message_goes_out_in_chunks() {
    let mut stream = Stream::new(None);
    stream.open(None).unwrap();
    answer(&mut stream, &"x".repeat(1_000));
    answer(&mut stream, "y");
    let taken = stream.take(usize::MAX);
    stream.make_ready(taken);
    let mut whole = String::new();
    while let Some(chunk) = stream.next_chunk(100) {
        assert!(chunk.len() <= 120, "{}", chunk.len());
        whole.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    assert_eq!(whole, format!("id: 0-0+1\ndata: {}\n\nid: 0-0+2\ndata: y\n\n", "x".repeat(1_000)));
}

#[test]
fn there_is_a_bound_to_session_streams() {
    let streams = streams();
    let open = |number: usize, keep: bool| {
        streams.open(Some(&session(&number.to_string())), None, |_| keep).err()
    };
    assert!((0..256).all(|number| open(number, true).is_none()));
    assert_eq!(open(256, true), Some(StreamRefused::TooMany));
    assert_eq!(open(7, true), None, "one that is there can be read anew");
    streams.leave(Some(&session("3")), 1);
    assert_eq!(open(256, true), Some(StreamRefused::TooMany), "it may still be needed");
    assert_eq!(open(256, false), None, "it makes room");
}

#[tokio::test]
async fn answers_that_nobody_reads_are_noticed() {
    let streams = streams();
    let mut wire = StreamWire(Arc::clone(&streams));
    let large = Bytes::from("x".repeat(3 << 20));
    for _ in 0..3 {
        assert!(!streams.are_unread());
        wire.feed(FrameOrigin::Connection, large.clone().into()).await.unwrap();
    }
    assert!(streams.are_unread());
    let seat = streams.open(None, None, |_| false).unwrap();
    while streams.next_chunk(None, seat.number, 1 << 20).unwrap().is_some() {}
    assert!(!streams.are_unread());
}

#[test]
fn a_connection_is_idle_when_nobody_reads_and_nothing_comes() {
    let streams = streams();
    assert!(streams.is_idle(Duration::ZERO) && !streams.is_idle(Duration::from_secs(60)));
    let seat = streams.open(None, None, |_| false).unwrap();
    assert!(!streams.is_idle(Duration::ZERO));
    streams.leave(None, seat.number);
    assert!(streams.is_idle(Duration::ZERO));
}

#[test]
fn chunks_of_any_size_make_the_same_stream() {
    let whole = |limit: usize| {
        let mut stream = Stream::new(None);
        stream.open(None).unwrap();
        event(&mut stream, 4, Again::FromLog);
        event(&mut stream, 5, Again::FromLog);
        answer(&mut stream, "an answer");
        let taken = stream.take(usize::MAX);
        stream.make_ready(taken);
        let mut text = Vec::new();
        while let Some(chunk) = stream.next_chunk(limit) {
            text.extend_from_slice(&chunk);
            assert!(text.len() < 100_000, "chunks of {limit} come to no end");
        }
        String::from_utf8(text).unwrap()
    };
    let expected = whole(usize::MAX);
    for limit in 1..expected.len() {
        assert_eq!(whole(limit), expected, "chunks of {limit}");
    }
}
