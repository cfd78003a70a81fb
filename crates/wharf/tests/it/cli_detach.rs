//! Turns that are left running: by Ctrl-D, by a terminal that closes, and by `run -d`. What the
//! verb was told holds on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{UnixListener, UnixStream};
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;
use wharf_testkit::{WAIT_LIMIT, polling, processes};

use crate::cli::{run_failing_wharf, run_wharf, start_kept_session};
use crate::keepers::KeepingHost;
use crate::program::{ChildGuard, wharf_command};
use crate::rest::{wait_for_session, wait_until_idle};
use crate::scripted_host;
use crate::terminal::TestTerminal;

/// Returns the id of the only session.
async fn only_session(http: &RestClient) -> Result<String> {
    let sessions = http.get("/sessions").await?.expect(200)?;
    Ok(sessions["sessions"][0]["id"].as_str().context("no session")?.to_owned())
}

/// Waits until the session has ended, and returns why.
async fn wait_for_end(http: &RestClient, id: &str) -> Result<String> {
    let session =
        wait_for_session(http, id, "its end", |session| session["endedAt"].is_string()).await?;
    Ok(session["endReason"].as_str().context("no reason")?.to_owned())
}

fn last_answer(host: &TestHost, id: &str) -> Result<String> {
    run_wharf(host, &["output", id, "--turn", "last", "--text"])
}

#[tokio::test]
async fn turn_goes_on_under_its_policy_when_its_terminal_is_closed() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let closed = host.directory().join("closed");
    let prompt = format!("echo begun; await {}; ask; echo after", closed.display());
    let mut shown = TestTerminal::run_wharf(&host, &["run", "scripted", "--allow", &prompt])?;
    shown.expect("begun")?;
    let id = only_session(&http).await?;
    // The terminal closes when this ends.
    drop(shown);
    std::fs::write(closed, "")?;
    assert_eq!(wait_for_end(&http, &id).await?, "finished");
    let answer = last_answer(&host, &id)?;
    assert!(answer.contains("chosen: allow_once") && answer.contains("after"), "{answer}");
    Ok(())
}

#[tokio::test]
async fn ctrl_d_leaves_the_turn_running_and_its_asks_wait_for_a_person() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let left = host.directory().join("left");
    let prompt = format!("echo begun; await {}; ask; echo after", left.display());
    let mut shown =
        TestTerminal::run_wharf(&host, &["run", "scripted", "--keep", "-l", "docs", &prompt])?;
    shown.expect("Ctrl-C interrupts, Ctrl-D leaves it running")?;
    shown.expect("begun")?;
    shown.press("\r\x04")?;
    shown.expect("left running; follow it with: wharf output -f docs")?;
    let (code, all) = shown.finish()?;
    assert_eq!(code, Some(0), "{all:?}");
    let id = only_session(&http).await?;
    std::fs::write(left, "")?;
    wait_for_session(&http, &id, "the ask", |session| session["turn"] == "awaiting_input").await?;
    run_wharf(&host, &["answer", "docs", "allow"])?;
    let session = wait_until_idle(&http, &id).await?;
    assert_eq!(session["status"], "running", "{session}");
    assert!(last_answer(&host, &id)?.contains("chosen: allow_once"));
    Ok(())
}

#[tokio::test]
async fn detached_run_holds_its_policy_over_a_restart_of_the_host() -> Result<()> {
    let mut host = KeepingHost::start(scripted_host(&[])?)?;
    let back = host.directory().join("back");
    let prompt = format!("await {}; ask; echo after", back.display());
    let id = run_wharf(&host, &["run", "-d", "--allow", "scripted", &prompt])?;
    let id = id.trim().to_owned();
    let http = RestClient::new(&host);
    wait_for_session(&http, &id, "its turn", |session| session["turn"] == "running").await?;
    host.restart()?;
    std::fs::write(back, "")?;
    let http = RestClient::new(&host);
    assert_eq!(wait_for_end(&http, &id).await?, "finished");
    let answer = last_answer(&host, &id)?;
    assert!(answer.contains("chosen: allow_once") && answer.contains("after"), "{answer}");
    Ok(())
}

#[tokio::test]
async fn time_limit_counts_on_without_the_terminal() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id =
        run_wharf(&host, &["run", "-d", "-k", "--timeout", "1s", "scripted", "echo begun; hang"])?;
    let id = id.trim();
    let session = wait_until_idle(&http, id).await?;
    assert_eq!(session["status"], "running", "{session}");
    let turns = http.get(&format!("/sessions/{id}/turns")).await?.expect(200)?;
    assert_eq!(turns["turns"][0]["stopReason"], "cancelled", "{turns}");
    Ok(())
}

#[tokio::test]
async fn prompt_that_is_left_holds_its_policy_and_keeps_its_session() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = start_kept_session(&host, &[])?;
    let left = host.directory().join("left");
    let prompt = format!("echo begun; await {}; ask; echo after", left.display());
    let mut shown = TestTerminal::run_wharf(&host, &["prompt", &id, "--wait", "--deny", &prompt])?;
    shown.expect("begun")?;
    shown.press("\r\x04")?;
    let (code, all) = shown.finish()?;
    assert_eq!(code, Some(0), "{all:?}");
    std::fs::write(left, "")?;
    let session = wait_until_idle(&http, &id).await?;
    assert_eq!(session["status"], "running", "{session}");
    assert!(last_answer(&host, &id)?.contains("chosen: reject_once"));
    run_wharf(&host, &["prompt", &id, "--detach", "--allow", "ask"])?;
    wait_until_idle(&http, &id).await?;
    assert!(last_answer(&host, &id)?.contains("chosen: allow_once"));
    run_failing_wharf(&host, &["run", "-d", "scripted"], 2)?;
    run_failing_wharf(&host, &["prompt", &id, "-d", "--wait", "echo x"], 2)?;
    Ok(())
}

/// The socket of a host behind a relay that refuses the first answers to asks, as a busy host does.
struct BusySocket {
    refusals: Arc<AtomicUsize>,
    accepting: tokio::task::JoinHandle<()>,
}

impl BusySocket {
    fn put_before(path: &Path) -> Result<Self> {
        let aside = path.with_extension("aside");
        std::fs::rename(path, &aside)?;
        let listener = UnixListener::bind(path)?;
        let refusals = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&refusals);
        let accepting = tokio::spawn(async move {
            while let Ok((caller, _)) = listener.accept().await {
                tokio::spawn(relay_call(caller, aside.clone(), Arc::clone(&counted)));
            }
        });
        Ok(Self { refusals, accepting })
    }
}

impl Drop for BusySocket {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// The answers to asks that a busy host refuses.
const REFUSALS: usize = 2;

async fn relay_call(
    mut caller: UnixStream,
    host: PathBuf,
    refusals: Arc<AtomicUsize>,
) -> Result<()> {
    let mut begin = vec![0; 16 << 10];
    let length = caller.read(&mut begin).await?;
    let head = String::from_utf8_lossy(&begin[..length]);
    let is_answer = head.starts_with("POST ")
        && head.lines().next().is_some_and(|line| line.contains("/asks/"));
    if is_answer && refusals.fetch_add(1, Ordering::SeqCst) < REFUSALS {
        let body = r#"{"type":"about:blank","title":"busy","status":503,"code":"overloaded"}"#;
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        return Ok(caller.write_all(answer.as_bytes()).await?);
    }
    let mut host = UnixStream::connect(host).await?;
    host.write_all(&begin[..length]).await?;
    copy_bidirectional(&mut caller, &mut host).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn attendant_answers_an_ask_again_that_a_busy_host_refused() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let socket = BusySocket::put_before(&host.socket_path())?;
    let id = run_wharf(&host, &["run", "-d", "--allow", "scripted", "ask; echo after"])?;
    let id = id.trim();
    assert_eq!(wait_for_end(&http, id).await?, "finished");
    let answer = last_answer(&host, id)?;
    assert!(answer.contains("chosen: allow_once") && answer.contains("after"), "{answer}");
    assert_eq!(socket.refusals.load(Ordering::SeqCst), REFUSALS + 1);
    Ok(())
}

#[tokio::test]
async fn detached_turn_that_is_repeated_after_a_restart_runs_to_its_own_end() -> Result<()> {
    let options = scripted_host(&[])?
        .with_setting("on_restart", "requeue")
        .with_setting("resume_on_start", "none");
    let mut host = options.without_keepers(crate::TURN_IS_CUT).start_host()?;
    let back = host.directory().join("back");
    let prompt = format!("echo begun; await {}; ask; echo after", back.display());
    let id = run_wharf(&host, &["run", "-d", "--allow", "scripted", &prompt])?;
    let id = id.trim().to_owned();
    crate::log::expect_event(&host, &id, "agent_updated", |_| true).await?;
    host.restart()?;
    let requeued = crate::log::expect_event(&host, &id, "prompt_requeued", |_| true).await?;
    let prompt = requeued["prompt"].as_str().context("no prompt")?;
    let http = RestClient::new(&host);
    let turn = http.get(&format!("/sessions/{id}/turns/{prompt}")).await?.expect(200)?;
    assert_eq!((&turn["state"], &turn["stopReason"]), (&json!("queued"), &Value::Null), "{turn}");
    http.post_empty(&format!("/sessions/{id}/resume")).await?.expect(200)?;
    std::fs::write(back, "")?;
    assert_eq!(wait_for_end(&http, &id).await?, "finished");
    let answer = last_answer(&host, &id)?;
    assert!(answer.contains("chosen: allow_once") && answer.contains("after"), "{answer}");
    Ok(())
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

#[tokio::test]
async fn signal_ends_an_attendant_while_no_host_runs() -> Result<()> {
    for signal in [Signal::TERM, Signal::INT] {
        let state = tempfile::tempdir()?;
        let turn = [
            "--session=sess_1",
            "--prompt=prm_1",
            "--agent=demo",
            "--asks=allow",
            "--ends-session",
        ];
        let mut command = wharf_command(&["__attend", "--no-start", "--state-dir"]);
        let mut attendant = ChildGuard(command.arg(state.path()).args(turn).spawn()?);
        let pid = attendant.0.id();
        let is_ready = || catches_signal(pid, signal).map(|is_caught| is_caught.then_some(()));
        polling::poll_until(WAIT_LIMIT, is_ready)
            .await?
            .context("the attendant does not catch the signal")?;
        kill_process(i32::try_from(pid).ok().and_then(Pid::from_raw).context("no pid")?, signal)?;
        let ended = processes::wait_exit(&mut attendant.0, WAIT_LIMIT)?;
        let code = ended.with_context(|| format!("{signal:?} does not end the attendant"))?.code();
        assert_eq!(code, Some(130), "{signal:?}");
    }
    Ok(())
}
