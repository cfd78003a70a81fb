//! Deaths of agents and failed starts: the queue survives them, within bounds (rule 12.5).

use wharf_core::{
    AgentEvent, AgentInput, AgentTraits, ClientInput, Effect, EndReason, Event, Input,
    LifecycleInput, Millis, OnRestart, PromptEnd, PromptEvent, SessionEvent, Settings, StartFault,
    StartKind, StartNo, Status, ToolCall, ToolCallState, UpdateKind, WakeCause,
};

use crate::life::{ended, killed, start, starting};
use crate::stage::*;

const NEVER_BACK: AgentTraits = AgentTraits { load: false, resume: false, ..RESUMES };

fn with(on_restart: OnRestart) -> Settings {
    Settings { on_restart, ..Settings::default() }
}

/// Creates a session whose agent works on p1, with p2 to p5 queued.
fn queued(on_restart: OnRestart, traits: AgentTraits) -> Stage {
    let mut stage = Stage::running_with(with(on_restart), traits);
    for prompt in ["p1", "p2", "p3", "p4", "p5"] {
        stage.prompt(prompt, "ann");
    }
    stage
}

fn ends(stage: &Stage) -> Vec<(&str, &PromptEnd)> {
    let ends = stage.log.iter().filter_map(|(_, _, event)| {
        let Event::Prompt(PromptEvent::Ended { prompt, end, .. }) = event else { return None };
        Some((prompt.as_str(), end))
    });
    ends.collect()
}

fn is_end(event: Option<&Event>, of: &str, how: &PromptEnd) -> bool {
    matches!(event, Some(Event::Prompt(PromptEvent::Ended { prompt, end, failure: Some(_) })) if prompt.as_str() == of && end == how)
}

fn is_notice(event: &Event) -> bool {
    matches!(event, Event::Agent(AgentEvent::Updated { frame, .. }) if frame.as_str().contains(r#""sessionUpdate":"notice""#))
}

#[test]
fn queue_survives_an_agent_that_dies_in_its_first_turn() {
    let mut stage = queued(OnRestart::Mark, RESUMES);
    let step = stage.give(exited(1, Some(1)));
    assert!(is_end(step.events.first(), "p1", &PromptEnd::AgentExited), "{step:?}");
    // No prompt was answered that the agent could remember: it starts with a new session.
    assert_eq!(step.events.last(), Some(&starting(2, StartKind::New)));
    assert_eq!(step.effects, [start(2, StartKind::New)]);
    assert_eq!(stage.queue(), ["p2", "p3", "p4", "p5"]);
    let step = stage.give(started(2, RESUMES));
    assert!(
        matches!(&step.events[..], [Event::Agent(AgentEvent::Started { .. }), notice, Event::Prompt(PromptEvent::TurnStarted { .. })] if is_notice(notice))
    );
    assert_eq!(stage.turns(), ["p2"]);
}

#[test]
fn agent_that_answered_is_brought_back_with_its_memory_and_without_a_notice() {
    let mut stage = queued(OnRestart::Mark, RESUMES);
    stage.give(answered("p1"));
    assert_eq!(stage.give(exited(1, None)).effects, [start(2, StartKind::Resume)]);
    let step = stage.give(started(2, RESUMES));
    assert!(!step.events.iter().any(is_notice));
    // The second agent dies before it has answered, but the answer of the first one is remembered.
    assert_eq!(stage.give(exited(2, None)).effects, [start(3, StartKind::Resume)]);
}

#[test]
fn agent_that_cannot_come_back_is_started_afresh_for_the_queue() {
    let mut stage = queued(OnRestart::Mark, NEVER_BACK);
    stage.give(answered("p1"));
    assert_eq!(stage.give(exited(1, Some(0))).effects, [start(2, StartKind::New)]);
    assert!(stage.give(started(2, NEVER_BACK)).events.iter().any(is_notice));
}

#[test]
fn third_death_without_an_answer_ends_the_queue() {
    let mut stage = queued(OnRestart::Mark, RESUMES);
    for number in 1..=2 {
        stage.give(exited(number, Some(1)));
        stage.give(started(number + 1, RESUMES));
    }
    let step = stage.give(exited(3, Some(1)));
    assert_eq!(step.effects, []);
    let cut: Vec<_> = ["p1", "p2", "p3", "p4", "p5"]
        .map(|prompt| (prompt, &PromptEnd::AgentExited))
        .into();
    assert_eq!(ends(&stage), cut);
    assert_eq!(stage.session.state().status, Status::Exited);
}

#[test]
fn answered_prompt_begins_the_count_of_deaths_anew() {
    let mut stage = Stage::running_with(with(OnRestart::Mark), RESUMES);
    for prompt in ["p1", "p2", "p3", "p4", "p5", "p6"] {
        stage.prompt(prompt, "ann");
    }
    for number in 1..=2 {
        stage.give(exited(number, Some(1)));
        stage.give(started(number + 1, RESUMES));
    }
    stage.give(answered("p3"));
    for number in 3..=4 {
        stage.give(exited(number, Some(1)));
        stage.give(started(number + 1, RESUMES));
    }
    assert_eq!((stage.turns(), stage.queue()), (vec!["p6"], vec![]));
}

#[test]
fn agent_that_is_given_up_counts_as_dead() {
    let mut stage = queued(OnRestart::Mark, RESUMES);
    for number in 1..=3 {
        stage.give(Input::Client(ClientInput::CancelPrompt {
            prompt: id(&format!("p{number}")),
            by: sender("ann"),
            reason: None,
        }));
        stage.wait(30_000);
        stage.give(started(number + 1, RESUMES));
    }
    assert_eq!(stage.queue(), Vec::<&str>::new());
    assert_eq!(
        ends(&stage)[3..],
        [("p4", &PromptEnd::AgentExited), ("p5", &PromptEnd::AgentExited)]
    );
    let reasons = stage.log.iter().filter_map(|(_, _, event)| {
        let Event::Session(SessionEvent::Ended(ending)) = event else { return None };
        Some(ending.reason)
    });
    assert_eq!(reasons.collect::<Vec<_>>(), [EndReason::Unresponsive; 3]);
}

#[test]
fn turn_interrupted_by_a_death_is_requeued_once() {
    let mut stage = queued(OnRestart::Requeue, RESUMES);
    let step = stage.give(exited(1, Some(1)));
    assert_eq!(
        step.events.first(),
        Some(&Event::Prompt(PromptEvent::Requeued { prompt: id("p1") }))
    );
    assert_eq!(stage.queue(), ["p1", "p2", "p3", "p4", "p5"]);
    stage.give(started(2, RESUMES));
    assert_eq!(stage.turns(), ["p1"]);
    let step = stage.give(exited(2, Some(1)));
    assert!(is_end(step.events.first(), "p1", &PromptEnd::AgentExited), "{step:?}");
    assert_eq!(stage.queue(), ["p2", "p3", "p4", "p5"]);
}

#[test]
fn turn_interrupted_by_two_restarts_is_requeued_once() {
    let mut stage = queued(OnRestart::Requeue, RESUMES);
    stage.restart_host();
    stage.give(Input::Lifecycle(LifecycleInput::Wake { cause: WakeCause::Queue }));
    stage.give(started(2, RESUMES));
    let step = stage.restart_host();
    assert_eq!(
        step.events,
        [ended("p1", PromptEnd::HostRestarted), killed(EndReason::HostRestarted)]
    );
}

#[test]
fn host_brings_the_queue_of_a_session_that_answered_nothing_back_afresh() {
    let mut stage = queued(OnRestart::Mark, RESUMES);
    stage.restart_host();
    assert_eq!(
        stage
            .give(Input::Lifecycle(LifecycleInput::Wake { cause: WakeCause::Queue }))
            .effects,
        [start(2, StartKind::New)]
    );
}

fn retried(start: u64, retry_in: u64) -> Event {
    let (exit_code, message) = (Some(127), Some("not found".into()));
    Event::Agent(AgentEvent::StartFailed {
        start: StartNo(start),
        exit_code,
        message,
        retry_in: Millis(retry_in),
    })
}

#[test]
fn failed_start_is_tried_again_after_1_4_and_15_seconds() {
    let mut stage = queued(OnRestart::Mark, RESUMES);
    stage.give(answered("p1"));
    stage.give(exited(1, Some(1)));
    for (number, wait) in [(2, 1_000), (3, 4_000), (4, 15_000)] {
        let step = stage.give(start_failed(number));
        assert_eq!(outcome(&step), (vec![retried(number, wait)], vec![]));
        assert_eq!(stage.session.deadline(), Some(stage.now.after(Millis(wait))));
        assert_eq!(stage.session.state().status, Status::Starting);
        assert_nothing(&stage.give(start_failed(number)));
        assert_nothing(&stage.wait(wait - 3));
        assert_eq!(stage.wait(1).effects, [start(number + 1, StartKind::Resume)]);
    }
    let step = stage.give(start_failed(5));
    assert!(is_end(step.events.first(), "p3", &PromptEnd::StartFailed), "{step:?}");
    assert_eq!((stage.session.state().status, stage.session.deadline()), (Status::Error, None));
}

#[test]
fn start_that_succeeds_begins_the_tries_anew() {
    let mut stage = queued(OnRestart::Mark, RESUMES);
    stage.give(answered("p1"));
    stage.give(exited(1, Some(1)));
    stage.give(start_failed(2));
    stage.wait(1_000);
    stage.give(started(3, RESUMES));
    stage.give(exited(3, Some(1)));
    assert_eq!(stage.give(start_failed(4)).events, [retried(4, 1_000)]);
}

#[test]
fn first_start_is_tried_again_for_prompts_that_wait() {
    let mut stage = Stage::starting(Settings::default());
    stage.prompt("p1", "ann");
    assert_eq!(stage.give(start_failed(1)).events, [retried(1, 1_000)]);
    assert_eq!(stage.wait(1_000).effects, [start(2, StartKind::New)]);
    let step = stage.give(started(2, RESUMES));
    assert!(!step.events.iter().any(is_notice), "an agent that never ran has lost nothing");
    assert_eq!(stage.turns(), ["p1"]);
}

#[test]
fn first_start_that_the_creator_waits_for_is_not_tried_again() {
    let mut stage = Stage::starting(Settings::default());
    stage.prompt("p1", "ann");
    stage.give(awaited_start_failed(1));
    assert_eq!(ends(&stage), [("p1", &PromptEnd::StartFailed)]);
    assert_eq!(stage.session.state().status, Status::Error);
}

#[test]
fn start_that_needs_a_user_action_is_not_retried() {
    let permanent = [
        StartFault::NotInstalled,
        StartFault::LoginNeeded,
        StartFault::SettingRefused,
        StartFault::Impossible,
    ];
    for cause in permanent {
        let mut stage = queued(OnRestart::Mark, RESUMES);
        stage.give(exited(1, Some(1)));
        stage.give(start_failed_by(2, cause));
        assert_eq!((stage.queue(), stage.session.state().status), (vec![], Status::Error));
        assert_eq!(ends(&stage).last(), Some(&("p5", &PromptEnd::StartFailed)));
    }
}

#[test]
fn session_that_its_agent_forgot_goes_on_afresh_after_a_death_and_not_otherwise() {
    let mut stage = queued(OnRestart::Mark, RESUMES);
    stage.give(answered("p1"));
    stage.give(exited(1, Some(1)));
    let step = stage.give(start_failed_by(2, StartFault::SessionUnknown));
    assert_eq!(
        outcome(&step),
        (vec![retried(2, 0), starting(3, StartKind::New)], vec![start(3, StartKind::New)])
    );

    let mut stage = Stage::running_with(Settings::default(), RESUMES);
    stage.prompt("p1", "ann");
    stage.give(answered("p1"));
    stage.kill(EndReason::Closed);
    stage.prompt("p2", "ann");
    stage.give(start_failed_by(2, StartFault::SessionUnknown));
    assert_eq!(ends(&stage).last(), Some(&("p2", &PromptEnd::StartFailed)));
}

#[test]
fn kill_ends_the_wait_for_the_next_try() {
    let mut stage = queued(OnRestart::Mark, RESUMES);
    stage.give(exited(1, Some(1)));
    stage.give(start_failed(2));
    let step = stage.kill(EndReason::User);
    assert_eq!(step.effects, [Effect::StopAgent { start: StartNo(2) }]);
    assert_eq!((stage.queue(), stage.session.deadline()), (vec![], None));
    assert_nothing(&stage.wait(60_000));
}

fn tool(id: &str, state: ToolCallState) -> Input {
    let tool = Some(ToolCall { id: id.into(), state });
    Input::Agent(AgentInput::Updated {
        update: UpdateKind::ToolCall,
        frame: raw("{}"),
        title: None,
        tool,
    })
}

/// Returns the tool calls that Wharf ended, in order.
fn cut(events: &[Event]) -> Vec<&str> {
    let cut = events.iter().filter_map(|event| {
        let Event::Agent(AgentEvent::Updated {
            tool: Some(ToolCall { id, state: ToolCallState::Cut }),
            frame,
            ..
        }) = event
        else {
            return None;
        };
        let told = frame.as_str();
        assert!(
            told.contains(r#""sessionId":"sess_1""#) && told.contains(r#""status":"failed""#),
            "{id} in {told}"
        );
        Some(&**id)
    });
    cut.collect()
}

#[test]
fn tool_calls_of_an_interrupted_turn_are_failed() {
    let begin = || {
        let mut stage = queued(OnRestart::Mark, RESUMES);
        for (id, state) in
            [("a", ToolCallState::Open), ("b", ToolCallState::Open), ("c", ToolCallState::Open)]
        {
            stage.give(tool(id, state));
        }
        stage.give(tool("b", ToolCallState::Closed));
        stage
    };
    let heard_at = begin().session.state().last_output_at;
    let mut stage = begin();
    let step = stage.restart_host();
    assert_eq!(cut(&step.events), ["a", "c"]);
    assert_eq!(stage.session.state().last_output_at, heard_at, "the agent has said nothing");
    assert_eq!(cut(&begin().give(exited(1, None)).events), ["a", "c"]);
    assert_eq!(cut(&begin().kill(EndReason::User).events), ["a", "c"]);
    assert_eq!(cut(&begin().kill(EndReason::HostShutdown).events), ["a", "c"]);
    let mut stage = begin();
    stage.cancel("ann");
    assert_eq!(cut(&stage.wait(30_000).events), ["a", "c"]);
    // The updates come before the end of their turn.
    let step = begin().kill(EndReason::User);
    let ends = step
        .events
        .iter()
        .position(|event| matches!(event, Event::Prompt(PromptEvent::Ended { .. })));
    assert!(
        step.events
            .iter()
            .position(|event| matches!(event, Event::Agent(AgentEvent::Updated { .. })))
            < ends
    );
}

#[test]
fn tool_calls_left_open_by_an_answer_are_unchanged() {
    let mut stage = Stage::running_with(Settings::default(), RESUMES);
    stage.prompt("p1", "ann");
    stage.give(tool("a", ToolCallState::Open));
    stage.give(answered("p1"));
    assert_eq!(cut(&stage.kill(EndReason::User).events), Vec::<&str>::new());
}

#[test]
fn agent_that_ended_without_a_host_gets_no_further_prompt_and_the_queue_stays() {
    let mut stage = queued(OnRestart::Mark, RESUMES);
    stage.adopt_ended_agent();
    let step = stage.give(answered("p1"));
    assert!(
        !step.effects.iter().any(|effect| matches!(effect, Effect::SendPrompt { .. })),
        "{step:?}"
    );
    assert_eq!((stage.turns().len(), stage.queue()), (0, vec!["p2", "p3", "p4", "p5"]));
    stage.prompt("p6", "ann");
    assert_eq!(stage.queue(), ["p2", "p3", "p4", "p5", "p6"]);
    // The same with nothing in the queue.
    let mut idle = Stage::running_with(with(OnRestart::Mark), RESUMES);
    idle.adopt_ended_agent();
    idle.prompt("p1", "ann");
    assert_eq!((idle.turns().len(), idle.queue()), (0, vec!["p1"]));
    idle.give(Input::Lifecycle(LifecycleInput::HostRestarted));
    assert_eq!(idle.queue(), ["p1"]);
    idle.give(Input::Lifecycle(LifecycleInput::Wake { cause: WakeCause::Queue }));
    idle.give(started(2, RESUMES));
    assert_eq!(idle.turns(), ["p1"]);
}
