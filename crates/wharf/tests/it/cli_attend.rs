//! The process that looks after a turn which its terminal has left, and the signals that end it.

use std::path::Path;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::sync::mpsc::{Receiver, channel};
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;
use wharf_testkit::{WAIT_LIMIT, polling, processes};

use crate::cli::start_kept_session;
use crate::cli_detach::{last_answer, only_session, wait_for_end};
use crate::host_relay::{CallFate, HostRelay};
use crate::program::{ChildGuard, wharf_command};
use crate::scripted_host;
use crate::terminal::TestTerminal;

/// Starts an attendant for the host of this state directory.
fn start_attendant(state_dir: &Path, options: &[&str]) -> Result<ChildGuard> {
    let mut command = wharf_command(&["__attend", "--no-start", "--state-dir"]);
    command.arg(state_dir).args(["--agent=scripted"]).args(options);
    Ok(ChildGuard(command.spawn()?))
}

/// Waits until the attendant catches the signal.
async fn wait_until_caught(attendant: &ChildGuard, signal: Signal) -> Result<()> {
    let pid = attendant.0.id();
    let is_ready = || catches_signal(pid, signal).map(|is_caught| is_caught.then_some(()));
    polling::poll_until(WAIT_LIMIT, is_ready)
        .await?
        .context("the attendant does not catch the signal")
}

/// Returns true if the process catches the signal.
fn catches_signal(pid: u32, signal: Signal) -> Result<bool> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let bits = status
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:"))
        .context("no SigCgt")?;
    let bits = u64::from_str_radix(bits.trim(), 16)?;
    Ok(bits & (1 << (signal.as_raw() - 1)) != 0)
}

/// Sends the signal, which has to end the attendant.
fn expect_end_by(mut attendant: ChildGuard, signal: Signal) -> Result<()> {
    let pid = i32::try_from(attendant.0.id()).ok().and_then(Pid::from_raw).context("no pid")?;
    kill_process(pid, signal)?;
    let ended = processes::wait_exit(&mut attendant.0, WAIT_LIMIT)?;
    let code = ended.with_context(|| format!("{signal:?} does not end the attendant"))?.code();
    assert_eq!(code, Some(130), "{signal:?}");
    Ok(())
}

#[tokio::test]
async fn signal_ends_an_attendant_while_no_host_runs() -> Result<()> {
    for signal in [Signal::TERM, Signal::INT] {
        let state = tempfile::tempdir()?;
        let turn = ["--session=sess_1", "--prompt=prm_1", "--asks=allow", "--ends-session"];
        let attendant = start_attendant(state.path(), &turn)?;
        wait_until_caught(&attendant, signal).await?;
        expect_end_by(attendant, signal)?;
    }
    Ok(())
}

#[tokio::test]
async fn signal_ends_an_attendant_whose_host_is_frozen() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    assert!(processes::send_sigstop(host.pid()));
    for signal in [Signal::TERM, Signal::INT] {
        let turn = ["--session=sess_1", "--prompt=prm_1", "--asks=allow", "--ends-session"];
        let attendant = start_attendant(&host.state_dir(), &turn)?;
        wait_until_caught(&attendant, signal).await?;
        expect_end_by(attendant, signal)?;
    }
    assert!(processes::send_sigcont(host.pid()));
    Ok(())
}

/// Some calls of the host.
#[derive(Clone, Copy, Debug)]
struct ChosenCalls {
    method: &'static str,
    /// A part of their path.
    word: &'static str,
}

const fn calls(method: &'static str, word: &'static str) -> ChosenCalls {
    ChosenCalls { method, word }
}

/// Puts a relay before the host that treats these calls so. Returns the relay, and tells of each
/// such call.
fn relay_calls(
    host: &TestHost,
    chosen: ChosenCalls,
    fate: CallFate,
) -> Result<(HostRelay, Receiver<()>)> {
    let (sender, made) = channel(16);
    let relay = HostRelay::put_before(&host.socket_path(), move |line| {
        if line.starts_with(chosen.method) && line.contains(chosen.word) {
            let _ = sender.try_send(());
            fate
        } else {
            CallFate::Passed
        }
    })?;
    Ok((relay, made))
}

/// Waits for the next call that a relay tells of.
async fn expect_call(made: &mut Receiver<()>) -> Result<()> {
    let told = tokio::time::timeout(WAIT_LIMIT, made.recv()).await;
    told.ok().flatten().context("the call is not made")
}

/// A call of an attendant that a frozen host leaves without an answer.
#[derive(Clone, Copy)]
struct UnansweredCall {
    call: ChosenCalls,
    prompt: &'static str,
    /// Options of the attendant.
    options: &'static [&'static str],
}

const UNANSWERED_CALLS: [UnansweredCall; 7] = [
    UnansweredCall {
        call: calls("GET", "/healthz"),
        prompt: "hang",
        options: &["--asks=wait"],
    },
    UnansweredCall {
        call: calls("GET", "/turns/"),
        prompt: "hang",
        options: &["--asks=wait"],
    },
    UnansweredCall {
        call: calls("GET", "/stream"),
        prompt: "hang",
        options: &["--asks=wait"],
    },
    UnansweredCall {
        call: calls("GET", "/asks"),
        prompt: "ask",
        options: &["--asks=allow"],
    },
    UnansweredCall {
        call: calls("POST", "/asks/"),
        prompt: "ask",
        options: &["--asks=deny"],
    },
    UnansweredCall {
        call: calls("POST", "/interrupt"),
        prompt: "hang",
        options: &["--asks=wait", "--time-left=1"],
    },
    UnansweredCall {
        call: calls("POST", "/finish"),
        prompt: "echo done",
        options: &["--asks=wait", "--ends-session"],
    },
];

async fn expect_end_during(unanswered: UnansweredCall, signal: Signal) -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = start_kept_session(&host, &[])?;
    let prompt = json!({ "prompt": unanswered.prompt });
    let prompted = http.post(&format!("/sessions/{id}/prompt"), &prompt).await?;
    let prompted = prompted.expect(200)?;
    let prompt = prompted["promptId"].as_str().context("no prompt")?;
    let (_relay, mut made) = relay_calls(&host, unanswered.call, CallFate::Held)?;
    let turn = [format!("--session={id}"), format!("--prompt={prompt}")];
    let options: Vec<&str> = turn
        .iter()
        .map(String::as_str)
        .chain(unanswered.options.iter().copied())
        .collect();
    let attendant = start_attendant(&host.state_dir(), &options)?;
    expect_call(&mut made).await.with_context(|| format!("{:?}", unanswered.call))?;
    expect_end_by(attendant, signal).with_context(|| format!("{:?}", unanswered.call))
}

#[tokio::test(flavor = "multi_thread")]
async fn signal_ends_an_attendant_whose_call_has_no_answer() -> Result<()> {
    for unanswered in UNANSWERED_CALLS {
        for signal in [Signal::TERM, Signal::INT] {
            expect_end_during(unanswered, signal).await?;
        }
    }
    Ok(())
}

/// Runs a turn that its person has left, from a program that cannot start another process: its file
/// is gone, as after an upgrade.
fn leave_without_attendant(host: &TestHost, prompt: &str) -> Result<TestTerminal> {
    let program = host.directory().join("wharf-copy");
    std::fs::copy(crate::wharf_binary(), &program)?;
    let arguments = ["run", "scripted", "--allow", "-l", "docs", prompt];
    let mut shown = TestTerminal::run_program(host, &program, &arguments)?;
    shown.expect("begun")?;
    std::fs::remove_file(program)?;
    shown.press("\r\x04")?;
    shown.expect("this program stays until the turn has ended")?;
    Ok(shown)
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_cancels_a_turn_that_no_other_process_looks_after() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let (_relay, mut made) = relay_calls(&host, calls("GET", "/stream"), CallFate::Passed)?;
    let mut shown = leave_without_attendant(&host, "echo begun; hang")?;
    let id = only_session(&http).await?;
    // The program that stays opens another stream than before.
    for _ in 0..2 {
        expect_call(&mut made).await?;
    }
    shown.press("\x03")?;
    shown.expect("interrupting the turn; once more to leave at once")?;
    let (code, all) = shown.finish()?;
    assert_eq!(code, Some(0), "{all:?}");
    assert_eq!(wait_for_end(&http, &id).await?, "finished");
    let turns = http.get(&format!("/sessions/{id}/turns")).await?.expect(200)?;
    assert_eq!(turns["turns"][0]["stopReason"], "cancelled", "{turns}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn second_ctrl_c_leaves_a_turn_whose_cancel_has_no_answer() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (sender, mut made) = channel(16);
    let _relay = HostRelay::put_before(&host.socket_path(), move |line| {
        let is_cancel = line.contains("/interrupt");
        if is_cancel || line.contains("/stream") {
            let _ = sender.try_send(());
        }
        if is_cancel { CallFate::Held } else { CallFate::Passed }
    })?;
    let mut shown = leave_without_attendant(&host, "echo begun; hang")?;
    // The program that stays opens another stream than before.
    for _ in 0..2 {
        expect_call(&mut made).await?;
    }
    shown.press("\x03")?;
    expect_call(&mut made).await?;
    shown.press("\x03")?;
    shown.expect("left; the turn goes on: wharf output -f docs")?;
    let (code, all) = shown.finish()?;
    assert_eq!(code, Some(130), "{all:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_d_ends_no_turn_that_was_left_before() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let left = host.directory().join("left");
    let prompt = format!("echo begun; await {}; ask; echo after", left.display());
    let (_relay, mut made) = relay_calls(&host, calls("GET", "/stream"), CallFate::Passed)?;
    let mut shown = leave_without_attendant(&host, &prompt)?;
    let id = only_session(&http).await?;
    // The program that stays opens another stream than before.
    for _ in 0..2 {
        expect_call(&mut made).await?;
    }
    shown.press("\r\x04\r\x04\r\x04")?;
    std::fs::write(left, "")?;
    let (code, all) = shown.finish()?;
    assert_eq!(code, Some(0), "{all:?}");
    assert_eq!(wait_for_end(&http, &id).await?, "finished");
    let answer = last_answer(&host, &id)?;
    assert!(answer.contains("chosen: allow_once") && answer.contains("after"), "{answer}");
    Ok(())
}
