//! Opening sessions without a task.

use tempfile::TempDir;
use wharf_config::ConfigSources;
use wharf_core::SessionId;
use wharf_testkit::cold_sessions::ColdSessions;

use super::Host;
use crate::registry::KnownSession;

/// The number of events of the session, so that reading its log takes a while.
const EVENTS: usize = 2_000;

#[tokio::test]
async fn open_whose_caller_gives_up_lets_no_other_begin_before_its_task_is_known() {
    let dir = TempDir::new().unwrap();
    let cold = ColdSessions {
        count: 1,
        agent: "scripted",
        cwd: dir.path(),
        events: EVENTS,
        waiting: None,
    };
    let ids = cold.write_to(&dir.path().join("state")).unwrap();
    let sources = ConfigSources::new(Some(dir.path().join("config.toml")), false, &[]).unwrap();
    let mut config = sources.load().unwrap();
    config.state_dir = dir.path().join("state");
    let host = Host::start(config).unwrap();
    let id = SessionId::new(ids[0].as_str());
    tokio::select! {
        biased;
        _ = host.open(&id) => panic!("it is open at once"),
        () = std::future::ready(()) => {}
    }
    let _one = host.inner.locks.opening.lock().await;
    let known = host.inner.registry.get(&id);
    assert!(matches!(known, Some(KnownSession::Live(_))), "another caller would open it again");
}
