//! Sessions as they are listed, at given times, and what is told of them.

use wharf_config::{Duration as SettingDuration, NotifyContent};
use wharf_core::{AskKind, Status};

use super::super::refresh;
use super::*;
use crate::attention::{Attention, AttentionAsk, AttentionRaised};
use crate::descriptor::TurnWord;

const EPOCH: Epoch = Epoch(3);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn event(text: &str) -> EventId {
    text.parse().unwrap()
}

fn settings() -> NotifySettings {
    NotifySettings {
        command: vec!["true".to_owned()],
        ..NotifySettings::default()
    }
}

fn ask(row: &str, text: &str) -> AttentionAsk {
    let (kind, since) = (AskKind::Permission, "2026-11-17T10:00:00.000Z".to_owned());
    AttentionAsk { row: event(row), since, kind, text: Some(text.to_owned()) }
}

fn session(attention: Attention) -> Descriptor {
    let summary = serde_json::json!({
        "id": "sess_1", "adapterSlug": "claude", "workspaceSlug": "blog", "cwd": "/", "status": Status::Running,
        "startedAt": "", "turn": TurnWord::Idle, "queued": 0, "clients": 1, "lastSeq": 9, "resumable": true,
        "title": "Fix the parser", "attention": attention,
    });
    Descriptor::from_summary(summary.to_string().as_bytes()).unwrap()
}

fn asking(asks: &[(&str, &str)]) -> Descriptor {
    let first = asks.first().map(|(row, text)| ask(row, text));
    let newest = asks.last().filter(|_| asks.len() > 1).map(|(row, text)| ask(row, text));
    session(Attention {
        asks: asks.len(),
        ask: first,
        newest_ask: newest,
        ..Attention::default()
    })
}

fn ended(row: Option<&str>, is_failure: bool, ran_for: u64) -> Descriptor {
    let (why, text) = if is_failure { ("error", Some("no".to_owned())) } else { ("done", None) };
    let raised = AttentionRaised {
        is_failure,
        row: row.map(event),
        since: String::new(),
        why: why.to_owned(),
        text,
        ran_for_millis: Some(ran_for * 1_000),
    };
    session(Attention { raised: Some(raised), ..Attention::default() })
}

fn quiet() -> Descriptor {
    session(Attention::default())
}

/// The decider with its settings, for one session whose marks can change.
struct Stage {
    decider: NotifyDecider,
    settings: NotifySettings,
    marks: SessionMarks,
}

impl Stage {
    fn new() -> Self {
        let settings = settings();
        Self {
            decider: NotifyDecider::new(EPOCH, &settings),
            settings,
            marks: SessionMarks::default(),
        }
    }

    fn look(&mut self, session: &Descriptor, now: u64) -> Decision {
        self.decider
            .decide(&self.settings, std::iter::once((session, self.marks)), seconds(now))
    }

    /// Returns the messages that are told.
    fn told(&mut self, session: &Descriptor, now: u64) -> Vec<String> {
        self.look(session, now)
            .tell
            .into_iter()
            .map(|notification| notification.message)
            .collect()
    }
}

#[test]
fn each_ask_is_told_once() {
    let mut stage = Stage::new();
    let one = asking(&[("3-5", "rm -rf build")]);
    assert_eq!(stage.told(&one, 0), ["blog · Fix the parser — asks: rm -rf build"]);
    assert_eq!(stage.told(&one, 1), [""; 0]);
    let two = asking(&[("3-5", "rm -rf build"), ("3-8", "git push")]);
    assert_eq!(stage.told(&two, 2), ["blog · Fix the parser — asks: git push"]);
    assert_eq!(stage.told(&asking(&[("3-8", "git push")]), 3), [""; 0], "the first was answered");
    assert_eq!(stage.told(&quiet(), 4), [""; 0]);
    assert_eq!(stage.told(&asking(&[("3-11", "git push")]), 5).len(), 1, "asked again");
}

#[test]
fn notification_names_the_session_and_the_reason() {
    let mut stage = Stage::new();
    let long = "x".repeat(200);
    let told = stage.look(&asking(&[("3-5", &long)]), 0).tell.remove(0);
    assert_eq!(told.text.as_ref().map(|text| text.chars().count()), Some(140));
    let expected = Notification {
        version: 1,
        id: told.id.clone(),
        kind: Some(NotifyKind::NeedsAnswer),
        message: format!("blog · Fix the parser — asks: {}…", "x".repeat(139)),
        session_id: Some("sess_1".to_owned()),
        workspace: Some("blog".to_owned()),
        title: Some("Fix the parser".to_owned()),
        agent: Some("claude".to_owned()),
        why: Some("permission".to_owned()),
        text: Some(format!("{}…", "x".repeat(139))),
        count: Some(1),
        since: Some("2026-11-17T10:00:00.000Z".to_owned()),
        row: Some(event("3-5")),
        told_before: None,
    };
    assert_eq!(told, expected);
}

#[test]
fn without_content_only_workspace_and_state_are_told() {
    let mut stage = Stage::new();
    stage.settings.content = NotifyContent::None;
    let told = stage.look(&asking(&[("3-5", "rm -rf build")]), 0).tell.remove(0);
    assert_eq!((told.message.as_str(), &told.title, &told.text), ("blog needs you", &None, &None));
    assert!(
        !told.to_json().contains("parser") && !told.to_json().contains("build"),
        "{}",
        told.to_json()
    );
}

#[test]
fn short_turns_are_not_told_as_finished() {
    let mut stage = Stage::new();
    assert_eq!(stage.told(&ended(Some("3-5"), false, 19), 0), [""; 0]);
    assert_eq!(stage.told(&ended(Some("3-9"), false, 20), 1), ["blog · Fix the parser — finished"]);
    assert_eq!(
        stage.told(&ended(Some("3-12"), true, 1), 62),
        ["blog · Fix the parser — failed (error): no"]
    );
    stage.settings.min_turn = SettingDuration::NEVER;
    assert_eq!(stage.told(&ended(Some("3-15"), false, 9_999), 200), [""; 0]);
}

#[test]
fn ends_are_told_once_a_minute_and_only_if_they_still_hold() {
    let mut stage = Stage::new();
    assert_eq!(stage.told(&ended(Some("3-5"), true, 1), 0).len(), 1);
    let waits = stage.look(&ended(Some("3-9"), true, 1), 30);
    assert_eq!((waits.tell.len(), waits.next_at), (0, Some(seconds(60))));
    assert_eq!(stage.told(&asking(&[("3-10", "ls")]), 31).len(), 1, "asks do not wait");
    assert_eq!(stage.told(&ended(Some("3-12"), true, 1), 60).len(), 1, "the newest is told");
    assert_eq!(stage.look(&ended(Some("3-15"), true, 1), 61).next_at, Some(seconds(120)));
    assert_eq!(stage.told(&quiet(), 120), [""; 0], "a new turn has begun");
}

#[test]
fn many_asks_in_a_minute_become_one() {
    let mut stage = Stage::new();
    for n in 0..6 {
        assert_eq!(stage.told(&asking(&[(&format!("3-{}", 10 + n), "ls")]), n).len(), 1);
    }
    for n in 6..10 {
        let decision = stage.look(&asking(&[(&format!("3-{}", 10 + n), "ls")]), n);
        assert_eq!((decision.tell.len(), decision.next_at), (0, Some(seconds(60))));
    }
    assert_eq!(stage.told(&asking(&[("3-19", "ls")]), 60).len(), 1);
}

#[test]
fn muted_and_seen_sessions_are_silent() {
    let mut stage = Stage::new();
    stage.marks.muted = true;
    let asks = asking(&[("3-5", "ls")]);
    assert_eq!(stage.told(&asks, 0), [""; 0]);
    stage.marks.muted = false;
    assert_eq!(stage.told(&asks, 1), [""; 0], "it was muted when it came");
    stage.marks.seen = Some(event("3-9"));
    assert_eq!(stage.told(&ended(Some("3-9"), true, 1), 2), [""; 0]);
    assert_eq!(stage.told(&asking(&[("3-8", "ls")]), 3).len(), 1, "looking does not answer");
}

#[test]
fn events_of_earlier_runs_of_the_host_are_past() {
    let mut stage = Stage::new();
    assert_eq!(stage.told(&ended(Some("2-5"), true, 1), 0), [""; 0]);
    assert_eq!(
        stage.told(&ended(Some("3-6"), true, 1), 1).len(),
        1,
        "cut off by the end of the last host"
    );
}

#[test]
fn only_chosen_states_are_told() {
    let mut stage = Stage::new();
    stage.settings.on = vec![NotifyKind::NeedsAnswer];
    assert_eq!(stage.told(&ended(Some("3-5"), true, 1), 0), [""; 0]);
    assert_eq!(stage.told(&asking(&[("3-6", "ls")]), 0).len(), 1);
}

#[test]
fn receiver_that_is_set_later_is_not_told_of_the_past() {
    let mut stage = Stage::new();
    let command = std::mem::take(&mut stage.settings.command);
    let before = ended(Some("3-5"), true, 1);
    assert_eq!(stage.told(&before, 0), [""; 0]);
    stage.settings.command = command;
    assert_eq!(stage.told(&before, 1), [""; 0]);
    assert_eq!(stage.told(&ended(Some("3-7"), true, 1), 2).len(), 1);
}

#[test]
fn pause_without_an_event_is_told_once_each_time() {
    let mut stage = Stage::new();
    let paused = ended(None, true, 0);
    assert_eq!(stage.told(&paused, 0).len(), 1);
    assert_eq!(stage.told(&paused, 100), [""; 0]);
    assert_eq!(stage.told(&quiet(), 101), [""; 0]);
    assert_eq!(stage.told(&paused, 102).len(), 1);
}

#[test]
fn older_ask_is_told_instead_of_a_newer_one_that_was_answered_first() {
    let mut stage = Stage::new();
    stage.look(&asking(&[("3-3", "ls")]), 0);
    let [first, second, third] = [("3-3", "ls"), ("3-5", "rm -rf build"), ("3-8", "git push")];
    let told = stage.look(&asking(&[first, second, third]), 1).tell.remove(0);
    let refresh = |session: &Descriptor, told: &Notification| {
        refresh(session, &SessionMarks::default(), told.clone(), NotifyContent::Full)
    };
    assert_eq!(refresh(&asking(&[first, second, third]), &told).as_ref(), Some(&told));
    let older = refresh(&asking(&[first, second]), &told).unwrap();
    assert_eq!(older.message, "blog · Fix the parser — asks: rm -rf build");
    assert_eq!((older.row, older.count), (Some(event("3-5")), Some(2)));
    assert_ne!(older.id, told.id, "a receiver that has seen the other one takes it");
    assert_eq!(refresh(&asking(&[second]), &older).as_ref(), Some(&older));
    assert_eq!(refresh(&asking(&[first]), &told), None, "it was told before");
    assert_eq!(refresh(&asking(&[first]), &older), None, "it was told before");
    assert_eq!(refresh(&quiet(), &told), None);
}

#[test]
fn end_that_was_told_is_not_told_again_when_the_session_comes_back() {
    let mut stage = Stage::new();
    let failed = ended(Some("3-5"), true, 1);
    assert_eq!(stage.told(&failed, 0).len(), 1);
    assert_eq!(stage.told(&quiet(), 100), [""; 0], "a person killed it");
    assert_eq!(stage.told(&failed, 200), [""; 0], "and resumed it");
    assert_eq!(stage.told(&ended(None, true, 0), 300).len(), 1, "a pause without an event");
    assert_eq!(stage.told(&ended(Some("3-9"), true, 0), 400).len(), 1, "a pause with an event");
    assert_eq!(stage.told(&failed, 500), [""; 0], "the pause is over");
    assert_eq!(stage.told(&ended(Some("3-12"), true, 1), 600).len(), 1);
}
