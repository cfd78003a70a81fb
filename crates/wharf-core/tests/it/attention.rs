//! Facts of a session's attention: asks, outcomes that are told, and work (chapter 14 of the
//! specification).

use wharf_core::{
    AgentInput, AgentTraits, AskKind, ClientInput, Description, EndReason, Event, Input,
    LifecycleInput, Millis, OnRestart, OutcomeCause, OutcomeKind, Overlap, PauseReason, RaisedWhy,
    ReportedTokens, Seq, SessionEvent, Settings, StartFault, StorageInput, TokenSource, TokenSpan,
    UpdateKind, UsageMeaning, WorkKind,
};

use crate::stage::*;

/// An outcome as it is told: whether it is a failure, its cause, and its event.
type Told = (bool, OutcomeCause, Seq);

fn told(stage: &Stage) -> Option<Told> {
    let raised = stage.session.state().attention_facts().raised?;
    let RaisedWhy::Outcome(cause) = raised.why else { panic!("{raised:?}") };
    Some((raised.is_failure, cause, raised.seq))
}

fn work(stage: &Stage) -> Option<WorkKind> {
    stage.session.state().attention_facts().work.map(|work| work.kind)
}

fn last_outcome(stage: &Stage) -> Option<OutcomeKind> {
    stage.session.state().last_outcome()
}

fn ended(prompt: &str, stop_reason: Option<&str>, frame: &str) -> Input {
    Input::Agent(AgentInput::Answered {
        prompt: id(prompt),
        stop_reason: stop_reason.map(Into::into),
        frame: raw(frame),
        stderr: None,
    })
}

fn archive(archived: bool) -> Input {
    describe(None, None, Some(archived))
}

fn describe(
    title: Option<Option<&str>>,
    label: Option<Option<&str>>,
    archived: Option<bool>,
) -> Input {
    let text = |text: Option<Option<&str>>| text.map(|text| text.map(Into::into));
    let (by, title, label) = (sender("ann"), text(title), text(label));
    Input::Client(ClientInput::Describe(Description { by, title, label, archived }))
}

#[test]
fn finished_turn_is_told_with_its_event_once_the_queue_is_empty() {
    let mut stage = Stage::running();
    assert_eq!((told(&stage), work(&stage), last_outcome(&stage)), (None, None, None));
    stage.prompt("p1", "ann");
    stage.give(submit("p2", "ann", Overlap::Queue));
    assert_eq!((told(&stage), work(&stage)), (None, Some(WorkKind::Turn)));
    stage.give(answered("p1"));
    assert_eq!(told(&stage), None, "the next turn has started");
    stage.give(ended("p2", Some("max_tokens"), "{}"));
    assert_eq!(told(&stage), Some((false, OutcomeCause::Stopped, stage.session.head())));
    assert_eq!((work(&stage), last_outcome(&stage)), (None, Some(OutcomeKind::Stopped)));
}

#[test]
fn each_bad_end_of_a_turn_is_a_failure_with_its_cause() {
    for (stop_reason, cause) in [
        (None, OutcomeCause::Error),
        (Some("refusal"), OutcomeCause::Refusal),
        (Some("error"), OutcomeCause::Error),
    ] {
        let mut stage = Stage::running();
        stage.prompt("p1", "ann");
        stage.give(ended(
            "p1",
            stop_reason,
            r#"{"id":1,"error":{"code":1,"message":"\n no credit \nmore"}}"#,
        ));
        assert_eq!(told(&stage), Some((true, cause, stage.session.head())));
        let text = stage.session.state().attention_facts().raised.and_then(|raised| raised.text);
        assert_eq!(text.as_deref(), (stop_reason.is_none()).then_some("no credit"));
    }
}

#[test]
fn turn_cancelled_by_a_person_tells_nothing_however_it_ends() {
    for end in [
        ended("p1", Some("cancelled"), "{}"),
        answered("p1"),
        ended("p1", None, "{}"),
        exited(1, Some(1)),
    ] {
        let mut stage = Stage::running_with(Settings::default(), RESUMES);
        stage.prompt("p1", "ann");
        stage.cancel("ann");
        stage.give(end);
        assert_eq!((told(&stage), last_outcome(&stage)), (None, Some(OutcomeKind::Cancelled)));
    }
}

#[test]
fn turn_cancelled_by_a_limit_is_a_failure_however_it_ends() {
    for stop_reason in ["cancelled", "end_turn"] {
        let settings = Settings { turn_deadline: Some(Millis(50)), ..Settings::default() };
        let mut stage = Stage::running_with(settings, RESUMES);
        stage.prompt("p1", "ann");
        stage.wait(60);
        stage.give(ended("p1", Some(stop_reason), "{}"));
        assert_eq!(told(&stage), Some((true, OutcomeCause::Deadline, stage.session.head())));
        assert_eq!(last_outcome(&stage), Some(OutcomeKind::Failed));
    }
}

#[test]
fn turn_that_the_agent_cancelled_by_itself_is_told_as_stopped() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    stage.give(ended("p1", Some("cancelled"), "{}"));
    assert_eq!(told(&stage), Some((false, OutcomeCause::Stopped, stage.session.head())));
}

#[test]
fn turn_that_a_kill_cut_off_tells_nothing_when_the_session_is_back() {
    let mut stage = Stage::running_with(Settings::default(), RESUMES);
    stage.prompt("p1", "ann");
    stage.kill(EndReason::User);
    stage.give(Input::Lifecycle(LifecycleInput::Resume));
    stage.give(started(2, RESUMES));
    assert_eq!((told(&stage), last_outcome(&stage)), (None, Some(OutcomeKind::CutOff)));
}

#[test]
fn new_turn_ends_the_failure_also_if_it_is_put_back() {
    let settings = Settings { on_restart: OnRestart::Requeue, ..Settings::default() };
    let mut stage = Stage::running_with(settings, RESUMES);
    stage.prompt("p1", "ann");
    stage.give(ended("p1", None, "{}"));
    assert!(told(&stage).is_some());
    stage.prompt("p2", "ann");
    assert_eq!(told(&stage), None);
    stage.restart_host();
    assert_eq!((told(&stage), work(&stage)), (None, Some(WorkKind::Queued)));
}

#[test]
fn failed_start_is_told_until_the_agent_runs() {
    let mut stage = Stage::starting(Settings::default());
    assert_eq!(work(&stage), Some(WorkKind::Starting));
    stage.give(start_failed_by(1, StartFault::LoginNeeded));
    assert_eq!(told(&stage), Some((true, OutcomeCause::LoginNeeded, stage.session.head())));
    assert_eq!((work(&stage), last_outcome(&stage)), (None, Some(OutcomeKind::Failed)));
    let text = stage.session.state().attention_facts().raised.and_then(|raised| raised.text);
    assert_eq!(text.as_deref(), Some("not found"));

    let mut stage = Stage::running_with(Settings::default(), RESUMES);
    stage.give(exited(1, Some(0)));
    assert_eq!(told(&stage), None, "an idle agent that can come back");
    stage.give(Input::Lifecycle(LifecycleInput::Resume));
    stage.give(start_failed(2));
    assert_eq!(told(&stage), Some((true, OutcomeCause::StartFailed, stage.session.head())));
    stage.give(Input::Lifecycle(LifecycleInput::Resume));
    stage.give(started(3, RESUMES));
    assert_eq!((told(&stage), last_outcome(&stage)), (None, None));
}

#[test]
fn failed_start_points_to_the_end_of_the_prompt_that_waited_for_it() {
    let mut stage = Stage::starting(Settings::default());
    stage.give(submit("p1", "ann", Overlap::Queue));
    stage.give(start_failed_by(1, StartFault::LoginNeeded));
    let of_prompt = Seq(stage.session.head().0 - 1);
    assert_eq!(told(&stage), Some((true, OutcomeCause::LoginNeeded, of_prompt)));
}

#[test]
fn agent_that_dies_idle_is_a_failure_only_if_it_cannot_come_back() {
    let mut stage = Stage::running();
    stage.give(exited(1, Some(0)));
    assert_eq!(told(&stage), Some((true, OutcomeCause::AgentExited, stage.session.head())));
}

#[test]
fn death_in_a_turn_points_to_the_end_of_the_turn() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    stage.give(exited(1, Some(1)));
    assert_eq!(
        told(&stage),
        Some((true, OutcomeCause::AgentExited, Seq(stage.session.head().0 - 1)))
    );
    assert_eq!(last_outcome(&stage), Some(OutcomeKind::Failed));
}

#[test]
fn host_restart_during_an_ask_leaves_a_cut_off_turn() {
    let mut stage = Stage::running_with(Settings::default(), RESUMES);
    stage.prompt("p1", "ann");
    let ask = stage.ask("7");
    let facts = stage.session.state().attention_facts();
    assert_eq!(
        (facts.asks, facts.first_ask.map(|ask| (ask.seq, ask.kind))),
        (1, Some((Seq(ask.0), AskKind::Permission)))
    );
    assert_eq!(facts.first_ask.and_then(|ask| ask.at), Some(stage.now));
    stage.restart_host();
    let facts = stage.session.state().attention_facts();
    assert_eq!((facts.asks, facts.first_ask), (0, None));
    assert!(matches!(told(&stage), Some((true, OutcomeCause::HostRestarted, _))));
}

#[test]
fn killed_and_closed_sessions_tell_nothing() {
    for reason in [EndReason::User, EndReason::Closed] {
        let mut stage = Stage::running();
        stage.prompt("p1", "ann");
        stage.kill(reason);
        assert_eq!((told(&stage), last_outcome(&stage)), (None, Some(OutcomeKind::CutOff)));
    }
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    stage.give(answered("p1"));
    stage.kill(EndReason::User);
    assert_eq!((told(&stage), last_outcome(&stage)), (None, Some(OutcomeKind::Done)));
}

#[test]
fn sleep_and_shutdown_keep_a_finished_turn() {
    for reason in [EndReason::Idle, EndReason::HostShutdown] {
        let mut stage = Stage::running_with(Settings::default(), RESUMES);
        stage.prompt("p1", "ann");
        stage.give(answered("p1"));
        let before = told(&stage);
        stage.kill(reason);
        assert_eq!(told(&stage), before);
        assert!(before.is_some());
    }
}

#[test]
fn paused_log_is_a_failure_until_it_goes_on() {
    let mut stage = Stage::running();
    stage.give(Input::Storage(StorageInput::Failed { why: PauseReason::StorageFull }));
    let raised = stage.session.state().attention_facts().raised.unwrap();
    assert_eq!(
        (raised.why, raised.seq),
        (RaisedWhy::Paused(PauseReason::StorageFull), stage.session.head())
    );
    stage.give(Input::Storage(StorageInput::Back));
    assert_eq!(told(&stage), None);
}

#[test]
fn paused_log_of_an_archived_session_tells_nothing() {
    let mut stage = Stage::running();
    stage.give(archive(true));
    stage.give(Input::Storage(StorageInput::Failed { why: PauseReason::StorageFull }));
    assert!(stage.session.state().paused.is_some());
    assert_eq!(stage.session.state().attention_facts().raised, None);
}

#[test]
fn archived_session_tells_nothing_and_leaves_the_archive_with_an_ask() {
    let mut stage = Stage::running();
    stage.prompt("p1", "ann");
    stage.give(answered("p1"));
    let step = stage.give(archive(true));
    assert!(matches!(
        &step.events[..],
        [Event::Session(SessionEvent::Archived { archived: true, by: Some(_) })]
    ));
    assert_eq!(told(&stage), None);
    assert_nothing(&stage.give(archive(true)));
    stage.prompt("p2", "bob");
    let step = stage.give(asked(AskKind::Permission, "7"));
    assert_eq!(
        step.events[1..],
        [Event::Session(SessionEvent::Archived { archived: false, by: None })]
    );
    assert!(!stage.session.state().archived);
}

#[test]
fn title_of_a_client_beats_the_agents_until_it_is_cleared() {
    let mut stage = Stage::running();
    let title = |stage: &Stage| stage.session.state().title().map(ToString::to_string);
    let agents = |title: &str| {
        Input::Agent(AgentInput::Updated {
            update: wharf_core::UpdateKind::SessionInfoUpdate,
            frame: raw("{}"),
            title: Some(title.into()),
            tool: None,
        })
    };
    stage.give(agents("of the agent"));
    stage.give(describe(Some(Some("mine")), Some(Some("red")), None));
    stage.give(agents("of the agent again"));
    assert_eq!(title(&stage).as_deref(), Some("mine"));
    assert_eq!(stage.session.state().origin.label.as_deref(), Some("red"));
    stage.give(describe(Some(None), Some(None), None));
    assert_eq!(title(&stage).as_deref(), Some("of the agent again"));
    assert_eq!(stage.session.state().origin.label, None);
}

#[test]
fn usage_of_answers_is_summed_and_missing_counts_stay_unknown() {
    let mut stage = Stage::running();
    for (prompt, usage) in [
        ("p1", r#"{"inputTokens":10,"outputTokens":2,"cachedReadTokens":"many"}"#),
        ("p2", r#"{"inputTokens":5,"totalTokens":9}"#),
        ("p3", "null"),
        ("p4", r#"{"inputTokens":-1}"#),
    ] {
        stage.prompt(prompt, "ann");
        stage.give(ended(
            prompt,
            Some("end_turn"),
            &format!(r#"{{"id":1,"result":{{"usage":{usage}}}}}"#),
        ));
    }
    let usage = stage.session.state().usage;
    assert_eq!(usage.turns, 2);
    let sum = ReportedTokens {
        input: Some(15),
        output: Some(2),
        total: Some(9),
        ..ReportedTokens::default()
    };
    let last = ReportedTokens { input: Some(5), total: Some(9), ..ReportedTokens::default() };
    assert_eq!((usage.tokens, usage.last_turn), (sum, last));
}

/// Returns the report of a call of the model in an empty chunk of a message.
fn chunk_report(input: u64) -> Input {
    let usage = format!(r#"{{"inputTokens":{input}}}"#);
    let update =
        format!(r#"{{"content":{{"type":"text","text":""}},"_meta":{{"usage":{usage}}}}}"#);
    let frame = raw(&format!(r#"{{"params":{{"update":{update}}}}}"#));
    Input::Agent(AgentInput::Updated {
        update: UpdateKind::AgentMessageChunk,
        frame,
        title: None,
        tool: None,
    })
}

#[test]
fn tokens_of_chunks_count_for_every_end_of_the_turn_that_ran() {
    let chunks = UsageMeaning { tokens: TokenSpan::Turn, source: TokenSource::Chunk };
    let traits = AgentTraits { usage: Some(chunks), ..RESUMES };
    let counts = |stage: &Stage| {
        (stage.session.state().usage.turns, stage.session.state().usage.tokens.input)
    };
    let mut stage = Stage::running_with(Settings::default(), traits);
    // An answer without a result.
    stage.prompt("p1", "ann");
    stage.give(chunk_report(10));
    stage.give(ended("p1", Some("end_turn"), r#"{"id":1}"#));
    assert_eq!(counts(&stage), (1, Some(10)));
    // A prompt that waits and never runs ends beside a running turn.
    stage.prompt("p2", "ann");
    stage.give(chunk_report(20));
    stage.prompt("p3", "ann");
    stage.give(Input::Client(ClientInput::RemovePrompt { prompt: id("p3"), by: sender("ann") }));
    assert_eq!(counts(&stage), (1, Some(10)));
    // The agent dies in mid-turn.
    stage.give(exited(1, Some(1)));
    assert_eq!(counts(&stage), (2, Some(30)));
}
