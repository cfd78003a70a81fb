//! The host's handle to a running agent process: it ends the process and reports its exit.

use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::{AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Child;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tracing::Instrument;

use super::agent_token::TokenGuard;
use super::orphans::{self, RegisteredKeeper};
use super::process_records::ProcessRecords;
use super::{keeper, process_table};

/// How a process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AgentExit {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
}

impl AgentExit {
    pub(crate) fn describe_exit(&self) -> String {
        match (self.code, self.signal) {
            (Some(code), _) => format!("the agent exited with code {code}"),
            (None, Some(signal)) => format!("the agent was ended by signal {signal}"),
            (None, None) => "the agent was ended together with its keeper".to_owned(),
        }
    }
}

/// The host's hold on an agent's tree. Dropping it ends the tree, as the host's death would.
#[derive(Debug)]
pub(crate) struct AgentProcess {
    keeper: u32,
    /// The pid of the command itself, below the keeper.
    pid: u32,
    end: mpsc::Sender<()>,
    exit: watch::Receiver<Option<AgentExit>>,
}

impl AgentProcess {
    /// The keeper's pid: the root of the tree.
    pub(crate) fn keeper_pid(&self) -> u32 {
        self.keeper
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn with_pid(self, pid: u32) -> Self {
        Self { pid, ..self }
    }

    /// Asks for the end; returns at once. Asking again does nothing.
    pub(crate) fn request_end(&self) {
        let _ = self.end.try_send(());
    }

    /// Waits until nothing of the tree is left. Once the end was asked for this takes a bounded time, whatever the keeper
    /// does.
    pub(crate) async fn wait_for_exit(&mut self) -> AgentExit {
        match self.exit.wait_for(Option::is_some).await {
            Ok(exit) => exit.clone().unwrap_or_default(),
            Err(_) => AgentExit::default(),
        }
    }
}

/// How long reading the last reports of a keeper may take. They are in the socket already.
const LAST_REPORT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a keeper may take beyond the grace period that it gives its tree. An agent can disable its own keeper (stop it,
/// take its files away), so the host ends the tree itself then.
const KEEPER_DELAY: Duration = Duration::from_millis(1_500);
/// How long the kernel may take over SIGKILL. A process that waits for a device may take for ever.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Tells whether the command was started, or why not.
pub(super) type StartReport = oneshot::Receiver<Result<u32, String>>;

/// Follows the keeper until its tree is gone.
pub(super) fn follow_keeper(
    mut child: Child,
    keeper: RegisteredKeeper,
    control: UnixStream,
    records: ProcessRecords,
    token: Option<TokenGuard>,
) -> (AgentProcess, StartReport) {
    let pid = keeper.0;
    let (end, ends) = mpsc::channel(1);
    let (report, exit) = watch::channel(None);
    let (started, news) = oneshot::channel();
    let mut follower = KeeperFollower::new(pid, control, ends, records.clone(), started);
    let watch = async move {
        let status = match follower.follow_to_end(&mut child).await {
            Some(status) => Some(status),
            None => {
                tracing::warn!(keeper = pid, "a keeper did not end its processes in time; the host ends them");
                end_tree(pid, &mut child).await;
                None
            }
        };
        follower.read_last_reports().await;
        let how = follower.how;
        let by_itself = status.is_some_and(|status| status.code().is_some());
        let left = how == AgentExit::default() || !by_itself;
        if left {
            // The keeper itself was killed: what it had is ended by record, and what has become ours by descent.
            let records = records.clone();
            let _ = tokio::task::spawn_blocking(move || records.end_leftover_tree(pid)).await;
        }
        drop(keeper);
        if left {
            orphans::end_orphans().await;
        }
        records.remove(pid);
        // Before the waiters for the end hear of it: the token is of no use any more.
        drop(token);
        report.send_replace(Some(how));
    };
    tokio::spawn(watch.in_current_span());
    (AgentProcess { keeper: pid, pid: 0, end, exit }, news)
}

/// Ends a tree whose keeper does not.
async fn end_tree(keeper: u32, child: &mut Child) {
    let _ = tokio::task::spawn_blocking(move || process_table::end_tree(keeper)).await;
    if tokio::time::timeout(KILL_TIMEOUT, child.wait()).await.is_err() {
        tracing::error!(keeper, "a keeper cannot be ended, not even by SIGKILL");
    }
}

/// The host's knowledge of a keeper while it runs.
#[derive(Debug)]
struct KeeperFollower {
    keeper: u32,
    news: Lines<BufReader<OwnedReadHalf>>,
    control: OwnedWriteHalf,
    ends: mpsc::Receiver<()>,
    records: ProcessRecords,
    /// Taken when the first news has come.
    started: Option<oneshot::Sender<Result<u32, String>>>,
    how: AgentExit,
    /// When the tree has to be gone, once it is to go.
    deadline: Option<Instant>,
}

impl KeeperFollower {
    fn new(
        keeper: u32,
        control: UnixStream,
        ends: mpsc::Receiver<()>,
        records: ProcessRecords,
        started: oneshot::Sender<Result<u32, String>>,
    ) -> Self {
        use tokio::io::AsyncBufReadExt;
        let (read, control) = control.into_split();
        let (news, started) = (BufReader::new(read).lines(), Some(started));
        Self { keeper, news, control, ends, records, started, how: AgentExit::default(), deadline: None }
    }

    /// Follows the keeper to its end. Returns `None` if it did not end in time.
    async fn follow_to_end(&mut self, child: &mut Child) -> Option<ExitStatus> {
        let mut all_end = self.records.watch_ending();
        let (mut asked, mut talking) = (false, true);
        loop {
            let never = Instant::now() + Duration::from_secs(3_600);
            tokio::select! {
                line = self.news.next_line(), if talking => match line {
                    Ok(Some(line)) => self.take_report(&line),
                    // It is about to end.
                    Ok(None) | Err(_) => {
                        talking = false;
                        self.must_end_within(keeper::LEFTOVER_GRACE);
                    }
                },
                () = wait_for_end(&mut self.ends, &mut all_end), if !asked => {
                    asked = true;
                    let _ = self.control.write_all(keeper::END_COMMAND).await;
                    self.must_end_within(keeper::END_GRACE);
                }
                status = child.wait() => return status.ok(),
                () = tokio::time::sleep_until(self.deadline.unwrap_or(never)), if self.deadline.is_some() => return None,
            }
        }
    }

    /// The first reason counts: the keeper gives its tree one grace period, from then on.
    fn must_end_within(&mut self, grace: Duration) {
        self.deadline.get_or_insert_with(|| Instant::now() + grace + KEEPER_DELAY);
    }

    /// Reads what the keeper wrote just before it ended, which is still in the socket.
    async fn read_last_reports(&mut self) {
        while let Ok(Ok(Some(line))) = tokio::time::timeout(LAST_REPORT_TIMEOUT, self.news.next_line()).await {
            self.take_report(&line);
        }
    }

    fn take_report(&mut self, line: &str) {
        match line.split_once(' ') {
            Some((keeper::STARTED_WORD, agent)) => {
                let agent = agent.parse();
                if let Ok(agent) = agent {
                    self.records.note_agent(self.keeper, agent);
                }
                self.report_start(Ok(agent.unwrap_or_default()));
            }
            Some((keeper::FAILED_WORD, why)) => self.report_start(Err(why.to_owned())),
            Some((keeper::EXITED_WORD, code)) => {
                self.how.code = code.parse().ok();
                self.must_end_within(keeper::LEFTOVER_GRACE);
            }
            Some((keeper::SIGNALLED_WORD, signal)) => {
                self.how.signal = signal.parse().ok();
                self.must_end_within(keeper::LEFTOVER_GRACE);
            }
            _ => {}
        }
    }

    fn report_start(&mut self, outcome: Result<u32, String>) {
        if let Some(started) = self.started.take() {
            let _ = started.send(outcome);
        }
    }
}

/// Waits until the owner asks for the end or drops its hold, or all trees are to end.
async fn wait_for_end(ends: &mut mpsc::Receiver<()>, all_end: &mut watch::Receiver<bool>) {
    tokio::select! {
        _ = ends.recv() => {}
        _ = all_end.wait_for(|ending| *ending) => {}
    }
}
