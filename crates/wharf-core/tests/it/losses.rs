//! Sessions whose log has lost events.

use wharf_core::{
    AgentEvent, AgentInput, Event, Input, LifecycleInput, LostEvents, Millis, OnRestart, Origin,
    PromptEnd, PromptEvent, Seq, Session, Settings, SettingsLoss, StartKind, Status,
};

use crate::stage::*;

fn lose(log: &mut [(Seq, Millis, Event)], place: usize, settings: SettingsLoss) {
    log[place].2 = Event::Lost(LostEvents { first: log[place].0, settings, why: "a test".into() });
}

fn settings_changed(are_all: bool) -> Input {
    Input::Agent(AgentInput::SettingsChanged { settings: Vec::new(), are_all })
}

#[test]
fn session_without_its_first_event_goes_on_with_what_is_known_beside_the_log() {
    let mut stage = Stage::running_with(Settings::default(), RESUMES);
    stage.prompt("p1", "ann");
    stage.give(answered("p1"));
    let mut log = stage.log.clone();
    let whole = stage.session.state().clone();
    lose(&mut log, 0, SettingsLoss::None);
    let created_at = whole.created_at;
    let restored =
        Session::restore_without_beginning(Settings::default(), origin(), created_at, log.clone());
    assert_eq!(*restored.state(), whole);
    let unknown = Origin { adapter: "".into(), cwd: "".into(), ..origin() };
    let restored =
        Session::restore_without_beginning(Settings::default(), unknown, created_at, log);
    assert_eq!((restored.head(), restored.state().way_back()), (stage.session.head(), None));
}

#[test]
fn turn_whose_end_is_lost_ends_once_at_the_next_start_of_the_host() {
    for on_restart in [OnRestart::Mark, OnRestart::Requeue] {
        expect_one_end_of_a_turn_with_a_lost_end(Settings { on_restart, ..Settings::default() });
    }
}

fn expect_one_end_of_a_turn_with_a_lost_end(settings: Settings) {
    let mut stage = Stage::running_with(settings, RESUMES);
    stage.prompt("p1", "ann");
    stage.give(answered("p1"));
    let end = stage
        .log
        .iter()
        .position(|(.., event)| matches!(event, Event::Prompt(PromptEvent::Ended { .. })));
    stage.kill(wharf_core::EndReason::HostShutdown);
    lose(&mut stage.log, end.unwrap(), SettingsLoss::None);
    let step = stage.restart_host();
    let [Event::Prompt(PromptEvent::Ended { end: PromptEnd::HostRestarted, .. })] =
        &step.events[..]
    else {
        panic!("{step:?}")
    };
    assert!(!stage.session.state().status.is_alive());
    stage.give(Input::Lifecycle(LifecycleInput::Resume));
    assert_eq!(stage.session.state().status, Status::Starting);
    assert!(
        stage
            .restart_host()
            .events
            .iter()
            .all(|event| !matches!(event, Event::Prompt(_)))
    );
}

#[test]
fn turn_whose_end_is_lost_does_not_run_again_beside_one_that_was_cut_off() {
    let settings = Settings { on_restart: OnRestart::Requeue, ..Settings::default() };
    let mut stage = Stage::running_with(settings, RESUMES);
    stage.prompt("p1", "ann");
    stage.give(answered("p1"));
    let end = stage
        .log
        .iter()
        .position(|(.., event)| matches!(event, Event::Prompt(PromptEvent::Ended { .. })));
    stage.prompt("p2", "ann");
    lose(&mut stage.log, end.unwrap(), SettingsLoss::None);
    let step = stage.restart_host();
    let prompts: Vec<&PromptEvent> = step
        .events
        .iter()
        .filter_map(|event| if let Event::Prompt(event) = event { Some(event) } else { None })
        .collect();
    let [
        PromptEvent::Requeued { prompt: again },
        PromptEvent::Ended { prompt: ended, end: PromptEnd::HostRestarted, .. },
    ] = &prompts[..]
    else {
        panic!("{prompts:?}")
    };
    assert_eq!((again.as_str(), ended.as_str()), ("p2", "p1"));
}

#[test]
fn session_whose_agent_start_is_lost_goes_on_with_what_is_known_beside_the_log() {
    let mut stage = Stage::running_with(Settings::default(), RESUMES);
    stage.prompt("p1", "ann");
    stage.give(answered("p1"));
    let started = stage
        .log
        .iter()
        .position(|(.., event)| matches!(event, Event::Agent(AgentEvent::Started { .. })));
    lose(&mut stage.log, started.unwrap(), SettingsLoss::Certain);
    let mut restored = stage.restored();
    assert_eq!((restored.state().status, restored.state().way_back()), (Status::Starting, None));
    restored.recall_agent("agent-1".into(), RESUMES);
    restored.recall_running_agent();
    assert_eq!(
        (restored.state().status, restored.state().way_back()),
        (Status::Running, Some(StartKind::Resume))
    );
    assert_eq!(restored.state().settings_loss, SettingsLoss::Certain);
    let adopted = LifecycleInput::AgentAdopted { is_idle: true, has_ended: false };
    assert_eq!(restored.handle(Input::Lifecycle(adopted), stage.now).events, []);
    assert_eq!(restored.state().turns, []);
}

#[test]
fn lost_settings_are_known_again_when_an_agent_that_starts_tells_all_of_them() {
    let mut stage = Stage::running_with(Settings::default(), RESUMES);
    stage.give(settings_changed(false));
    lose(&mut stage.log, 3, SettingsLoss::Certain);
    stage.restart_host();
    assert_eq!(stage.session.state().settings_loss, SettingsLoss::Certain);
    stage.give(Input::Lifecycle(LifecycleInput::Resume));
    stage.give(started(2, RESUMES));
    stage.give(settings_changed(false));
    assert_eq!(
        stage.session.state().settings_loss,
        SettingsLoss::Certain,
        "this may be one setting of many"
    );
    stage.give(settings_changed(true));
    assert_eq!(stage.session.state().settings_loss, SettingsLoss::None);
    let step = stage.give(settings_changed(true));
    let all = Event::Agent(AgentEvent::SettingsChanged { settings: Vec::new(), are_all: false });
    assert_eq!(step.events, [all], "without a loss the log is as it was before");
}

#[test]
fn missing_start_of_an_agent_tells_that_settings_may_be_lost() {
    let mut stage = Stage::running_with(Settings::default(), RESUMES);
    for start in 2..4 {
        stage.kill(wharf_core::EndReason::HostShutdown);
        stage.give(Input::Lifecycle(LifecycleInput::Resume));
        stage.give(started(start, RESUMES));
    }
    let second = stage
        .log
        .iter()
        .position(|(.., event)| matches!(event, Event::Agent(AgentEvent::Starting { start, .. }) if start.0 == 2));
    let log = stage.log.split_off(second.unwrap() + 1);
    let restored =
        Session::restore_without_beginning(Settings::default(), origin(), Millis(1), log);
    assert_eq!(restored.state().settings_loss, SettingsLoss::Possible);
}
