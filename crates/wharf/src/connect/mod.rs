//! Finds the host by its socket, and starts one if none is running; or reaches one on another
//! machine by its URL. Shared by the bridge and the client verbs.

mod address;
mod child;
mod host_url;
mod port_watch;
mod programs;
mod remote;
mod start;
mod stream;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::UnixStream;

use crate::exit::{Exit, Failure};
use crate::output;
pub(crate) use address::HostAddress;
pub(crate) use child::{run_in_terminal, start_acp_child, start_detached};
pub(crate) use host_url::HostUrl;
pub(crate) use port_watch::{PortWatch, describe_new_port};
pub(crate) use programs::{
    ManagerOutput, PrivateFolder, fill_tmux_buffer, open_in_browser, run_editor, run_manager,
    run_pager,
};
pub(crate) use remote::{RemoteHost, RemoteOptions, RemoteToken};
use start::HostStarter;
pub(crate) use start::{DETACH_COMMAND, become_agent, detach_host};
pub(crate) use stream::HostStream;
pub(crate) use wharf_tui::percent_encode;

/// The delay between two attempts to connect: short at first, then at a pace that costs nothing.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(5);
const MAX_RETRY_DELAY: Duration = Duration::from_millis(250);
/// A host that was started answers within a second; a large state directory takes longer to read.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// A note announces a start that takes longer, besides the note once the host is up.
const SLOW_START: Duration = Duration::from_secs(2);
/// How long to wait after a started host has ended: another program may have started one at the
/// same time.
const OTHER_HOST_TIMEOUT: Duration = Duration::from_secs(3);
/// A host that has ended is usually restarted by its service manager, which gets this time before
/// one is started here.
const RESTART_GRACE: Duration = Duration::from_secs(3);
/// How long to wait for a host that has ended.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// The reason why a connection failed.
#[derive(Debug)]
pub(crate) enum ConnectError {
    NoHost,
    Refused(anyhow::Error),
}

/// A host that was started here and does not answer yet.
#[derive(Debug)]
struct BegunStart {
    pid: u32,
    ports: PortWatch,
    began_at: Instant,
    is_announced: bool,
}

/// Finds or starts the host of one state directory, or finds one on another machine.
#[derive(Debug)]
pub(crate) struct HostLocator {
    address: HostAddress,
    /// The name of this program in messages: `wharf acp`.
    program: &'static str,
    /// `None` if no host may be started.
    starter: Option<HostStarter>,
    /// True if the locator prints no notes, since the screen belongs to a full-screen client.
    is_silent: bool,
}

impl HostLocator {
    pub(crate) fn new(
        state_dir: PathBuf,
        config: Option<PathBuf>,
        may_start: bool,
        program: &'static str,
    ) -> Self {
        let address = HostAddress::Socket(state_dir.join("wharf.sock"));
        Self {
            address,
            program,
            starter: may_start.then(|| HostStarter::new(state_dir, config)),
            is_silent: false,
        }
    }

    /// Starts a host with these arguments if none is running.
    pub(crate) fn with_arguments(
        state_dir: PathBuf,
        arguments: Vec<String>,
        program: &'static str,
    ) -> Self {
        let address = HostAddress::Socket(state_dir.join("wharf.sock"));
        Self {
            address,
            program,
            starter: Some(HostStarter::with_arguments(state_dir, arguments)),
            is_silent: false,
        }
    }

    /// Finds a host on another machine, which is never started from here.
    pub(crate) fn for_remote(host: RemoteHost, program: &'static str) -> Self {
        Self {
            address: HostAddress::Remote(Arc::new(host)),
            program,
            starter: None,
            is_silent: false,
        }
    }

    /// Prints no notes.
    pub(crate) fn without_notes(self) -> Self {
        Self { is_silent: true, ..self }
    }

    pub(crate) fn address(&self) -> &HostAddress {
        &self.address
    }

    pub(crate) const fn program(&self) -> &'static str {
        self.program
    }

    /// Makes the first connection with `connect`. An absent host is started at once.
    pub(crate) async fn connect_first<T>(
        &mut self,
        connect: impl AsyncFnMut() -> Result<T, ConnectError>,
    ) -> anyhow::Result<T> {
        let limit = if self.starter.is_some() { START_TIMEOUT } else { Duration::ZERO };
        self.connect_with_retries(Duration::ZERO, limit, connect).await
    }

    /// Connects again after a connection was lost.
    pub(crate) async fn reconnect<T>(
        &mut self,
        connect: impl AsyncFnMut() -> Result<T, ConnectError>,
    ) -> anyhow::Result<T> {
        self.connect_with_retries(RESTART_GRACE, RECONNECT_TIMEOUT, connect).await
    }

    async fn connect_with_retries<T>(
        &mut self,
        start_after: Duration,
        limit: Duration,
        mut connect: impl AsyncFnMut() -> Result<T, ConnectError>,
    ) -> anyhow::Result<T> {
        let since = Instant::now();
        let mut start: Option<BegunStart> = None;
        let mut give_up_at = since + limit;
        let mut pause = FIRST_RETRY_DELAY;
        loop {
            match connect().await {
                Ok(link) => {
                    if let Some(start) = start {
                        self.tell_start(&start);
                    }
                    return Ok(link);
                }
                Err(ConnectError::Refused(error)) => return Err(error),
                Err(ConnectError::NoHost) => {}
            }
            if let Some(starter) = &mut self.starter {
                match &mut start {
                    None if since.elapsed() >= start_after => {
                        let ports = PortWatch::begin(starter.state_dir());
                        let pid = starter.start_host()?;
                        start = Some(BegunStart {
                            pid,
                            ports,
                            began_at: Instant::now(),
                            is_announced: self.is_silent,
                        });
                        pause = FIRST_RETRY_DELAY;
                    }
                    // Another host may have been first.
                    Some(_) if starter.has_ended() => {
                        give_up_at = give_up_at.min(Instant::now() + OTHER_HOST_TIMEOUT);
                    }
                    Some(start)
                        if !start.is_announced && start.began_at.elapsed() >= SLOW_START =>
                    {
                        let pid = start.pid;
                        output::print_note(&format!(
                            "{}: no host is running; starting one (pid {pid})",
                            self.program
                        ));
                        start.is_announced = true;
                    }
                    Some(_) | None => {}
                }
            }
            if Instant::now() >= give_up_at {
                return Err(self.no_host_error(limit > Duration::ZERO));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_RETRY_DELAY);
        }
    }

    /// Says that a host was started, and on which port if that is a new one.
    fn tell_start(&self, start: &BegunStart) {
        if self.is_silent {
            return;
        }
        // A host that has ended was not the first one.
        if self.starter.as_ref().is_some_and(|starter| !starter.has_ended()) {
            let pid = start.pid;
            output::print_note(&format!(
                "{}: no host was running; started one (pid {pid})",
                self.program
            ));
        }
        if let Some(note) = start.ports.describe_change() {
            output::print_note(&format!("{}: {note}", self.program));
        }
    }

    fn no_host_error(&self, waited: bool) -> anyhow::Error {
        let socket = &self.address;
        if let Some(host) = self.address.remote() {
            return Failure::new(Exit::NoHost, host.describe_absence()).into();
        }
        let words = match &self.starter {
            Some(starter) => {
                format!("no host comes up on {socket}; {}", starter.describe_log_tail())
            }
            None if waited => format!(
                "the host on {socket} is gone and has not come back; start it with: wharf serve"
            ),
            None => format!("no host is running on {socket}; start one with: wharf serve"),
        };
        Failure::new(Exit::NoHost, words).into()
    }
}

/// Connects to the socket. Returns `NoHost` if the socket is absent, refuses, or closes before the
/// host accepts.
pub(crate) async fn open_socket(path: &Path) -> Result<UnixStream, ConnectError> {
    match UnixStream::connect(path).await {
        Ok(stream) => Ok(stream),
        Err(error) if is_absent_host(error.kind()) => Err(ConnectError::NoHost),
        Err(error) => {
            let what = format!("connecting to {}", path.display());
            Err(ConnectError::Refused(anyhow::Error::from(error).context(what)))
        }
    }
}

fn is_absent_host(kind: ErrorKind) -> bool {
    // A host that dies between the connect and its accept resets the connection.
    matches!(
        kind,
        ErrorKind::NotFound
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe
    )
}

/// Returns the pid of the process at the other end.
pub(crate) fn peer_pid(stream: &UnixStream) -> Option<u32> {
    stream
        .peer_cred()
        .ok()
        .and_then(|peer| peer.pid())
        .and_then(|pid| u32::try_from(pid).ok())
}

/// Returns the variables of this program's environment that the host gets: the path, the locale,
/// and those in `wanted`.
pub(crate) fn forwarded_environment(wanted: &[String]) -> BTreeMap<String, String> {
    let vars = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    vars.filter(|(name, _)| wharf_config::is_always_passed(name) || wanted.contains(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A dying host closes its connections and its listening socket one after the other, so a
    /// client that connects again at once may still find the listening socket and lose the
    /// connection before the host's end is complete.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_listener_that_closes_during_the_connect_counts_as_no_host() -> anyhow::Result<()> {
        const ROUNDS: u32 = 2_000;
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("wharf.sock");
        for _ in 0..ROUNDS {
            let listener = UnixListener::bind(&path)?;
            let closing = std::thread::spawn(move || drop(listener));
            let connected = open_socket(&path).await;
            assert!(!matches!(connected, Err(ConnectError::Refused(_))), "{connected:?}");
            closing.join().expect("the closing thread does not panic");
            std::fs::remove_file(&path)?;
        }
        Ok(())
    }
}
