//! Attaching, detaching, roles, idleness (rules 4.8, 4.9) and the data for joining clients (rule
//! 3.5).

use wharf_core::{
    AgentInput, AskKind, Attachment, ClientInput, Effect, EndReason, Event, Input, Joined, Member,
    Millis, Raw, Reply, Role, Sender, SessionEvent, Settings, Status, Step, UpdateKind,
};

use crate::stage::*;

fn joined(step: Step) -> Joined {
    let Reply::Joined(joined) = step.reply else { panic!("not joined: {:?}", step.reply) };
    *joined
}

fn member(client: &str, role: Role) -> Member {
    Member { sender: sender(client), role }
}

fn presence(client: &str, role: Role, connected: bool) -> Effect {
    Effect::AnnouncePresence { member: member(client, role), connected }
}

fn updated(update: UpdateKind, frame: &str, title: Option<&str>) -> Input {
    Input::Agent(AgentInput::Updated {
        update,
        frame: raw(frame),
        title: title.map(Into::into),
        tool: None,
    })
}

#[test]
fn attaching_and_detaching_is_announced_and_is_no_event() {
    let mut stage = Stage::running();
    let step = stage.give(attach("ann", Role::Controller, true));
    assert_eq!(outcome(&step), (vec![], vec![presence("ann", Role::Controller, true)]));
    let step = stage.give(attach("eve", Role::Observer, true));
    assert_eq!(joined(step).others, [member("ann", Role::Controller)]);
    let step = stage.give(detach("eve"));
    assert_eq!(outcome(&step), (vec![], vec![presence("eve", Role::Observer, false)]));
    assert_nothing(&stage.give(detach("eve")));
    assert_eq!(stage.session.members().collect::<Vec<_>>(), [&member("ann", Role::Controller)]);
}

#[test]
fn attaching_again_replaces_and_is_announced_only_if_it_differs() {
    let mut stage = Stage::running();
    stage.attach("ann");
    assert_nothing(&stage.attach("ann"));
    let step = stage.give(attach("ann", Role::Observer, true));
    assert_eq!(step.effects, [presence("ann", Role::Observer, true)]);
    assert_eq!(stage.session.members().count(), 1);
}

#[test]
fn a_newcomer_is_given_the_open_asks_that_it_can_handle() {
    let mut stage = Stage::running();
    stage.attach("ann");
    stage.prompt("p1", "ann");
    let permission = stage.ask("0");
    stage.give(asked(AskKind::Elicitation, "1"));
    let ids = |step| joined(step).open_asks.iter().map(|ask| ask.id).collect::<Vec<_>>();
    assert_eq!(ids(stage.give(attach("bob", Role::Controller, false))), [permission]);
    assert_eq!(ids(stage.give(attach("cat", Role::Controller, true))).len(), 2);
    assert_eq!(ids(stage.give(attach("eve", Role::Observer, false))).len(), 2);
    assert_eq!(joined(stage.attach("dan")).head, stage.session.head());
}

#[test]
fn the_session_lives_on_with_no_client_attached() {
    let mut stage = Stage::running();
    stage.attach("ann");
    stage.prompt("p1", "ann");
    stage.give(detach("ann"));
    assert_eq!(stage.session.state().status, Status::Running);
    assert_eq!(stage.session.deadline(), None);
}

#[test]
fn idle_time_starts_without_clients_and_work() {
    let settings = Settings { idle_ttl: Some(Millis(100)), ..Settings::default() };
    let mut stage = Stage::running_with(settings, RESUMES);
    assert_eq!(stage.session.deadline(), Some(stage.now.after(Millis(100))));
    stage.attach("ann");
    assert_eq!(stage.session.deadline(), None);
    stage.prompt("p1", "ann");
    stage.give(detach("ann"));
    assert_eq!(stage.session.deadline(), None);
    stage.give(answered("p1"));
    let since = stage.now;
    // Unrequested updates of the agent do not prevent idleness.
    stage.give(updated(UpdateKind::UsageUpdate, "{}", None));
    assert_eq!(stage.session.deadline(), Some(since.after(Millis(100))));
    assert_nothing(&stage.wait(50));
    let step = stage.wait(50);
    assert!(
        matches!(step.events.as_slice(), [Event::Session(SessionEvent::Ended(ending))] if ending.reason == EndReason::Idle)
    );
    assert!(matches!(step.effects.as_slice(), [Effect::StopAgent { .. }]));
    assert_eq!(stage.session.deadline(), None);
}

#[test]
fn agent_attached_to_its_own_session_does_not_keep_it_awake() {
    let settings = Settings { idle_ttl: Some(Millis(100)), ..Settings::default() };
    let mut stage = Stage::running_with(settings, RESUMES);
    let since = stage.now;
    for (client, parent) in [("own", Some(origin().session)), ("ann", None)] {
        let sender = Sender { parent, ..sender(client) };
        stage.give(Input::Client(ClientInput::Attach(Attachment {
            sender,
            role: Role::Observer,
            elicits: false,
            wake: false,
            needs_agent: false,
        })));
        let (clients, deadline) =
            if client == "own" { (0, Some(since.after(Millis(100)))) } else { (1, None) };
        assert_eq!(
            (stage.session.clients(), stage.session.deadline()),
            (clients, deadline),
            "{client}"
        );
    }
    assert_eq!(stage.session.members().count(), 2, "both are there");
}

#[test]
fn the_latest_of_each_state_update_is_kept_for_joiners() {
    let mut stage = Stage::running();
    let kinds = [
        UpdateKind::AvailableCommandsUpdate,
        UpdateKind::CurrentModeUpdate,
        UpdateKind::ConfigOptionUpdate,
        UpdateKind::SessionInfoUpdate,
        UpdateKind::UsageUpdate,
        UpdateKind::AgentMessageChunk,
    ];
    for kind in kinds {
        stage.give(updated(kind, r#""old""#, None));
        stage.give(updated(kind, r#""new""#, Some("Title")));
    }
    let latest = &stage.session.state().latest;
    let new: Option<Raw> = Some(raw(r#""new""#));
    assert_eq!(
        [&latest.commands, &latest.mode, &latest.config, &latest.info, &latest.usage],
        [&new; 5]
    );
    assert_eq!(latest.title.as_deref(), Some("Title"));
}

#[test]
fn an_info_update_without_a_title_does_not_replace_one_with_a_title() {
    let mut stage = Stage::running();
    stage.give(updated(UpdateKind::SessionInfoUpdate, "1", None));
    stage.give(updated(UpdateKind::SessionInfoUpdate, "2", Some("Two")));
    stage.give(updated(UpdateKind::SessionInfoUpdate, "3", None));
    let latest = &stage.session.state().latest;
    assert_eq!((latest.info.clone(), latest.title.as_deref()), (Some(raw("2")), Some("Two")));
}

#[test]
fn updates_are_recorded_in_every_status() {
    let mut stage = Stage::starting(Settings::default());
    let step = stage.give(updated(UpdateKind::Plan, "{}", None));
    assert_eq!(step.events.len(), 1);
    assert_eq!(stage.session.state().last_output_at, Some(stage.now));
}
