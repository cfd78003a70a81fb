//! The choice of the sessions that are forgotten, and sweeps of a host whose sessions and settings
//! change meanwhile.

use std::sync::Arc;

use serde_json::{Value, json};
use wharf_config::{ConfigSources, Duration as SettingDuration};
use wharf_core::{Attachment, Role, Sender};
use wharf_testkit::cold_sessions::ColdSessions;

use super::*;
use crate::format_timestamp;
use crate::session::attached::Transport;
use crate::session::close_signal::CloseSignal;
use crate::session::handle::{Abilities, Attendance, Serves};

const NOW: Millis = Millis(1_763_405_000_000);
const HOUR: u64 = 3_600_000;

/// A session that ended so many hours ago, with these other members.
fn ended(id: &str, hours_ago: u64, more: &Value) -> SweptSession {
    let ended_at = format_timestamp(Millis(NOW.0 - hours_ago * HOUR));
    let mut summary = json!({
        "id": id, "adapterSlug": "claude", "workspaceSlug": "blog", "cwd": "/", "status": "exited", "startedAt": "",
        "endedAt": ended_at, "turn": "idle", "queued": 0, "clients": 0, "lastSeq": 9, "resumable": true,
        "attention": { "asks": 0, "quietSince": "" },
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        summary[name] = value.clone();
    }
    let known = Descriptor::from_summary(summary.to_string().as_bytes()).unwrap();
    SweptSession { known: Arc::new(known), alone_since: None }
}

fn hours(hours: u64) -> SettingDuration {
    SettingDuration::from_millis(hours * HOUR)
}

fn choose(sessions: &[SweptSession], retention: &RetentionSettings) -> Vec<(String, ForgetReason)> {
    let chosen = choose_forgotten(sessions, retention, Some(Millis(24 * HOUR)), NOW);
    chosen.into_iter().map(|(id, why)| (id.to_string(), why)).collect()
}

fn keep_for(hours_kept: u64) -> RetentionSettings {
    RetentionSettings { keep_for: hours(hours_kept), ..RetentionSettings::default() }
}

#[test]
fn nothing_is_forgotten_by_default() {
    assert_eq!(choose(&[ended("old", 100_000, &json!({}))], &RetentionSettings::default()), []);
}

#[test]
fn old_sessions_are_forgotten_unless_someone_may_need_them() {
    let asks = json!({ "asks": 1, "quietSince": "" });
    let sessions = [
        ended("young", 23, &json!({})),
        ended("old", 24, &json!({})),
        ended("labelled", 24, &json!({ "label": "mine" })),
        ended("archived", 99, &json!({ "archived": true })),
        ended("queued", 99, &json!({ "queued": 1 })),
        ended("watched", 99, &json!({ "clients": 1 })),
        ended("asks", 99, &json!({ "attention": asks })),
        ended("lives", 99, &json!({ "status": "running" })),
        ended("parent", 99, &json!({})),
        ended("child", 99, &json!({ "status": "running", "lineage": ["parent"] })),
    ];
    let old = |id: &str| (id.to_owned(), ForgetReason::Old);
    assert_eq!(choose(&sessions, &keep_for(24)), [old("old"), old("labelled")]);
}

#[test]
fn newest_ended_sessions_of_each_workspace_are_kept() {
    let other = json!({ "workspaceSlug": "shop" });
    let sessions = [
        ended("a", 1, &json!({})),
        ended("b", 2, &json!({})),
        ended("c", 3, &json!({})),
        ended("kept", 9, &json!({ "archived": true })),
        ended("d", 9, &other),
    ];
    let retention = RetentionSettings { keep_sessions: 2, ..RetentionSettings::default() };
    assert_eq!(choose(&sessions, &retention), [("c".to_owned(), ForgetReason::TooMany)]);
}

#[test]
fn settings_of_a_workspace_count_before_the_others() {
    let config = Config::parse(
        "[retention]\nkeep_for = \"1h\"\n[retention.workspaces.blog]\nkeep_for = \"never\"\nkeep_sessions = 1",
    );
    let retention = config.unwrap().retention;
    let sessions = [
        ended("a", 2, &json!({})),
        ended("b", 3, &json!({})),
        ended("c", 2, &json!({ "workspaceSlug": "shop" })),
    ];
    let expected = [("b".to_owned(), ForgetReason::TooMany), ("c".to_owned(), ForgetReason::Old)];
    assert_eq!(choose(&sessions, &retention), expected);
}

#[test]
fn sessions_that_were_never_prompted_are_forgotten_after_a_day_without_a_client() {
    let unused = json!({ "unused": true });
    let alive = |id: &str, hours_ago: u64, more: Value| {
        let alone_since = Some(Millis(NOW.0 - hours_ago * HOUR));
        SweptSession { alone_since, ..ended(id, 99, &more) }
    };
    let sessions = [
        ended("old", 24, &unused),
        ended("young", 23, &unused),
        ended("prompted", 99, &json!({})),
        alive("alone", 24, json!({ "unused": true, "status": "running" })),
        alive("just left", 1, json!({ "unused": true, "status": "running" })),
        alive("attended", 99, json!({ "unused": true, "status": "running", "clients": 1 })),
        ended("archived", 99, &json!({ "unused": true, "archived": true })),
    ];
    let never = |id: &str| (id.to_owned(), ForgetReason::NeverPrompted);
    assert_eq!(choose(&sessions, &RetentionSettings::default()), [never("old"), never("alone")]);
    assert_eq!(
        choose_forgotten(&sessions, &RetentionSettings::default(), None, NOW),
        [],
        "session.unused_ttl = \"never\""
    );
}

/// A host with ended sessions, and `config.toml` in its directory. Its own sweeps come too late to
/// matter.
struct SweptHost {
    host: Host,
    ids: Vec<SessionId>,
    dir: tempfile::TempDir,
}

impl SweptHost {
    fn start(count: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let state_dir = dir.path().join("state");
        let cold = ColdSessions {
            count,
            agent: "absent",
            cwd: dir.path(),
            events: 0,
            waiting: None,
        };
        let ids = cold.write_to(&state_dir).unwrap().into_iter().map(SessionId::new).collect();
        let file = dir.path().join("config.toml");
        std::fs::write(&file, "[retention]\nkeep_for = \"1h\"\n").unwrap();
        let mut config = ConfigSources::new(Some(file), false, &[]).unwrap().load().unwrap();
        config.state_dir = state_dir;
        Self { host: Host::start(config).unwrap(), ids, dir }
    }

    fn reload(&self, settings: &str) {
        std::fs::write(self.dir.path().join("config.toml"), settings).unwrap();
        self.host.reload_config().unwrap();
    }

    fn count(&self) -> usize {
        self.host.descriptors().len()
    }
}

#[tokio::test]
async fn sweep_stops_when_retention_is_changed_during_it() {
    for settings in
        ["[retention]\nkeep_for = \"1h\"\ndry_run = true\n", "[retention]\nkeep_for = \"never\"\n"]
    {
        let swept = SweptHost::start(3);
        let mut changes = swept.host.changes();
        let change_after_first = async {
            while swept.count() == 3 {
                changes.changed().await.unwrap();
            }
            swept.reload(settings);
        };
        let weak = Arc::downgrade(swept.host.shared_inner());
        let mut reported = HashSet::new();
        tokio::join!(sweep_once(&weak, &mut reported), change_after_first);
        assert_eq!(swept.count(), 2, "{settings}");
    }
}

#[tokio::test]
async fn session_that_is_in_use_refuses_to_be_forgotten_by_a_sweep() {
    let swept = SweptHost::start(2);
    let [used, unused] = swept.ids.as_slice() else { panic!("{:?}", swept.ids) };
    let handle = swept.host.open(used).await.unwrap();
    let sender: Sender = serde_json::from_value(json!({ "client": "client" })).unwrap();
    let attachment = Attachment {
        sender,
        role: Role::Observer,
        elicits: false,
        wake: false,
        needs_agent: false,
    };
    let (lane, _messages) = tokio::sync::mpsc::channel(8);
    let attendance = Attendance {
        lane,
        close: Arc::new(CloseSignal::default()),
        serves: Serves::No,
        abilities: Abilities::default(),
        transport: Transport::WebSocket,
    };
    handle.attach(attachment, attendance).await.unwrap();
    assert_eq!(swept.host.forget_unused(used).await.unwrap(), None, "it has a client");
    assert!(swept.host.descriptor(used).is_some() && !handle.is_closed());
    assert!(swept.host.forget_unused(unused).await.unwrap().is_some());
    assert!(swept.host.descriptor(unused).is_none());
    assert!(
        swept.host.forget(used).await.unwrap().is_some(),
        "a user may forget a session that is in use"
    );
}
