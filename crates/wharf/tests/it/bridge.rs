//! `wharf acp`: an editor on one side, and a host on the other side that may stop and come back.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::agent_pipe::{AgentPipe, chunk_text, joined_text};
use wharf_testkit::host::TestHost;
use wharf_testkit::random::TestRandom;
use wharf_testkit::{WAIT_LIMIT, processes};

use crate::{cwd, join_session, log, open_session, scripted_host, wharf_binary};

/// Starts the bridge to this host as an editor would.
pub(crate) fn start_editor(host: &TestHost, arguments: &[&str]) -> Result<AgentPipe> {
    let state_dir = host.state_dir();
    let state_dir = state_dir.to_str().context("the directory is not UTF-8")?;
    AgentPipe::start(
        &wharf_binary(),
        &[&["acp", "--no-start", "--state-dir", state_dir], arguments].concat(),
        &[],
    )
}

/// Returns the `session/update` lines that the editor received, unchanged.
fn list_updates(editor: &AgentPipe) -> Vec<String> {
    let lines = editor.received.iter().map(|line| String::from_utf8_lossy(line).into_owned());
    lines.filter(|line| line.contains(r#""session/update""#)).collect()
}

/// Updates in unusual but legal spellings, each with a different form of `_meta`.
const ODD_UPDATES: &[&str] = &[
    r#"{"jsonrpc":"2.0","method":"session/update","params":{"_meta":{},"sessionId":"$SESSION","update":{"sessionUpdate":"plan","entries":[]}}}"#,
    r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"$SESSION","_meta":{ },"update":{"sessionUpdate":"plan","entries":[]}}}"#,
    r#"{ "params" : { "update":{"sessionUpdate":"novel","x":1.10,"y":18446744073709551616}, "sessionId":"$SESSION", "_meta":{"wharf":{"eventId":"9-9"}} } , "method":"session/update","jsonrpc":"2.0" }"#,
    r#"{"jsonrpc":"2.0","method":"session/update","params":{"_meta":{"wharf":{"eventId":"1-1"}},"sessionId":"$SESSION","update":{"sessionUpdate":"turn_complete","é":"\u00e9\ud83d\ude00"}}}"#,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_editor_gets_the_very_bytes_that_a_websocket_client_gets() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let mut editor = start_editor(&host, &[])?;
    let session = editor.open_session()?;
    let direct = join_session(&host, &session).await?;
    for script in ["echo one; think two; plan; tool; unknown-update; usage", "stream 200 64"] {
        assert_eq!(editor.send_prompt(&session, script)?.0["result"]["stopReason"], "end_turn");
    }
    for line in ODD_UPDATES {
        editor.send_prompt(&session, &format!("raw {line}"))?;
    }
    editor.send_prompt(&session, "echo the end")?;
    direct.expect_text("the end").await;
    let seen = direct
        .received_frames()
        .into_iter()
        .filter(|frame| frame.body.get("method").is_some());
    let seen: Vec<String> = seen
        .map(|frame| frame.raw)
        .filter(|raw| !raw.contains("user_message_chunk"))
        .collect();
    let lines: Vec<String> = editor
        .received
        .iter()
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect();
    let lines: Vec<String> =
        lines.into_iter().filter(|line| line.contains(r#""method":"#)).collect();
    for (line, frame) in lines.iter().zip(&seen) {
        assert_eq!(line, frame);
    }
    assert_eq!(lines.len(), seen.len());
    let odd = format!(
        r#"{{ "id" : 12345678901234567890.50 ,"params":{{"sessionId":"{session}","n":1.10,"_meta":{{"a":[ ]}}}},"method":"_echo","jsonrpc":"2.0"}}"#
    );
    editor.send_line(odd.as_bytes())?;
    let echoed = editor.next_line()?.context("stdout ended")?;
    direct.send_raw(&odd).await;
    let frame = direct
        .expect("the echo", |frame| frame.raw.contains("12345678901234567890.50"))
        .await;
    assert_eq!(String::from_utf8_lossy(&echoed), frame.raw);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_stdin_ends_the_bridge_and_the_session_lives_on() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let mut editor = start_editor(&host, &[])?;
    let session = editor.open_session()?;
    editor.start_prompt(&session, "echo begun; wait; echo finished")?;
    editor.expect("the first chunk", |message| chunk_text(message) == "begun")?;
    editor.close_stdin();
    assert!(editor.wait_exit()?.success());
    let other = join_session(&host, &session).await?;
    other.send_notification("_go", json!({ "sessionId": session })).await;
    other.expect_text("finished").await;
    let status = other.call_method("session/status", json!({ "sessionId": session })).await?;
    assert_eq!(status["status"], "live");
    Ok(())
}

#[test]
fn pending_response_is_written_after_stdin_is_closed() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let mut editor = start_editor(&host, &[])?;
    let asked = editor.start_request("initialize", json!({ "protocolVersion": 1 }))?;
    editor.close_stdin();
    assert_eq!(editor.wait_response(asked)?["result"]["protocolVersion"], 1);
    assert!(editor.wait_exit()?.success());
    Ok(())
}

#[tokio::test]
async fn session_new_returns_the_session_named_on_the_command_line() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (_client, session) = open_session(&host).await?;
    let mut editor = start_editor(&host, &["--session", &session])?;
    editor.call_method("initialize", json!({ "protocolVersion": 1 }))?;
    let opened =
        editor.call_method("session/new", json!({ "cwd": cwd(&host)?, "mcpServers": [] }))?;
    assert_eq!(opened["sessionId"], session.as_str());
    assert_eq!(opened["modes"]["currentModeId"], "ask");
    let (answer, said) = editor.send_prompt(&session, "echo joined")?;
    assert_eq!(
        (answer["result"]["stopReason"].as_str(), joined_text(&said)),
        (Some("end_turn"), "joined".to_owned())
    );
    Ok(())
}

#[test]
fn bridge_without_host_and_autostart_explains_the_failure() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let arguments = ["acp", "--no-start", "--state-dir"];
    let output = crate::program::wharf_command(&arguments).arg(folder.path()).output()?;
    assert!(!output.status.success());
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(words.contains("no host is running") && words.contains("wharf serve"), "{words}");
    assert!(output.stdout.is_empty());
    Ok(())
}

/// Starts a bridge that has to start its own host, in a state directory of its own.
fn start_bridge_with_own_host(folder: &Path) -> Result<AgentPipe> {
    let state_dir = folder.join("state");
    let arguments =
        ["acp", "--state-dir", state_dir.to_str().context("the directory is not UTF-8")?];
    let demo = folder.join("demo");
    let environment = [
        ("WHARF_LISTEN", Path::new("127.0.0.1:0")),
        ("HOME", folder),
        ("WHARF_DEMO_STATE", &demo),
        (processes::MARK_VARIABLE, folder),
    ];
    AgentPipe::start(&wharf_binary(), &arguments, &environment)
}

/// Stops the host of that directory, with its agents, when the test ends, passed or failed.
struct StopHostOnDrop<'a>(&'a Path);

impl StopHostOnDrop<'_> {
    fn pid(&self) -> Option<u32> {
        std::fs::read_to_string(self.0.join("state/host.lock"))
            .ok()?
            .trim()
            .parse()
            .ok()
    }
}

impl Drop for StopHostOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(pid) = self.pid() {
            processes::send_sigterm(pid);
            let _ = processes::wait_gone(&[pid], WAIT_LIMIT);
        }
        let _ = processes::kill_marked(self.0, WAIT_LIMIT);
    }
}

#[test]
fn two_bridges_at_once_start_one_host_which_outlives_them() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let host = StopHostOnDrop(folder.path());
    let mut both =
        [start_bridge_with_own_host(folder.path())?, start_bridge_with_own_host(folder.path())?];
    for editor in &mut both {
        let session = editor.open_session()?;
        let (_, said) = editor.send_prompt(&session, "echo here")?;
        assert_eq!(joined_text(&said), "here");
    }
    let listed = both[0].call_method("session/list", json!({}))?;
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(2), "not one host: {listed}");
    for editor in &mut both {
        editor.close_stdin();
        assert!(editor.wait_exit()?.success());
    }
    ensure!(host.pid().is_some_and(processes::is_alive), "the host went with the bridge");
    let mut later = start_bridge_with_own_host(folder.path())?;
    later.call_method("initialize", json!({ "protocolVersion": 1 }))?;
    let listed = later.call_method("session/list", json!({}))?;
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(2));
    Ok(())
}

#[test]
fn a_host_that_cannot_start_is_explained_by_its_log() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("config.toml");
    std::fs::write(&config, "no_such_setting = 1\n")?;
    let mut command = crate::program::wharf_command(&["acp", "--state-dir"]);
    command.arg(folder.path().join("state")).arg("--config").arg(config);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut bridge = command.spawn()?;
    // The request keeps the bridge busy: without work it would exit as soon as stdin is closed.
    let line = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{}}\n";
    bridge.stdin.take().context("no stdin")?.write_all(line.as_bytes())?;
    let output = bridge.wait_with_output()?;
    assert!(!output.status.success());
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(words.contains("no_such_setting") && words.contains("host.log"), "{words}");
    Ok(())
}

#[test]
fn a_permission_of_an_agent_that_went_with_the_host_is_withdrawn() -> Result<()> {
    let mut host =
        scripted_host(&["--resume"])?.without_keepers(crate::TURN_IS_CUT).start_host()?;
    let mut editor = start_editor(&host, &[])?;
    let session = editor.open_session()?;
    let cut = editor.start_prompt(&session, "ask")?;
    let asked = editor
        .expect("the permission", |message| message["method"] == "session/request_permission")?;
    host.restart()?;
    let withdrawn =
        editor.expect("its withdrawal", |message| message["method"] == "$/cancel_request")?;
    assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
    assert_eq!(editor.wait_response(cut)?["error"]["data"]["reason"], "host_restarted");
    // No agent waits for this answer any more.
    editor.send_result(
        &asked["id"],
        json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } }),
    )?;
    let again = editor.start_prompt(&session, "ask")?;
    let asked_again =
        editor.expect("another", |message| message["method"] == "session/request_permission")?;
    ensure!(asked_again["id"] != asked["id"], "an id came back");
    editor.send_result(
        &asked_again["id"],
        json!({ "outcome": { "outcome": "selected", "optionId": "reject_once" } }),
    )?;
    editor.expect("the choice", |message| chunk_text(message) == "chosen: reject_once")?;
    assert_eq!(editor.wait_response(again)?["result"]["stopReason"], "end_turn");
    Ok(())
}

const HOST_KILLS: u32 = 10;
/// More updates than all pipes and buffers on the way hold, so that the host dies with many updates
/// that it has not sent.
const STREAM_UPDATES: u64 = 8_000;

#[test]
fn ten_kills_of_the_host_leave_no_gap_and_no_duplicate() -> Result<()> {
    let reason = "a turn that hangs has to be cut, and its editor is told so";
    kill_host_ten_times(scripted_host(&["--resume"])?.without_keepers(reason).start_host()?, true)
}

#[test]
fn ten_kills_of_the_host_leave_no_gap_and_no_duplicate_while_the_agent_goes_on() -> Result<()> {
    kill_host_ten_times(scripted_host(&["--resume"])?.start_host()?, false)
}

/// Kills the host amid turns; `cuts_turns` says whether the agent ends with it.
fn kill_host_ten_times(mut host: TestHost, cuts_turns: bool) -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    let mut editor = start_editor(&host, &[])?;
    let session = editor.open_session()?;
    let mut prompts = Vec::new();
    for round in 0..HOST_KILLS {
        let whole = editor.start_prompt(&session, "stream 40 30")?;
        assert_eq!(editor.wait_response(whole)?["result"]["stopReason"], "end_turn");
        let cut = start_interrupted_turn(&mut host, &mut editor, (&session, cuts_turns), &mut dice);
        prompts.push(whole);
        prompts.extend(cut.with_context(|| format!("round {round}"))?);
    }
    let (last, said) = editor.send_prompt(&session, "echo and on it goes")?;
    assert_eq!(last["result"]["stopReason"], "end_turn");
    assert_eq!(joined_text(&said), "and on it goes");
    let answered = list_answered_requests(&editor);
    for prompt in &prompts {
        let answers = answered.iter().filter(|id| *id == prompt).count();
        assert_eq!(answers, 1, "answers to prompt {prompt}");
    }
    check_transcript(&host, &session, &editor)
}

/// Starts one turn that the kill may interrupt and one prompt that waits behind it. Returns their
/// requests.
fn start_interrupted_turn(
    host: &mut TestHost,
    editor: &mut AgentPipe,
    (session, cuts_turns): (&str, bool),
    dice: &mut TestRandom,
) -> Result<[u64; 2]> {
    let kill_at = dice.next_below(STREAM_UPDATES / 4);
    // A hanging turn is interrupted for certain. A turn that was never seen to begin may not have
    // been accepted.
    let is_cut = cuts_turns && dice.next_below(4) > 0;
    let script = if is_cut {
        format!("stream {STREAM_UPDATES}; hang")
    } else {
        format!("stream {STREAM_UPDATES}")
    };
    let running = editor.start_prompt(session, &script)?;
    let waiting = editor.start_prompt(session, "echo waited")?;
    if is_cut || !cuts_turns {
        for _ in 0..=kill_at {
            editor.expect("a chunk", |message| !chunk_text(message).is_empty())?;
        }
    }
    host.restart()?;
    // The two answers may come in either order: the host looks up the end of the first prompt in
    // the log meanwhile.
    for _ in 0..2 {
        let answer = editor.expect("an answer", |message| {
            message.get("method").is_none()
                && (message["id"] == running || message["id"] == waiting)
        })?;
        if answer["id"] == running && (is_cut || (cuts_turns && answer.get("error").is_some())) {
            assert_eq!(answer["error"]["data"]["reason"], "host_restarted", "{answer}");
        } else {
            assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        }
    }
    Ok([running, waiting])
}

/// Returns the ids of the requests that the editor got answers to, in the order of the answers.
fn list_answered_requests(editor: &AgentPipe) -> Vec<u64> {
    let messages = editor
        .received
        .iter()
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    messages
        .filter(|message| message.get("method").is_none())
        .filter_map(|message| message["id"].as_u64())
        .collect()
}

/// Checks that the editor received exactly the events of the log, in their order and once each.
fn check_transcript(host: &TestHost, session: &str, editor: &AgentPipe) -> Result<()> {
    let shown: Vec<Value> = list_updates(editor)
        .iter()
        .map(|line| serde_json::from_str(line))
        .collect::<Result<_, _>>()?;
    let logged: Vec<Value> = log::list_events(host, session, "agent_updated")?
        .into_iter()
        .map(|mut event| event["frame"].take())
        .collect();
    let first = shown.iter().zip(&logged).position(|(shown, logged)| shown != logged);
    if let Some(at) = first {
        anyhow::bail!("update {at} was shown as {} and is {}", shown[at], logged[at]);
    }
    assert_eq!(shown.len(), logged.len());
    let ends = log::list_events(host, session, "prompt_ended")?;
    let accepted = log::list_events(host, session, "prompt_accepted")?;
    assert_eq!(ends.len(), accepted.len());
    Ok(())
}
