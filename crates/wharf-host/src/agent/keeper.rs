//! The keeper: a tiny parent process of the agent that ends the whole tree when told to, or when the host is gone.
//!
//! It runs as `wharf __keeper FD -- COMMAND…`, one per agent, with no runtime and three threads. `FD` is a socket to the
//! host. As long as the host lives it holds the other end; `kill -9` of the host closes it. On Linux the keeper is a
//! subreaper, so whatever the agent started (setsid and double forks included) becomes its child in the end, and
//! "no child is left" means "the tree is gone".

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};

use super::{open_files_limit, process_table};

/// How long a tree has between SIGTERM and SIGKILL when the session is ended (rule 2.2).
pub(super) const END_GRACE: Duration = Duration::from_secs(5);
/// The same for what an agent leaves behind when it exits by itself: its work is done, nobody waits for more.
pub(super) const LEFTOVER_GRACE: Duration = Duration::from_secs(1);
/// How often SIGKILL is repeated: a process may fork while it is being killed.
const KILL_INTERVAL: Duration = Duration::from_millis(20);

/// First words of the lines that the keeper sends to the host.
pub(crate) const STARTED_WORD: &str = "started";
pub(crate) const FAILED_WORD: &str = "failed";
pub(crate) const EXITED_WORD: &str = "exited";
pub(crate) const SIGNALLED_WORD: &str = "signalled";
/// The only line that the host sends: end the tree.
pub(crate) const END_COMMAND: &[u8] = b"end\n";

enum KeeperEvent {
    /// The host said so, or is gone.
    End,
    AgentExited(ExitStatus),
    TreeGone,
}

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
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    match start_agent(program, &command[1..]) {
        Ok(child) => {
            let _ = writeln!(control, "{STARTED_WORD} {}", child.id());
            follow_agent(control, child)
        }
        Err(error) => {
            let _ = writeln!(control, "{FAILED_WORD} {error}");
            ExitCode::from(127)
        }
    }
}

#[expect(unsafe_code, reason = "the one way to own an inherited descriptor")]
fn own_control_socket(fd: RawFd) -> std::io::Result<UnixStream> {
    // SAFETY: the host made this descriptor for us and named it on our command line; nothing else here knows it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // The agent must not hold it, or the host's death would go unseen.
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
    Ok(fd.into())
}

#[expect(clippy::disallowed_methods, reason = "one of the two places that start processes")]
fn start_agent(program: &OsString, args: &[OsString]) -> std::io::Result<std::process::Child> {
    Command::new(program).args(args).env_remove(open_files_limit::LIMIT_VARIABLE).process_group(0).spawn()
}

fn follow_agent(control: UnixStream, child: std::process::Child) -> ExitCode {
    let agent = child.id();
    // The agent holds these now. Our copies would keep its pipes open after its death.
    let _ = rustix::stdio::dup2_stdin(open_null_device(false));
    let _ = rustix::stdio::dup2_stdout(open_null_device(true));
    // Each thread says at most two things.
    let (news, inbox) = sync_channel(4);
    spawn_thread(wait_for_host, control.try_clone().ok(), news.clone());
    std::thread::spawn(move || reap_children(agent, &news));
    run_until_tree_is_gone(&inbox, control, agent)
}

fn open_null_device(write: bool) -> std::fs::File {
    std::fs::OpenOptions::new().read(!write).write(write).open("/dev/null").unwrap_or_else(|_| std::process::exit(70))
}

fn spawn_thread(
    run: fn(UnixStream, &SyncSender<KeeperEvent>),
    control: Option<UnixStream>,
    news: SyncSender<KeeperEvent>,
) {
    if let Some(control) = control {
        std::thread::spawn(move || run(control, &news));
    }
}

/// Waits for a word of the host, or for its end.
fn wait_for_host(mut control: UnixStream, news: &SyncSender<KeeperEvent>) {
    let mut byte = [0_u8; 1];
    let _ = control.read(&mut byte);
    let _ = news.send(KeeperEvent::End);
}

/// Waits for every child there is or will be: ours and those that the subreaper inherits.
fn reap_children(agent: u32, news: &SyncSender<KeeperEvent>) {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) => {
                if pid.as_raw_nonzero().get().unsigned_abs() == agent {
                    let _ = news.send(KeeperEvent::AgentExited(ExitStatus::from_raw(status.as_raw())));
                }
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => {
                let _ = news.send(KeeperEvent::TreeGone);
                return;
            }
        }
    }
}

fn run_until_tree_is_gone(inbox: &Receiver<KeeperEvent>, mut control: UnixStream, agent: u32) -> ExitCode {
    let mut exit = None;
    // Quiet until something ends.
    let mut grace = END_GRACE;
    match inbox.recv() {
        Ok(KeeperEvent::AgentExited(status)) => {
            report_exit(&mut control, status);
            exit = Some(status);
            grace = LEFTOVER_GRACE;
        }
        Ok(KeeperEvent::End | KeeperEvent::TreeGone) | Err(_) => {}
    }
    signal_tree(agent, Signal::TERM);
    let deadline = Instant::now() + grace;
    loop {
        let now = Instant::now();
        let wait = if now < deadline { deadline - now } else { KILL_INTERVAL };
        match inbox.recv_timeout(wait) {
            Ok(KeeperEvent::AgentExited(status)) => {
                report_exit(&mut control, status);
                exit = Some(status);
            }
            Ok(KeeperEvent::End) => {}
            Ok(KeeperEvent::TreeGone) | Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => signal_tree(agent, Signal::KILL),
        }
    }
    exit.and_then(|status| status.code()).map_or(ExitCode::from(1), |code| ExitCode::from((code & 0xff) as u8))
}

fn report_exit(control: &mut UnixStream, status: ExitStatus) {
    let _ = match (status.code(), status.signal()) {
        (Some(code), _) => writeln!(control, "{EXITED_WORD} {code}"),
        (None, signal) => writeln!(control, "{SIGNALLED_WORD} {}", signal.unwrap_or_default()),
    };
}

/// Signals the agent's group and every process that descends from us.
fn signal_tree(agent: u32, signal: Signal) {
    if let Some(group) = i32::try_from(agent).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, signal);
    }
    for pid in process_table::descendant_pids(std::process::id()) {
        process_table::send_signal(pid, signal);
    }
}
