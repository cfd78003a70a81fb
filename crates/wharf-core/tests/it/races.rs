//! Races that the core decides.

use wharf_core::{
    AgentEvent, AgentInput, AskKind, CancelScope, ClientInput, Effect, EndReason, Event, Input,
    LifecycleInput, PromptEnd, PromptEvent, Refusal, Reply, Role, Settings, StartKind, Status,
};

use crate::life::{ended, killed, start, starting, stop};
use crate::stage::*;

#[test]
fn first_of_two_answers_wins_and_the_second_is_told() {
    let mut stage = Stage::running();
    stage.attach("ann");
    stage.attach("bob");
    stage.prompt("p1", "ann");
    let ask = stage.ask("0");
    let first = stage.give(pick(ask, "bob", "allow"));
    assert!(matches!(first.effects.as_slice(), [Effect::AnswerAsk { .. }]));
    assert_refused(&stage.give(pick(ask, "ann", "reject")), &Refusal::AlreadyAnswered(ask));
}

#[test]
fn an_answer_to_a_settled_ask_is_dropped_however_it_was_settled() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    let by_cancel = stage.ask("0");
    stage.cancel("ann");
    stage.give(answered("p1"));
    stage.prompt("p2", "ann");
    let by_withdrawal = stage.ask("0");
    stage.give(Input::Agent(AgentInput::Withdrew { agent_request: raw("0") }));
    let by_exit = stage.ask("1");
    stage.give(exited(1, None));
    for ask in [by_cancel, by_withdrawal, by_exit] {
        assert_refused(&stage.give(pick(ask, "ann", "allow")), &Refusal::AlreadyAnswered(ask));
        assert_refused(&stage.give(decline(ask, "ann")), &Refusal::AlreadyAnswered(ask));
    }
}

#[test]
fn first_of_answer_and_withdrawal_wins() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    let ask = stage.ask("0");
    stage.give(pick(ask, "ann", "allow"));
    assert_nothing(&stage.give(Input::Agent(AgentInput::Withdrew { agent_request: raw("0") })));
}

#[test]
fn a_cancel_that_comes_after_the_turns_end_does_nothing() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    let seen = stage.session.head();
    stage.give(answered("p1"));
    let step = stage.give(Input::Client(ClientInput::Cancel {
        by: sender("ann"),
        scope: CancelScope { seen, settled: seen, clear_queue: false },
    }));
    assert_nothing(&step);
    assert!(matches!(step.reply, Reply::Cancelled { was_busy: false, .. }));
}

#[test]
fn a_turn_that_ends_by_itself_after_a_cancel_ends_as_the_agent_says() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    stage.cancel("ann");
    let step = stage.give(answered("p1"));
    assert!(matches!(
        &step.events[..],
        [Event::Prompt(PromptEvent::Ended { end: PromptEnd::Answered { .. }, .. })]
    ));
    // The deadline of the cancel has no effect any more.
    assert_nothing(&stage.wait(60_000));
}

#[test]
fn a_cancel_does_not_hit_the_next_queued_turn() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    stage.prompt("p2", "bob");
    let seen = stage.session.head();
    stage.give(answered("p1"));
    assert_eq!(stage.turns(), ["p2"]);
    let scope = CancelScope { seen, settled: seen, clear_queue: false };
    assert_nothing(&stage.give(Input::Client(ClientInput::Cancel { by: sender("ann"), scope })));
    // Once the start of the turn has been shown to her, the cancel means it.
    let scope = CancelScope {
        seen: stage.session.head(),
        settled: stage.session.head(),
        clear_queue: false,
    };
    assert_eq!(
        stage
            .give(Input::Client(ClientInput::Cancel { by: sender("ann"), scope }))
            .effects,
        [Effect::SendCancel]
    );
}

#[test]
fn a_cancel_hits_the_callers_own_turn_before_its_beginning_was_shown() {
    let mut stage = Stage::running();
    stage.prompt("p1", "bob");
    stage.prompt("p2", "ann");
    let seen = stage.session.head();
    stage.give(answered("p1"));
    let scope = CancelScope { seen, settled: seen, clear_queue: false };
    assert_eq!(
        stage
            .give(Input::Client(ClientInput::Cancel { by: sender("ann"), scope }))
            .effects,
        [Effect::SendCancel]
    );
}

#[test]
fn a_prompt_while_starting_waits_for_the_start() {
    let mut stage = Stage::starting(Settings::default());
    let step = stage.prompt("p1", "ann");
    assert_eq!(step.effects, []);
    let step = stage.give(started(1, RESUMES));
    assert!(matches!(
        &step.events[..],
        [Event::Agent(AgentEvent::Started { .. }), Event::Prompt(PromptEvent::TurnStarted { .. })]
    ));
    assert!(matches!(&step.effects[..], [Effect::SendPrompt { .. }]));
}

#[test]
fn a_kill_beats_a_start() {
    let mut stage = Stage::starting(Settings::default());
    stage.prompt("p1", "ann");
    let step = stage.kill(EndReason::User);
    assert_eq!(
        outcome(&step),
        (vec![ended("p1", PromptEnd::SessionEnded), killed(EndReason::User)], vec![stop(1)])
    );
    // The start succeeds all the same, and its agent is stopped.
    assert_eq!(outcome(&stage.give(started(1, RESUMES))), (vec![], vec![stop(1)]));
    assert_nothing(&stage.give(start_failed(1)));
    assert_nothing(&stage.give(exited(1, None)));
    assert_eq!(stage.session.state().status, Status::Killed);
}

#[test]
fn a_kill_after_the_start_is_a_kill() {
    let mut stage = Stage::starting(Settings::default());
    stage.give(started(1, RESUMES));
    assert_eq!(
        outcome(&stage.kill(EndReason::User)),
        (vec![killed(EndReason::User)], vec![stop(1)])
    );
}

#[test]
fn two_loads_at_once_start_one_agent() {
    let mut stage = Stage::running_with(Settings::default(), RESUMES);
    stage.kill(EndReason::Closed);
    let step = stage.give(wake("ann", Role::Controller));
    assert_eq!(step.events, [starting(2, StartKind::Resume)]);
    assert_eq!(stage.give(wake("bob", Role::Controller)).events, []);
    assert_refused(&stage.give(Input::Lifecycle(LifecycleInput::Resume)), &Refusal::AlreadyRunning);
    assert_eq!(stage.prompt("p1", "cat").effects, []);
    stage.give(started(2, RESUMES));
    assert_refused(&stage.give(Input::Lifecycle(LifecycleInput::Resume)), &Refusal::AlreadyRunning);
}

#[test]
fn messages_of_an_earlier_start_are_dropped() {
    let mut stage = Stage::running_with(Settings::default(), RESUMES);
    stage.kill(EndReason::Closed);
    assert_eq!(
        stage.give(Input::Lifecycle(LifecycleInput::Resume)).effects,
        [start(2, StartKind::Resume)]
    );
    assert_nothing(&stage.give(exited(1, Some(0))));
    assert_nothing(&stage.give(started(1, RESUMES)));
    assert_nothing(&stage.give(start_failed(1)));
    stage.give(started(2, RESUMES));
    assert_nothing(&stage.give(started(2, RESUMES)));
    assert_nothing(&stage.give(start_failed(2)));
    assert_nothing(&stage.give(exited(1, Some(0))));
    assert_eq!(stage.session.state().status, Status::Running);
}

#[test]
fn a_late_answer_to_an_ended_prompt_is_dropped() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    stage.prompt("p2", "ann");
    stage.give(answered("p1"));
    assert_nothing(&stage.give(answered("p1")));
    assert_nothing(&stage.give(answered("p9")));
    // A queued prompt is not answered by mistake either.
    stage.prompt("p3", "ann");
    assert_nothing(&stage.give(answered("p3")));
}

#[test]
fn an_exit_and_a_turns_end_at_once_end_the_prompt_once() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    stage.give(exited(1, Some(0)));
    assert_nothing(&stage.give(answered("p1")));
    assert_nothing(&stage.give(asked(AskKind::Permission, "0")));
}
