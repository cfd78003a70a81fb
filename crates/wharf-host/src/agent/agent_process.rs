//! The host's handle to a running agent process: it ends the process, has it kept, and reports its
//! exit.

use std::io::Cursor;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Chain, Interest, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Child;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tracing::Instrument;

use super::agent_token::TokenGuard;
use super::keeper::protocol::{
    DROP, END, EXITED, FAILED, FORGET, GONE, INTRUDER, KeepOrder, LACKED_HOST, SIGNALLED, STARTED,
    send_with_files,
};
use super::kept_files::{KeptFiles, register};
use super::orphans::{self, RegisteredKeeper};
use super::process_records::ProcessRecords;
use super::{keeper, process_table};

/// How a process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AgentExit {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// The keeper has ended it because no host came.
    pub(crate) lacked_host: bool,
}

impl AgentExit {
    /// Returns the exit of an agent that its keeper has ended because no host came.
    pub(crate) fn without_host() -> Self {
        Self { lacked_host: true, ..Self::default() }
    }

    pub(crate) fn describe_exit(&self) -> String {
        match (self.code, self.signal) {
            (Some(code), _) => format!("the agent exited with code {code}"),
            (None, Some(signal)) => format!("the agent was ended by signal {signal}"),
            (None, None) => "the agent was ended together with its keeper".to_owned(),
        }
    }
}

/// An order for the keeper.
#[derive(Debug)]
enum KeeperOrder {
    End,
    Keep(Box<(KeepOrder, KeptFiles, OwnedFd)>),
    Drop,
    /// The host goes, and leaves the agent to its keeper.
    Leave,
    /// The exit of the agent is in the log.
    Release,
    /// The output that a keeper has left cannot be read to its end.
    SetAside,
}

/// The fate of the output that a keeper has left on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputFate {
    /// All of it is in the log: it is of no use any more.
    Logged,
    /// Not all of it could be read: it is for a person to look at.
    Unreadable,
}

/// The host's hold on an agent's tree. Dropping it ends the tree.
#[derive(Debug)]
pub(crate) struct AgentProcess {
    keeper: u32,
    /// The pid of the command itself, below the keeper.
    pid: u32,
    orders: mpsc::Sender<KeeperOrder>,
    exit: watch::Receiver<Option<AgentExit>>,
}

/// Orders that may wait for the task that follows the keeper: there are six kinds, each given once
/// or twice.
const MAX_WAITING_ORDERS: usize = 8;

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

    /// Returns an agent that has ended without a host and has no keeper any more. `finish` is
    /// called with the fate of its left output. If this is dropped without an order, the output
    /// stays for the next host.
    pub(super) fn of_ended_agent(
        exit: AgentExit,
        finish: impl FnOnce(OutputFate) + Send + 'static,
    ) -> Self {
        let (orders_to, mut orders) = mpsc::channel(MAX_WAITING_ORDERS);
        let (_, exit) = watch::channel(Some(exit));
        let watch = async move {
            while let Some(order) = orders.recv().await {
                let fate = match order {
                    KeeperOrder::Release => OutputFate::Logged,
                    KeeperOrder::SetAside => OutputFate::Unreadable,
                    KeeperOrder::End
                    | KeeperOrder::Keep(_)
                    | KeeperOrder::Drop
                    | KeeperOrder::Leave => continue,
                };
                let _ = tokio::task::spawn_blocking(move || finish(fate)).await;
                return;
            }
        };
        tokio::spawn(watch.in_current_span());
        Self { keeper: 0, pid: 0, orders: orders_to, exit }
    }

    /// Returns true for an agent that has ended without a host and has no keeper any more.
    pub(crate) fn has_no_keeper(&self) -> bool {
        self.keeper == 0
    }

    /// Asks for the end; returns at once. Asking again does nothing.
    pub(crate) fn request_end(&self) {
        let _ = self.orders.try_send(KeeperOrder::End);
    }

    /// Lets the agent outlive the host from now on. `listener` is where the next host finds the
    /// keeper.
    pub(super) fn keep(&self, order: KeepOrder, files: KeptFiles, listener: OwnedFd) {
        let _ = self.orders.try_send(KeeperOrder::Keep(Box::new((order, files, listener))));
    }

    /// The agent is not to outlive the host any more, and its stdin closes with the host's own end
    /// of it.
    pub(crate) fn stop_keeping(&self) {
        let _ = self.orders.try_send(KeeperOrder::Drop);
    }

    /// Leaves the agent to its keeper, for the next host. An agent that is not kept is ended by its
    /// keeper.
    pub(crate) fn leave(&self) {
        let _ = self.orders.try_send(KeeperOrder::Leave);
    }

    /// Lets the keeper go, or removes its left output. Called when the log has the agent's exit and
    /// all of its output.
    pub(crate) fn release(self) {
        let _ = self.orders.try_send(KeeperOrder::Release);
    }

    /// Keeps the left output of an agent without a keeper from being removed: not all of it could
    /// be read.
    pub(crate) fn set_output_aside(&self) {
        let _ = self.orders.try_send(KeeperOrder::SetAside);
    }

    /// Waits until the whole tree is gone. After a request to end it, this takes a bounded time,
    /// whatever the keeper does.
    pub(crate) async fn wait_for_exit(&mut self) -> AgentExit {
        match self.exit.wait_for(Option::is_some).await {
            Ok(exit) => exit.clone().unwrap_or_default(),
            Err(_) => AgentExit::default(),
        }
    }
}

/// How long reading the last reports of a keeper may take. They are in the socket already.
const LAST_REPORT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a keeper may take beyond the grace period that it gives its tree. An agent can disable
/// its own keeper (stop it, take its files away), so the host ends the tree itself then.
const KEEPER_DELAY: Duration = Duration::from_millis(1_500);
/// How long the kernel may take over SIGKILL. A process that waits for a device may take for ever.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Tells whether the command was started, or why not.
pub(super) type StartReport = oneshot::Receiver<Result<u32, String>>;

/// The process of a keeper: a child of this host, or a process that this host has taken over.
#[derive(Debug)]
pub(super) enum KeeperProcess {
    Child {
        child: Box<Child>,
        /// Keeps it from being taken for an orphan.
        registration: RegisteredKeeper,
    },
    /// Becomes readable when the process ends.
    Adopted(AsyncFd<OwnedFd>),
}

impl KeeperProcess {
    /// Takes over the keeper with this pid.
    pub(super) fn adopt(pid: u32) -> std::io::Result<Self> {
        use rustix::process::{Pid, PidfdFlags, pidfd_open};
        let pid = i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .ok_or(std::io::ErrorKind::NotFound)?;
        // The handle is only polled, so that it need not be non-blocking, which older kernels do
        // not know.
        let handle = pidfd_open(pid, PidfdFlags::empty())?;
        Ok(Self::Adopted(register(handle, Interest::READABLE)?))
    }

    /// Leaves the keeper to the next host. A child stays registered until this host ends, so that
    /// it does not count as an orphan.
    fn stay_registered(self) {
        match self {
            Self::Child { registration, .. } => std::mem::forget(registration),
            Self::Adopted(_) => {}
        }
    }

    /// Waits until the process has ended.
    async fn wait(&mut self) {
        match self {
            Self::Child { child, .. } => drop(child.wait().await),
            Self::Adopted(handle) => drop(handle.readable().await),
        }
    }
}

/// Follows the keeper until its tree is gone. `control` is the connection to it, with the reports
/// that were read from it already.
pub(super) fn follow_keeper(
    pid: u32,
    mut process: KeeperProcess,
    control: (UnixStream, Vec<u8>),
    records: ProcessRecords,
    token: Option<TokenGuard>,
) -> (AgentProcess, StartReport) {
    let (orders_to, orders) = mpsc::channel(MAX_WAITING_ORDERS);
    let (report, exit) = watch::channel(None);
    let (started, news) = oneshot::channel();
    let mut follower = KeeperFollower::new(pid, control, orders, records.clone(), started);
    let watch = async move {
        match follower.follow_to_end(&mut process).await {
            TreeEnd::Left => {
                process.stay_registered();
                return;
            }
            TreeEnd::Gone => {}
            TreeEnd::KeeperGone => follower.read_last_reports().await,
            TreeEnd::Late => {
                tracing::warn!(
                    keeper = pid,
                    "a keeper did not end its processes in time; the host ends them"
                );
                end_tree(pid, &mut process).await;
                follower.read_last_reports().await;
            }
        }
        if !follower.is_gone {
            // The keeper itself was killed. The host ends the processes that it finds by the
            // record, and by descent those that have become its own.
            let records = records.clone();
            let _ = tokio::task::spawn_blocking(move || records.end_leftover_tree(pid)).await;
        }
        let awaits_host = follower.is_gone && follower.is_kept;
        if !awaits_host {
            follower.wait_for_keeper(&mut process).await;
        }
        // Before the waiters for the end hear of it: the token is of no use any more.
        drop(token);
        if awaits_host {
            report.send_replace(Some(follower.how.clone()));
            if !follower.release_keeper(&mut process).await {
                process.stay_registered();
                return;
            }
        }
        drop(process);
        if !follower.is_gone {
            orphans::end_orphans().await;
        }
        records.remove(pid);
        report.send_replace(Some(follower.how));
    };
    tokio::spawn(watch.in_current_span());
    (AgentProcess { keeper: pid, pid: 0, orders: orders_to, exit }, news)
}

/// Ends a tree whose keeper does not.
async fn end_tree(keeper: u32, process: &mut KeeperProcess) {
    let _ = tokio::task::spawn_blocking(move || process_table::end_tree(keeper)).await;
    if tokio::time::timeout(KILL_TIMEOUT, process.wait()).await.is_err() {
        tracing::error!(keeper, "a keeper cannot be ended, not even by SIGKILL");
    }
}

/// Why a keeper is not followed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TreeEnd {
    /// The keeper reports that its whole tree is gone.
    Gone,
    /// The keeper has ended.
    KeeperGone,
    /// It did not end its tree in time.
    Late,
    /// The tree is left to its keeper.
    Left,
}

/// The host's knowledge of a keeper while it runs.
#[derive(Debug)]
struct KeeperFollower {
    keeper: u32,
    news: Lines<BufReader<Chain<Cursor<Vec<u8>>, OwnedReadHalf>>>,
    control: OwnedWriteHalf,
    orders: mpsc::Receiver<KeeperOrder>,
    records: ProcessRecords,
    /// Taken when the first news has come.
    started: Option<oneshot::Sender<Result<u32, String>>>,
    how: AgentExit,
    /// True once the keeper has reported that its whole tree is gone.
    is_gone: bool,
    is_kept: bool,
    /// When the tree has to be gone, once it is to go.
    deadline: Option<Instant>,
}

impl KeeperFollower {
    fn new(
        keeper: u32,
        (control, reports): (UnixStream, Vec<u8>),
        orders: mpsc::Receiver<KeeperOrder>,
        records: ProcessRecords,
        started: oneshot::Sender<Result<u32, String>>,
    ) -> Self {
        let (read, control) = control.into_split();
        let news = BufReader::new(Cursor::new(reports).chain(read)).lines();
        let started = Some(started);
        let how = AgentExit::default();
        let is_gone = false;
        let is_kept = records.is_kept(keeper);
        let deadline = None;
        Self {
            keeper,
            news,
            control,
            orders,
            records,
            started,
            how,
            is_gone,
            is_kept,
            deadline,
        }
    }

    /// Follows the keeper to the end of its tree.
    async fn follow_to_end(&mut self, process: &mut KeeperProcess) -> TreeEnd {
        let mut all_end = self.records.watch_ending();
        let mut asked = false;
        let mut talking = true;
        loop {
            let never = Instant::now() + Duration::from_secs(3_600);
            tokio::select! {
                line = self.news.next_line(), if talking => match line {
                    Ok(Some(line)) => {
                        self.take_report(&line);
                        if self.is_gone {
                            return TreeEnd::Gone;
                        }
                    }
                    // It is about to end.
                    Ok(None) | Err(_) => {
                        talking = false;
                        self.must_end_within(keeper::LEFTOVER_GRACE);
                    }
                },
                order = next_order(&mut self.orders, &mut all_end), if !asked => match order {
                    KeeperOrder::End | KeeperOrder::Release => {
                        asked = true;
                        self.say(END).await;
                        self.must_end_within(keeper::END_GRACE);
                    }
                    KeeperOrder::Keep(order) => self.order_to_keep(*order).await,
                    KeeperOrder::Drop => {
                        self.is_kept = false;
                        self.say(DROP).await;
                    }
                    KeeperOrder::Leave => return TreeEnd::Left,
                    // Its output is in memory.
                    KeeperOrder::SetAside => {}
                },
                () = process.wait() => return TreeEnd::KeeperGone,
                () = tokio::time::sleep_until(self.deadline.unwrap_or(never)), if self.deadline.is_some() => return TreeEnd::Late,
            }
        }
    }

    async fn say(&mut self, word: &str) {
        let _ = self.control.write_all(format!("{word}\n").as_bytes()).await;
    }

    async fn order_to_keep(&mut self, (order, files, listener): (KeepOrder, KeptFiles, OwnedFd)) {
        let socket: &UnixStream = self.control.as_ref();
        let files: Vec<_> = files.as_fds().into_iter().chain([listener.as_fd()]).collect();
        let sent = socket
            .async_io(Interest::WRITABLE, || send_with_files(socket, &order.to_line(), &files))
            .await;
        match sent {
            Ok(()) => self.is_kept = true,
            Err(error) => {
                tracing::warn!(%error, keeper = self.keeper, "the agent will not outlive this host")
            }
        }
    }

    /// Lets the keeper of a kept agent go once the exit is noted: when the process's handle is
    /// dropped. Returns false if that is left to the next host.
    async fn release_keeper(&mut self, process: &mut KeeperProcess) -> bool {
        loop {
            match self.orders.recv().await {
                None | Some(KeeperOrder::Release) => break,
                Some(KeeperOrder::Leave) => return false,
                Some(
                    KeeperOrder::End
                    | KeeperOrder::Keep(_)
                    | KeeperOrder::Drop
                    | KeeperOrder::SetAside,
                ) => {}
            }
        }
        self.say(FORGET).await;
        self.wait_for_keeper(process).await;
        true
    }

    /// Waits until the keeper has ended, which has nothing left to do.
    async fn wait_for_keeper(&mut self, process: &mut KeeperProcess) {
        if tokio::time::timeout(KEEPER_DELAY, process.wait()).await.is_err() {
            end_tree(self.keeper, process).await;
        }
    }

    /// The first reason counts: the keeper gives its tree one grace period, from then on.
    fn must_end_within(&mut self, grace: Duration) {
        self.deadline.get_or_insert_with(|| Instant::now() + grace + KEEPER_DELAY);
    }

    /// Reads what the keeper wrote just before it ended, which is still in the socket.
    async fn read_last_reports(&mut self) {
        while let Ok(Ok(Some(line))) =
            tokio::time::timeout(LAST_REPORT_TIMEOUT, self.news.next_line()).await
        {
            self.take_report(&line);
        }
    }

    fn take_report(&mut self, line: &str) {
        match line.split_once(' ').unwrap_or((line, "")) {
            (STARTED, agent) => {
                let agent = agent.parse();
                if let Ok(agent) = agent {
                    self.records.note_agent(self.keeper, agent);
                }
                self.report_start(Ok(agent.unwrap_or_default()));
            }
            (FAILED, why) => self.report_start(Err(why.to_owned())),
            (EXITED, code) => {
                self.how.code = code.parse().ok();
                self.must_end_within(keeper::LEFTOVER_GRACE);
            }
            (SIGNALLED, signal) => {
                self.how.signal = signal.parse().ok();
                self.must_end_within(keeper::LEFTOVER_GRACE);
            }
            (LACKED_HOST, _) => {
                self.how.lacked_host = true;
                self.must_end_within(keeper::END_GRACE);
            }
            (GONE, _) => self.is_gone = true,
            (INTRUDER, pid) => {
                tracing::warn!(
                    keeper = self.keeper,
                    pid,
                    "a process that is no host called a keeper and was refused"
                );
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

/// Waits until the owner gives an order or drops its hold, or all trees are to end.
async fn next_order(
    orders: &mut mpsc::Receiver<KeeperOrder>,
    all_end: &mut watch::Receiver<bool>,
) -> KeeperOrder {
    tokio::select! {
        // An agent that is left to its keeper is not ended with the others.
        biased;
        order = orders.recv() => order.unwrap_or(KeeperOrder::End),
        _ = all_end.wait_for(|ending| *ending) => KeeperOrder::End,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn output_of_an_ended_agent_leaves_its_place_by_an_order_alone() {
        type Order = fn(AgentProcess);
        let orders: [(Order, Option<OutputFate>); 3] = [
            (drop, None),
            (AgentProcess::release, Some(OutputFate::Logged)),
            (
                |process| {
                    process.set_output_aside();
                    process.release();
                },
                Some(OutputFate::Unreadable),
            ),
        ];
        for (order, expected) in orders {
            let (told, fate) = oneshot::channel();
            let process = AgentProcess::of_ended_agent(AgentExit::default(), move |fate| {
                let _ = told.send(fate);
            });
            process.request_end();
            process.stop_keeping();
            order(process);
            // The function is gone, whether it was called or not.
            assert_eq!(fate.await.ok(), expected);
        }
    }
}
