//! The output lines, row by row of AIP-46's table (rule 8.4). Neither chunks nor the place where
//! reading begins matter.

use std::sync::Arc;

use serde_json::{Value, json};
use wharf_core::{
    AgentEvent, Ask, AskEvent, AskId, AskKind, AskOutcome, ClientId, EndReason, Ending, Epoch,
    Event, PromptEnd, PromptEvent, PromptId, Raw, Sender, Seq, SessionEvent, Status, UpdateKind,
};

use super::*;

fn raw(value: &Value) -> Raw {
    Raw::new(value.to_string()).unwrap()
}

fn update(body: Value) -> Event {
    let update = UpdateKind::from_tag(body["sessionUpdate"].as_str().unwrap());
    let frame = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": body}});
    Event::Agent(AgentEvent::Updated { update, frame: raw(&frame), title: None, tool: None })
}

fn says(text: &str) -> Event {
    update(
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}),
    )
}

fn says_in(message: &str, text: &str) -> Event {
    let content = json!({"type": "text", "text": text});
    update(
        json!({"sessionUpdate": "agent_message_chunk", "messageId": message, "content": content}),
    )
}

fn thinks(text: &str) -> Event {
    update(
        json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": text}}),
    )
}

fn usage() -> Event {
    update(json!({"sessionUpdate": "usage_update", "used": 1, "size": 2}))
}

fn tool(title: &str) -> Event {
    update(
        json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": title, "status": "pending"}),
    )
}

fn tool_is(status: &str) -> Event {
    update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": status}))
}

fn prompt(name: &str) -> PromptId {
    PromptId::new(name)
}

fn accepted(name: &str) -> Event {
    let sender = Sender {
        client: ClientId::new("c"),
        chosen: None,
        name: None,
        version: None,
        token: None,
        parent: None,
        peer: None,
    };
    let frame =
        raw(&json!({"params": {"prompt": [{"type": "text", "text": "what the user said"}]}}));
    Event::Prompt(PromptEvent::Accepted {
        prompt: prompt(name),
        sender,
        frame,
        key: None,
        first: false,
    })
}

fn begun(name: &str) -> Event {
    Event::Prompt(PromptEvent::TurnStarted { prompt: prompt(name), content: Seq(1) })
}

fn ended(name: &str, end: PromptEnd) -> Event {
    Event::Prompt(PromptEvent::Ended { prompt: prompt(name), end, failure: None })
}

fn answered(name: &str) -> Event {
    let frame = raw(&json!({"result": {"stopReason": "end_turn"}}));
    ended(name, PromptEnd::Answered { stop_reason: "end_turn".into(), frame })
}

fn asks() -> Event {
    let frame = json!({"method": "session/request_permission", "params": {"toolCall": {"title": "rm -r build"}}});
    let (id, kind, agent_request) = (AskId(1), AskKind::Permission, raw(&json!(0)));
    Event::Ask(AskEvent::Opened(Ask {
        id,
        kind,
        agent_request,
        frame: raw(&frame),
        options: vec![],
        tool_call: None,
        prompt: None,
    }))
}

/// An event of a log.
struct Entry {
    id: EventId,
    event: Event,
}

impl Entry {
    fn feed(&self, projector: &mut Projector, out: &mut Vec<TranscriptLine>) {
        projector.feed(self.id, &self.event, out);
    }
}

fn log(events: Vec<Event>) -> Vec<Entry> {
    let entry = |(at, event)| Entry {
        id: EventId { epoch: Epoch(at / 7 + 1), seq: Seq(at + 1) },
        event,
    };
    (0_u64..).zip(events).map(entry).collect()
}

fn lines(entries: &[Entry]) -> Vec<TranscriptLine> {
    let (mut projector, mut out) = (Projector::new(), Vec::new());
    entries.iter().for_each(|entry| entry.feed(&mut projector, &mut out));
    out
}

fn texts(events: Vec<Event>) -> Vec<String> {
    lines(&log(events)).into_iter().map(|line| line.text).collect()
}

#[test]
fn text_deltas_are_joined_on_line_breaks() {
    let events = vec![says("hel"), says("lo\nwor"), says("ld\n\n"), says("last"), answered("p")];
    assert_eq!(texts(events), ["hello", "world", "", "last", "── turn-end (end_turn) ──"]);
    assert_eq!(texts(vec![says("win\r"), says("dows\r\n")]), ["windows"]);
}

#[test]
fn thoughts_are_marked_on_each_line() {
    assert_eq!(
        texts(vec![thinks("one\ntw"), thinks("o\n\n"), says("said\n")]),
        ["[thought] one", "[thought] two", "[thought]", "said"]
    );
}

#[test]
fn a_tool_call_is_one_line_with_its_title() {
    let events = vec![says("so"), tool("Read\nfile"), tool_is("in_progress"), tool_is("completed")];
    assert_eq!(texts(events), ["so", "[tool] Read file"]);
    let nameless = json!({"sessionUpdate": "tool_call", "toolCallId": "t", "kind": "execute"});
    assert_eq!(texts(vec![update(nameless)]), ["[tool] execute"]);
}

#[test]
fn a_failed_tool_call_is_a_tool_error() {
    assert_eq!(texts(vec![tool("Read"), tool_is("failed")]), ["[tool] Read", "[tool-error]"]);
    let content = json!([{"type": "content", "content": {"type": "text", "text": "```\nno such file\nat all"}}]);
    let failed = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "failed", "content": content});
    assert_eq!(texts(vec![update(failed)]), ["[tool-error] no such file"]);
}

#[test]
fn an_opened_ask_awaits_input() {
    assert_eq!(texts(vec![says("may I"), asks()]), ["may I", "[awaiting input] rm -r build"]);
}

#[test]
fn a_turn_ends_with_its_reason() {
    assert_eq!(
        texts(vec![accepted("p"), begun("p"), answered("p")]),
        ["── turn-end (end_turn) ──"]
    );
    let cut = vec![accepted("p"), begun("p"), says("half"), ended("p", PromptEnd::HostRestarted)];
    assert_eq!(texts(cut), ["half", "── turn-end (host_restarted) ──"]);
}

#[test]
fn the_end_of_a_prompt_that_only_waited_is_no_turn_end() {
    let events = vec![
        accepted("a"),
        begun("a"),
        says("one wo"),
        accepted("b"),
        accepted("c"),
        ended("b", PromptEnd::Cancelled),
        ended("c", PromptEnd::Removed { by: None }),
        says("rd"),
        answered("a"),
    ];
    assert_eq!(texts(events), ["one word", "── turn-end (end_turn) ──"]);
}

#[test]
fn an_error_has_its_message_and_the_last_words_of_the_agent() {
    let message: Arc<str> = "the agent exited with code 3\nstderr: Traceback\n  boom".into();
    let ending = Ending {
        status: Status::Exited,
        reason: EndReason::AgentExited,
        exit_code: Some(3),
        message: Some(message.clone()),
        needs_login: false,
    };
    let shown =
        lines(&log(vec![says("half"), Event::Session(SessionEvent::Ended(ending.clone()))]));
    let shown: Vec<_> = shown.iter().map(|line| (line.stream, line.text.as_str())).collect();
    let stderr = OutputStream::Stderr;
    let expected = [
        (OutputStream::Stdout, "half"),
        (stderr, "[error] the agent exited with code 3"),
        (stderr, "Traceback"),
        (stderr, "  boom"),
    ];
    assert_eq!(shown, expected);
    assert_eq!(
        texts(vec![Event::Session(SessionEvent::Ended(Ending {
            exit_code: Some(0),
            ..ending.clone()
        }))]),
        [""; 0]
    );
    let asleep = Ending {
        status: Status::Killed,
        reason: EndReason::Memory,
        exit_code: None,
        ..ending
    };
    assert_eq!(texts(vec![Event::Session(SessionEvent::Ended(asleep))]), [""; 0]);
    let frame = raw(&json!({"error": {"code": -32603, "message": "no credit"}}));
    assert_eq!(
        texts(vec![ended("p", PromptEnd::Failed { frame })]),
        ["[error] no credit", "── turn-end (error) ──"]
    );
}

#[test]
fn the_prompt_of_the_user_is_not_output() {
    let chunk = json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "what I said"}});
    assert_eq!(texts(vec![accepted("p"), begun("p"), update(chunk), says("ok\n")]), ["ok"]);
}

#[test]
fn states_between_two_words_do_not_break_the_line_and_other_messages_do() {
    let info = update(json!({"sessionUpdate": "session_info_update", "title": "t"}));
    assert_eq!(texts(vec![says("one wo"), info, accepted("q"), says("rd\n")]), ["one word"]);
    assert_eq!(texts(vec![says_in("a", "one wo"), usage(), says_in("a", "rd\n")]), ["one word"]);
    let plan = update(json!({"sessionUpdate": "plan", "entries": []}));
    assert_eq!(texts(vec![says("one"), plan, says("two\n")]), ["one", "two"]);
    assert_eq!(texts(vec![says_in("a", "one"), says_in("b", "two\n")]), ["one", "two"]);
    let image = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "mimeType": "image/png"}});
    assert_eq!(texts(vec![says("see"), update(image)]), ["see", "[image image/png]"]);
}

#[test]
fn usage_ends_a_message_without_an_id() {
    let messages = vec![says("I will look."), usage(), says("It is "), says("done."), tool("next")];
    assert_eq!(texts(messages), ["I will look.", "It is done.", "[tool] next"]);
}

/// Agents without message ids: whatever comes between two chunks makes them two messages, and two
/// chunks with nothing between them are one.
#[test]
fn messages_without_ids_are_separated_by_everything_that_comes_between_them() {
    assert_eq!(texts(vec![says("one"), says("two"), tool("t")]), ["onetwo", "[tool] t"]);
    let plan = update(json!({"sessionUpdate": "plan", "entries": []}));
    let user = update(
        json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "hi"}}),
    );
    let content = json!({"type": "image", "mimeType": "image/png", "data": ""});
    let image = update(json!({"sessionUpdate": "agent_message_chunk", "content": content}));
    let notice = update(json!({"sessionUpdate": "notice", "message": "note"}));
    let unknown = update(json!({"sessionUpdate": "of_tomorrow"}));
    let resolved =
        Event::Ask(AskEvent::Resolved { ask: AskId(1), outcome: AskOutcome::Cancelled, by: None });
    for (between, shown) in [
        (vec![thinks("hm")], &["[thought] hm"][..]),
        (vec![tool("t")], &["[tool] t"]),
        (vec![tool_is("completed")], &[]),
        (vec![usage()], &[]),
        (vec![asks()], &["[awaiting input] rm -r build"]),
        (vec![resolved], &[]),
        (vec![answered("p")], &["── turn-end (end_turn) ──"]),
        (vec![begun("q")], &[]),
        (vec![commands(), usage(), commands()], &[]),
        (vec![usage(), thinks("hm"), usage()], &["[thought] hm"]),
        (vec![plan], &[]),
        (vec![user], &[]),
        (vec![image], &["[image image/png]"]),
        (vec![notice], &["[notice] note"]),
        (vec![unknown], &[]),
    ] {
        let what = format!("{between:?}");
        let events = [vec![says("one")], between, vec![says("two"), answered("z")]].concat();
        let expected = [&["one"], shown, &["two", "── turn-end (end_turn) ──"]].concat();
        assert_eq!(texts(events), expected, "{what} between two messages");
    }
}

fn commands() -> Event {
    update(json!({"sessionUpdate": "available_commands_update", "availableCommands": []}))
}

#[test]
fn a_line_that_does_not_end_is_cut_at_64_kib() {
    let long = "é".repeat(MAX_LINE_BYTES);
    let cut = texts(vec![says(&long), says("\n")]);
    assert_eq!(cut.iter().map(String::len).collect::<Vec<_>>(), [MAX_LINE_BYTES, MAX_LINE_BYTES]);
    assert_eq!(
        texts(vec![says("x"), says(&long), says("\n")])[0].len(),
        MAX_LINE_BYTES - 1,
        "no half characters"
    );
}

#[test]
fn secrets_and_control_characters_do_not_get_through_however_they_are_chunked() {
    let events = vec![
        says("\u{1b}"),
        says("[31mkey sk-ant-0123456"),
        says("789012345678 \u{7}\n"),
        tool("\u{1b}[2Jx"),
    ];
    assert_eq!(texts(events.clone()), ["key sk-[redacted] ", "[tool] x"]);
    let (mut projector, mut out) = (
        Projector::new().with_choice(LineChoice { secrets: true, ..LineChoice::default() }),
        Vec::new(),
    );
    log(events).iter().for_each(|entry| entry.feed(&mut projector, &mut out));
    assert_eq!(out[0].text, "key sk-ant-0123456789012345678 ");
}

#[test]
fn lines_are_numbered_within_the_event_that_completes_them() {
    let ids: Vec<String> = lines(&log(vec![says("a"), says("b\nc\nd"), tool("t")]))
        .iter()
        .map(|line| line.id.to_string())
        .collect();
    assert_eq!(ids, ["1-2.1", "1-2.2", "1-3.1", "1-3.2"]);
}

#[test]
fn line_ids_are_read_as_they_are_written() {
    let id = LineId { epoch: Epoch(3), seq: Seq(17), n: 2 };
    assert_eq!("3-17.2".parse(), Ok(id));
    for bad in [
        "",
        "3-17",
        "3.17-2",
        "-1.1",
        "+3-17.2",
        "3-17.",
        "a-b.c",
        "3-17.2.1",
        "99999999999999999999-1.1",
    ] {
        bad.parse::<LineId>().unwrap_err();
    }
}

/// The same dice on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }

    /// The text in chunks.
    fn cut(&mut self, text: &str) -> Vec<String> {
        let mut chunks = vec![String::new()];
        let most = 1 + self.roll(200);
        for c in text.chars() {
            if self.roll(most) == 0 {
                chunks.push(String::new());
            }
            chunks.last_mut().unwrap().push(c);
        }
        chunks
    }

    fn text(&mut self) -> String {
        const WORDS: [&str; 12] = [
            "word ",
            "é",
            "\n",
            "\n\n",
            "\r\n",
            "sk-ant-0123456789012345678 ",
            "\u{1b}[1m",
            "-----BEGIN PRIVATE KEY-----\nMII",
            "-----END PRIVATE KEY-----\n",
            "line\nline\nline\n",
            "tab\t",
            "a longer stretch of words that ends\n",
        ];
        let long = if self.roll(20) == 0 {
            "x".repeat(self.roll(3 * MAX_LINE_BYTES))
        } else {
            String::new()
        };
        let words = self.roll(400);
        (0..words)
            .map(|_| WORDS[self.roll(WORDS.len())])
            .chain([long.as_str()])
            .collect()
    }
}

#[test]
fn any_way_to_cut_a_text_into_chunks_gives_the_same_lines() {
    for seed in 1..60 {
        let mut dice = Dice(seed);
        let text = dice.text();
        let whole = texts(vec![says(&text), answered("p")]);
        for _ in 0..3 {
            let mut events: Vec<Event> = dice.cut(&text).iter().map(|chunk| says(chunk)).collect();
            events.push(answered("p"));
            assert_eq!(texts(events), whole, "seed {seed}");
        }
    }
}

/// The lines of a reader that comes back with `after`, by the rules that [`Follow`] keeps.
fn rest(entries: &[Entry], after: LineId) -> Vec<TranscriptLine> {
    let known = entries.iter().take_while(|entry| entry.id.seq < after.seq);
    let marks: Vec<_> =
        known.map(|entry| (entry.id.seq, LineMark::from_event(&entry.event))).collect();
    let start = find_latest_start(&marks);
    let mut projector = Projector::new();
    if start.is_some_and(|start| start.mid_line) {
        projector = projector.mid_line();
    }
    let from = start.map_or(Seq::ZERO, |start| start.after);
    let mut out = Vec::new();
    for entry in entries.iter().filter(|entry| entry.id.seq > from) {
        if let Some(prompt) = projector.find_unknown_turn(&entry.event) {
            let before = entries.iter().rev().filter(|known| known.id.seq < entry.id.seq);
            let begun = before.filter_map(|known| turn_state_after(&known.event, prompt)).next();
            projector.set_turn_begun(prompt.clone(), begun.unwrap_or_default());
        }
        entry.feed(&mut projector, &mut out);
    }
    out.retain(|line| (line.id.seq, line.id.n) > (after.seq, after.n));
    out
}

fn story(dice: &mut Dice) -> Vec<Event> {
    let mut events = Vec::new();
    for turn in 0..4 {
        let (name, other) = (format!("p{turn}"), format!("q{turn}"));
        events.extend([accepted(&name), begun(&name), accepted(&other)]);
        for _ in 0..dice.roll(6) {
            let text = dice.text();
            match dice.roll(6) {
                0 => events.extend(dice.cut(&text).iter().map(|chunk| thinks(chunk))),
                1 => events.extend([tool("Run"), tool_is("failed")]),
                2 => events.push(asks()),
                3 => events.extend(dice.cut(&text).iter().map(|chunk| says_in("m", chunk))),
                _ => events.extend(dice.cut(&text).iter().map(|chunk| says(chunk))),
            }
        }
        events.push(ended(&other, PromptEnd::Cancelled));
        events.push(if dice.roll(2) == 0 {
            answered(&name)
        } else {
            ended(&name, PromptEnd::Cancelled)
        });
    }
    events
}

#[test]
fn a_reader_that_comes_back_at_any_line_gets_exactly_the_rest() {
    let mut mid_lines = 0;
    for seed in 1..8 {
        let mut dice = Dice(seed);
        let entries = log(story(&mut dice));
        let all = lines(&entries);
        let step = 1 + all.len() / 25;
        for (at, line) in all.iter().enumerate().step_by(step) {
            assert_eq!(rest(&entries, line.id), all[at + 1..], "seed {seed}, after {}", line.id);
        }
        let marks: Vec<_> = entries
            .iter()
            .map(|entry| (entry.id.seq, LineMark::from_event(&entry.event)))
            .collect();
        mid_lines += (1..marks.len())
            .filter(|end| find_latest_start(&marks[..*end]).is_some_and(|start| start.mid_line))
            .count();
    }
    assert!(
        mid_lines > 0,
        "no reader began inside a long message: the walk shows less than it should"
    );
}

fn cut_off(name: &str, failure: &str) -> Event {
    let (prompt, end) = (prompt(name), PromptEnd::AgentExited);
    Event::Prompt(PromptEvent::Ended { prompt, end, failure: Some(failure.into()) })
}

fn exited(message: &str) -> Event {
    let (status, reason, exit_code) = (Status::Exited, EndReason::AgentExited, Some(3));
    Event::Session(SessionEvent::Ended(Ending {
        status,
        reason,
        exit_code,
        message: Some(message.into()),
        needs_login: false,
    }))
}

#[test]
fn a_failure_is_told_before_the_end_of_its_turn_and_once() {
    let failure = "it exited\nstderr: boom";
    let events =
        vec![accepted("p"), begun("p"), says("half"), cut_off("p", failure), exited(failure)];
    let expected = ["half", "[error] it exited", "boom", "── turn-end (agent_exited) ──"];
    assert_eq!(texts(events.clone()), expected);
    let entries = log(events);
    let all = lines(&entries);
    for (at, line) in all.iter().enumerate() {
        assert_eq!(rest(&entries, line.id), all[at + 1..], "after {}", line.id);
    }
    assert_eq!(
        texts(vec![accepted("p"), cut_off("p", failure), exited(failure)])[..1],
        ["[error] it exited"]
    );
    let frame = raw(&json!({"error": {"code": -32603, "message": "no credit"}}));
    let (end, failure) = (PromptEnd::Failed { frame }, Some("\nstderr: pay first".into()));
    let failed = Event::Prompt(PromptEvent::Ended { prompt: prompt("p"), end, failure });
    assert_eq!(texts(vec![failed]), ["[error] no credit", "pay first", "── turn-end (error) ──"]);
}
