//! Sending a queued prompt at once, and ending a turn by force (rules 17.3, 17.4).

use wharf_core::{
    AgentTraits, ClientInput, Effect, EndReason, Event, Input, PromptEnd, PromptEvent, Refusal,
    Reply, Role, SessionEvent, Settings, StartKind, StartNo,
};

use crate::life::{ended, start, starting};
use crate::stage::*;

fn send_now(prompt: &str, client: &str, steer: bool) -> Input {
    Input::Client(ClientInput::SendNow { prompt: id(prompt), by: sender(client), steer })
}

fn force(client: &str) -> Input {
    Input::Client(ClientInput::Interrupt { by: sender(client), force: true })
}

/// Creates a session whose agent works on p1, with p2 and p3 queued.
fn busy(traits: AgentTraits) -> Stage {
    let mut stage = Stage::running_with(Settings::default(), traits);
    for prompt in ["p1", "p2", "p3"] {
        stage.prompt(prompt, "ann");
    }
    stage
}

#[test]
fn sent_prompt_runs_next_and_interrupts_the_turn_in_one_step() {
    let mut stage = busy(RESUMES);
    let step = stage.give(send_now("p3", "bob", false));
    assert!(
        matches!(&step.events[..], [Event::Prompt(PromptEvent::Moved { position: 0, .. }), Event::Prompt(PromptEvent::CancelRequested { prompt, .. })] if *prompt == id("p1")),
        "{step:?}"
    );
    assert_eq!(step.effects, [Effect::SendCancel]);
    assert!(matches!(step.reply, Reply::Cancelled { was_busy: true, crossed: false }), "{step:?}");
    assert_eq!(stage.queue(), ["p3", "p2"]);
    stage.give(answered("p1"));
    assert_eq!(stage.turns(), ["p3"]);
}

#[test]
fn sent_prompt_that_is_next_already_only_interrupts() {
    let mut stage = busy(RESUMES);
    let step = stage.give(send_now("p2", "ann", false));
    assert!(
        matches!(&step.events[..], [Event::Prompt(PromptEvent::CancelRequested { .. })]),
        "{step:?}"
    );
    assert_nothing(&stage.give(send_now("p2", "ann", false)));
}

#[test]
fn agent_gets_no_more_prompts_at_once_than_may_wait() {
    let mut stage = Stage::running_with(Settings { max_queue: 2, ..Settings::default() }, QUEUES);
    stage.prompt("p1", "ann");
    for n in 2..=3 {
        stage.prompt(&format!("p{n}"), "ann");
        stage.give(send_now(&format!("p{n}"), "ann", true));
    }
    stage.prompt("p4", "ann");
    let step = stage.give(send_now("p4", "ann", true));
    assert!(matches!(step.reply, Reply::Refused(Refusal::QueueFull { limit: 2 })), "{step:?}");
    assert_eq!((stage.turns(), stage.queue()), (vec!["p1", "p2", "p3"], vec!["p4"]));
    stage.give(answered("p2"));
    stage.give(send_now("p4", "ann", true));
    assert_eq!(stage.turns(), ["p1", "p3", "p4"]);
}

#[test]
fn steered_prompt_goes_to_an_agent_that_queues_by_itself() {
    let mut stage = busy(QUEUES);
    let step = stage.give(send_now("p3", "ann", true));
    assert!(
        matches!(&step.events[..], [Event::Prompt(PromptEvent::TurnStarted { .. })]),
        "{step:?}"
    );
    assert!(
        matches!(&step.effects[..], [Effect::SendPrompt { prompt, .. }] if *prompt == id("p3")),
        "{step:?}"
    );
    assert_eq!((stage.turns(), stage.queue()), (vec!["p1", "p3"], vec!["p2"]));
}

#[test]
fn steering_is_refused_when_the_agent_cannot_or_is_cancelling() {
    let mut stage = busy(RESUMES);
    assert_refused(&stage.give(send_now("p3", "ann", true)), &Refusal::CannotSteer);
    assert_eq!(stage.queue(), ["p2", "p3"]);
    let mut stage = busy(QUEUES);
    stage.give(Input::Client(ClientInput::Interrupt { by: sender("ann"), force: false }));
    assert_refused(&stage.give(send_now("p3", "ann", true)), &Refusal::CannotSteer);
}

#[test]
fn running_and_unknown_prompts_and_observers_are_refused() {
    let mut stage = busy(RESUMES);
    assert_refused(&stage.give(send_now("p1", "ann", false)), &Refusal::AlreadyStarted(id("p1")));
    assert_refused(&stage.give(send_now("p9", "ann", false)), &Refusal::UnknownPrompt(id("p9")));
    stage.give(attach("eve", Role::Observer, false));
    assert_refused(&stage.give(send_now("p2", "eve", false)), &Refusal::Observer);
    assert_refused(&stage.give(force("eve")), &Refusal::Observer);
}

#[test]
fn forced_interrupt_ends_the_turn_and_brings_the_agent_back_for_the_queue() {
    let mut stage = busy(RESUMES);
    let step = stage.give(force("bob"));
    assert!(step.events.contains(&ended("p1", PromptEnd::Cancelled)), "{step:?}");
    assert!(
        step.events.iter().any(|event| matches!(event, Event::Session(SessionEvent::Ended(ending)) if ending.reason == EndReason::Unresponsive)),
        "{step:?}"
    );
    assert_eq!(step.events.last(), Some(&starting(2, StartKind::New)), "p1 was never answered");
    assert_eq!(step.effects, [Effect::StopAgent { start: StartNo(1) }, start(2, StartKind::New)]);
    stage.give(started(2, RESUMES));
    assert_eq!((stage.turns(), stage.queue()), (vec!["p2"], vec!["p3"]));
}

#[test]
fn forced_interrupt_also_ends_a_turn_that_is_cancelled_already() {
    let mut stage = Stage::running_with(Settings::default(), RESUMES);
    stage.prompt("p1", "ann");
    stage.give(Input::Client(ClientInput::Interrupt { by: sender("ann"), force: false }));
    let step = stage.give(force("ann"));
    assert!(step.events.contains(&ended("p1", PromptEnd::Cancelled)), "{step:?}");
    assert_eq!(step.effects.last(), Some(&start(2, StartKind::Resume)));
}

#[test]
fn forced_interrupt_of_an_idle_session_does_nothing() {
    let mut stage = Stage::running_with(Settings::default(), RESUMES);
    let step = stage.give(force("ann"));
    assert!(matches!(step.reply, Reply::Cancelled { was_busy: false, crossed: false }), "{step:?}");
    assert!(step.events.is_empty() && step.effects.is_empty(), "{step:?}");
}
