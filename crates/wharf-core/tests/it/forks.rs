//! Forks: sessions that begin as a copy of another one (rule 17.10).

use wharf_core::{
    AgentEvent, AgentSetting, AgentTraits, EndReason, Ending, Event, Input, LifecycleInput,
    NewSession, SessionEvent, SettingSpelling, Settings, StartFault, StartKind, Status,
};

use crate::life::{start, starting};
use crate::stage::*;

const FORGETS: AgentTraits = AgentTraits { resume: false, ..RESUMES };

fn new_fork() -> NewSession {
    let mut new = NewSession::new(origin(), Settings::default());
    new.origin.forked_from = Some(fork_source());
    new
}

/// Creates a fork whose agent runs.
fn running_fork(traits: AgentTraits) -> Stage {
    let mut stage = Stage::starting_new(new_fork());
    stage.give(started(1, traits));
    stage
}

#[test]
fn fork_is_told_its_title_and_settings_before_its_agent_copies_the_source() {
    let mode = AgentSetting {
        of: SettingSpelling::Mode,
        id: None,
        category: None,
        value: raw("\"plan\""),
    };
    let new = NewSession {
        title: Some("copy".into()),
        agent_settings: Some(vec![mode.clone()]),
        ..new_fork()
    };
    let created = Event::Session(SessionEvent::Created(new.origin.clone()));
    let stage = Stage::starting_new(new);
    let renamed = Event::Session(SessionEvent::Renamed { title: Some("copy".into()), by: None });
    let set = Event::Agent(AgentEvent::SettingsChanged { settings: vec![mode], are_all: false });
    assert_eq!(stage.first.events, [created, renamed, set, starting(1, StartKind::Fork)]);
    assert_eq!(stage.first.effects, [start(1, StartKind::Fork)]);
    assert_eq!(*stage.session.state(), *stage.restored().state());
}

#[test]
fn fork_whose_host_dies_before_the_agent_has_answered_is_dead_for_good() {
    let mut stage = Stage::starting_new(new_fork());
    stage.restart_host();
    let state = stage.session.state();
    let ending = Ending {
        status: Status::Killed,
        reason: EndReason::HostRestarted,
        exit_code: None,
        message: None,
        needs_login: false,
    };
    assert_eq!(
        (state.status, state.ending.as_ref(), state.resumable()),
        (Status::Killed, Some(&ending), false)
    );
    assert!(!state.forkable());
}

#[test]
fn fork_that_has_answered_nothing_comes_back_with_its_copy() {
    let mut stage = running_fork(RESUMES);
    stage.prompt("p1", "ann");
    stage.prompt("p2", "ann");
    assert_eq!(stage.give(exited(1, Some(1))).effects, [start(2, StartKind::Resume)]);
    // The agent had not stored the copy yet: it makes another one.
    let step = stage.give(start_failed_by(2, StartFault::SessionUnknown));
    assert_eq!(step.effects, [start(3, StartKind::Fork)]);
    let step = stage.give(started(3, RESUMES));
    assert_eq!(step.events.len(), 2, "there is no word of lost memory: {step:?}");
    assert_eq!(stage.turns(), ["p2"]);
}

#[test]
fn fork_of_an_agent_that_cannot_come_back_copies_again_until_it_has_answered() {
    let mut stage = running_fork(FORGETS);
    stage.prompt("p1", "ann");
    stage.prompt("p2", "ann");
    assert_eq!(stage.give(exited(1, Some(1))).effects, [start(2, StartKind::Fork)]);
    stage.give(started(2, FORGETS));
    stage.give(answered("p2"));
    stage.prompt("p3", "ann");
    stage.prompt("p4", "ann");
    // The source knows nothing of p2: a copy of it would not be this conversation.
    assert_eq!(stage.give(exited(2, Some(1))).effects, [start(3, StartKind::New)]);
    stage.give(started(3, FORGETS));
    stage.prompt("p5", "ann");
    assert_eq!(
        stage.give(exited(3, Some(1))).effects,
        [start(4, StartKind::New)],
        "it is no copy any more"
    );
}

#[test]
fn source_that_the_agent_does_not_know_is_not_replaced_by_a_new_conversation() {
    let mut stage = Stage::starting_new(new_fork());
    stage.prompt("p1", "ann");
    let step = stage.give(start_failed_by(1, StartFault::SessionUnknown));
    assert_eq!(step.effects, []);
    let state = stage.session.state();
    let reason = state.ending.as_ref().map(|ending| ending.reason);
    assert_eq!((state.status, reason), (Status::Error, Some(EndReason::StartFailed)));
}

#[test]
fn failed_copy_is_tried_again_for_prompts_that_wait() {
    let mut stage = Stage::starting_new(new_fork());
    stage.prompt("p1", "ann");
    stage.give(start_failed_by(1, StartFault::Other));
    assert_eq!(stage.wait(60_000).effects, [start(2, StartKind::Fork)]);
}

#[test]
fn session_is_forkable_once_its_agent_has_a_session_and_can_copy_it() {
    let mut stage = Stage::starting(Settings::default());
    assert!(!stage.session.state().forkable());
    stage.give(started(1, AgentTraits { fork: true, ..RESUMES }));
    assert!(stage.session.state().forkable());
    stage.kill(EndReason::User);
    assert!(stage.session.state().forkable(), "the agent's own session is still there");
    stage.give(Input::Lifecycle(LifecycleInput::Resume));
    stage.give(started(2, RESUMES));
    assert!(!stage.session.state().forkable(), "the agent has lost the ability");
}
