//! Asks: one answer each (rule 3.7).

use wharf_core::{
    AgentEvent, AgentInput, Ask, AskEvent, AskId, AskKind, AskOutcome, AskReply, ClientInput,
    Effect, Event, Fault, Input, Millis, PromptEvent, Refusal, Role, Settings, TurnState,
};

use crate::stage::*;

fn resolved(ask: AskId, outcome: AskOutcome, by: Option<&str>) -> Event {
    Event::Ask(AskEvent::Resolved { ask, outcome, by: by.map(sender) })
}

fn reply(request: &str, reply: AskReply) -> Effect {
    Effect::AnswerAsk { agent_request: raw(request), reply }
}

fn declined_by(client: &str) -> AskOutcome {
    AskOutcome::Declined { answer: decline_frame(client) }
}

/// Creates a session with a running turn and these controllers attached.
fn at_work(clients: &[&str]) -> Stage {
    let mut stage = Stage::running();
    for client in clients {
        stage.attach(client);
    }
    stage.prompt("p1", "ann");
    stage
}

#[test]
fn a_permission_stays_open_until_someone_answers() {
    let mut stage = at_work(&[]);
    let step = stage.give(asked(AskKind::Permission, "0"));
    let ask = AskId(stage.session.head().0);
    let opened = Ask {
        id: ask,
        kind: AskKind::Permission,
        agent_request: raw("0"),
        frame: raw(r#"{"id":0,"method":"ask"}"#),
        options: vec!["allow".into(), "reject".into()],
        tool_call: None,
        prompt: Some(id("p1")),
    };
    assert_eq!(outcome(&step), (vec![Event::Ask(AskEvent::Opened(opened))], vec![]));
    assert_eq!(stage.session.state().turn(), TurnState::AwaitingInput);

    let step = stage.give(pick(ask, "ann", "allow"));
    let answer = AskOutcome::Answered { option: Some("allow".into()), answer: pick_frame("allow") };
    assert_eq!(
        outcome(&step),
        (
            vec![resolved(ask, answer, Some("ann"))],
            vec![reply("0", AskReply::Frame(pick_frame("allow")))]
        )
    );
    assert_eq!(stage.session.state().turn(), TurnState::Running);
}

#[test]
fn an_answer_with_an_option_that_was_not_offered_changes_nothing() {
    let mut stage = at_work(&["ann"]);
    let ask = stage.ask("0");
    let offered = vec!["allow".into(), "reject".into()];
    assert_refused(
        &stage.give(pick(ask, "ann", "sudo")),
        &Refusal::InvalidOption { offered: offered.clone() },
    );
    let without = Input::Client(ClientInput::Answer {
        ask,
        by: sender("ann"),
        option: None,
        frame: raw("{}"),
    });
    assert_refused(&stage.give(without), &Refusal::InvalidOption { offered });
    assert!(stage.session.state().asks.contains_key(&ask));
}

#[test]
fn answer_to_an_unknown_ask_is_refused() {
    let mut stage = at_work(&["ann"]);
    // This is the id of an event that is no ask.
    assert_refused(&stage.give(pick(AskId(1), "ann", "allow")), &Refusal::UnknownAsk(AskId(1)));
    assert_refused(&stage.give(decline(AskId(99), "ann")), &Refusal::UnknownAsk(AskId(99)));
}

#[test]
fn declining_counts_once_everyone_attached_has_declined() {
    let mut stage = at_work(&["ann", "bob"]);
    stage.give(attach("eve", Role::Observer, true));
    let ask = stage.ask("0");
    assert_nothing(&stage.give(decline(ask, "ann")));
    assert_nothing(&stage.give(decline(ask, "ann")));
    let step = stage.give(decline(ask, "bob"));
    assert_eq!(
        outcome(&step),
        (
            vec![resolved(ask, declined_by("bob"), Some("bob"))],
            vec![reply("0", AskReply::Frame(decline_frame("bob")))]
        )
    );
}

#[test]
fn one_answer_outweighs_any_number_of_declines() {
    let mut stage = at_work(&["ann", "bob"]);
    let ask = stage.ask("0");
    stage.give(decline(ask, "ann"));
    let step = stage.give(pick(ask, "bob", "reject"));
    assert_eq!(step.effects, [reply("0", AskReply::Frame(pick_frame("reject")))]);
}

#[test]
fn detached_client_is_not_waited_for() {
    let mut stage = at_work(&["ann", "bob"]);
    let ask = stage.ask("0");
    stage.give(decline(ask, "ann"));
    let step = stage.give(detach("bob"));
    assert_eq!(step.events, [resolved(ask, declined_by("ann"), Some("ann"))]);
}

#[test]
fn later_client_is_waited_for() {
    let mut stage = at_work(&["ann", "bob"]);
    let ask = stage.ask("0");
    stage.give(decline(ask, "ann"));
    stage.attach("cat");
    assert_nothing(&stage.give(decline(ask, "bob")));
    assert_eq!(
        stage.give(decline(ask, "cat")).events,
        [resolved(ask, declined_by("cat"), Some("cat"))]
    );
}

#[test]
fn client_that_attaches_again_is_asked_again() {
    let mut stage = at_work(&["ann", "bob"]);
    let ask = stage.ask("0");
    stage.give(decline(ask, "ann"));
    stage.attach("ann");
    assert_nothing(&stage.give(decline(ask, "bob")));
}

#[test]
fn a_permission_that_the_last_client_declined_before_leaving_stays_open() {
    let mut stage = at_work(&["ann", "bob"]);
    let ask = stage.ask("0");
    stage.give(decline(ask, "ann"));
    // Both leave, ann first: no client is left that could decline.
    let first = stage.give(detach("ann"));
    assert_eq!(first.events, []);
    let second = stage.give(detach("bob"));
    assert_eq!(second.events, []);
    assert!(stage.session.state().asks.contains_key(&ask));
}

#[test]
fn decline_of_a_detached_client_counts_only_when_no_client_is_attached() {
    let mut stage = at_work(&["ann"]);
    let ask = stage.ask("0");
    assert_nothing(&stage.give(decline(ask, "script")));
    stage.give(detach("ann"));
    let step = stage.give(decline(ask, "script"));
    assert_eq!(step.events, [resolved(ask, declined_by("script"), Some("script"))]);
}

#[test]
fn elicitation_goes_to_capable_clients() {
    let mut stage = at_work(&[]);
    stage.give(attach("ann", Role::Controller, true));
    stage.give(attach("bob", Role::Controller, false));
    stage.give(asked(AskKind::Elicitation, "\"e1\""));
    let ask = AskId(stage.session.head().0);
    // Bob cannot handle it: his answer is not waited for, and his decline does not count.
    assert_nothing(&stage.give(decline(ask, "bob")));
    assert_eq!(
        stage.give(decline(ask, "ann")).events,
        [resolved(ask, declined_by("ann"), Some("ann"))]
    );
}

#[test]
fn elicitation_without_a_capable_client_is_cancelled() {
    for clients in [&[][..], &["bob"]] {
        let mut stage = at_work(&[]);
        for client in clients {
            stage.give(attach(client, Role::Controller, false));
        }
        let step = stage.give(asked(AskKind::Elicitation, "5"));
        let ask = AskId(stage.session.head().0 - 1);
        assert_eq!(step.effects, [reply("5", AskReply::Cancelled)]);
        assert!(matches!(step.events[0], Event::Ask(AskEvent::Opened(_))));
        assert_eq!(step.events[1..], [resolved(ask, AskOutcome::Cancelled, None)]);
    }
}

#[test]
fn elicitation_is_cancelled_when_the_last_capable_client_leaves() {
    let mut stage = at_work(&["ann"]);
    stage.give(asked(AskKind::Elicitation, "5"));
    assert!(stage.give(detach("ann")).effects.contains(&reply("5", AskReply::Cancelled)));
}

#[test]
fn an_elicitation_needs_no_option() {
    let mut stage = at_work(&["ann"]);
    stage.give(asked(AskKind::Elicitation, "5"));
    let ask = AskId(stage.session.head().0);
    let answer = raw(r#"{"id":1,"result":{"action":"accept","content":{"name":"x"}}}"#);
    let step = stage.give(Input::Client(ClientInput::Answer {
        ask,
        by: sender("ann"),
        option: None,
        frame: answer.clone(),
    }));
    assert_eq!(step.effects, [reply("5", AskReply::Frame(answer))]);
}

#[test]
fn the_agent_can_withdraw_what_it_asked() {
    let mut stage = at_work(&["ann"]);
    let ask = stage.ask("0");
    let step = stage.give(Input::Agent(AgentInput::Withdrew { agent_request: raw("0") }));
    assert_eq!(
        outcome(&step),
        (vec![resolved(ask, AskOutcome::Withdrawn, None)], vec![reply("0", AskReply::Withdrawn)])
    );
    assert_nothing(&stage.give(Input::Agent(AgentInput::Withdrew { agent_request: raw("0") })));
}

#[test]
fn an_agent_may_use_a_request_id_again() {
    let mut stage = at_work(&["ann"]);
    let first = stage.ask("0");
    stage.give(pick(first, "ann", "allow"));
    let second = stage.ask("0");
    assert_refused(&stage.give(pick(first, "ann", "allow")), &Refusal::AlreadyAnswered(first));
    assert_eq!(stage.give(pick(second, "ann", "allow")).effects.len(), 1);
}

#[test]
fn of_two_open_asks_under_one_id_the_newer_is_withdrawn() {
    let mut stage = at_work(&["ann"]);
    let first = stage.ask("0");
    let second = stage.ask("0");
    stage.give(Input::Agent(AgentInput::Withdrew { agent_request: raw("0") }));
    let open: Vec<_> = stage.session.state().asks.keys().copied().collect();
    assert_eq!((open, stage.session.state().is_settled(second)), (vec![first], true));
}

#[test]
fn asks_over_the_limit_are_refused_and_one_fault_is_recorded() {
    let mut stage = Stage::running_with(Settings { max_asks: 1, ..Settings::default() }, RESUMES);
    stage.prompt("p1", "ann");
    stage.ask("0");
    let step = stage.give(asked(AskKind::Permission, "1"));
    assert_eq!(step.effects, [reply("1", AskReply::Refused)]);
    assert!(matches!(
        step.events.as_slice(),
        [Event::Agent(AgentEvent::Faulted { fault: Fault::TooManyAsks, .. })]
    ));
    let step = stage.give(asked(AskKind::Permission, "2"));
    assert_eq!(outcome(&step), (vec![], vec![reply("2", AskReply::Refused)]));
}

#[test]
fn the_end_of_a_turn_closes_its_asks() {
    let mut stage = at_work(&["ann"]);
    let ask = stage.ask("0");
    let step = stage.give(answered("p1"));
    assert_eq!(step.events[0], resolved(ask, AskOutcome::Cancelled, None));
    assert!(matches!(step.events[1], Event::Prompt(PromptEvent::Ended { .. })));
    assert_eq!(step.effects, [reply("0", AskReply::Cancelled)]);
}

#[test]
fn an_ask_outside_any_turn_outlives_the_turns() {
    let mut stage = Stage::running();
    stage.attach("ann");
    let ask = stage.ask("0");
    stage.prompt("p1", "ann");
    stage.cancel("ann");
    stage.give(answered("p1"));
    assert!(stage.session.state().asks.contains_key(&ask));
}

#[test]
fn a_time_limit_cancels_an_ask() {
    let settings = Settings { ask_timeout: Some(Millis(50)), ..Settings::default() };
    let mut stage = Stage::running_with(settings, RESUMES);
    stage.prompt("p1", "ann");
    let ask = stage.ask("0");
    assert_eq!(stage.session.deadline(), Some(stage.now.after(Millis(50))));
    assert_nothing(&stage.wait(20));
    let step = stage.wait(50);
    assert_eq!(
        outcome(&step),
        (vec![resolved(ask, AskOutcome::Cancelled, None)], vec![reply("0", AskReply::Cancelled)])
    );
    assert_eq!(stage.session.deadline(), None);
}

#[test]
fn messages_of_an_agent_that_does_not_run_are_dropped() {
    let mut stage = Stage::starting(Settings::default());
    assert_nothing(&stage.give(asked(AskKind::Permission, "0")));
}

#[test]
fn number_of_remembered_settled_asks_is_limited() {
    let mut stage = at_work(&["ann"]);
    let first = stage.ask("0");
    stage.give(pick(first, "ann", "allow"));
    for _ in 0..256 {
        let step = stage.session.handle(asked(AskKind::Permission, "0"), stage.now);
        assert_eq!(step.events.len(), 1);
        let ask = AskId(stage.session.head().0);
        stage.session.handle(pick(ask, "ann", "allow"), stage.now);
    }
    assert!(!stage.session.state().is_settled(first));
}
