//! The host as a process: neither its log nor a stray signal nor a closed terminal ends it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use wharf_testkit::client::TestClient;
use wharf_testkit::host::{HostOptions, TestHost};
use wharf_testkit::{WAIT_LIMIT, processes};

use crate::program::{ChildGuard, terminal_command, wharf_command};
use crate::{open_session, scripted_host, start_from_shell, stop_reason};

/// Configures a host that writes to its log at every step.
fn configure_verbose_host(setting: &str) -> Result<(HostOptions, tempfile::TempDir)> {
    start_from_shell(scripted_host(&[])?.with_variable("WHARF_LOG", "trace"), setting)
}

/// Checks that the host runs a turn and then stops in order.
async fn check_turn_and_stop(mut host: TestHost) -> Result<()> {
    let (client, session) = open_session(&host).await?;
    assert_eq!(stop_reason(client.send_prompt(&session, "echo hello").await)?, "end_turn");
    assert!(host.terminate()?.success());
    Ok(())
}

#[tokio::test]
async fn host_works_when_its_log_is_full() -> Result<()> {
    let (options, _folder) = configure_verbose_host("exec 2>/dev/full")?;
    check_turn_and_stop(options.start_host()?).await
}

#[tokio::test]
async fn host_works_when_nobody_reads_its_log_any_more() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let pipe = make_pipe(folder.path())?;
    let reader = open_pipe(&pipe)?;
    let (options, _script) = configure_verbose_host(&format!("exec 2>{}", pipe.display()))?;
    let host = options.start_host()?;
    drop(reader);
    check_turn_and_stop(host).await
}

#[tokio::test]
async fn host_works_when_the_reader_of_its_log_hangs() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let pipe = make_pipe(folder.path())?;
    let mut reader = open_pipe(&pipe)?;
    while reader
        .write(&[b'x'; 4096])
        .map_or_else(|error| error.kind() != ErrorKind::WouldBlock, |_| true)
    {}
    let (options, _script) = configure_verbose_host(&format!("exec 2>{}", pipe.display()))?;
    check_turn_and_stop(options.start_host()?).await
}

fn make_pipe(folder: &Path) -> Result<std::path::PathBuf> {
    let pipe = folder.join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU)?;
    Ok(pipe)
}

/// Opens both ends, so that neither this nor the host's open waits for the other.
fn open_pipe(pipe: &Path) -> Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    Ok(fs::OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags.cast_signed())
        .open(pipe)?)
}

#[tokio::test]
async fn stray_signals_do_not_end_the_host() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let pid = i32::try_from(host.pid()).ok().and_then(Pid::from_raw).context("no pid")?;
    let stray = [
        Signal::HUP,
        Signal::USR1,
        Signal::USR2,
        Signal::XFSZ,
        Signal::XCPU,
        Signal::ALARM,
        Signal::VTALARM,
    ];
    for signal in stray.into_iter().chain([Signal::PROF, Signal::IO, Signal::PIPE]) {
        kill_process(pid, signal)?;
        let answer = stop_reason(client.send_prompt(&session, "echo still here").await);
        assert_eq!(answer.with_context(|| format!("{signal:?}"))?, "end_turn", "{signal:?}");
    }
    check_turn_and_stop(host).await
}

/// Returns the mask of the signals that a process ignores (Linux).
fn ignored_signals(process: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .context("no SigIgn")?;
    Ok(u64::from_str_radix(mask.trim(), 16)?)
}

#[tokio::test]
async fn agents_ignore_no_signal_because_their_host_does() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let agent = crate::parse_pids(&crate::prompt_for_text(&client, &session, "pid").await?);
    let agent = agent.first().context("no pid")?.to_string();
    assert_eq!(ignored_signals(&agent)? & !ignored_signals("self")?, 0);
    Ok(())
}

#[test]
fn sigquit_stops_the_host_in_order() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let pid = i32::try_from(host.pid()).ok().and_then(Pid::from_raw).context("no pid")?;
    kill_process(pid, Signal::QUIT)?;
    assert!(host.wait_exit(WAIT_LIMIT)?.success());
    Ok(())
}

/// Reads a file of a process from `/proc`.
fn proc_file(pid: u32, name: &str) -> Result<String> {
    let bytes = fs::read(format!("/proc/{pid}/{name}"))
        .with_context(|| format!("reading {name} of {pid}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the session that a process is in: 0 for one whose leader is outside of this process
/// namespace, which `getsid` of rustix cannot express.
fn process_session(pid: u32) -> Result<i32> {
    let stat = proc_file(pid, "stat")?;
    let (_, after_name) = stat.rsplit_once(')').context("no name in stat")?;
    Ok(after_name.split_whitespace().nth(3).context("no session in stat")?.parse()?)
}

#[test]
fn ending_the_tree_of_the_starter_leaves_the_host_and_its_sessions_alive() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let home = folder.path().canonicalize()?;
    let state = home.join("state");
    let verb = |arguments: &[&str]| {
        let mut command = wharf_command(arguments);
        command
            .env("WHARF_STATE_DIR", &state)
            .env("WHARF_LISTEN", "127.0.0.1:0")
            .env("HOME", &home);
        command.env("SECRET_OF_THE_STARTER", "x").current_dir("/usr");
        command
    };
    // An editor does it like this: it starts a bridge, which starts a host and stays.
    let mut bridge =
        ChildGuard(verb(&["acp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
    let mut input = bridge.0.stdin.take().context("no stdin")?;
    let mut lines = BufReader::new(bridge.0.stdout.take().context("no stdout")?).lines();
    let mut answer = |method: &str, params: Value| -> Result<Value> {
        let request = serde_json::json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params });
        writeln!(input, "{request}")?;
        loop {
            let frame: Value = serde_json::from_str(&lines.next().context("the bridge ended")??)?;
            if frame["id"] == method {
                return Ok(frame["result"].clone());
            }
        }
    };
    answer("initialize", serde_json::json!({ "protocolVersion": 1, "clientCapabilities": {} }))?;
    let made = answer("session/new", serde_json::json!({ "cwd": home, "mcpServers": [] }))?;
    let session = made["sessionId"].as_str().context("no session")?;
    let status: Value = serde_json::from_slice(&verb(&["status", "--json"]).output()?.stdout)?;
    let host = status["pid"]
        .as_u64()
        .and_then(|pid| u32::try_from(pid).ok())
        .context("no pid")?;
    let _ended = KillOnDrop(host);

    let tree = processes::list_descendants(bridge.0.id());
    assert!(!tree.contains(&host), "the host is below its starter");
    assert_ne!(process_session(host)?, process_session(bridge.0.id())?);
    assert_eq!(fs::read_link(format!("/proc/{host}/cwd"))?, home);
    assert!(!proc_file(host, "environ")?.contains("SECRET_OF_THE_STARTER"));
    tree.iter().for_each(|pid| {
        processes::send_sigkill(*pid);
    });
    drop(bridge);
    assert!(processes::is_alive(host));
    let prompted = verb(&["prompt", session, "echo hello", "--wait"]).output()?;
    assert!(prompted.status.success(), "{}", String::from_utf8_lossy(&prompted.stderr));
    assert!(verb(&["stop"]).output()?.status.success());
    ensure!(processes::wait_gone(&[host], WAIT_LIMIT).is_ok(), "the host does not stop");
    Ok(())
}

/// Ends a process that is not a child of the test.
struct KillOnDrop(u32);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        processes::send_sigkill(self.0);
    }
}

#[tokio::test]
async fn closing_the_terminal_does_not_end_the_host() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let state = folder.path().join("state");
    let agent = wharf_testkit::program::find_scripted_agent()?;
    let line = format!(
        "echo $$; exec {} serve --json --listen 127.0.0.1:0 --state-dir {} --agent-cmd {}",
        crate::wharf_binary().display(),
        state.display(),
        agent.display()
    );
    let mut command = terminal_command(&line);
    command.env("WHARF_LOG", "trace").env("HOME", folder.path());
    let mut terminal = ChildGuard(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?);
    let mut lines = BufReader::new(terminal.0.stdout.take().context("no stdout")?)
        .lines()
        .map_while(Result::ok);
    let pid: u32 = lines.next().context("no line")?.trim().parse()?;
    let _ended = KillOnDrop(pid);
    let listening = lines
        .find(|line| line.starts_with('{'))
        .context("the host did not say that it listens")?;
    let listening: Value = serde_json::from_str(&listening)?;
    drop(lines);
    drop(terminal);

    let url = listening["url"].as_str().context("no url")?.replacen("http", "ws", 1);
    let token = fs::read_to_string(state.join("token"))?;
    let client = TestClient::connect(&format!("{url}/acp"), token.trim()).await?;
    client.initialize().await?;
    let session = client.new_session(folder.path().to_str().context("not UTF-8")?).await?;
    assert_eq!(stop_reason(client.send_prompt(&session, "echo hello").await)?, "end_turn");
    processes::send_sigterm(pid);
    ensure!(processes::wait_gone(&[pid], WAIT_LIMIT).is_ok(), "the host does not stop");
    Ok(())
}
