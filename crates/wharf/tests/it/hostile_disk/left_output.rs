//! Output that a keeper has left, taken in on a failing storage engine.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use wharf_config::Config;
use wharf_host::core::{AgentEvent, Event, SessionEvent, SessionId};
use wharf_host::{Host, SessionHandle, StartError};
use wharf_store::{Hostility, MemoryEngine};
use wharf_testkit::{WAIT_LIMIT, polling};

use super::{DiskFixture, prompt_submission, read_events_until};
use crate::keepers::left_output::{chunk_index, count_left_updates};

/// More than a host reads before it writes to the log.
const UPDATES: u64 = 5_000;

/// A session whose agent has ended without a host, and the output that its keeper has left. The
/// next host runs.
struct LeftTurn {
    fixture: DiskFixture,
    session: SessionId,
    output: PathBuf,
    /// How many updates the agent has written.
    written: u64,
}

impl LeftTurn {
    /// Starts the next host on a disk that `prepare` has changed.
    async fn new(prepare: impl FnOnce(&Hostility)) -> Result<Self> {
        let fixture = DiskFixture::with_config(|config| {
            config.keeper.absence = wharf_config::Duration::from_millis(5_000);
            config.keeper.idle_absence = config.keeper.absence;
        })?;
        let handle = fixture.session().await?;
        let go = fixture.dir.path().join("go");
        let script = format!("echo begun; await {}; stream {UPDATES} 200; hang", go.display());
        handle.prompt(prompt_submission(&script)).await?;
        read_events_until(&handle, is_update).await?;
        let session = handle.id().clone();
        let run_dir = fixture.run_dir();
        let DiskFixture { host, config, engine, disk, dir } = fixture;
        host.leave().await;
        drop((host, handle));
        fs::write(go, "")?;
        let find_output = || Ok(list_directories(&run_dir, "left")?.pop());
        let output = polling::poll_until(WAIT_LIMIT, find_output)
            .await?
            .context("its keeper has left nothing")?;
        let written = count_left_updates(&output)?;
        prepare(&disk);
        let host = start_next_host(&config, &engine).await?;
        Ok(Self {
            fixture: DiskFixture { host, config, engine, disk, dir },
            session,
            output,
            written,
        })
    }

    async fn open(&self) -> Result<SessionHandle> {
        Ok(self.fixture.host.open(&self.session).await?)
    }

    async fn read_all(&self) -> Result<Vec<Event>> {
        let handle = self.open().await?;
        read_events_until(&handle, |event| matches!(event, Event::Session(SessionEvent::Ended(_))))
            .await
    }

    /// Checks that the log has every update that the agent has written, each once and in order.
    async fn expect_all_updates(&self) -> Result<()> {
        let events = self.read_all().await?;
        let mut updates = Vec::new();
        for event in &events {
            if let Event::Agent(AgentEvent::Updated { frame, .. }) = event {
                updates.extend(chunk_index(&serde_json::from_slice::<Value>(frame.bytes())?));
            }
        }
        ensure!(
            updates.iter().copied().eq(0..self.written),
            "{} of {} updates",
            updates.len(),
            self.written
        );
        Ok(())
    }

    async fn wait_for_removal(&self) -> Result<()> {
        let is_gone = || Ok((!self.output.exists()).then_some(()));
        polling::poll_until(WAIT_LIMIT, is_gone)
            .await?
            .context("the output stays on the disk")
    }
}

/// Starts a host. The one before holds the directory until its last task has ended.
async fn start_next_host(config: &Config, engine: &Arc<MemoryEngine>) -> Result<Host> {
    let try_start = || match Host::start_on(config.clone(), Some(engine.clone())) {
        Ok(host) => Ok(Some(host)),
        Err(StartError::Held { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    };
    polling::poll_until(WAIT_LIMIT, try_start)
        .await?
        .context("the first host does not end")
}

fn is_update(event: &Event) -> bool {
    matches!(event, Event::Agent(AgentEvent::Updated { .. }))
}

/// Leaves room for the event that says so, and for nothing else.
fn fill(disk: &Hostility) {
    disk.keep_reserve(1);
    disk.fill_appends(usize::MAX);
}

fn list_directories(run: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(run)? {
        let path = entry?.path();
        found.extend((path.extension().is_some_and(|its| its == extension)).then_some(path));
    }
    Ok(found)
}

#[tokio::test]
async fn output_that_cannot_be_read_to_its_end_is_set_aside() -> Result<()> {
    let turn = LeftTurn::new(fill).await?;
    let handle = turn.open().await?;
    turn.fixture.listed(&handle, |known| known.paused.is_some()).await?;
    fs::File::create(turn.output.join("output"))?;
    turn.fixture.disk.fill_appends(0);
    let events = turn.read_all().await?;
    let says_so = |event: &Event| matches!(event, Event::Agent(AgentEvent::Faulted { detail, .. }) if detail.contains("cannot be read"));
    ensure!(events.iter().any(says_so), "the log does not say it");
    let aside = || Ok(list_directories(&turn.fixture.run_dir(), "unusable")?.pop());
    let aside = polling::poll_until(WAIT_LIMIT, aside).await?.context("it is not set aside")?;
    ensure!(aside.join("ledger").exists());
    Ok(())
}

#[tokio::test]
async fn output_is_taken_in_when_the_session_is_opened_after_a_failure_of_its_log() -> Result<()> {
    let turn = LeftTurn::new(|disk| disk.break_appends(1)).await?;
    let is_failed = || {
        Ok(turn
            .fixture
            .host
            .descriptor(&turn.session)
            .filter(|known| !known.status.is_alive()))
    };
    polling::poll_until(WAIT_LIMIT, is_failed).await?.context("its log works")?;
    ensure!(turn.output.exists(), "what is not in the log is gone");
    turn.expect_all_updates().await?;
    turn.wait_for_removal().await
}

#[tokio::test]
async fn output_stays_until_the_log_is_on_the_disk() -> Result<()> {
    // No sync is held before the output is opened, which waits for one.
    let turn = LeftTurn::new(fill).await?;
    let handle = turn.open().await?;
    turn.fixture.listed(&handle, |known| known.paused.is_some()).await?;
    turn.fixture.disk.hold_syncs();
    turn.fixture.disk.fill_appends(0);
    turn.expect_all_updates().await?;
    let sees_held_syncs = || Ok((turn.fixture.disk.held_syncs() > 0).then_some(()));
    polling::poll_until(WAIT_LIMIT, sees_held_syncs)
        .await?
        .context("nothing is synced")?;
    // The task has done all that follows from the end.
    handle.turns().await?;
    ensure!(turn.output.exists(), "a power cut would lose its end");
    turn.fixture.disk.release_syncs();
    turn.wait_for_removal().await
}
