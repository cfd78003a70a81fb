//! Each finding at its edge; the whole of it is shown end to end.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use wharf_config::{Config, SandboxMode};
use wharf_host::KeeperReport;
use wharf_host::sandbox::SandboxSupport;

use super::{Level, agents, keepers, state, system};

fn levels(findings: &[super::Finding], check: &str) -> Vec<Level> {
    findings
        .iter()
        .filter(|finding| finding.check == check)
        .map(|finding| finding.level)
        .collect()
}

#[test]
fn a_sandbox_that_cannot_be_had_is_broken_only_where_it_is_asked_for() {
    let none = SandboxSupport::None("this kernel has no Landlock".to_owned());
    let mut config = Config::default();
    assert_eq!(system::check_sandbox_support(&config, &none).level, Level::Note);
    assert_eq!(
        system::check_sandbox_support(&config, &SandboxSupport::Landlock { abi: 3 }).level,
        Level::Ok
    );
    config.sandbox.mode = Some(SandboxMode::Landlock);
    let finding = system::check_sandbox_support(&config, &none);
    assert_eq!(finding.level, Level::Broken);
    assert!(finding.says.contains("no Landlock") && finding.advice.is_some(), "{finding:?}");
}

#[test]
fn open_files_and_free_space_are_judged() {
    let config = Config::default();
    let files = |most| system::check_open_file_limit(&config, most).level;
    assert_eq!([files(None), files(Some(65_536))], [Level::Ok; 2]);
    assert_eq!([files(Some(1_024)), files(Some(256))], [Level::Note, Level::Warning]);
    let space = |free| state::judge_space(Path::new("/x"), free).level;
    assert_eq!(
        [space(1 << 40), space(500 << 20), space(0)],
        [Level::Ok, Level::Warning, Level::Broken]
    );
}

#[test]
fn a_state_directory_that_others_can_read_is_told_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    assert_eq!(levels(&state::check_state_dir(&state), "state"), [Level::Note], "not there yet");
    std::fs::create_dir(&state).unwrap();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap()
    };
    mode(&state, 0o700);
    std::fs::write(state.join("token"), "x").unwrap();
    mode(&state.join("token"), 0o600);
    let well = state::check_state_dir(&state);
    assert_eq!(levels(&well, "state"), [Level::Ok]);
    assert_eq!(levels(&well, "disk").len(), 1);
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 1, "nothing is left behind");
    mode(&state, 0o755);
    mode(&state.join("token"), 0o644);
    let open = state::check_state_dir(&state);
    assert_eq!(levels(&open, "state"), [Level::Warning, Level::Broken]);
    let advice: Vec<String> = open.iter().filter_map(|finding| finding.advice.clone()).collect();
    assert!(advice.iter().any(|advice| advice.starts_with("chmod 700")), "{advice:?}");
    assert!(advice.iter().any(|advice| advice.ends_with("/token")), "{advice:?}");
}

#[test]
fn a_state_directory_that_is_none_and_one_too_deep_for_a_socket_are_broken() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert_eq!(levels(&state::check_state_dir(&file), "state"), [Level::Broken]);
    assert_eq!(
        levels(&state::check_state_dir(&dir.path().join("x".repeat(100))), "socket"),
        [Level::Broken]
    );
}

#[test]
fn a_default_agent_that_is_not_there_is_told() {
    let level = |name: &str| {
        let config = Config {
            default_agent: name.to_owned(),
            program: "/bin/sh".into(),
            ..Config::default()
        };
        levels(&agents::check_agents(&config), "default agent")
    };
    assert_eq!(level("demo"), [Level::Ok]);
    assert_eq!(level("nobody"), [Level::Broken]);
}

#[test]
fn old_keepers_and_stale_sockets_are_named() {
    assert_eq!(keepers::judge_keepers(&KeeperReport::default(), "2"), []);
    let versions = ["1", "1", "2"].map(str::to_owned).to_vec();
    let report = KeeperReport {
        versions,
        stale_sockets: vec![Path::new("/s/run/keepers-1/7").to_owned()],
    };
    let findings = keepers::judge_keepers(&report, "2");
    assert_eq!(levels(&findings, "keepers"), [Level::Ok, Level::Note, Level::Note]);
    let says: Vec<&str> = findings.iter().map(|finding| finding.says.as_str()).collect();
    let expected = [
        "3 agents outlive their host",
        "2 keepers are of another version (1): old keepers run the old program until their agents end",
        "1 socket of keepers that are gone, such as /s/run/keepers-1/7",
    ];
    assert_eq!(says, expected);
}
