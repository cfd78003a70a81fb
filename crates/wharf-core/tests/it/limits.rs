//! Turns that take too long, or in which the agent is silent (rule 2.8).

use wharf_core::{
    AgentInput, Effect, EndReason, Event, Input, Millis, PromptEnd, PromptEvent, SessionEvent,
    Settings, StartKind, Status, TurnLimit, UpdateKind,
};

use crate::life::{ended, start, stop};
use crate::stage::*;

fn limited(deadline: Option<u64>, no_progress: Option<u64>) -> Stage {
    let (turn_deadline, no_progress) = (deadline.map(Millis), no_progress.map(Millis));
    let mut stage = Stage::running_with(
        Settings {
            turn_deadline,
            no_progress,
            cancel_timeout: None,
            ..Settings::default()
        },
        RESUMES,
    );
    stage.prompt("p1", "ann");
    stage
}

fn cancelled(prompt: &str, limit: TurnLimit) -> Event {
    Event::Prompt(PromptEvent::CancelRequested {
        prompt: id(prompt),
        by: None,
        limit: Some(limit),
        reason: None,
    })
}

#[test]
fn a_turn_over_its_deadline_is_cancelled_and_then_its_agent_is_started_again() {
    let mut stage = limited(Some(1_000), None);
    stage.prompt("p2", "ann");
    assert_nothing(&stage.wait(900));
    let step = stage.wait(200);
    assert_eq!(step.events, [cancelled("p1", TurnLimit::Deadline)]);
    assert_eq!(step.effects, [Effect::SendCancel]);
    // The agent has half a minute to settle, even if user cancels have no timeout.
    assert_nothing(&stage.wait(20_000));
    let step = stage.wait(10_000);
    assert_eq!(step.events[0], ended("p1", PromptEnd::Cancelled));
    assert!(matches!(&step.events[1], Event::Session(SessionEvent::Ended(ending))
        if ending.status == Status::Killed && ending.reason == EndReason::Unresponsive));
    assert_eq!(step.effects, [stop(1), start(2, StartKind::New)]);
    assert_eq!(stage.queue(), ["p2"]);
}

#[test]
fn turn_of_an_agent_that_has_ended_without_a_host_has_no_limit_until_its_output_is_taken_in() {
    let mut stage = limited(Some(1_000), Some(500));
    stage.adopt_ended_agent();
    assert_eq!(stage.session.turn_deadline(), None);
    assert_nothing(&stage.wait(2_000));
    assert_eq!(
        stage.give(answered("p1")).events[0],
        ended("p1", PromptEnd::Answered { stop_reason: "end_turn".into(), frame: answer_frame() })
    );
}

#[test]
fn a_turn_that_settles_in_time_has_an_ordinary_end() {
    let mut stage = limited(Some(1_000), None);
    stage.wait(1_000);
    stage.give(answered("p1"));
    assert_eq!(stage.session.state().status, Status::Running);
    assert_eq!(stage.session.deadline(), None);
}

#[test]
fn output_of_the_agent_extends_the_silence_deadline() {
    let mut stage = limited(None, Some(500));
    stage.wait(400);
    stage.give(Input::Agent(AgentInput::Updated {
        update: UpdateKind::Plan,
        frame: raw("{}"),
        title: None,
        tool: None,
    }));
    assert_nothing(&stage.wait(400));
    let step = stage.wait(100);
    assert_eq!(step.events, [cancelled("p1", TurnLimit::NoProgress)]);
}

#[test]
fn open_ask_suspends_the_silence_deadline() {
    let mut stage = limited(None, Some(500));
    stage.attach("ann");
    let ask = stage.ask("0");
    assert_eq!(stage.session.deadline(), None);
    assert_nothing(&stage.wait(10_000));
    stage.give(pick(ask, "ann", "allow"));
    assert_nothing(&stage.wait(400));
    assert_eq!(stage.wait(100).events, [cancelled("p1", TurnLimit::NoProgress)]);
}

#[test]
fn time_in_the_queue_does_not_count_toward_the_turn_deadline() {
    let mut stage = limited(Some(1_000), None);
    stage.prompt("p2", "ann");
    stage.wait(900);
    stage.give(answered("p1"));
    assert_nothing(&stage.wait(900));
    assert_eq!(stage.wait(100).events, [cancelled("p2", TurnLimit::Deadline)]);
}
