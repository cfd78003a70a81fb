//! The harness, with a replacement of the real binary: a script that prints the line and waits.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;
use wharf_testkit::host::{HostOptions, TestHost};
use wharf_testkit::processes;

/// Prints the line of a listening host, with its own arguments as the socket; exits on SIGTERM.
const STAND_IN: &str = r#"#!/bin/sh
while [ "$1" != --state-dir ]; do shift; done
mkdir -p "$2"; echo secret > "$2/token"; echo "some trouble" >&2
echo "{\"event\":\"listening\",\"url\":\"http://127.0.0.1:1\",\"socket\":\"$2/socket\",\"tokenFile\":\"$2/token\"}"
exec tail -f /dev/null
"#;

fn stand_in(folder: &Path, script: &str) -> Result<PathBuf> {
    let path = folder.join("wharf");
    fs::write(&path, script)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

#[test]
fn a_host_is_started_killed_restarted_and_cleaned_up() -> Result<()> {
    let folder = TempDir::new()?;
    let options = HostOptions {
        binary: Some(stand_in(folder.path(), STAND_IN)?),
        ..HostOptions::default()
    };
    let mut host = options
        .with_setting("default_agent", "x")
        .with_agent("x", &["a \"b\"".to_owned()])
        .start_host()?;
    assert_eq!(host.ws_url(), "ws://127.0.0.1:1/acp");
    assert_eq!(host.token(), "secret");
    assert_eq!(host.socket_path(), host.state_dir().join("socket"));
    let config = fs::read_to_string(host.directory().join("config.toml"))?;
    assert_eq!(config, "default_agent = \"x\"\n\n[agents.x]\ncommand = [\"a \\\"b\\\"\"]\n");
    let first = host.pid();
    host.restart()?;
    assert!(!processes::is_alive(first) && host.pid() != first);
    assert!(host.rss_kib().is_some() && host.cpu_time().is_some());
    assert_eq!(host.read_stderr(), "some trouble\n");
    assert!(host.read_stdout().contains("listening"));
    assert!(!host.terminate()?.success());
    host.restart()?;
    let last = host.pid();
    drop(host);
    assert!(!processes::is_alive(last));
    Ok(())
}

#[test]
fn a_host_that_does_not_start_is_reported_with_its_stderr() -> Result<()> {
    let folder = TempDir::new()?;
    let script = "#!/bin/sh\necho 'no such flag' >&2\nexit 2\n";
    let options = HostOptions {
        binary: Some(stand_in(folder.path(), script)?),
        ..HostOptions::default()
    };
    let error = format!("{:?}", options.start_host().err().context("it started")?);
    assert!(
        error.contains("no such flag") && error.contains("did not say that it listens"),
        "{error}"
    );
    Ok(())
}

/// Leaves a process of its own group behind when it is killed, with a child that has emptied its
/// environment. The pids of both are in the file `left`.
const LEAVING_STAND_IN: &str = r#"#!/bin/sh
while [ "$1" != --state-dir ]; do shift; done
mkdir -p "$2"; echo secret > "$2/token"; mkfifo "$2/ready"
setsid sh -c 'env -i tail -f /dev/null & echo $$ $! > "$1/left"; : > "$1/ready"; wait' sh "$2" &
: < "$2/ready"
echo "{\"event\":\"listening\",\"url\":\"http://127.0.0.1:1\",\"socket\":\"$2/socket\",\"tokenFile\":\"$2/token\"}"
exec tail -f /dev/null
"#;

fn left_processes(host: &TestHost) -> Result<Vec<u32>> {
    let pids = fs::read_to_string(host.state_dir().join("left"))?;
    Ok(pids.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
}

#[test]
fn processes_that_outlive_the_host_end_with_the_test_passed_or_failed() -> Result<()> {
    let folder = TempDir::new()?;
    let options = HostOptions {
        binary: Some(stand_in(folder.path(), LEAVING_STAND_IN)?),
        ..HostOptions::default()
    };
    let mut host = options.clone().start_host()?;
    let left = left_processes(&host)?;
    host.kill()?;
    assert!(left.len() == 2 && left.iter().all(|pid| processes::is_alive(*pid)), "{left:?}");
    drop(host);
    assert!(!left.iter().any(|pid| processes::is_alive(*pid)), "{left:?}");

    let host = options.start_host()?;
    let left = left_processes(&host)?;
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _host = host;
        panic!("the test fails");
    }));
    assert!(failed.is_err());
    assert!(!left.iter().any(|pid| processes::is_alive(*pid)), "{left:?}");
    Ok(())
}
