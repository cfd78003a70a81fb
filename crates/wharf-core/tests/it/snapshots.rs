//! Snapshots: a restore may begin at any of them and gives the same state.

use wharf_core::{
    AgentInput, Event, Input, Millis, PromptEvent, Seq, Session, Settings, State, StorageEvent,
    UpdateKind,
};

use crate::stage::*;

fn every(snapshot_every: u64) -> Settings {
    Settings { snapshot_every, ..Settings::default() }
}

fn update() -> Input {
    Input::Agent(AgentInput::Updated {
        update: UpdateKind::AgentMessageChunk,
        frame: raw("{}"),
        title: None,
        tool: None,
    })
}

fn snapshots(log: &[(Seq, Millis, Event)]) -> Vec<usize> {
    log.iter()
        .enumerate()
        .filter(|(_, entry)| matches!(entry.2, Event::Storage(StorageEvent::Snapshot(_))))
        .map(|(at, _)| at)
        .collect()
}

#[test]
fn a_snapshot_comes_last_in_its_step_at_the_first_quiet_moment() {
    let mut stage = Stage::running_with(every(5), RESUMES);
    stage.prompt("p1", "ann");
    for _ in 0..10 {
        stage.give(update());
    }
    assert_eq!(snapshots(&stage.log), Vec::<usize>::new());
    let step = stage.give(answered("p1"));
    assert!(matches!(
        &step.events[..],
        [Event::Prompt(PromptEvent::Ended { .. }), Event::Storage(StorageEvent::Snapshot(_))]
    ));
    assert_eq!(stage.session.state().snapshot, Some(stage.session.head()));
}

#[test]
fn a_turn_without_end_does_not_put_the_snapshot_off_forever() {
    let mut stage = Stage::running_with(every(5), RESUMES);
    stage.prompt("p1", "ann");
    for _ in 0..100 {
        stage.give(update());
    }
    let taken = snapshots(&stage.log);
    assert_eq!(taken[..3], [20, 41, 62]);
}

#[test]
fn a_step_without_events_takes_no_snapshot() {
    let mut stage = Stage::running_with(every(1), RESUMES);
    assert_nothing(&stage.give(Input::TimePassed));
}

#[test]
fn a_restore_from_any_snapshot_equals_one_from_the_beginning() {
    let mut stage = Stage::running_with(every(3), RESUMES);
    stage.give(keyed("p1", "ann", "k1"));
    stage.prompt("p2", "bob");
    stage.ask("0");
    stage.ask("\"seven\"");
    for _ in 0..12 {
        stage.give(update());
    }
    stage.cancel("ann");
    stage.give(answered("p1"));
    stage.give(answered("p2"));
    stage.restart_host();
    let taken = snapshots(&stage.log);
    assert!(taken.len() >= 3, "{taken:?}");

    // This restore ignores all snapshots.
    let (seq, at, first) = &stage.log[0];
    let mut folded = State::begin(*seq, *at, first).unwrap();
    for (seq, at, event) in &stage.log[1..] {
        folded.apply(*seq, *at, event);
    }
    for from in taken {
        let restored =
            Session::restore(stage.settings.clone(), stage.log[from..].to_vec()).unwrap();
        assert_eq!(*restored.state(), folded);
    }
}

#[test]
fn a_snapshot_heals_a_hole_before_it() {
    let mut stage = Stage::running_with(every(100), RESUMES);
    for _ in 0..100 {
        stage.give(update());
    }
    stage.give(keyed("p1", "ann", "k1"));
    let mut log = stage.log.clone();
    log.remove(2);
    let restored = Session::restore(stage.settings.clone(), log).unwrap();
    assert_eq!(restored.state(), stage.session.state());
}
