//! Starts, exits, kills and coming back (rules 2.4, 2.6, 2.10).

use wharf_core::{
    AgentEvent, AgentTraits, AskEvent, AskOutcome, Effect, EndReason, Ending, Event, Millis,
    PromptEnd, PromptEvent, Refusal, Reply, Role, SessionEvent, Settings, StartKind, StartNo,
    Status, WakeCause,
};
use wharf_core::{Input, LifecycleInput};

use crate::stage::*;

pub(crate) fn starting(start: u64, how: StartKind) -> Event {
    Event::Agent(AgentEvent::Starting { start: StartNo(start), how })
}

pub(crate) fn start(start: u64, how: StartKind) -> Effect {
    Effect::StartAgent { start: StartNo(start), how }
}

pub(crate) fn stop(start: u64) -> Effect {
    Effect::StopAgent { start: StartNo(start) }
}

pub(crate) fn ended(prompt: &str, end: PromptEnd) -> Event {
    Event::Prompt(PromptEvent::Ended { prompt: id(prompt), end, failure: None })
}

pub(crate) fn killed(reason: EndReason) -> Event {
    Event::Session(SessionEvent::Ended(Ending {
        status: Status::Killed,
        reason,
        exit_code: None,
        message: None,
        needs_login: false,
    }))
}

/// The end of a prompt whose agent exited, with its last words.
fn cut_off(prompt: &str) -> Event {
    let (prompt, end) = (id(prompt), PromptEnd::AgentExited);
    Event::Prompt(PromptEvent::Ended { prompt, end, failure: Some("bye".into()) })
}

fn exit(status: Status, reason: EndReason, exit_code: Option<i32>, message: &str) -> Event {
    Event::Session(SessionEvent::Ended(Ending {
        status,
        reason,
        exit_code,
        message: Some(message.into()),
        needs_login: false,
    }))
}

fn busy(traits: AgentTraits) -> Stage {
    let mut stage = Stage::running_with(Settings::default(), traits);
    stage.prompt("p1", "ann");
    stage.prompt("p2", "bob");
    stage
}

#[test]
fn a_new_session_starts_its_agent() {
    let stage = Stage::starting(Settings::default());
    let step = &stage.first;
    assert_eq!(
        step.events,
        [Event::Session(SessionEvent::Created(origin())), starting(1, StartKind::New)]
    );
    assert_eq!(step.effects, [start(1, StartKind::New)]);
    assert_eq!(stage.session.state().status, Status::Starting);
}

#[test]
fn running_is_entered_when_the_agent_has_answered() {
    let stage = Stage::running_with(Settings::default(), RESUMES);
    let state = stage.session.state();
    assert_eq!((state.status, state.agent_session.as_deref()), (Status::Running, Some("agent-1")));
    assert_eq!(state.traits, RESUMES);
    assert!(!state.resumable());
}

#[test]
fn a_failed_first_start_ends_the_session_for_good() {
    let mut stage = Stage::starting(Settings::default());
    let step = stage.give(start_failed(1));
    let error = exit(Status::Error, EndReason::StartFailed, Some(127), "not found");
    assert_eq!(outcome(&step), (vec![error], vec![]));
    assert!(!stage.session.state().resumable());
    assert_refused(&stage.prompt("p2", "ann"), &Refusal::NotResumable);
    assert_refused(&stage.give(Input::Lifecycle(LifecycleInput::Resume)), &Refusal::NotResumable);
}

#[test]
fn an_agent_that_exits_while_it_starts_has_failed_to_start() {
    let mut stage = Stage::starting(Settings::default());
    let step = stage.give(exited(1, Some(3)));
    assert_eq!(step.events, [exit(Status::Error, EndReason::StartFailed, Some(3), "bye")]);
}

#[test]
fn a_failed_resume_can_be_tried_again() {
    let mut stage = Stage::running_with(Settings::default(), RESUMES);
    stage.kill(EndReason::Closed);
    stage.give(wake("ann", Role::Controller));
    stage.give(start_failed(2));
    assert!(stage.session.state().resumable());
    assert_eq!(stage.prompt("p1", "ann").effects, [start(3, StartKind::Resume)]);
}

#[test]
fn an_exit_ends_the_turn_and_closes_its_asks_without_an_answer() {
    let mut stage = busy(AgentTraits::default());
    let ask = stage.ask("0");
    let step = stage.give(exited(1, Some(1)));
    let gone = Event::Ask(AskEvent::Resolved { ask, outcome: AskOutcome::AgentGone, by: None });
    let events = vec![
        gone,
        cut_off("p1"),
        exit(Status::Exited, EndReason::AgentExited, Some(1), "bye"),
        starting(2, StartKind::New),
    ];
    assert_eq!(outcome(&step), (events, vec![start(2, StartKind::New)]));
    let state = stage.session.state();
    assert_eq!(state.last_output_at, Some(stage.now));
}

#[test]
fn an_end_without_an_exit_code_is_an_error() {
    let mut stage = Stage::running();
    let step = stage.give(exited(1, None));
    assert_eq!(step.events, [exit(Status::Error, EndReason::AgentExited, None, "bye")]);
}

#[test]
fn agent_that_finished_a_turn_is_brought_back_for_the_queue() {
    let mut stage = busy(RESUMES);
    stage.give(answered("p1"));
    stage.prompt("p3", "ann");
    let step = stage.give(exited(1, Some(1)));
    let exit = exit(Status::Exited, EndReason::AgentExited, Some(1), "bye");
    assert_eq!(step.events, [cut_off("p2"), exit, starting(2, StartKind::Resume)]);
    assert_eq!(step.effects, [start(2, StartKind::Resume)]);
    assert!(matches!(
        stage.give(started(2, RESUMES)).effects.as_slice(),
        [Effect::SendPrompt { .. }]
    ));
}

#[test]
fn session_returns_by_load_when_the_agent_cannot_resume() {
    let mut stage = busy(AgentTraits { load: true, ..AgentTraits::default() });
    stage.kill(EndReason::Closed);
    assert_eq!(
        stage.give(Input::Lifecycle(LifecycleInput::Resume)).effects,
        [start(2, StartKind::Load)]
    );
}

#[test]
fn a_prompt_brings_a_cold_session_back() {
    let mut stage = Stage::running_with(Settings::default(), RESUMES);
    stage.kill(EndReason::Closed);
    assert!(stage.session.state().resumable());
    let step = stage.prompt("p1", "ann");
    assert!(matches!(
        step.events.as_slice(),
        [Event::Prompt(PromptEvent::Accepted { .. }), Event::Agent(AgentEvent::Starting { .. })]
    ));
    assert_eq!(step.effects, [start(2, StartKind::Resume)]);
    let state = stage.session.state();
    assert_eq!(
        (state.status, state.ended_at, state.ending.clone()),
        (Status::Starting, None, None)
    );
    assert!(matches!(
        stage.give(started(2, RESUMES)).effects.as_slice(),
        [Effect::SendPrompt { .. }]
    ));
    assert_eq!(stage.session.state().agent_session.as_deref(), Some("agent-2"));
}

#[test]
fn a_waking_controller_brings_a_cold_session_back_and_an_observer_does_not() {
    let mut stage = Stage::running_with(Settings::default(), RESUMES);
    stage.kill(EndReason::Idle);
    assert_eq!(stage.give(wake("eve", Role::Observer)).events, []);
    assert_eq!(stage.attach("bob").events, []);
    assert_eq!(stage.give(wake("ann", Role::Controller)).events, [starting(2, StartKind::Resume)]);
    assert_eq!(stage.give(wake("cat", Role::Controller)).events, []);
}

#[test]
fn only_an_explicit_resume_undoes_a_users_kill() {
    let mut stage = Stage::running_with(Settings::default(), RESUMES);
    stage.kill(EndReason::User);
    assert_refused(&stage.prompt("p1", "ann"), &Refusal::Killed);
    assert_eq!(stage.give(wake("ann", Role::Controller)).events, []);
    assert_eq!(
        stage.give(Input::Lifecycle(LifecycleInput::Resume)).effects,
        [start(2, StartKind::Resume)]
    );
}

#[test]
fn killed_session_is_for_reading_only() {
    let mut stage = Stage::running_with(Settings::default(), RESUMES);
    stage.kill(EndReason::User);
    assert_refused(&stage.give(come_for_agent("ann", Role::Controller)), &Refusal::Killed);
    assert_eq!(stage.session.members().count(), 0);
    assert!(matches!(stage.give(come_for_agent("ann", Role::Observer)).reply, Reply::Joined(_)));
    assert!(matches!(stage.give(wake("bob", Role::Controller)).reply, Reply::Joined(_)));
    stage.give(Input::Lifecycle(LifecycleInput::Resume));
    assert!(matches!(stage.give(come_for_agent("ann", Role::Controller)).reply, Reply::Joined(_)));
}

#[test]
fn wake_does_not_undo_a_users_kill() {
    let mut stage = busy(RESUMES);
    stage.kill(EndReason::HostShutdown);
    stage.kill(EndReason::User);
    assert_refused(
        &stage.give(Input::Lifecycle(LifecycleInput::Wake { cause: WakeCause::Queue })),
        &Refusal::Killed,
    );
    assert_refused(
        &stage.give(Input::Lifecycle(LifecycleInput::Wake { cause: WakeCause::Caller })),
        &Refusal::Killed,
    );
    assert_refused(
        &stage.give(Input::Lifecycle(LifecycleInput::Wake { cause: WakeCause::HostStart })),
        &Refusal::Killed,
    );
}

#[test]
fn wake_for_the_queue_is_refused_when_the_queue_is_empty() {
    let mut stage = busy(RESUMES);
    stage.kill(EndReason::HostShutdown);
    stage.kill(EndReason::Closed);
    assert_refused(
        &stage.give(Input::Lifecycle(LifecycleInput::Wake { cause: WakeCause::Queue })),
        &Refusal::NotResumable,
    );
    assert_eq!(
        stage
            .give(Input::Lifecycle(LifecycleInput::Wake { cause: WakeCause::Caller }))
            .effects,
        [start(2, StartKind::Resume)]
    );
}

#[test]
fn host_that_starts_does_not_undo_a_close() {
    let mut stage = Stage::running_with(Settings::default(), RESUMES);
    stage.kill(EndReason::HostShutdown);
    let closed = Ending {
        status: Status::Killed,
        reason: EndReason::Closed,
        exit_code: None,
        message: None,
        needs_login: false,
    };
    assert_eq!(stage.kill(EndReason::Closed).events, [Event::Session(SessionEvent::Ended(closed))]);
    assert_eq!(stage.kill(EndReason::Closed).events, [], "it is closed already");
    assert_refused(
        &stage.give(Input::Lifecycle(LifecycleInput::Wake { cause: WakeCause::HostStart })),
        &Refusal::NotResumable,
    );
    assert_eq!(
        stage
            .give(Input::Lifecycle(LifecycleInput::Wake { cause: WakeCause::Caller }))
            .effects,
        [start(2, StartKind::Resume)]
    );
    stage.give(started(2, RESUMES));
    stage.kill(EndReason::HostShutdown);
    assert_eq!(
        stage
            .give(Input::Lifecycle(LifecycleInput::Wake { cause: WakeCause::HostStart }))
            .effects,
        [start(3, StartKind::Resume)]
    );
}

#[test]
fn session_that_cannot_come_back_refuses_a_resume() {
    let mut stage = Stage::running();
    stage.kill(EndReason::Closed);
    assert_refused(&stage.prompt("p1", "ann"), &Refusal::NotResumable);
    assert_refused(&stage.give(Input::Lifecycle(LifecycleInput::Resume)), &Refusal::NotResumable);
    assert_eq!(stage.give(wake("ann", Role::Controller)).events, []);
}

#[test]
fn a_kill_ends_everything_once() {
    for reason in [EndReason::User, EndReason::Closed, EndReason::Idle] {
        let mut stage = busy(RESUMES);
        let ask = stage.ask("0");
        let step = stage.kill(reason);
        let events = vec![
            Event::Ask(AskEvent::Resolved { ask, outcome: AskOutcome::AgentGone, by: None }),
            ended("p1", PromptEnd::SessionEnded),
            ended("p2", PromptEnd::SessionEnded),
            killed(reason),
        ];
        assert_eq!(outcome(&step), (events, vec![stop(1)]));
        assert_nothing(&stage.kill(reason));
    }
}

#[test]
fn a_shutdown_of_the_host_keeps_the_queue_of_a_session_that_can_come_back() {
    let mut stage = busy(RESUMES);
    let step = stage.kill(EndReason::HostShutdown);
    assert_eq!(
        step.events,
        [ended("p1", PromptEnd::HostShutdown), killed(EndReason::HostShutdown)]
    );
    assert_eq!(stage.queue(), ["p2"]);
    stage.restart_host();
    stage.give(Input::Lifecycle(LifecycleInput::Resume));
    assert!(matches!(
        stage.give(started(2, RESUMES)).effects.as_slice(),
        [Effect::SendPrompt { .. }]
    ));
}

#[test]
fn a_shutdown_of_the_host_ends_the_queue_of_a_session_that_cannot_come_back() {
    let mut stage = busy(AgentTraits::default());
    stage.kill(EndReason::HostShutdown);
    assert_eq!(stage.queue(), Vec::<&str>::new());
}

#[test]
fn a_users_kill_of_a_cold_session_keeps_it_from_coming_back() {
    let mut stage = busy(RESUMES);
    stage.kill(EndReason::HostShutdown);
    let step = stage.kill(EndReason::User);
    assert_eq!(
        outcome(&step),
        (vec![ended("p2", PromptEnd::SessionEnded), killed(EndReason::User)], vec![])
    );
    assert_refused(&stage.prompt("p3", "ann"), &Refusal::Killed);
}

#[test]
fn closing_a_cold_session_ends_its_queue_and_keeps_it_closed() {
    let mut stage = busy(RESUMES);
    stage.kill(EndReason::HostShutdown);
    assert_nothing(&stage.kill(EndReason::HostShutdown));
    let expected = [ended("p2", PromptEnd::SessionEnded), killed(EndReason::Closed)];
    assert_eq!(stage.kill(EndReason::Closed).events, expected);
}

#[test]
fn an_agent_that_ignores_a_cancel_is_ended_and_brought_back_for_the_queue() {
    let mut stage = busy(RESUMES);
    stage.cancel("ann");
    assert_eq!(stage.session.deadline(), Some(stage.now.after(Millis(30_000))));
    let step = stage.wait(30_000);
    assert_eq!(step.events[0], ended("p1", PromptEnd::Cancelled));
    assert!(matches!(&step.events[1], Event::Session(SessionEvent::Ended(ending))
        if ending.status == Status::Killed && ending.reason == EndReason::Unresponsive));
    assert_eq!(step.events[2..], [starting(2, StartKind::New)]);
    assert_eq!(step.effects, [stop(1), start(2, StartKind::New)]);
    assert_eq!(stage.queue(), ["p2"]);
    // The late answer of the old agent is dropped.
    assert_nothing(&stage.give(answered("p1")));
    assert_nothing(&stage.give(exited(1, None)));
}

#[test]
fn an_agent_that_ignores_a_cancel_is_brought_back_even_if_nothing_waits() {
    let mut stage = Stage::running_with(Settings::default(), RESUMES);
    stage.prompt("p1", "ann");
    stage.cancel("ann");
    let step = stage.wait(30_000);
    assert_eq!(step.effects, [stop(1), start(2, StartKind::Resume)]);
    assert_eq!(stage.session.state().status, Status::Starting);
}

#[test]
fn an_agent_that_ignores_a_cancel_and_cannot_come_back_is_started_afresh_for_the_queue() {
    let mut stage = busy(AgentTraits::default());
    stage.cancel("ann");
    let step = stage.wait(30_000);
    assert_eq!(step.effects, [stop(1), start(2, StartKind::New)]);
    assert_eq!(stage.queue(), ["p2"]);
}

#[test]
fn a_cancelled_turn_changes_no_status() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    stage.cancel("ann");
    stage.give(answered("p1"));
    assert_eq!(stage.session.state().status, Status::Running);
    assert!(matches!(stage.give(Input::TimePassed).reply, Reply::Done));
}

fn nap(reason: EndReason) -> Input {
    Input::Lifecycle(LifecycleInput::Sleep { reason, why: "too much memory".into() })
}

#[test]
fn an_idle_session_goes_to_sleep_and_a_prompt_wakes_it() {
    let mut stage = Stage::running_with(Settings::default(), RESUMES);
    let step = stage.give(nap(EndReason::Memory));
    let asleep = exit(Status::Killed, EndReason::Memory, None, "too much memory");
    assert_eq!(outcome(&step), (vec![asleep], vec![stop(1)]));
    assert!(stage.session.state().resumable() && !stage.session.state().killed_by_user());
    let step = stage.prompt("p1", "ann");
    assert_eq!(step.effects, [start(2, StartKind::Resume)]);
    assert_eq!(stage.queue(), ["p1"]);
}

#[test]
fn a_session_that_is_at_work_or_cannot_come_back_stays_awake() {
    let mut stage = busy(RESUMES);
    assert_refused(&stage.give(nap(EndReason::Memory)), &Refusal::TurnInProgress);
    let mut asking = Stage::running_with(Settings::default(), RESUMES);
    asking.ask("1");
    assert_refused(&asking.give(nap(EndReason::Idle)), &Refusal::TurnInProgress);
    let mut stage = Stage::running();
    assert_eq!(stage.session.state().way_back(), None);
    assert_refused(&stage.give(nap(EndReason::Memory)), &Refusal::NotResumable);
    let mut starting = Stage::starting(Settings::default());
    assert_refused(&starting.give(nap(EndReason::Memory)), &Refusal::TurnInProgress);
}
