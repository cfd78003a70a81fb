//! The host on a failing storage engine: no space, a failing sync, a slow sync (rules 1.3, 1.4,
//! 10.5).

mod left_output;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use tempfile::TempDir;
use wharf_config::{Config, DirectoryScope};
use wharf_host::core::{
    AgentEvent, CancelScope, Description, EndReason, Event, Overlap, PauseReason, PromptEnd,
    PromptEvent, PromptId, Raw, Sender, Seq, SessionEvent, Status, StorageEvent, Submission,
};
use wharf_host::{
    CallError, CreateError, Descriptor, Entry, Forward, Host, SessionHandle, SpawnRequest,
    StorageFault, new_client_id, new_prompt_id,
};
use wharf_store::{Hostility, MemoryEngine};
use wharf_testkit::{WAIT_LIMIT, processes};

use crate::{TREE_ENDS_WITHIN, wharf_binary};

/// A host in this process, with the scripted agent and a disk that fails on request.
struct DiskFixture {
    host: Host,
    config: Config,
    engine: Arc<MemoryEngine>,
    disk: Hostility,
    dir: TempDir,
}

impl DiskFixture {
    /// Returns one without keepers: this host is a task of the test, and agents that outlive it
    /// would outlive the test.
    fn new() -> Result<Self> {
        Self::with_config(|config| config.keeper.enabled = false)
    }

    fn with_config(change: impl FnOnce(&mut Config)) -> Result<Self> {
        let dir = TempDir::with_prefix("wharf-test-")?;
        let agent = wharf_testkit::program::find_scripted_agent()?;
        let agent = json!([agent.to_str().context("not UTF-8")?]);
        let mut config = Config::parse(&format!(
            "default_agent = \"scripted\"\n[agents.scripted]\ncommand = {agent}"
        ))
        .map_err(anyhow::Error::msg)?;
        (config.state_dir, config.program) = (dir.path().join("state"), wharf_binary());
        change(&mut config);
        let disk = Hostility::default();
        let engine = MemoryEngine::new(disk.clone());
        let host = Host::start_on(config.clone(), Some(engine.clone()))?;
        Ok(Self { host, config, engine, disk, dir })
    }

    /// Returns the directory with the records of agents' processes.
    fn run_dir(&self) -> PathBuf {
        self.config.state_dir.join("run")
    }

    async fn spawn(&self) -> Result<SessionHandle, CreateError> {
        let cwd = Some(self.dir.path().to_owned());
        let request = SpawnRequest {
            adapter: "scripted".to_owned(),
            cwd,
            directory_scope: DirectoryScope::Anywhere,
            ..SpawnRequest::default()
        };
        Ok(self.host.spawn(request, &|_| true).await?.handle)
    }

    async fn session(&self) -> Result<SessionHandle> {
        let handle = self.spawn().await?;
        handle.up().await.map_err(|failure| anyhow::anyhow!(failure.message))?;
        Ok(handle)
    }

    /// Waits until the session's descriptor matches.
    async fn listed(
        &self,
        handle: &SessionHandle,
        so: impl Fn(&Descriptor) -> bool,
    ) -> Result<Arc<Descriptor>> {
        let mut changes = self.host.changes();
        let wait = async {
            loop {
                changes.borrow_and_update();
                let known = self.host.descriptor(handle.id()).context("no such session")?;
                if so(&known) {
                    return Ok(known);
                }
                changes.changed().await?;
            }
        };
        tokio::time::timeout(WAIT_LIMIT, wait).await.context("it was never listed so")?
    }
}

fn test_sender() -> Sender {
    Sender {
        client: new_client_id(),
        chosen: None,
        name: None,
        version: None,
        token: None,
        parent: None,
        peer: None,
    }
}

fn prompt_submission(text: &str) -> Submission {
    let params = json!({ "sessionId": "x", "prompt": [{ "type": "text", "text": text }] });
    let frame = json!({ "jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": params })
        .to_string();
    let frame = Raw::new_checked_before(frame.into());
    Submission {
        prompt: new_prompt_id(),
        sender: test_sender(),
        frame,
        key: None,
        overlap: Overlap::Queue,
        to_agent: false,
    }
}

/// Returns all events from the beginning up to one that matches.
async fn read_events_until(
    handle: &SessionHandle,
    last: impl Fn(&Event) -> bool,
) -> Result<Vec<Event>> {
    let mut cursor = handle.cursor(Seq::ZERO);
    let mut events = Vec::new();
    let read = async {
        loop {
            for entry in cursor.next().await?.entries() {
                events.push(entry.event.clone());
                if last(&entry.event) {
                    return Ok(());
                }
            }
        }
    };
    match tokio::time::timeout(WAIT_LIMIT, read).await {
        Ok(read) => read.map(|()| events),
        Err(_) => bail!("the event did not come; there are {events:?}"),
    }
}

fn is_ended(event: &Event) -> bool {
    matches!(event, Event::Prompt(PromptEvent::Ended { .. }))
}

/// Returns the number of updates among the events.
fn count_updates(events: &[Event]) -> usize {
    events
        .iter()
        .filter(|event| matches!(event, Event::Agent(AgentEvent::Updated { .. })))
        .count()
}

async fn release_agent(handle: &SessionHandle) -> Result<()> {
    let frame = format!(
        r#"{{"jsonrpc":"2.0","method":"_go","params":{{"sessionId":"{}"}}}}"#,
        handle.id().as_str()
    );
    Ok(handle
        .tell_agent(Forward { client: new_client_id(), frame: frame.into(), request: None })
        .await?)
}

fn agent_pid(stage: &DiskFixture, handle: &SessionHandle) -> Result<u32> {
    stage.host.processes_of(handle.id()).first().copied().context("no process")
}

#[tokio::test]
async fn agent_is_paused_without_disk_space_and_its_output_is_kept() -> Result<()> {
    let stage = DiskFixture::new()?;
    let handle = stage.session().await?;
    handle.prompt(prompt_submission("wait; burst 5000 200; echo whole")).await?;
    read_events_until(&handle, |event| {
        matches!(event, Event::Prompt(PromptEvent::TurnStarted { .. }))
    })
    .await?;
    stage.disk.keep_reserve(2);
    stage.disk.fill_appends(usize::MAX);
    release_agent(&handle).await?;
    stage.listed(&handle, |known| known.paused.is_some()).await?;
    let before = read_events_until(&handle, |event| {
        matches!(event, Event::Storage(StorageEvent::Paused { .. }))
    })
    .await?;
    ensure!(count_updates(&before) < 5_000, "the agent was not held");
    assert_eq!(handle.prompt(prompt_submission("echo no")).await, Err(CallError::StorageFull));
    // The cancel is written and uses up the reserve; the turn still runs to its end.
    let seen = CancelScope {
        seen: handle.head(),
        settled: handle.head(),
        clear_queue: false,
    };
    assert!(handle.cancel(test_sender(), seen).await?.was_busy);
    stage.disk.fill_appends(0);
    let all = read_events_until(&handle, is_ended).await?;
    let mut words = Vec::new();
    for event in &all {
        words.extend(
            matches!(event, Event::Prompt(PromptEvent::Accepted { .. })).then_some("accepted"),
        );
        words.extend(
            matches!(event, Event::Storage(StorageEvent::Paused { .. })).then_some("paused"),
        );
        words.extend(
            matches!(event, Event::Prompt(PromptEvent::CancelRequested { .. })).then_some("cancel"),
        );
        words.extend(
            matches!(event, Event::Storage(StorageEvent::Continued)).then_some("continued"),
        );
        words.extend(is_ended(event).then_some("ended"));
    }
    assert_eq!(words, ["accepted", "paused", "cancel", "continued", "ended"]);
    handle.prompt(prompt_submission("echo again")).await?;
    Ok(())
}

#[tokio::test]
async fn event_beyond_the_disk_reserve_is_published_only_after_its_append() -> Result<()> {
    let stage = DiskFixture::new()?;
    let handle = stage.session().await?;
    handle.prompt(prompt_submission("wait; burst 2000 100; echo whole")).await?;
    read_events_until(&handle, |event| {
        matches!(event, Event::Prompt(PromptEvent::TurnStarted { .. }))
    })
    .await?;
    let head = handle.head();
    stage.disk.fill_appends(usize::MAX);
    release_agent(&handle).await?;
    stage.listed(&handle, |known| known.paused.is_some()).await?;
    assert_eq!(handle.head(), head);
    assert_eq!(handle.prompt(prompt_submission("echo no")).await, Err(CallError::StorageFull));
    stage.disk.fill_appends(0);
    let all = read_events_until(&handle, is_ended).await?;
    assert_eq!(count_updates(&all), 2_001);
    Ok(())
}

#[tokio::test]
async fn kill_ends_the_agent_when_its_event_cannot_be_written() -> Result<()> {
    let stage = DiskFixture::new()?;
    let handle = stage.session().await?;
    let agent = agent_pid(&stage, &handle)?;
    stage.disk.fill_appends(usize::MAX);
    assert_eq!(handle.prompt(prompt_submission("echo no")).await, Err(CallError::StorageFull));
    assert_eq!(
        handle.kill(EndReason::User).await,
        Err(CallError::NotWritten { done: "the agent was ended" })
    );
    processes::wait_gone(&[agent], TREE_ENDS_WITHIN)
        .map_err(|left| anyhow::anyhow!("left: {left:?}"))?;
    stage.disk.fill_appends(0);
    read_events_until(&handle, |event| matches!(event, Event::Session(SessionEvent::Ended(_))))
        .await?;
    Ok(())
}

#[tokio::test]
async fn cancel_reaches_the_agent_when_its_event_cannot_be_written() -> Result<()> {
    let stage = DiskFixture::new()?;
    let handle = stage.session().await?;
    handle.prompt(prompt_submission("hang")).await?;
    read_events_until(&handle, |event| {
        matches!(event, Event::Prompt(PromptEvent::TurnStarted { .. }))
    })
    .await?;
    stage.disk.fill_appends(usize::MAX);
    assert_eq!(handle.prompt(prompt_submission("echo no")).await, Err(CallError::StorageFull));
    let scope = CancelScope {
        seen: handle.head(),
        settled: handle.head(),
        clear_queue: false,
    };
    let done = "the agent was told to end its turn";
    assert_eq!(handle.cancel(test_sender(), scope).await, Err(CallError::NotWritten { done }));
    stage.disk.fill_appends(0);
    read_events_until(&handle, is_ended).await?;
    Ok(())
}

#[tokio::test]
async fn refused_prompt_changes_neither_state_nor_log() -> Result<()> {
    let stage = DiskFixture::new()?;
    let handle = stage.session().await?;
    let before = handle.head();
    let keyed = || Submission { key: Some("once".into()), ..prompt_submission("echo once") };
    stage.disk.keep_reserve(1);
    stage.disk.fill_appends(usize::MAX);
    assert_eq!(handle.prompt(keyed()).await, Err(CallError::StorageFull));
    let known = stage.listed(&handle, |known| known.paused.is_some()).await?;
    assert_eq!((known.queued, handle.head()), (0, before.next()));
    stage.disk.fill_appends(0);
    stage.listed(&handle, |known| known.paused.is_none()).await?;
    let receipt = handle.prompt(keyed()).await?;
    assert!(!receipt.duplicate);
    let all = read_events_until(&handle, is_ended).await?;
    assert_eq!(
        all.iter()
            .filter(|event| matches!(event, Event::Prompt(PromptEvent::Accepted { .. })))
            .count(),
        1
    );
    Ok(())
}

#[tokio::test]
async fn unwritten_pause_is_told_to_a_person_who_has_seen_the_whole_log() -> Result<()> {
    for archived in [false, true] {
        let stage = DiskFixture::new()?;
        let handle = stage.session().await?;
        let (by, archived_now) = (test_sender(), Some(archived));
        handle
            .describe(Description { by, title: None, label: None, archived: archived_now })
            .await?;
        let before = handle.head();
        let newest = handle.cursor(Seq(before.0 - 1)).next().await?.entries().last().map(Entry::id);
        stage.host.mark_seen("owner", handle.id(), newest.context("no event")?);
        stage.disk.fill_appends(usize::MAX);
        assert_eq!(handle.prompt(prompt_submission("echo no")).await, Err(CallError::StorageFull));
        let known = stage.listed(&handle, |known| known.paused.is_some()).await?;
        assert_eq!(handle.head(), before, "the pause was written");
        let marks = stage.host.marks("owner", handle.id());
        let told = known
            .attention
            .raised
            .as_ref()
            .filter(|raised| raised.row.is_none_or(|row| !marks.has_seen(row)));
        let why = told.map(|raised| raised.why.as_str());
        assert_eq!(why, (!archived).then_some("storage_full"), "archived: {archived}");
        stage.disk.fill_appends(0);
        stage
            .listed(&handle, |known| known.paused.is_none() && known.attention.raised.is_none())
            .await?;
    }
    Ok(())
}

#[tokio::test]
async fn read_only_file_system_pauses_a_session_until_it_is_writable() -> Result<()> {
    let stage = DiskFixture::new()?;
    let handle = stage.session().await?;
    handle.prompt(prompt_submission("wait; burst 2000 100; echo whole")).await?;
    read_events_until(&handle, |event| {
        matches!(event, Event::Prompt(PromptEvent::TurnStarted { .. }))
    })
    .await?;
    stage.disk.set_read_only(true);
    release_agent(&handle).await?;
    let known = stage.listed(&handle, |known| known.paused.is_some()).await?;
    assert_eq!(known.paused, Some(PauseReason::StorageReadOnly));
    let answer = handle.prompt(prompt_submission("echo no")).await;
    assert!(
        matches!(&answer, Err(CallError::Storage(why)) if why.contains("read-only")),
        "{answer:?}"
    );
    stage.disk.set_read_only(false);
    assert_eq!(count_updates(&read_events_until(&handle, is_ended).await?), 2_001);
    stage.listed(&handle, |known| known.paused.is_none()).await?;
    Ok(())
}

#[tokio::test]
async fn session_is_not_created_without_disk_space() -> Result<()> {
    let stage = DiskFixture::new()?;
    stage.disk.keep_reserve(10);
    stage.disk.fill_appends(usize::MAX);
    assert!(matches!(stage.spawn().await, Err(CreateError::StorageFull)));
    assert_eq!(stage.host.descriptors(), []);
    stage.disk.fill_appends(0);
    stage.session().await?;
    Ok(())
}

#[tokio::test]
async fn append_with_a_failed_sync_is_not_acknowledged() -> Result<()> {
    let stage = DiskFixture::new()?;
    let (handle, other) = (stage.session().await?, stage.session().await?);
    let agent = agent_pid(&stage, &handle)?;
    stage.disk.break_syncs(1);
    let answer = handle.prompt(prompt_submission("echo perhaps")).await;
    assert!(matches!(answer, Err(CallError::Storage(_))), "{answer:?}");
    let known = stage.listed(&handle, |known| known.status == Status::Error).await?;
    assert!(
        known
            .message
            .as_ref()
            .is_some_and(|message| message.contains("could not be written")),
        "{known:?}"
    );
    processes::wait_gone(&[agent], TREE_ENDS_WITHIN)
        .map_err(|left| anyhow::anyhow!("left: {left:?}"))?;
    other.prompt(prompt_submission("echo and on")).await?;
    read_events_until(&other, is_ended).await?;
    Ok(())
}

#[tokio::test]
async fn session_whose_log_failed_goes_on_with_its_queue_when_it_is_opened_again() -> Result<()> {
    let stage = DiskFixture::new()?;
    let handle = stage.session().await?;
    let running = prompt_submission("hang");
    let queued = prompt_submission("echo queued");
    let running_id = running.prompt.clone();
    let queued_id = queued.prompt.clone();
    handle.prompt(running).await?;
    handle.prompt(queued).await?;
    stage.disk.break_syncs(1);
    let answer = handle.prompt(prompt_submission("echo perhaps")).await;
    assert!(matches!(answer, Err(CallError::Storage(_))), "{answer:?}");
    let known = stage.listed(&handle, |known| known.status == Status::Error).await?;
    assert!(
        known
            .message
            .as_ref()
            .is_some_and(|message| message.contains("could not be written")),
        "{known:?}"
    );
    let again = stage.host.open(handle.id()).await?;
    let is_end_of = |event: &Event, id: &PromptId| matches!(event, Event::Prompt(PromptEvent::Ended { prompt, .. }) if prompt == id);
    let all = read_events_until(&again, |event| is_end_of(event, &queued_id)).await?;
    let end_of = |id: &PromptId| {
        let mut ends = all.iter().filter(|event| is_end_of(event, id));
        ends.find_map(|event| {
            if let Event::Prompt(PromptEvent::Ended { end, .. }) = event { Some(end) } else { None }
        })
    };
    assert_eq!(end_of(&running_id), Some(&PromptEnd::AgentExited));
    assert!(
        matches!(end_of(&queued_id), Some(PromptEnd::Answered { .. })),
        "{:?}",
        end_of(&queued_id)
    );
    let ending = all.iter().find_map(|event| {
        if let Event::Session(SessionEvent::Ended(ending)) = event { Some(ending) } else { None }
    });
    let ending = ending.context("the session has not ended")?;
    assert_eq!((ending.status, ending.reason), (Status::Error, EndReason::AgentExited));
    assert_eq!(ending.message.as_deref(), Some("the log could not be written"));
    Ok(())
}

#[tokio::test]
async fn slow_sync_blocks_no_other_session() -> Result<()> {
    let stage = DiskFixture::new()?;
    let (slow, other) = (stage.session().await?, stage.session().await?);
    stage.disk.hold_syncs_of(slow.id().as_str());
    let waiting = tokio::spawn({
        let slow = slow.clone();
        async move { slow.prompt(prompt_submission("echo late")).await }
    });
    read_events_until(&slow, |event| matches!(event, Event::Prompt(PromptEvent::Accepted { .. })))
        .await?;
    for _ in 0..20 {
        let before = other.head();
        other.prompt(prompt_submission("echo quick")).await?;
        let mut cursor = other.cursor(before);
        tokio::time::timeout(WAIT_LIMIT, async {
            while !cursor.next().await?.entries().iter().any(|entry| is_ended(&entry.event)) {}
            anyhow::Ok(())
        })
        .await??;
    }
    // The session's status is known without asking its task; the unsynced prompt was neither
    // acknowledged nor sent.
    assert_eq!(stage.host.descriptor(slow.id()).context("no session")?.status, Status::Running);
    assert!(!waiting.is_finished());
    let updates = slow.cursor(Seq::ZERO).next().await?;
    assert!(
        !updates
            .entries()
            .iter()
            .any(|entry| matches!(entry.event, Event::Agent(AgentEvent::Updated { .. })))
    );
    stage.disk.release_syncs();
    tokio::time::timeout(Duration::from_secs(20), waiting).await???;
    read_events_until(&slow, is_ended).await?;
    Ok(())
}

#[tokio::test]
async fn host_is_not_ready_while_its_disk_fails() -> Result<()> {
    for (break_disk, fault) in [
        (Hostility::break_syncs as fn(&Hostility, usize), StorageFault::Failed),
        (Hostility::break_appends, StorageFault::Failed),
        (|disk, _| disk.set_read_only(true), StorageFault::Failed),
        (Hostility::fill_appends, StorageFault::Full),
    ] {
        let stage = DiskFixture::new()?;
        break_disk(&stage.disk, usize::MAX);
        assert_eq!(stage.host.storage_fault().await, Some(fault));
    }
    assert_eq!(DiskFixture::new()?.host.storage_fault().await, None);
    Ok(())
}
