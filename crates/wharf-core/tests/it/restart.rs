//! The state that a dead host leaves, and its treatment by the next one (rule 2.7).

use wharf_core::{
    AgentTraits, AskEvent, AskOutcome, Effect, EndReason, Event, Input, LifecycleInput, Millis,
    OnRestart, PromptEnd, PromptEvent, Seq, Session, Settings, Status,
};

use crate::life::{ended, killed};
use crate::stage::*;

fn cut_off(on_restart: OnRestart, traits: AgentTraits) -> Stage {
    let mut stage = Stage::running_with(Settings { on_restart, ..Settings::default() }, traits);
    stage.prompt("p1", "ann");
    stage.prompt("p2", "bob");
    stage
}

#[test]
fn turn_interrupted_by_a_crash_ends_and_the_queue_survives() {
    let mut stage = cut_off(OnRestart::Mark, RESUMES);
    let ask = stage.ask("0");
    let step = stage.restart_host();
    let gone = Event::Ask(AskEvent::Resolved { ask, outcome: AskOutcome::AgentGone, by: None });
    let events =
        vec![gone, ended("p1", PromptEnd::HostRestarted), killed(EndReason::HostRestarted)];
    assert_eq!(outcome(&step), (events, vec![]));
    assert_eq!(stage.queue(), ["p2"]);
    assert!(stage.session.state().resumable());
}

#[test]
fn agent_that_is_taken_over_goes_on_with_its_turn_its_ask_and_the_queue() {
    let mut stage = cut_off(OnRestart::Mark, RESUMES);
    let ask = stage.ask("0");
    assert_eq!(outcome(&stage.adopt_agent()), (vec![], vec![]));
    assert_eq!(stage.queue(), ["p2"]);
    let answer = stage.give(pick(ask, "ann", "allow"));
    assert!(matches!(answer.effects.as_slice(), [Effect::AnswerAsk { .. }]));
    let step = stage.give(answered("p1"));
    assert_eq!(step.effects, [Effect::SendPrompt { prompt: id("p2"), frame: prompt_frame("p2") }]);
}

#[test]
fn cancelled_turn_of_an_agent_that_is_taken_over_has_its_time_again() {
    let settings = Settings { cancel_timeout: Some(Millis(50)), ..Settings::default() };
    let mut stage = Stage::running_with(settings, RESUMES);
    stage.prompt("p1", "ann");
    stage.cancel("ann");
    stage.adopt_agent();
    assert!(stage.wait(40).events.is_empty());
    assert!(
        stage
            .wait(20)
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::StopAgent { .. }))
    );
}

#[test]
fn ask_of_an_agent_that_is_taken_over_has_its_time_again() {
    let settings = Settings { ask_timeout: Some(Millis(50)), ..Settings::default() };
    let mut stage = Stage::running_with(settings, RESUMES);
    stage.prompt("p1", "ann");
    let ask = stage.ask("0");
    stage.adopt_agent();
    assert!(stage.wait(40).events.is_empty());
    let cancelled =
        Event::Ask(AskEvent::Resolved { ask, outcome: AskOutcome::Cancelled, by: None });
    assert_eq!(stage.wait(20).events, [cancelled]);
}

#[test]
fn crash_ends_the_queue_of_a_session_that_cannot_come_back() {
    let mut stage = cut_off(OnRestart::Requeue, AgentTraits::default());
    let step = stage.restart_host();
    assert_eq!(
        step.events,
        [
            ended("p1", PromptEnd::HostRestarted),
            ended("p2", PromptEnd::HostRestarted),
            killed(EndReason::HostRestarted)
        ]
    );
}

#[test]
fn turn_interrupted_by_a_crash_can_be_requeued_first() {
    let mut stage = cut_off(OnRestart::Requeue, RESUMES);
    let step = stage.restart_host();
    assert_eq!(
        step.events,
        [
            Event::Prompt(PromptEvent::Requeued { prompt: id("p1") }),
            killed(EndReason::HostRestarted)
        ]
    );
    assert_eq!(stage.queue(), ["p1", "p2"]);
    stage.give(Input::Lifecycle(LifecycleInput::Resume));
    let step = stage.give(started(2, RESUMES));
    assert_eq!(step.effects, [Effect::SendPrompt { prompt: id("p1"), frame: prompt_frame("p1") }]);
}

#[test]
fn interrupted_turns_are_requeued_in_order_without_cancelled_ones() {
    let settings = Settings { on_restart: OnRestart::Requeue, ..Settings::default() };
    let mut stage = Stage::running_with(settings, AgentTraits { resume: true, ..QUEUES });
    stage.prompt("p1", "ann");
    stage.cancel("ann");
    stage.restart_host();
    assert_eq!(stage.queue(), Vec::<&str>::new());
    assert_eq!(stage.log[stage.log.len() - 2].2, ended("p1", PromptEnd::Cancelled));

    stage.give(Input::Lifecycle(LifecycleInput::Resume));
    stage.give(started(2, AgentTraits { resume: true, ..QUEUES }));
    stage.prompt("p2", "ann");
    stage.give(to_agent("p3", "ann"));
    stage.prompt("p4", "ann");
    stage.restart_host();
    assert_eq!(stage.queue(), ["p2", "p3", "p4"]);
}

#[test]
fn a_session_that_was_starting_is_killed_by_the_restart() {
    let mut stage = Stage::starting(Settings::default());
    stage.prompt("p1", "ann");
    let step = stage.restart_host();
    assert_eq!(
        step.events,
        [ended("p1", PromptEnd::HostRestarted), killed(EndReason::HostRestarted)]
    );
}

#[test]
fn a_restart_does_nothing_to_an_ended_session() {
    let mut stage = cut_off(OnRestart::Mark, RESUMES);
    stage.kill(EndReason::HostShutdown);
    assert_nothing(&stage.restart_host());
    assert_eq!(stage.session.state().status, Status::Killed);
}

#[test]
fn a_log_that_begins_with_anything_else_is_not_restored() {
    let stage = cut_off(OnRestart::Mark, RESUMES);
    assert!(Session::restore(Settings::default(), stage.log[1..].to_vec()).is_none());
    assert!(Session::restore(Settings::default(), []).is_none());
}

#[test]
fn a_log_with_holes_and_unknown_events_is_restored_as_far_as_it_goes() {
    let mut stage = cut_off(OnRestart::Mark, RESUMES);
    stage.ask("0");
    stage.give(answered("p1"));
    stage.give(exited(1, None));
    for hole in 1..stage.log.len() {
        let mut log = stage.log.clone();
        log.remove(hole);
        let unknown = Event::Unknown {
            kind: "dreamt".into(),
            body: raw(r#"{"kind":"dreamt","at":1}"#),
        };
        let (last, at) = (log.last().unwrap().0, stage.now);
        log.push((Seq(last.0 + 7), at, unknown));
        let mut session = Session::restore(stage.settings.clone(), log).unwrap();
        assert_eq!(session.head(), Seq(last.0 + 7));
        // No turn or ask is left open, whichever events the hole contained.
        session.handle(Input::Lifecycle(LifecycleInput::HostRestarted), at);
        let state = session.state();
        assert!(
            state.turns.is_empty() && state.asks.is_empty() && !state.status.is_alive(),
            "hole at {hole}"
        );
    }
}
