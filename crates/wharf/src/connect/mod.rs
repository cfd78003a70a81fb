//! Finding the host by its socket: the one that runs, or one that is started. Shared by the bridge and the client verbs.

mod start;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::net::UnixStream;

use crate::exit::{Exit, Failure};
use crate::output;
use start::HostStarter;
pub(crate) use start::{DETACH_COMMAND, become_agent, detach_host};

/// How often an absent host is looked for: soon at first, then at a pace that costs nothing.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(5);
const MAX_RETRY_DELAY: Duration = Duration::from_millis(250);
/// A host that was started answers within a second; a large state directory takes longer to read.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// After a host has ended without being up: another program's may be on its way.
const OTHER_HOST_TIMEOUT: Duration = Duration::from_secs(3);
/// A host that is gone is usually being restarted by whoever runs it, who shall have time for it.
const RESTART_GRACE: Duration = Duration::from_secs(3);
/// Then nobody is coming.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum ConnectError {
    NoHost,
    Refused(anyhow::Error),
}

/// The way to the host of one state directory.
#[derive(Debug)]
pub(crate) struct HostLocator {
    socket: PathBuf,
    /// Who says that a host was started: `wharf acp`.
    program: &'static str,
    /// `None` if only a host that runs will do.
    starter: Option<HostStarter>,
}

impl HostLocator {
    pub(crate) fn new(state_dir: PathBuf, config: Option<PathBuf>, may_start: bool, program: &'static str) -> Self {
        let socket = state_dir.join("wharf.sock");
        Self { socket, program, starter: may_start.then(|| HostStarter::new(state_dir, config)) }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The first connection, made by `connect`: a host that is not there is started at once.
    pub(crate) async fn connect_first<T>(
        &mut self,
        connect: impl AsyncFnMut() -> Result<T, ConnectError>,
    ) -> anyhow::Result<T> {
        let limit = if self.starter.is_some() { START_TIMEOUT } else { Duration::ZERO };
        self.connect_with_retries(Duration::ZERO, limit, connect).await
    }

    /// A connection after one that was lost.
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
        let mut started = false;
        let mut give_up_at = since + limit;
        let mut pause = FIRST_RETRY_DELAY;
        loop {
            match connect().await {
                Ok(link) => return Ok(link),
                Err(ConnectError::Refused(error)) => return Err(error),
                Err(ConnectError::NoHost) => {}
            }
            if let Some(starter) = &mut self.starter {
                if !started && since.elapsed() >= start_after {
                    let pid = starter.start_host()?;
                    output::print_note(&format!("{}: no host was running; started one (pid {pid})", self.program));
                    started = true;
                    pause = FIRST_RETRY_DELAY;
                } else if started && starter.has_ended() {
                    // Perhaps because another one was first.
                    give_up_at = give_up_at.min(Instant::now() + OTHER_HOST_TIMEOUT);
                }
            }
            if Instant::now() >= give_up_at {
                return Err(self.no_host_error(limit > Duration::ZERO));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_RETRY_DELAY);
        }
    }

    fn no_host_error(&self, waited: bool) -> anyhow::Error {
        let socket = self.socket.display();
        let words = match &self.starter {
            Some(starter) => format!("no host comes up on {socket}; {}", starter.describe_log_tail()),
            None if waited => format!("the host on {socket} is gone and has not come back; start it with: wharf serve"),
            None => format!("no host is running on {socket}; start one with: wharf serve"),
        };
        Failure::new(Exit::NoHost, words).into()
    }
}

/// A connection to the socket, if someone listens there.
pub(crate) async fn open_socket(path: &Path) -> Result<UnixStream, ConnectError> {
    match UnixStream::connect(path).await {
        Ok(stream) => Ok(stream),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            Err(ConnectError::NoHost)
        }
        Err(error) => {
            let what = format!("connecting to {}", path.display());
            Err(ConnectError::Refused(anyhow::Error::from(error).context(what)))
        }
    }
}

/// The process at the other end.
pub(crate) fn peer_pid(stream: &UnixStream) -> Option<u32> {
    stream.peer_cred().ok().and_then(|peer| peer.pid()).and_then(|pid| u32::try_from(pid).ok())
}

/// As it may stand in one segment or value of a URL.
pub(crate) fn percent_encode(name: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    let encode = |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(encode).collect()
}

/// What the host is told of our environment: where programs are, the locale, and what the agent's adapter names.
pub(crate) fn forwarded_environment(wanted: &[String]) -> BTreeMap<String, String> {
    let vars =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    vars.filter(|(name, _)| wharf_host::is_always_passed(name) || wanted.contains(name)).collect()
}
