//! Output of an agent whose time without a host ran out: its keeper leaves it on the disk, and the
//! next host takes it in.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::host::HostOptions;
use wharf_testkit::http::RestClient;
use wharf_testkit::random::TestRandom;
use wharf_testkit::small_disk::{DiskFiller, SmallDisk};
use wharf_testkit::{WAIT_LIMIT, polling, processes};

use super::callers::{SilentSocket, is_silent};
use super::{KeepingHost, pause_for_yields, pick_yields};
use crate::rest::wait_for_session;
use crate::{
    TREE_ENDS_WITHIN, add_section, join_session, log, open_session, parse_pids, scripted_host,
};

/// So many that a host is killed while it takes them in.
const MANY_UPDATES: u64 = 20_000;

/// Returns options for a host whose agents live for some seconds without it.
fn impatient_host(flags: &[&str]) -> Result<HostOptions> {
    Ok(add_section(scripted_host(flags)?, "[keeper]\nabsence = \"5s\"\nidle_absence = \"5s\""))
}

/// Returns the directories with output that keepers have left.
fn left_outputs(host: &KeepingHost) -> Vec<PathBuf> {
    let entries = fs::read_dir(host.state_dir().join("run")).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|found| found == "left"))
        .collect()
}

/// A turn that streams while no host is there.
struct StreamingTurn {
    session: String,
    agent: Vec<u32>,
    /// There when the agent has written all of it.
    done: PathBuf,
    folder: tempfile::TempDir,
}

impl StreamingTurn {
    /// Starts the turn, which goes on after [`Self::go_on`] with this script.
    async fn start(host: &KeepingHost, updates: u64, end: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let go = folder.path().join("go");
        let done = folder.path().join("done");
        let (client, session) = open_session(host).await?;
        let agent = parse_pids(&crate::prompt_for_text(&client, &session, "pid").await?);
        let save = format!("save {} now", done.display());
        let script =
            format!("echo begun; await {}; stream {updates} 100; {save}; {end}", go.display());
        let _running = client.start_prompt(&session, &script).await;
        client.expect_text("begun").await;
        Ok(Self { session, agent, done, folder })
    }

    fn go_on(&self) -> Result<()> {
        Ok(fs::write(self.folder.path().join("go"), "")?)
    }

    /// Returns how many updates the agent has written in its time: all, or those that its keeper
    /// has left on the disk.
    fn count_written(&self, host: &KeepingHost, updates: u64) -> Result<u64> {
        if self.done.exists() {
            return Ok(updates);
        }
        let left = left_outputs(host);
        let [left] = left.as_slice() else {
            anyhow::bail!("the agent was held up, and nothing was left: {left:?}")
        };
        count_left_updates(left)
    }

    /// Checks that the log has these updates, each once and in order, and all before the end of the
    /// turn.
    fn check_updates(&self, host: &KeepingHost, updates: u64) -> Result<()> {
        let records = log::read_records(host, &self.session)?;
        let of_kind = |kind: &'static str| {
            records.iter().filter(move |record| record["event"]["kind"] == kind)
        };
        let chunks = of_kind("agent_updated").filter_map(|record| {
            Some((chunk_index(&record["event"]["frame"])?, record["seq"].as_u64()?))
        });
        let (indices, seqs): (Vec<u64>, Vec<u64>) = chunks.unzip();
        ensure!(indices.iter().copied().eq(0..indices.len() as u64), "output is lost or doubled");
        assert_eq!(indices.len() as u64, updates, "the end of the output is lost");
        // The first turn is that of `pid`.
        let end = of_kind("prompt_ended").nth(1).and_then(|record| record["seq"].as_u64());
        ensure!(
            seqs.last().copied() < end,
            "the turn ended at {end:?}, before its last output at {:?}",
            seqs.last()
        );
        Ok(())
    }
}

/// Returns how many updates of `stream` an agent has written whose output is in this directory.
pub(crate) fn count_left_updates(left: &Path) -> Result<u64> {
    let output = fs::read(left.join("output"))?;
    let whole = output.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    // The part that is in the log is a hole, which reads as zeros.
    let lines = output[..whole].split(|byte| *byte == b'\n').map(|line| line.trim_ascii_start());
    let frames = lines.filter_map(|line| {
        let begin = line.iter().position(|byte| *byte == b'{')?;
        serde_json::from_slice::<Value>(&line[begin..]).ok()
    });
    frames
        .filter_map(|frame| chunk_index(&frame))
        .max()
        .map(|last| last + 1)
        .context("nothing was written in time")
}

/// Returns the number of an update of `stream`, which is longer than what the agent says besides.
pub(crate) fn chunk_index(frame: &Value) -> Option<u64> {
    let text = frame["params"]["update"]["content"]["text"]
        .as_str()
        .filter(|text| text.len() > 60)?;
    text.split(' ').next()?.parse().ok()
}

fn assert_private(path: &Path, mode: u32) -> Result<()> {
    assert_eq!(fs::metadata(path)?.permissions().mode() & 0o777, mode, "{}", path.display());
    Ok(())
}

#[tokio::test]
async fn output_of_an_agent_that_no_host_came_for_is_in_the_log_before_the_end_of_its_turn()
-> Result<()> {
    const UPDATES: u64 = 2_000;
    let mut host = KeepingHost::start(impatient_host(&["--resume"])?)?;
    let turn = StreamingTurn::start(&host, UPDATES, "hang").await?;
    let tree = host.kept_processes();
    host.kill()?;
    turn.go_on()?;
    assert_eq!(processes::wait_gone(&tree, WAIT_LIMIT), Ok(()), "the keeper's time is over");
    let left = left_outputs(&host);
    let [left] = left.as_slice() else { anyhow::bail!("{left:?}") };
    assert_private(left, 0o700)?;
    for file in fs::read_dir(left)? {
        assert_private(&file?.path(), 0o600)?;
    }
    let written = turn.count_written(&host, UPDATES)?;
    host.restart()?;
    let ended = log::expect_event(&host, &turn.session, "ended", |_| true).await?;
    assert_eq!(ended["ending"]["reason"], "host_restarted", "{ended}");
    turn.check_updates(&host, written)?;
    let ends = log::list_events(&host, &turn.session, "prompt_ended")?;
    assert_eq!(ends.last().context("no end")?["end"]["how"], "host_restarted");
    let is_clean = || Ok(left_outputs(&host).is_empty().then_some(()));
    polling::poll_until(WAIT_LIMIT, is_clean)
        .await?
        .context("the output stays on the disk")?;
    let client = join_session(&host, &turn.session).await?;
    client.send_prompt(&turn.session, "echo back").await?;
    host.stop_all().await
}

#[tokio::test]
async fn turn_that_ended_without_a_host_has_its_own_end_and_waiting_prompts_run() -> Result<()> {
    let mut host = KeepingHost::start(impatient_host(&["--resume"])?)?;
    let turn = StreamingTurn::start(&host, 100, "echo whole").await?;
    let queued = json!({ "prompt": "echo waited", "queue": true });
    let path = format!("/sessions/{}/prompt", turn.session);
    RestClient::new(&host).post(&path, &queued).await?.expect(200)?;
    let tree = host.kept_processes();
    host.kill()?;
    turn.go_on()?;
    assert_eq!(processes::wait_gone(&tree, WAIT_LIMIT), Ok(()), "the keeper's time is over");
    host.restart()?;
    // The session is idle for a moment before its agent is back for the waiting prompt.
    let three_ends = || {
        let ends = log::list_events(&host, &turn.session, "prompt_ended")?;
        Ok((ends.len() == 3).then_some(ends))
    };
    let ends = polling::poll_until(WAIT_LIMIT, three_ends)
        .await?
        .context("the waiting prompt has no end")?;
    turn.check_updates(&host, 100)?;
    let ends: Vec<&Value> = ends.iter().map(|event| &event["end"]["stop_reason"]).collect();
    assert_eq!(ends, [&json!("end_turn"); 3], "`pid`, the turn without a host, the waiting prompt");
    let client = join_session(&host, &turn.session).await?;
    let said = client.chunk_texts();
    assert_eq!(said.iter().filter(|text| *text == "waited").count(), 1, "{said:?}");
    host.stop_all().await
}

#[tokio::test]
async fn kills_of_the_hosts_that_take_in_left_output_lose_and_double_nothing() -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    let options = impatient_host(&["--resume"])?.with_setting("resume_on_start", "none");
    let mut host = KeepingHost::start(options)?;
    let turn = StreamingTurn::start(&host, MANY_UPDATES, "hang").await?;
    let tree = host.kept_processes();
    host.kill()?;
    turn.go_on()?;
    assert_eq!(processes::wait_gone(&tree, WAIT_LIMIT), Ok(()), "the keeper's time is over");
    let written = turn.count_written(&host, MANY_UPDATES)?;
    let mut kills = 0;
    loop {
        host.restart()?;
        pause_for_yields(pick_yields(&mut dice)).await;
        if !log::list_events(&host, &turn.session, "ended")?.is_empty() {
            break;
        }
        kills += 1;
        // Each host takes in some of it, so that one of them comes to the end.
        ensure!(kills < 500, "no host comes to the end of the output");
    }
    println!("{kills} hosts were killed");
    host.restart()?;
    turn.check_updates(&host, written)?;
    assert_eq!(log::list_events(&host, &turn.session, "ended")?.len(), 1);
    host.stop_all().await
}

#[tokio::test]
async fn keeper_that_has_no_space_for_the_output_keeps_it_until_a_host_comes() -> Result<()> {
    const UPDATES: u64 = 2_000;
    if !SmallDisk::is_possible() {
        return Ok(());
    }
    let options = add_section(impatient_host(&["--resume"])?, "[limits]\nreserve = \"1MiB\"")
        .with_disk("10m");
    let mut host = KeepingHost::start(options)?;
    let turn = StreamingTurn::start(&host, UPDATES, "hang").await?;
    let keeper = host.only_keeper()?;
    host.kill()?;
    let filler = DiskFiller::fill_disk(&host.state_dir())?;
    turn.go_on()?;
    assert_eq!(
        processes::wait_gone(&turn.agent, TREE_ENDS_WITHIN),
        Ok(()),
        "the keeper's time is over"
    );
    let is_alive = processes::wait_gone(&[keeper], Duration::from_secs(2)).is_err();
    ensure!(is_alive, "the keeper is gone, and the output with it");
    ensure!(left_outputs(&host).is_empty(), "half of the output");
    drop(filler);
    host.restart()?;
    let ended = log::expect_event(&host, &turn.session, "ended", |_| true).await?;
    assert_eq!(
        ended["ending"]["reason"], "host_restarted",
        "the keeper has ended the agent: {ended}"
    );
    turn.check_updates(&host, UPDATES)?;
    host.stop_all().await
}

#[tokio::test]
async fn host_stops_after_a_silent_keeper_has_left_its_output() -> Result<()> {
    let mut host = KeepingHost::start(impatient_host(&["--resume"])?)?;
    let turn = StreamingTurn::start(&host, 100, "hang").await?;
    host.kill()?;
    turn.go_on()?;
    let path = host.state_dir().join("run/keepers-1").join(host.only_keeper()?.to_string());
    let _socket = SilentSocket::put_before(&path)?;
    host.restart()?;
    wait_for_session(&RestClient::new(&host), &turn.session, "its silence", is_silent).await?;
    let ended = log::expect_event(&host, &turn.session, "ended", |_| true).await?;
    assert_eq!(ended["ending"]["reason"], "host_restarted", "{ended}");
    fs::remove_file(path.with_extension("aside"))?;
    host.stop_all().await
}

/// Starts a host that finds a turn whose output is on the disk, which `spoil` has changed before.
/// Returns the directory.
async fn leave_spoilt_output(
    updates: u64,
    spoil: impl Fn(&Path) -> Result<()>,
) -> Result<(KeepingHost, StreamingTurn, PathBuf, u64)> {
    let options = impatient_host(&["--resume"])?.with_setting("resume_on_start", "none");
    let mut host = KeepingHost::start(options)?;
    let turn = StreamingTurn::start(&host, updates, "hang").await?;
    let tree = host.kept_processes();
    host.kill()?;
    turn.go_on()?;
    assert_eq!(processes::wait_gone(&tree, WAIT_LIMIT), Ok(()), "the keeper's time is over");
    let written = turn.count_written(&host, updates)?;
    let left = left_outputs(&host).pop().context("nothing is left")?;
    spoil(&left)?;
    host.restart()?;
    Ok((host, turn, left, written))
}

#[tokio::test]
async fn output_that_cannot_be_opened_is_taken_in_when_it_can() -> Result<()> {
    let spoil = |left: &Path| {
        fs::rename(left.join("ledger"), left.join("aside"))?;
        Ok(fs::create_dir(left.join("ledger"))?)
    };
    let (mut host, turn, left, written) = leave_spoilt_output(500, spoil).await?;
    let is_told = |session: &Value| {
        let message = session["message"].as_str().unwrap_or_default();
        session["status"] == "running"
            && message.ends_with("cannot be read; the host tries again, later every 30 s")
    };
    wait_for_session(&RestClient::new(&host), &turn.session, "its trouble", is_told).await?;
    // The next host is not deterred by the one before it.
    host.restart()?;
    wait_for_session(&RestClient::new(&host), &turn.session, "its trouble", is_told).await?;
    fs::remove_dir(left.join("ledger"))?;
    fs::rename(left.join("aside"), left.join("ledger"))?;
    let ended = log::expect_event(&host, &turn.session, "ended", |_| true).await?;
    assert_eq!(ended["ending"]["reason"], "host_restarted", "{ended}");
    turn.check_updates(&host, written)?;
    host.stop_all().await
}

#[tokio::test]
async fn output_that_cannot_be_opened_outlives_an_orderly_stop() -> Result<()> {
    let spoil = |left: &Path| {
        fs::rename(left.join("ledger"), left.join("aside"))?;
        Ok(fs::create_dir(left.join("ledger"))?)
    };
    let (mut host, turn, left, written) = leave_spoilt_output(500, spoil).await?;
    RestClient::new(&host).post_empty("/stop").await?.expect(202)?;
    ensure!(host.wait_exit(TREE_ENDS_WITHIN)?.success(), "the host's exit");
    fs::remove_dir(left.join("ledger"))?;
    fs::rename(left.join("aside"), left.join("ledger"))?;
    host.restart()?;
    let ended = log::expect_event(&host, &turn.session, "ended", |_| true).await?;
    assert_eq!(ended["ending"]["reason"], "host_restarted", "{ended}");
    turn.check_updates(&host, written)?;
    host.stop_all().await
}

#[tokio::test]
async fn output_that_does_not_fit_the_log_is_set_aside_and_never_removed() -> Result<()> {
    let spoil = |left: &Path| Ok(fs::File::create(left.join("output")).map(drop)?);
    let (mut host, turn, left, _) = leave_spoilt_output(100, spoil).await?;
    let ended = log::expect_event(&host, &turn.session, "ended", |_| true).await?;
    assert_eq!(ended["ending"]["reason"], "host_restarted", "{ended}");
    host.restart()?;
    let aside = left.with_extension("unusable");
    ensure!(aside.join("ledger").exists() && !left.exists(), "{}", host.read_stderr());
    host.stop_all().await
}

/// Begins the output of a keeper, as far as one comes that is held up or killed.
fn begin_output(host: &KeepingHost, keeper: u32) -> Result<PathBuf> {
    let run = host.state_dir().join("run");
    let half = run.join(format!("{keeper}.5.leaving"));
    fs::create_dir(&half)?;
    fs::copy(run.join(keeper.to_string()), half.join("record"))?;
    fs::write(half.join("output"), "half")?;
    Ok(half)
}

#[tokio::test]
async fn host_that_starts_while_a_keeper_writes_its_output_leaves_it_alone() -> Result<()> {
    let mut host = KeepingHost::start(scripted_host(&[])?)?;
    let (client, session) = open_session(&host).await?;
    let _hanging = client.start_prompt(&session, "echo hangs; hang").await;
    client.expect_text("hangs").await;
    host.kill()?;
    let half = begin_output(&host, host.only_keeper()?)?;
    host.restart()?;
    ensure!(half.join("output").exists(), "{}", host.read_stderr());
    host.stop_all().await
}

#[tokio::test]
async fn half_of_the_output_of_a_killed_keeper_is_removed_and_its_session_ends() -> Result<()> {
    let mut host = KeepingHost::start(scripted_host(&[])?)?;
    let (client, session) = open_session(&host).await?;
    let _hanging = client.start_prompt(&session, "echo hangs; hang").await;
    client.expect_text("hangs").await;
    let tree = host.kept_processes();
    host.kill()?;
    let keeper = host.only_keeper()?;
    let half = begin_output(&host, keeper)?;
    processes::send_sigkill(keeper);
    assert_eq!(processes::wait_gone(&[keeper], WAIT_LIMIT), Ok(()));
    host.restart()?;
    ensure!(
        !half.exists() && host.read_stderr().contains("which is lost"),
        "{}",
        host.read_stderr()
    );
    let ended = log::expect_event(&host, &session, "ended", |_| true).await?;
    assert_eq!(ended["ending"]["reason"], "host_restarted", "{ended}");
    assert_eq!(processes::wait_gone(&tree, TREE_ENDS_WITHIN), Ok(()));
    host.stop_all().await
}
