//! Prompts, the queue and cancelling (§7).

use wharf_core::{
    AgentInput, AskEvent, AskOutcome, AskReply, CancelScope, ClientInput, Effect, Event, Input,
    Overlap, PromptEnd, PromptEvent, PromptReceipt, Raw, Refusal, Reply, Role, Sender, Seq,
    Settings, Step, Submission, TurnState,
};

use crate::stage::*;

fn receipt(step: &Step) -> PromptReceipt {
    let Reply::Prompt(receipt) = &step.reply else { panic!("no receipt: {:?}", step.reply) };
    receipt.clone()
}

fn was_busy(step: &Step) -> bool {
    let Reply::Cancelled { was_busy, .. } = step.reply else {
        panic!("no cancel: {:?}", step.reply)
    };
    was_busy
}

fn accepted(prompt: &str, client: &str, first: bool) -> Event {
    let frame = prompt_frame(prompt);
    Event::Prompt(PromptEvent::Accepted {
        prompt: id(prompt),
        sender: sender(client),
        frame,
        key: None,
        first,
    })
}

fn turn_started(prompt: &str, content: u64) -> Event {
    Event::Prompt(PromptEvent::TurnStarted { prompt: id(prompt), content: Seq(content) })
}

fn ended(prompt: &str, end: PromptEnd) -> Event {
    Event::Prompt(PromptEvent::Ended { prompt: id(prompt), end, failure: None })
}

fn answered_end() -> PromptEnd {
    PromptEnd::Answered { stop_reason: "end_turn".into(), frame: answer_frame() }
}

fn sent(prompt: &str) -> Effect {
    Effect::SendPrompt { prompt: id(prompt), frame: prompt_frame(prompt) }
}

fn cancel_requested(prompt: &str, client: &str) -> Event {
    Event::Prompt(PromptEvent::CancelRequested {
        prompt: id(prompt),
        by: Some(sender(client)),
        limit: None,
        reason: None,
    })
}

#[test]
fn a_prompt_to_an_idle_session_runs_at_once() {
    let mut stage = Stage::running();
    let step = stage.prompt("p1", "ann");
    assert_eq!(
        outcome(&step),
        (vec![accepted("p1", "ann", false), turn_started("p1", 4)], vec![sent("p1")])
    );
    assert_eq!(
        receipt(&step),
        PromptReceipt {
            prompt: id("p1"),
            position: None,
            duplicate: false,
            end: None
        }
    );
    assert_eq!(stage.session.state().turn(), TurnState::Running);
}

#[test]
fn prompts_queue_in_the_order_of_arrival_over_all_clients() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    assert_eq!(receipt(&stage.prompt("p2", "bob")).position, Some(0));
    assert_eq!(receipt(&stage.prompt("p3", "ann")).position, Some(1));
    let step = stage.give(answered("p1"));
    assert_eq!(
        outcome(&step),
        (vec![ended("p1", answered_end()), turn_started("p2", 6)], vec![sent("p2")])
    );
    assert_eq!((stage.turns(), stage.queue()), (vec!["p2"], vec!["p3"]));
}

#[test]
fn an_error_of_the_agent_ends_the_turn_too() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    let frame = raw(r#"{"id":1,"error":{"code":-32603}}"#);
    let step = stage.give(Input::Agent(AgentInput::Answered {
        prompt: id("p1"),
        stop_reason: None,
        frame: frame.clone(),
        stderr: None,
    }));
    assert_eq!(step.events, [ended("p1", PromptEnd::Failed { frame })]);
}

#[test]
fn a_caller_that_does_not_queue_is_refused_while_something_runs_or_waits() {
    let mut stage = Stage::starting(Settings::default());
    // Nothing is queued yet: this prompt will run first.
    assert_eq!(receipt(&stage.give(submit("p1", "ann", Overlap::Refuse))).position, Some(0));
    assert_refused(&stage.give(submit("p2", "ann", Overlap::Refuse)), &Refusal::TurnInProgress);
    stage.give(started(1, RESUMES));
    assert_refused(&stage.give(submit("p2", "ann", Overlap::Refuse)), &Refusal::TurnInProgress);
    stage.give(answered("p1"));
    assert_eq!(receipt(&stage.give(submit("p2", "ann", Overlap::Refuse))).position, None);
}

#[test]
fn an_interrupt_cancels_the_running_turn_and_runs_before_the_queue() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    stage.prompt("p2", "ann");
    let step = stage.give(submit("p3", "bob", Overlap::Interrupt));
    assert_eq!(
        outcome(&step),
        (
            vec![accepted("p3", "bob", true), cancel_requested("p1", "bob")],
            vec![Effect::SendCancel]
        )
    );
    assert_eq!(stage.queue(), ["p3", "p2"]);
    assert_eq!(stage.give(answered("p1")).effects, [sent("p3")]);
}

#[test]
fn a_second_interrupt_does_not_tell_the_agent_again() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    stage.give(submit("p2", "ann", Overlap::Interrupt));
    let step = stage.give(submit("p3", "ann", Overlap::Interrupt));
    assert_eq!(outcome(&step), (vec![accepted("p3", "ann", true)], vec![]));
    assert_eq!(stage.queue(), ["p3", "p2"]);
}

#[test]
fn interrupt_without_a_turn_is_an_ordinary_prompt() {
    let mut stage = Stage::running();
    assert_eq!(stage.give(submit("p1", "ann", Overlap::Interrupt)).effects, [sent("p1")]);
}

#[test]
fn a_full_queue_refuses() {
    let mut stage = Stage::running_with(Settings { max_queue: 1, ..Settings::default() }, RESUMES);
    stage.prompt("p1", "ann");
    stage.prompt("p2", "ann");
    assert_refused(&stage.prompt("p3", "ann"), &Refusal::QueueFull { limit: 1 });
}

#[test]
fn repeated_prompt_id_is_refused() {
    let mut stage = Stage::running();
    stage.give(keyed("p0", "ann", "k"));
    stage.prompt("p1", "ann");
    assert_refused(&stage.prompt("p0", "bob"), &Refusal::PromptIdTaken(id("p0")));
    assert_refused(&stage.prompt("p1", "bob"), &Refusal::PromptIdTaken(id("p1")));
    stage.give(answered("p0"));
    assert_refused(&stage.prompt("p0", "bob"), &Refusal::PromptIdTaken(id("p0")));
}

#[test]
fn a_repeated_submission_is_the_same_prompt_while_it_waits_runs_and_after_it() {
    let mut stage = Stage::running();
    let same = |position, end| PromptReceipt { prompt: id("p2"), position, duplicate: true, end };
    stage.prompt("p1", "ann");
    stage.give(keyed("p2", "ann", "k"));
    let step = stage.give(keyed("p9", "ann", "k"));
    assert_nothing(&step);
    assert_eq!(receipt(&step), same(Some(0), None));
    stage.give(answered("p1"));
    assert_eq!(receipt(&stage.give(keyed("p9", "ann", "k"))), same(None, None));
    assert_eq!(stage.session.state().prompt_end(&id("p2")), None);
    stage.give(answered("p2"));
    // The same holds across a restart.
    stage.restart_host();
    let step = stage.give(keyed("p9", "ann", "k"));
    assert_nothing(&step);
    assert_eq!(receipt(&step), same(None, Some(answered_end())));
    assert_eq!(stage.session.state().prompt_end(&id("p2")), Some(&answered_end()));
}

#[test]
fn idempotency_key_belongs_to_its_sender_and_one_content() {
    let said = |prompt: &str, client: &str, token: Option<&str>, frame: &str| {
        let sender = Sender { token: token.map(Into::into), ..sender(client) };
        let key = Some("k".into());
        Input::Client(ClientInput::Prompt(Submission {
            sender,
            key,
            frame: raw(frame),
            ..submission(prompt, client, Overlap::Queue)
        }))
    };
    let (one, other) = (
        r#"{"id":1,"params":{"prompt":[{"a":1,"b":2}]}}"#,
        r#"{"id":1,"params":{"prompt":["b"]}}"#,
    );
    let mut stage = Stage::running();
    stage.give(said("p1", "ann", Some("tok_a"), one));
    for (prompt, token) in [("p2", Some("tok_b")), ("p3", None)] {
        let theirs = receipt(&stage.give(said(prompt, "bob", token, other)));
        assert_eq!(
            (theirs.prompt, theirs.duplicate),
            (id(prompt), false),
            "another's key is another key"
        );
    }
    for round in ["before a restart", "after it"] {
        // Connection, request id and spelling differ; the user and the content are the same.
        let again = r#"{"params":{"_meta":{"x":1},"prompt":[{"b":2, "a":1}]},"id":7}"#;
        let known = receipt(&stage.give(said("p9", "ann again", Some("tok_a"), again)));
        assert_eq!((known.prompt, known.duplicate), (id("p1"), true), "{round}");
        assert_refused(
            &stage.give(said("p9", "ann", Some("tok_a"), other)),
            &Refusal::KeyReused(id("p1")),
        );
        assert_refused(&stage.give(said("p9", "eve", None, one)), &Refusal::KeyReused(id("p3")));
        stage.restart_host();
    }
}

#[test]
fn only_the_last_thousand_keys_are_kept() {
    let mut stage =
        Stage::running_with(Settings { max_queue: 5_000, ..Settings::default() }, RESUMES);
    for n in 0..=1_000 {
        let step = stage
            .session
            .handle(keyed(&format!("p{n}"), "ann", &format!("k{n}")), stage.now);
        assert!(!receipt(&step).duplicate);
    }
    let repeat = stage.session.handle(keyed("q1", "ann", "k1"), stage.now);
    assert_eq!(receipt(&repeat).prompt, id("p1"));
    assert!(!receipt(&stage.session.handle(keyed("q0", "ann", "k0"), stage.now)).duplicate);
}

#[test]
fn an_agent_that_queues_by_itself_is_handed_the_prompt_while_it_works() {
    let mut stage = Stage::running_with(Settings::default(), QUEUES);
    stage.prompt("p1", "ann");
    let step = stage.give(to_agent("p2", "bob"));
    assert_eq!(
        outcome(&step),
        (vec![accepted("p2", "bob", false), turn_started("p2", 6)], vec![sent("p2")])
    );
    assert_eq!(stage.turns(), ["p1", "p2"]);
    // The queue goes on when all of them have ended.
    stage.prompt("p3", "ann");
    assert_eq!(stage.give(answered("p1")).effects, []);
    assert_eq!(stage.give(answered("p2")).effects, [sent("p3")]);
}

#[test]
fn an_agent_that_does_not_queue_is_handed_nothing_while_it_works() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    assert_eq!(receipt(&stage.give(to_agent("p2", "bob"))).position, Some(0));
}

#[test]
fn no_prompt_is_sent_to_an_agent_with_a_cancelled_turn() {
    let mut stage = Stage::running_with(Settings::default(), QUEUES);
    stage.prompt("p1", "ann");
    stage.cancel("ann");
    assert_eq!(receipt(&stage.give(to_agent("p2", "bob"))).position, Some(0));
}

#[test]
fn observers_change_nothing() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    stage.prompt("p2", "ann");
    let ask = stage.ask("0");
    stage.give(attach("eve", Role::Observer, false));
    let (by, prompt, frame) = (sender("eve"), id("p2"), prompt_frame("p2"));
    let seen = stage.session.head();
    for input in [
        submit("p3", "eve", Overlap::Queue),
        Input::Client(ClientInput::Cancel {
            by: by.clone(),
            scope: CancelScope { seen, settled: seen, clear_queue: true },
        }),
        pick(ask, "eve", "allow"),
        decline(ask, "eve"),
        Input::Client(ClientInput::RemovePrompt { prompt: prompt.clone(), by: by.clone() }),
        Input::Client(ClientInput::UpdatePrompt { prompt: prompt.clone(), by: by.clone(), frame }),
        Input::Client(ClientInput::MovePrompt { prompt, by, position: 0 }),
    ] {
        assert_refused(&stage.give(input), &Refusal::Observer);
    }
}

#[test]
fn a_waiting_prompt_can_be_changed_moved_and_removed_by_everyone() {
    let mut stage = Stage::running();
    for prompt in ["p1", "p2", "p3", "p4"] {
        stage.prompt(prompt, "ann");
    }
    let by = sender("bob");
    let moved = |prompt: &str, position| {
        Input::Client(ClientInput::MovePrompt { prompt: id(prompt), by: sender("bob"), position })
    };
    let step = stage.give(moved("p4", 0));
    assert_eq!(
        step.events,
        [Event::Prompt(PromptEvent::Moved { prompt: id("p4"), by: by.clone(), position: 0 })]
    );
    assert_eq!(stage.queue(), ["p4", "p2", "p3"]);
    // A position past the end means the end; moving to the current position changes nothing.
    stage.give(moved("p4", 99));
    assert_eq!(stage.queue(), ["p2", "p3", "p4"]);
    assert_nothing(&stage.give(moved("p4", 2)));

    let frame: Raw = prompt_frame("p2, but better");
    stage.give(Input::Client(ClientInput::UpdatePrompt {
        prompt: id("p2"),
        by: by.clone(),
        frame: frame.clone(),
    }));
    let updated_at = stage.session.head().0;
    let queued = &stage.session.state().queue[0];
    assert_eq!(
        (&queued.sender, &queued.edited_by),
        (&sender("ann"), &Some(sender("bob"))),
        "the sender stays the sender"
    );
    let (_, content_sender) = stage.log.last().unwrap().2.prompt_content().unwrap();
    assert_eq!(*content_sender, sender("ann"));
    let step =
        stage.give(Input::Client(ClientInput::RemovePrompt { prompt: id("p3"), by: by.clone() }));
    assert_eq!(step.events, [ended("p3", PromptEnd::Removed { by: Some(by) })]);
    let step = stage.give(answered("p1"));
    assert_eq!(step.effects, [Effect::SendPrompt { prompt: id("p2"), frame }]);
    assert_eq!(step.events.last(), Some(&turn_started("p2", updated_at)));
}

#[test]
fn queue_control_of_a_started_or_unknown_prompt_is_refused() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    for prompt in ["p1", "p7"] {
        let refusal = match prompt {
            "p1" => Refusal::AlreadyStarted(id(prompt)),
            _ => Refusal::UnknownPrompt(id(prompt)),
        };
        let (prompt, by, frame) = (id(prompt), sender("ann"), prompt_frame("x"));
        for input in [
            Input::Client(ClientInput::RemovePrompt { prompt: prompt.clone(), by: by.clone() }),
            Input::Client(ClientInput::UpdatePrompt {
                prompt: prompt.clone(),
                by: by.clone(),
                frame,
            }),
            Input::Client(ClientInput::MovePrompt { prompt, by, position: 0 }),
        ] {
            assert_refused(&stage.give(input), &refusal);
        }
    }
}

#[test]
fn a_cancel_tells_the_agent_first_and_answers_the_open_asks_of_the_turn() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    let ask = stage.ask("0");
    let step = stage.cancel("bob");
    assert!(was_busy(&step));
    let resolved = Event::Ask(AskEvent::Resolved {
        ask,
        outcome: AskOutcome::Cancelled,
        by: Some(sender("bob")),
    });
    let reply = Effect::AnswerAsk { agent_request: raw("0"), reply: AskReply::Cancelled };
    assert_eq!(
        outcome(&step),
        (vec![cancel_requested("p1", "bob"), resolved], vec![Effect::SendCancel, reply])
    );
    // The turn ends when the agent says so.
    assert_eq!(stage.turns(), ["p1"]);
    assert_eq!(stage.give(answered("p1")).events, [ended("p1", answered_end())]);
    assert_eq!(stage.session.deadline(), None);
}

#[test]
fn the_agent_is_told_of_a_cancel_once() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    stage.cancel("ann");
    let step = stage.cancel("ann");
    assert!(was_busy(&step));
    assert_nothing(&step);
}

#[test]
fn cancel_without_a_turn_records_no_event() {
    let mut stage = Stage::running();
    let step = stage.cancel("ann");
    assert!(!was_busy(&step));
    assert_nothing(&step);
}

#[test]
fn a_cancel_ends_the_callers_waiting_prompts_and_leaves_those_of_others() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    stage.prompt("p2", "ann");
    stage.prompt("p3", "bob");
    let step = stage.cancel("ann");
    assert_eq!(step.events, [ended("p2", PromptEnd::Cancelled), cancel_requested("p1", "ann")]);
    assert_eq!(stage.queue(), ["p3"]);
}

#[test]
fn a_caller_that_was_only_waiting_does_not_cancel_anothers_turn() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    stage.prompt("p2", "bob");
    let step = stage.cancel("bob");
    assert!(!was_busy(&step));
    assert_eq!(outcome(&step), (vec![ended("p2", PromptEnd::Cancelled)], vec![]));
    // Now bob has nothing queued: his cancel means the turn.
    assert!(was_busy(&stage.cancel("bob")));
}

#[test]
fn a_cancel_can_clear_everyones_queue() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    stage.prompt("p2", "bob");
    let scope = CancelScope {
        seen: stage.session.head(),
        settled: stage.session.head(),
        clear_queue: true,
    };
    stage.give(Input::Client(ClientInput::Cancel { by: sender("ann"), scope }));
    assert_eq!(stage.queue(), Vec::<&str>::new());
}

#[test]
fn a_cancel_while_starting_ends_the_waiting_prompts() {
    let mut stage = Stage::starting(Settings::default());
    stage.prompt("p1", "ann");
    let step = stage.cancel("ann");
    assert!(!was_busy(&step));
    assert_eq!(step.events, [ended("p1", PromptEnd::Cancelled)]);
}

#[test]
fn asks_of_a_cancelled_turn_are_cancelled_at_once() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    stage.cancel("ann");
    let step = stage.give(asked(wharf_core::AskKind::Permission, "4"));
    let reply = Effect::AnswerAsk { agent_request: raw("4"), reply: AskReply::Cancelled };
    assert_eq!(step.effects, [reply]);
    assert!(matches!(
        step.events.as_slice(),
        [
            Event::Ask(AskEvent::Opened(_)),
            Event::Ask(AskEvent::Resolved { outcome: AskOutcome::Cancelled, by: None, .. })
        ]
    ));
}

#[test]
fn cancel_ends_only_turns_whose_start_the_caller_has_seen() {
    let mut stage = Stage::running_with(Settings::default(), QUEUES);
    stage.prompt("p1", "ann");
    let seen: Seq = stage.session.head();
    stage.give(to_agent("p2", "bob"));
    let scope = CancelScope { seen, settled: seen, clear_queue: false };
    let cancel = |by: &str| Input::Client(ClientInput::Cancel { by: sender(by), scope });
    assert_eq!(stage.give(cancel("cat")).events, [cancel_requested("p1", "cat")]);
    // The other turn needs a cancel of its own.
    assert_eq!(
        outcome(&stage.cancel("cat")),
        (vec![cancel_requested("p2", "cat")], vec![Effect::SendCancel])
    );
}

#[test]
fn prompt_event_records_its_sender() {
    let mut stage = Stage::running();
    let parent = Some(wharf_core::SessionId::new("sess_0"));
    let who = wharf_core::Sender { name: Some("Ann's editor".into()), parent, ..sender("ann") };
    let submission = Submission {
        sender: who.clone(),
        ..submission("p1", "ann", Overlap::Queue)
    };
    stage.give(Input::Client(ClientInput::Prompt(submission)));
    assert_eq!(stage.session.state().turns[0].sender, who);
}
