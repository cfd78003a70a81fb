//! The keeper: a tiny parent process of the agent. It ends the whole tree when told to, and it
//! keeps the agent's pipes while no host is there.
//!
//! It runs as `wharf __keeper FD -- COMMAND…`, one per process tree, with no runtime and two
//! threads. `FD` is a socket to the host, which holds the other end for as long as it lives; `kill
//! -9` of the host closes it. Then the keeper ends the tree, unless the host has told it to
//! [keep](protocol::KEEP) the agent: then it moves the agent's output into a file in memory and
//! waits for the next host. While a host is there, the keeper copies nothing and sleeps.
//!
//! The keeper is a subreaper, so whatever the agent started (setsid and double forks included)
//! becomes its child in the end, and "no child is left" means "the tree is gone".

mod absence;
mod callers;
mod children;
mod host_check;
pub(crate) mod protocol;

use std::ffi::OsString;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal};

use super::{open_files_limit, process_table};
use absence::{Absence, KeptAgent};
use callers::{CallerVerdict, Callers};
use children::{ChildEvent, ChildEvents};
use protocol::{
    DROP, END, EXITED, FAILED, FORGET, GONE, INTRUDER, KEEP, KeepOrder, LACKED_HOST, LineReceiver,
    SIGNALLED, STARTED,
};

/// How long a tree has between SIGTERM and SIGKILL when the session is ended (rule 2.2).
pub(super) const END_GRACE: Duration = Duration::from_secs(5);
/// The same for the processes that an agent leaves behind when it exits by itself: its work is
/// done, and no caller waits for more.
pub(super) const LEFTOVER_GRACE: Duration = Duration::from_secs(1);
/// How often SIGKILL is repeated: a process may fork while it is being killed.
const FIRST_KILL_INTERVAL: Duration = Duration::from_millis(20);
/// A process that cannot be killed must not keep the keeper busy.
const MAX_KILL_INTERVAL: Duration = Duration::from_secs(1);
/// How many refused callers the keeper reports to the next host. More of them say nothing new.
const MAX_REFUSED_CALLERS: usize = 16;

/// Runs the keeper; `args` are those after `__keeper`.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter();
    let fd = args.next().and_then(|fd| fd.to_str()?.parse().ok());
    let command: Vec<OsString> = args.skip_while(|arg| arg == "--").collect();
    let (Some(fd), Some(program)) = (fd, command.first()) else {
        return ExitCode::from(64);
    };
    let Ok(mut control) = own_control_socket(fd) else {
        return ExitCode::from(64);
    };
    open_files_limit::restore_limit();
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    match start_agent(program, &command[1..]) {
        Ok(child) => {
            let _ = writeln!(control, "{STARTED} {}", child.id());
            release_own_stdio();
            match ChildEvents::follow(child.id()) {
                Ok(children) => Keeper::new(child.id(), control, children).run(),
                Err(_) => ExitCode::from(70),
            }
        }
        Err(error) => {
            let _ = writeln!(control, "{FAILED} {error}");
            ExitCode::from(127)
        }
    }
}

#[expect(unsafe_code, reason = "the one way to own an inherited descriptor")]
fn own_control_socket(fd: RawFd) -> std::io::Result<UnixStream> {
    // SAFETY: the host made this descriptor for us and named it on our command line; nothing else
    // here knows it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // The agent must not hold it, or the host's death would go unseen.
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
    Ok(fd.into())
}

#[expect(clippy::disallowed_methods, reason = "one of the two places that start processes")]
fn start_agent(program: &OsString, args: &[OsString]) -> std::io::Result<std::process::Child> {
    use std::os::unix::process::CommandExt;
    Command::new(program)
        .args(args)
        .env_remove(open_files_limit::LIMIT_VARIABLE)
        .process_group(0)
        .spawn()
}

/// The agent holds these now. Copies of ours would keep its pipes open after its death, and our
/// directory busy.
fn release_own_stdio() {
    let null = |write: bool| {
        let file = std::fs::OpenOptions::new().read(!write).write(write).open("/dev/null");
        file.unwrap_or_else(|_| std::process::exit(70))
    };
    let _ = rustix::stdio::dup2_stdin(null(false));
    let _ = rustix::stdio::dup2_stdout(null(true));
    let _ = rustix::stdio::dup2_stderr(null(true));
    let _ = std::env::set_current_dir("/");
}

/// How far the end of the tree has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tree {
    Running,
    /// SIGTERM was sent; SIGKILL is due then.
    Ending {
        kill_at: Instant,
    },
    Gone,
}

#[derive(Debug)]
struct Keeper {
    agent: u32,
    /// The connection to the host, while there is one.
    host: Option<UnixStream>,
    from_host: LineReceiver,
    children: ChildEvents,
    exit: Option<ExitStatus>,
    tree: Tree,
    /// The pause before SIGKILL is repeated.
    kill_interval: Duration,
    /// Set if the agent outlives its host.
    kept: Option<KeptAgent>,
    /// Set while a kept agent has no host.
    absence: Option<Absence>,
    callers: Callers,
    /// The processes that called in the absence of a host and were refused, for the next host.
    refused_callers: Vec<u32>,
    is_forgotten: bool,
    /// The agent was ended because no host came in time.
    has_ended_agent: bool,
}

impl Keeper {
    fn new(agent: u32, host: UnixStream, children: ChildEvents) -> Self {
        let from_host = LineReceiver::default();
        let tree = Tree::Running;
        let host = Some(host);
        Self {
            agent,
            host,
            from_host,
            children,
            exit: None,
            tree,
            kill_interval: FIRST_KILL_INTERVAL,
            kept: None,
            absence: None,
            callers: Callers::default(),
            refused_callers: Vec::new(),
            is_forgotten: false,
            has_ended_agent: false,
        }
    }

    fn run(mut self) -> ExitCode {
        while !self.is_done() {
            let ready = self.wait();
            if ready.children {
                self.take_child_events();
            }
            if ready.host {
                self.take_host_messages();
            }
            if let (Some(kept), Some(absence)) = (&mut self.kept, &mut self.absence) {
                absence.spool(kept, ready.stdout, ready.stderr);
            }
            self.take_callers(ready.listener);
            self.keep_time();
        }
        if let Some(kept) = &self.kept {
            kept.remove_socket();
        }
        self.exit
            .and_then(|status| status.code())
            .map_or(ExitCode::from(1), |code| ExitCode::from((code & 0xff) as u8))
    }

    /// Returns true once the keeper can end. It first reports the exit of a kept agent to a host.
    /// If no host has come in time, the exit is on the disk.
    fn is_done(&self) -> bool {
        let is_awaited = self.kept.is_some() && !self.is_forgotten;
        self.tree == Tree::Gone
            && (!is_awaited || self.absence.as_ref().is_some_and(Absence::is_settled))
    }

    /// Sleeps until something is to be done.
    fn wait(&self) -> Ready {
        let timeout = self.next_time().map(|at| at.saturating_duration_since(Instant::now()));
        // A poll that wakes before its time would be one more round.
        let timeout = timeout.map(|left| Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        let spools =
            |kept: &&KeptAgent| self.absence.as_ref().is_some_and(|absence| absence.has_room(kept));
        let kept = self.kept.as_ref();
        let sources = [
            // Its other end is closed once no child is left.
            (self.tree != Tree::Gone).then(|| self.children.as_fd()),
            self.host.as_ref().map(AsFd::as_fd),
            kept.filter(|_| self.callers.is_open()).map(|kept| kept.listener.as_fd()),
            kept.filter(spools).map(|kept| kept.files.stdout.as_fd()),
            kept.filter(|_| self.absence.as_ref().is_some_and(|absence| absence.reads_stderr))
                .map(|kept| kept.files.stderr.as_fd()),
        ];
        let mut polled: Vec<PollFd<'_>> = sources
            .iter()
            .flatten()
            .copied()
            .chain(self.callers.sockets())
            .map(poll_for_input)
            .collect();
        if rustix::event::poll(&mut polled, timeout.as_ref()).is_err() {
            return Ready::default();
        }
        let mut events = polled.iter().map(|fd| !fd.revents().is_empty());
        let mut is_ready =
            |source: usize| sources[source].is_some() && events.next().unwrap_or_default();
        Ready {
            children: is_ready(0),
            host: is_ready(1),
            listener: is_ready(2),
            stdout: is_ready(3),
            stderr: is_ready(4),
        }
    }

    fn next_time(&self) -> Option<Instant> {
        let kill_at = if let Tree::Ending { kill_at } = self.tree { Some(kill_at) } else { None };
        let absence = self.absence.as_ref();
        let limit = absence.and_then(Absence::next_limit);
        let save = absence.filter(|_| self.tree == Tree::Gone).and_then(Absence::next_save);
        kill_at
            .into_iter()
            .chain(limit)
            .chain(save)
            .chain(self.callers.next_time())
            .min()
    }

    /// Does everything that is due by now.
    fn keep_time(&mut self) {
        let now = Instant::now();
        if let Tree::Ending { kill_at } = self.tree
            && kill_at <= now
        {
            self.signal_tree(Signal::KILL);
            self.tree = Tree::Ending { kill_at: now + self.kill_interval };
            self.kill_interval = (self.kill_interval * 2).min(MAX_KILL_INTERVAL);
        }
        if let (Some(kept), Some(absence)) = (&self.kept, &mut self.absence)
            && absence.is_limit_reached(kept, now)
        {
            self.has_ended_agent |= self.exit.is_none();
            self.end_tree(END_GRACE);
        }
        if self.tree == Tree::Gone
            && let (Some(kept), Some(absence)) = (&self.kept, &mut self.absence)
            && absence.next_save().is_some_and(|at| at <= now)
        {
            absence.save(kept, self.exit.filter(|_| !self.has_ended_agent), now);
        }
    }

    fn take_child_events(&mut self) {
        for event in self.children.take() {
            match event {
                ChildEvent::AgentExited(status) => {
                    self.exit = Some(status);
                    self.tell(&describe_exit(status));
                    self.end_tree(LEFTOVER_GRACE);
                }
                ChildEvent::NoneLeft => {
                    self.tree = Tree::Gone;
                    self.tell(GONE);
                }
            }
        }
    }

    fn tell(&mut self, line: &str) {
        if let Some(host) = &mut self.host {
            // A host that is gone is noticed by the next poll.
            let _ = host.write_all(format!("{line}\n").as_bytes());
        }
    }

    /// Signals the agent's group and every process that descends from us. Once the agent is reaped,
    /// the number of its group may be another's.
    fn signal_tree(&self, signal: Signal) {
        let agent = Some(self.agent).filter(|_| self.exit.is_none());
        if let Some(group) =
            agent.and_then(|agent| i32::try_from(agent).ok()).and_then(Pid::from_raw)
        {
            let _ = rustix::process::kill_process_group(group, signal);
        }
        for pid in process_table::descendant_pids(std::process::id()) {
            process_table::send_signal(pid, signal);
        }
    }

    fn end_tree(&mut self, grace: Duration) {
        if self.tree == Tree::Running {
            self.signal_tree(Signal::TERM);
            self.tree = Tree::Ending { kill_at: Instant::now() + grace };
        }
    }

    fn take_host_messages(&mut self) {
        let Some(host) = &self.host else { return };
        let is_open = self.from_host.receive(host).unwrap_or(false);
        while let Some(line) = self.from_host.next_line() {
            match line.split_once(' ').unwrap_or((&line, "")) {
                (END, _) => {
                    if let Some(kept) = &mut self.kept {
                        kept.close_stdin();
                    }
                    self.end_tree(END_GRACE);
                }
                (KEEP, words) => {
                    let files = std::mem::take(&mut self.from_host.files);
                    self.kept =
                        KeepOrder::parse(words).and_then(|order| KeptAgent::new(order, files));
                }
                (DROP, _) => self.drop_kept(),
                (FORGET, _) => self.is_forgotten = true,
                _ => {}
            }
        }
        if !is_open {
            self.lose_host();
        }
    }

    /// The agent is not to outlive its host any more.
    fn drop_kept(&mut self) {
        self.callers = Callers::default();
        if let Some(kept) = self.kept.take() {
            kept.remove_socket();
        }
    }

    fn lose_host(&mut self) {
        (self.host, self.from_host) = (None, LineReceiver::default());
        match &self.kept {
            Some(kept) => self.absence = Some(Absence::begin(kept)),
            None => self.end_tree(END_GRACE),
        }
    }

    /// Takes the processes that call: the next host, or intruders.
    fn take_callers(&mut self, accepts: bool) {
        let Some(kept) = &self.kept else { return };
        let now = Instant::now();
        let mut verdicts =
            if accepts { self.callers.accept(&kept.listener, now) } else { Vec::new() };
        verdicts.extend(self.callers.read(&kept.order.secret, now));
        for verdict in verdicts {
            match verdict {
                CallerVerdict::Host(mut caller) if self.host.is_some() => {
                    let _ = caller.write_all(format!("{}\n", protocol::BUSY).as_bytes());
                }
                CallerVerdict::Host(caller) => self.take_over(caller),
                CallerVerdict::Refused(pid) if self.host.is_some() => {
                    self.tell(&format!("{INTRUDER} {pid}"))
                }
                CallerVerdict::Refused(pid) if self.refused_callers.len() < MAX_REFUSED_CALLERS => {
                    self.refused_callers.push(pid);
                }
                CallerVerdict::Refused(_) => {}
            }
        }
    }

    fn take_over(&mut self, host: UnixStream) {
        let (Some(kept), Some(absence)) = (&self.kept, &self.absence) else { return };
        let fate = AgentFate {
            agent: self.agent,
            exit: self.exit,
            lacked_host: self.has_ended_agent,
            is_gone: self.tree == Tree::Gone,
        };
        if absence.greet(kept, &host, &fate.to_reports(&self.refused_callers)).is_err() {
            return;
        }
        (self.host, self.absence) = (Some(host), None);
        self.refused_callers.clear();
    }
}

/// Holds the facts that the keeper reports to a host which takes an agent over.
#[derive(Clone, Copy, Debug)]
struct AgentFate {
    agent: u32,
    exit: Option<ExitStatus>,
    lacked_host: bool,
    is_gone: bool,
}

impl AgentFate {
    fn to_reports(self, refused_callers: &[u32]) -> String {
        let Self { agent, exit, lacked_host, is_gone } = self;
        let mut lines = vec![format!("{STARTED} {agent}")];
        lines.extend(refused_callers.iter().map(|pid| format!("{INTRUDER} {pid}")));
        lines.extend(lacked_host.then(|| LACKED_HOST.to_owned()));
        lines.extend(exit.map(describe_exit));
        lines.extend(is_gone.then(|| GONE.to_owned()));
        lines.into_iter().map(|line| line + "\n").collect()
    }
}

fn describe_exit(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("{EXITED} {code}"),
        (None, signal) => format!("{SIGNALLED} {}", signal.unwrap_or_default()),
    }
}

fn poll_for_input(fd: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(fd, PollFlags::IN)
}

/// The sources that have something.
#[derive(Clone, Copy, Debug, Default)]
struct Ready {
    children: bool,
    host: bool,
    listener: bool,
    stdout: bool,
    stderr: bool,
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::super::kept_files::{KeptFiles, create_file};
    use super::*;

    #[test]
    fn host_learns_with_the_first_message_that_the_agent_has_ended() {
        let temp = tempfile::tempdir().unwrap();
        let socket = temp.path().join("1");
        let listener = UnixListener::bind(&socket).unwrap();
        let hour = Duration::from_secs(3_600);
        let socket = socket.to_str().unwrap().to_owned();
        let order = KeepOrder {
            secret: "s".to_owned(),
            absence: hour,
            idle_absence: hour,
            max_spool_bytes: 1,
            socket,
        };
        let mut files: Vec<OwnedFd> =
            (0..KeptFiles::COUNT).map(|_| create_file("test").unwrap()).collect();
        files.push(listener.into());
        let kept = KeptAgent::new(order, files).unwrap();
        let (_own_host, last_host) = UnixStream::pair().unwrap();
        // The process has no child with this number.
        let mut keeper = Keeper::new(7, last_host, ChildEvents::follow(7).unwrap());
        keeper.kept = Some(kept);
        keeper.lose_host();
        keeper.exit = Some(ExitStatus::from_raw(15));
        (keeper.tree, keeper.has_ended_agent) = (Tree::Gone, true);
        keeper.refused_callers = (1..=16).collect();
        let (host, far) = UnixStream::pair().unwrap();
        keeper.take_over(far);
        let mut receiver = LineReceiver::default();
        assert!(receiver.receive(&host).unwrap());
        let lines: Vec<String> = std::iter::from_fn(|| receiver.next_line()).collect();
        assert_eq!(lines.get(1).map(String::as_str), Some("started 7"), "{lines:?}");
        assert_eq!(lines[2..].len(), 16 + 3, "{lines:?}");
        assert_eq!(lines[18..], ["lacked-host", "signalled 15", "gone"]);
        assert_eq!(receiver.files.len(), KeptFiles::COUNT + 1);
    }
}
