//! One client on several connections: its prompts stay its own, and a cancel ends the prompts that
//! its sender meant.

use wharf_core::{
    AskEvent, AskKind, AskOutcome, CancelScope, ChosenId, ClientInput, Effect, Event, Input,
    LifecycleInput, OnRestart, PromptEnd, PromptEvent, Reply, Role, Sender, Seq, Settings, Step,
    Submission,
};

use crate::stage::*;

/// Returns the client with the id `chosen`, on this connection.
fn known(chosen: &str, connection: &str) -> Sender {
    Sender {
        chosen: Some(ChosenId::parse(chosen).unwrap()),
        ..sender(connection)
    }
}

fn submit_as(prompt: &str, sender: Sender) -> Input {
    Input::Client(ClientInput::Prompt(Submission {
        sender,
        ..submission(prompt, "", wharf_core::Overlap::Queue)
    }))
}

fn cancel(by: Sender, seen: Seq, settled: Seq) -> Input {
    Input::Client(ClientInput::Cancel {
        by,
        scope: CancelScope { seen, settled, clear_queue: false },
    })
}

fn crossed(step: &Step) -> bool {
    matches!(step.reply, Reply::Cancelled { crossed: true, was_busy: false })
}

/// Returns the prompts that a step cancels, queued or running.
fn cancelled(step: &Step) -> Vec<&str> {
    let ended = step.events.iter().filter_map(|event| {
        if let Event::Prompt(
            PromptEvent::Ended { prompt, end: PromptEnd::Cancelled, .. }
            | PromptEvent::CancelRequested { prompt, .. },
        ) = event
        {
            return Some(prompt.as_str());
        }
        None
    });
    ended.collect()
}

#[test]
fn cancel_from_a_new_connection_ends_the_clients_running_turn_and_queued_prompts() {
    let mut stage = Stage::running();
    stage.give(submit_as("p1", known("phone", "c1")));
    stage.give(submit_as("p2", known("phone", "c1")));
    stage.prompt("p3", "bob");
    let head = stage.session.head();
    let step = stage.give(cancel(known("phone", "c2"), head, head));
    assert_eq!(cancelled(&step), ["p2", "p1"]);
    assert_eq!(stage.queue(), ["p3"]);
}

#[test]
fn cancel_after_a_host_restart_ends_the_clients_prompts_and_not_the_next_ones() {
    let settings = Settings { on_restart: OnRestart::Mark, ..Settings::default() };
    let mut stage = Stage::running_with(settings, RESUMES);
    for prompt in ["p1", "p2", "p3"] {
        stage.give(submit_as(prompt, known("bridge", "c1")));
    }
    stage.restart_host();
    stage.give(Input::Lifecycle(LifecycleInput::Resume));
    stage.give(started(2, RESUMES));
    assert_eq!((stage.turns(), stage.queue()), (vec!["p2"], vec!["p3"]));
    let head = stage.session.head();
    assert_eq!(cancelled(&stage.give(cancel(known("bridge", "c2"), head, head))), ["p3", "p2"]);
}

#[test]
fn clients_with_the_same_id_and_different_tokens_are_different_clients() {
    let mut stage = Stage::running();
    let token = |token: &str| Sender { token: Some(token.into()), ..known("phone", token) };
    stage.give(submit_as("p1", token("tok_1")));
    stage.give(submit_as("p2", token("tok_2")));
    let head = stage.session.head();
    assert_eq!(cancelled(&stage.give(cancel(token("tok_2"), head, head))), ["p2"]);
    // An agent is not its user, whatever id it gives itself.
    let agent = Sender {
        parent: Some(wharf_core::SessionId::new("sess_0")),
        ..token("tok_1")
    };
    assert!(!agent.is_same_client(&token("tok_1")));
}

#[test]
fn client_that_comes_back_with_the_id_it_was_given_is_known_again() {
    assert!(known("cli_1", "cli_2").is_same_client(&sender("cli_1")));
    let peer = wharf_core::Peer { id: "phone".into(), role: None };
    assert!(
        known("phone", "cli_2").is_same_client(&Sender { peer: Some(peer), ..sender("cli_1") })
    );
}

#[test]
fn cancel_that_crosses_the_end_of_an_own_turn_hits_nothing_and_says_so() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    stage.prompt("p2", "bob");
    let settled = stage.session.head();
    stage.give(answered("p1"));
    let seen = stage.session.head();
    // The same holds on another connection of hers.
    for connection in ["ann", "other"] {
        let step = stage.give(cancel(known("ann", connection), seen, settled));
        assert!(crossed(&step), "{:?}", step.reply);
        assert_nothing(&step);
    }
    // A client without a turn of its own means the turn that it sees.
    assert_eq!(cancelled(&stage.give(cancel(sender("cat"), seen, settled))), ["p2"]);
}

#[test]
fn cancel_hits_a_shown_turn_once_the_own_end_is_a_second_old() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    stage.prompt("p2", "bob");
    stage.give(answered("p1"));
    let seen = stage.session.head();
    assert_eq!(cancelled(&stage.give(cancel(sender("ann"), seen, seen))), ["p2"]);
}

#[test]
fn second_cancel_of_a_turn_that_is_being_cancelled_leaves_the_others_alone() {
    let mut stage = Stage::running_with(Settings::default(), QUEUES);
    stage.prompt("p1", "ann");
    stage.give(to_agent("p2", "bob"));
    assert_eq!(cancelled(&stage.cancel("ann")), ["p1"]);
    assert_nothing(&stage.cancel("ann"));
}

#[test]
fn crossing_cancel_that_clears_the_queue_clears_it_and_leaves_the_turn() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    stage.prompt("p2", "bob");
    stage.prompt("p3", "bob");
    let settled = stage.session.head();
    stage.give(answered("p1"));
    let scope = CancelScope { seen: stage.session.head(), settled, clear_queue: true };
    let step = stage.give(Input::Client(ClientInput::Cancel { by: sender("ann"), scope }));
    assert!(crossed(&step));
    assert_eq!(cancelled(&step), ["p3"]);
}

#[test]
fn interrupt_ends_the_running_turn_and_keeps_the_callers_queue() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    stage.prompt("p2", "bob");
    let step =
        stage.give(Input::Client(ClientInput::Interrupt { by: sender("bob"), force: false }));
    assert_eq!(cancelled(&step), ["p1"]);
    assert_eq!(stage.queue(), ["p2"]);
    stage.give(attach("eve", Role::Observer, false));
    assert_refused(
        &stage.give(Input::Client(ClientInput::Interrupt { by: sender("eve"), force: false })),
        &wharf_core::Refusal::Observer,
    );
}

#[test]
fn two_connections_of_one_client_are_counted_listed_and_announced_once() {
    let mut stage = Stage::running();
    let attach = |connection: &str| {
        let sender = known("phone", connection);
        Input::Client(ClientInput::Attach(wharf_core::Attachment {
            sender,
            role: Role::Controller,
            elicits: false,
            wake: false,
            needs_agent: false,
        }))
    };
    assert_eq!(stage.give(attach("c1")).effects.len(), 1);
    let step = stage.give(attach("c2"));
    assert_eq!(step.effects, []);
    let Reply::Joined(joined) = step.reply else { panic!("not joined") };
    assert_eq!((joined.others.len(), stage.session.clients()), (0, 1));
    assert_eq!(
        stage
            .give(Input::Client(ClientInput::Detach { sender: known("phone", "c1") }))
            .effects,
        []
    );
    assert_eq!(stage.session.clients(), 1);
    let gone = stage
        .give(Input::Client(ClientInput::Detach { sender: known("phone", "c2") }))
        .effects;
    assert!(matches!(&gone[..], [Effect::AnnouncePresence { connected: false, .. }]));
}

#[test]
fn decline_on_one_connection_counts_for_the_client() {
    let mut stage = Stage::running();
    for connection in ["c1", "c2"] {
        let sender = known("phone", connection);
        stage.give(Input::Client(ClientInput::Attach(wharf_core::Attachment {
            sender,
            role: Role::Controller,
            elicits: true,
            wake: false,
            needs_agent: false,
        })));
    }
    stage.give(submit_as("p1", known("phone", "c1")));
    let ask = stage.ask("0");
    let step = stage.give(Input::Client(ClientInput::Decline {
        ask,
        by: known("phone", "c2"),
        frame: decline_frame("phone"),
    }));
    assert!(matches!(
        &step.events[..],
        [Event::Ask(AskEvent::Resolved { outcome: AskOutcome::Declined { .. }, .. })]
    ));
    // A client that declined and lost a connection still counts as declined.
    stage.attach("bob");
    stage.give(asked(AskKind::Permission, "1"));
    let ask = *stage.session.state().asks.last_key_value().unwrap().0;
    stage.give(Input::Client(ClientInput::Decline {
        ask,
        by: known("phone", "c2"),
        frame: decline_frame("phone"),
    }));
    stage.give(Input::Client(ClientInput::Detach { sender: known("phone", "c2") }));
    let step = stage.give(decline(ask, "bob"));
    assert!(matches!(
        &step.events[..],
        [Event::Ask(AskEvent::Resolved { outcome: AskOutcome::Declined { .. }, .. })]
    ));
}

#[test]
fn unusable_ids_are_refused() {
    for id in ["", "a\nb", &"x".repeat(257)] {
        assert!(ChosenId::parse(id).is_err(), "{id:?}");
    }
    assert!(ChosenId::parse(&"x".repeat(256)).is_ok());
}
