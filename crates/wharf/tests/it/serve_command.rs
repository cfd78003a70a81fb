//! `wharf serve` as a process: its output, its files, its refusals and its exit.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use wharf_testkit::host::HostOptions;
use wharf_testkit::pauses::PauseWatch;
use wharf_testkit::processes;

use crate::program::{run_failing_serve, start_and_read_line, wharf_command};
use crate::{
    EXIT_LIMIT, HOST_STOPS_WITHIN, log, open_session, parse_pids, prompt_for_text, scripted_host,
    wharf_binary,
};

const FREE_PORT: &str = "127.0.0.1:0";

fn file_mode(path: &Path) -> Result<u32> {
    let metadata = fs::metadata(path).with_context(|| format!("looking at {}", path.display()))?;
    Ok(metadata.permissions().mode() & 0o777)
}

#[tokio::test]
async fn json_output_is_one_line_with_the_addresses() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    client.send_prompt(&session, "echo hi").await?;
    let line = host.listening_line().clone();
    let mut keys: Vec<&String> = line.as_object().context("not an object")?.keys().collect();
    keys.sort();
    assert_eq!(keys, ["event", "socket", "tokenFile", "url"]);
    assert!(host.url().starts_with("http://127.0.0.1:"));
    assert!(Path::new(line["socket"].as_str().unwrap_or_default()).is_absolute());
    assert!(host.terminate()?.success());
    assert_eq!(host.read_stdout(), format!("{line}\n"), "nothing else on stdout");
    assert!(!host.socket_path().exists(), "the socket goes with the host");
    Ok(())
}

#[test]
fn text_output_names_the_next_step() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut serve = wharf_command(&["serve", "--listen", FREE_PORT, "--state-dir"]);
    serve.arg(folder.path().join("state"));
    let (host, line) = start_and_read_line(serve)?;
    assert!(line.starts_with("wharf is listening on http://127.0.0.1:"), "{line}");
    drop(host);
    Ok(())
}

#[tokio::test]
async fn state_is_private() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    client.send_prompt(&session, "echo hi").await?;
    let state = host.state_dir();
    assert_eq!(file_mode(&state)?, 0o700);
    assert_eq!(file_mode(&state.join("token"))?, 0o600);
    assert_eq!(file_mode(&host.socket_path())?, 0o600);
    let mut open_to_others = Vec::new();
    let mut folders = vec![state.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            if file_mode(&path)? & 0o077 != 0 {
                open_to_others.push(format!(
                    "{} {:o}",
                    path.strip_prefix(&state)?.display(),
                    file_mode(&path)?
                ));
            }
        }
    }
    open_to_others.sort();
    assert_eq!(open_to_others, [""; 0], "others may read these");
    Ok(())
}

#[test]
fn the_token_and_the_sessions_outlive_a_restart_and_the_port_does_not_matter() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let token = host.token().to_owned();
    assert!(token.len() >= 32);
    assert!(host.terminate()?.success());
    host.restart()?;
    assert_eq!(host.token(), token);
    Ok(())
}

#[test]
fn a_second_host_on_the_same_state_is_refused_with_the_pid_of_the_first() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let error = run_failing_serve(&host.state_dir(), &["--listen", FREE_PORT])?;
    assert!(error.contains(&format!("pid {}", host.pid())), "{error}");
    assert!(error.contains(&host.state_dir().display().to_string()), "{error}");
    assert!(host.socket_path().exists(), "the first host still has its socket");
    // A dead host does not block the next one.
    host.kill()?;
    host.restart()
}

#[test]
fn wrong_flags_and_settings_are_named() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let state = folder.path().join("state");
    let config = folder.path().join("config.toml");
    let taken = TcpListener::bind(FREE_PORT)?;
    let taken = taken.local_addr()?.to_string();
    let path = config.display().to_string();
    let at = ["--config", &path, "--listen", FREE_PORT];
    for (text, arguments, words) in [
        (
            "cancel_timout = \"1s\"",
            &at[..],
            &["config.toml", "cancel_timout", "did you mean \"cancel_timeout\""][..],
        ),
        ("[limits]\nframes = \"1MiB\"", &at, &["limits.frames", "limits.frame"]),
        ("[agents.x]\ncomand = [\"a\"]", &at, &["agents.x.comand"]),
        (
            "default_agent = \"claud\"\n[agents.claude]\ncommand = [\"c\"]",
            &at,
            &["\"claud\"", "\"claude\""],
        ),
        ("ask_timeout = 5", &at, &["config.toml"]),
        ("not toml at all", &at, &["config.toml"]),
        ("", &["--config", "/no/such/file.toml"], &["/no/such/file.toml"]),
        ("", &["--listen", FREE_PORT, "--agent", "dmo"], &["\"dmo\"", "\"demo\""]),
        ("", &["--listen", FREE_PORT, "--agent-cmd", ""], &["--agent-cmd"]),
        ("", &["--listen", FREE_PORT, "--agent-cmd", "a 'b"], &["--agent-cmd", "quote"]),
        ("", &["--listen", "0.0.0.0:0"], &["0.0.0.0:0", "loopback"]),
        ("", &["--listen", "[::]:0"], &["loopback"]),
        ("", &["--listen", "nonsense"], &["nonsense", "127.0.0.1:0", "--listen"]),
        ("", &["--listen", &taken], &[&taken, "listen"]),
        ("", &["--no-such-flag"], &["--no-such-flag"]),
    ] {
        fs::write(&config, text)?;
        let error = run_failing_serve(&state, arguments)?;
        for word in words {
            assert!(error.contains(word), "{text:?} {arguments:?}: no {word:?} in\n{error}");
        }
    }
    let file = folder.path().join("file");
    fs::write(&file, "")?;
    let error = run_failing_serve(&file, &["--listen", FREE_PORT])?;
    assert!(error.contains(&file.display().to_string()), "{error}");
    Ok(())
}

#[tokio::test]
async fn sigterm_ends_the_host_well_with_a_turn_running() -> Result<()> {
    let mut host = scripted_host(&[])?.without_keepers(crate::TURN_IS_CUT).start_host()?;
    let (client, session) = open_session(&host).await?;
    let running = client.start_prompt(&session, "echo on it; hang").await;
    client.expect_text("on it").await;
    assert!(host.terminate()?.success());
    // The sender gets an answer, or at least the end of the connection.
    if let Some(answer) = running.wait_answer_or_lost().await {
        assert_eq!(crate::expect_error(answer)?.data["reason"], "host_shutdown");
    }
    let ends = log::list_events(&host, &session, "prompt_ended")?;
    let ends: Vec<&Value> = ends.iter().map(|event| &event["end"]["how"]).collect();
    assert_eq!(ends, ["host_shutdown"]);
    host.restart()?;
    let loaded = crate::join_session(&host, &session).await?;
    assert_eq!(loaded.chunk_texts(), ["on it"]);
    assert_eq!(
        log::list_events(&host, &session, "ended")?.len(),
        1,
        "a clean end is not ended again"
    );
    Ok(())
}

#[test]
fn ctrl_c_ends_the_host_well_too() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let pid = i32::try_from(host.pid()).ok().and_then(Pid::from_raw).context("no pid")?;
    let pauses = PauseWatch::start();
    kill_process(pid, Signal::INT)?;
    assert!(host.wait_exit(EXIT_LIMIT)?.success());
    pauses.expect_within(HOST_STOPS_WITHIN, "the stop of the host")?;
    Ok(())
}

#[tokio::test]
async fn a_second_sigterm_ends_the_host_at_once_and_its_agents_soon() -> Result<()> {
    let mut host = scripted_host(&["--ignore-term", "--ignore-eof"])?
        .without_keepers(crate::PROCESSES_END)
        .start_host()?;
    let (client, session) = open_session(&host).await?;
    let mut tree = parse_pids(&prompt_for_text(&client, &session, "spawn").await?);
    tree.extend(processes::list_descendants(host.pid()));
    processes::send_sigterm(host.pid());
    assert!(client.wait_closed().await.starts_with("closed 1001"));
    let pauses = PauseWatch::start();
    processes::send_sigterm(host.pid());
    let status = host.wait_exit(EXIT_LIMIT)?;
    // A host that gives its agents their five seconds ends with 0.
    assert_eq!(status.code(), Some(130));
    assert_eq!(processes::wait_gone(&tree, EXIT_LIMIT), Ok(()));
    pauses.expect_within(HOST_STOPS_WITHIN, "the end of host and agents")?;
    Ok(())
}

#[tokio::test]
async fn the_agent_command_of_the_command_line_is_the_default_agent() -> Result<()> {
    let agent = wharf_testkit::program::find_scripted_agent()?;
    let line = format!("'{}' --session-id 'with blank'", agent.display());
    let options = HostOptions { binary: Some(wharf_binary()), ..HostOptions::default() };
    let host = options.with_argument("--agent-cmd").with_argument(&line).start_host()?;
    let (client, session) = open_session(&host).await?;
    assert_eq!(prompt_for_text(&client, &session, "echo hi").await?, "hi");
    let started = log::list_events(&host, &session, "agent_started")?;
    assert_eq!(started[0]["agent_session"], "with blank");
    Ok(())
}

#[tokio::test]
async fn an_agent_gets_its_own_environment() -> Result<()> {
    let agent = wharf_testkit::program::find_scripted_agent()?.display().to_string();
    let options = scripted_host(&[])?.with_agent("mine", &[agent]);
    let host = crate::add_section(options, "env = { GREETING = \"hello there\" }")
        .with_variable("FROM_HOST", "1")
        .start_host()?;
    let client = crate::connect_client_of(&host, "mine").await?;
    let session = client.new_session(&crate::cwd(&host)?).await?;
    assert_eq!(prompt_for_text(&client, &session, "env GREETING").await?, "GREETING=hello there");
    assert_eq!(prompt_for_text(&client, &session, "env FROM_HOST").await?, "FROM_HOST=1");
    Ok(())
}

#[tokio::test]
async fn the_limit_of_sessions_is_named_and_an_ended_one_makes_room() -> Result<()> {
    let host = crate::add_section(scripted_host(&[])?, "[limits]\nsessions = 1").start_host()?;
    let (client, session) = open_session(&host).await?;
    let error = crate::expect_error(client.new_session(&crate::cwd(&host)?).await)?;
    assert!(error.message.contains("limits.sessions"), "{error}");
    let _ = client.send_prompt(&session, "crash").await;
    log::expect_event(&host, &session, "ended", |_| true).await?;
    client.new_session(&crate::cwd(&host)?).await?;
    Ok(())
}
