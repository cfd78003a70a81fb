//! A full disk: the agent is paused, deadlines move, and cancels and kills still work (rule 10.5).

use wharf_core::{
    Effect, EndReason, Event, Input, Millis, PauseReason, PromptEnd, PromptEvent, SessionEvent,
    Settings, Status, StorageEvent, StorageInput, TurnLimit,
};

use crate::life::ended;
use crate::stage::*;

const FULL: Input = Input::Storage(StorageInput::Failed { why: PauseReason::StorageFull });

#[test]
fn storage_pause_is_recorded_with_its_end() {
    let mut stage = Stage::running();
    assert_eq!(
        stage.give(FULL).events,
        [Event::Storage(StorageEvent::Paused { why: PauseReason::StorageFull })]
    );
    assert_nothing(&stage.give(FULL));
    assert!(stage.session.state().paused.is_some());
    assert_eq!(stage.restored().state(), stage.session.state());
    assert_eq!(
        stage.give(Input::Storage(StorageInput::Back)).events,
        [Event::Storage(StorageEvent::Continued)]
    );
    assert_nothing(&stage.give(Input::Storage(StorageInput::Back)));
    assert_eq!(stage.session.state().paused, None);
}

#[test]
fn no_turn_begins_during_a_storage_pause() {
    let mut stage = Stage::running();
    stage.give(FULL);
    stage.prompt("p1", "ann");
    assert_eq!((stage.queue(), stage.turns()), (vec!["p1"], vec![]));
    let step = stage.give(Input::Storage(StorageInput::Back));
    assert!(
        matches!(
            step.events[..],
            [
                Event::Storage(StorageEvent::Continued),
                Event::Prompt(PromptEvent::TurnStarted { .. })
            ]
        ),
        "{step:?}"
    );
    assert_eq!(stage.turns(), ["p1"]);
}

#[test]
fn deadline_is_extended_by_the_time_of_a_storage_pause() {
    let settings = Settings {
        turn_deadline: Some(Millis(1_000)),
        no_progress: Some(Millis(500)),
        cancel_timeout: Some(Millis(300)),
        ..Settings::default()
    };
    let mut stage = Stage::running_with(settings, RESUMES);
    stage.prompt("p1", "ann");
    stage.wait(400);
    stage.give(FULL);
    assert_eq!(stage.session.deadline(), None);
    assert_nothing(&stage.wait(100_000));
    stage.give(Input::Storage(StorageInput::Back));
    // The silence starts again, and the turn has its 600 ms left.
    assert_nothing(&stage.wait(400));
    let step = stage.wait(100);
    assert!(
        matches!(
            step.events[..],
            [Event::Prompt(PromptEvent::CancelRequested {
                limit: Some(TurnLimit::NoProgress),
                ..
            })]
        ),
        "{step:?}"
    );
    // The cancel has its own time left too.
    stage.wait(100);
    stage.give(FULL);
    assert_nothing(&stage.wait(100_000));
    stage.give(Input::Storage(StorageInput::Back));
    assert_nothing(&stage.wait(150));
    assert_eq!(stage.wait(60).events[0], ended("p1", PromptEnd::Cancelled));
}

#[test]
fn cancel_and_kill_work_during_a_storage_pause() {
    let mut stage = Stage::running();
    stage.attach("ann");
    stage.prompt("p1", "ann");
    stage.give(FULL);
    assert_eq!(stage.cancel("ann").effects, [Effect::SendCancel]);
    let step = stage.kill(EndReason::User);
    assert!(
        matches!(
            &step.events[..],
            [Event::Prompt(PromptEvent::Ended { .. }), Event::Session(SessionEvent::Ended(_))]
        ),
        "{step:?}"
    );
    let state = stage.session.state();
    assert_eq!(
        (state.status, state.paused),
        (Status::Killed, None),
        "there is nobody to be held any more"
    );
    assert_nothing(&stage.give(FULL));
}

#[test]
fn restart_ends_a_storage_pause() {
    let mut stage = Stage::running_with(Settings::default(), RESUMES);
    stage.give(FULL);
    stage.restart_host();
    assert_eq!(stage.session.state().paused, None);
    assert_eq!(stage.session.state().status, Status::Killed);
}
