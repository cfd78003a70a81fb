//! Finding the host by its socket: the one that runs, or one that is started. Shared by the bridge and the client verbs.

mod start;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::net::UnixStream;

use crate::exit::{Exit, Failure};
use crate::output;
use start::Starter;
pub(crate) use start::{DETACH, become_agent, detach};

/// How often an absent host is looked for: soon at first, then at a pace that costs nothing.
const FIRST_LOOK: Duration = Duration::from_millis(5);
const LAST_LOOK: Duration = Duration::from_millis(250);
/// A host that was started answers within a second; a large state directory takes longer to read.
const STARTS_WITHIN: Duration = Duration::from_secs(30);
/// After a host has ended without being up: another program's may be on its way.
const ANOTHER_COMES_WITHIN: Duration = Duration::from_secs(3);
/// A host that is gone is usually being restarted by whoever runs it, who shall have time for it.
const RESTARTS_WITHIN: Duration = Duration::from_secs(3);
/// Then nobody is coming.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum NoLink {
    NoHost,
    Refused(anyhow::Error),
}

/// The way to the host of one state directory.
#[derive(Debug)]
pub(crate) struct Reach {
    socket: PathBuf,
    /// Who says that a host was started: `wharf acp`.
    who: &'static str,
    /// `None` if only a host that runs will do.
    starter: Option<Starter>,
}

impl Reach {
    pub(crate) fn new(state_dir: PathBuf, config: Option<PathBuf>, may_start: bool, who: &'static str) -> Self {
        let socket = state_dir.join("wharf.sock");
        Self { socket, who, starter: may_start.then(|| Starter::new(state_dir, config)) }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The first connection, made by `connect`: a host that is not there is started at once.
    pub(crate) async fn first<T>(&mut self, connect: impl AsyncFnMut() -> Result<T, NoLink>) -> anyhow::Result<T> {
        let limit = if self.starter.is_some() { STARTS_WITHIN } else { Duration::ZERO };
        self.look(Duration::ZERO, limit, connect).await
    }

    /// A connection after one that was lost.
    pub(crate) async fn again<T>(&mut self, connect: impl AsyncFnMut() -> Result<T, NoLink>) -> anyhow::Result<T> {
        self.look(RESTARTS_WITHIN, GIVE_UP_AFTER, connect).await
    }

    async fn look<T>(
        &mut self,
        start_after: Duration,
        limit: Duration,
        mut connect: impl AsyncFnMut() -> Result<T, NoLink>,
    ) -> anyhow::Result<T> {
        let since = Instant::now();
        let mut started = false;
        let mut give_up_at = since + limit;
        let mut pause = FIRST_LOOK;
        loop {
            match connect().await {
                Ok(link) => return Ok(link),
                Err(NoLink::Refused(error)) => return Err(error),
                Err(NoLink::NoHost) => {}
            }
            if let Some(starter) = &mut self.starter {
                if !started && since.elapsed() >= start_after {
                    let pid = starter.start()?;
                    output::note(&format!("{}: no host was running; started one (pid {pid})", self.who));
                    started = true;
                    pause = FIRST_LOOK;
                } else if started && starter.has_ended() {
                    // Perhaps because another one was first.
                    give_up_at = give_up_at.min(Instant::now() + ANOTHER_COMES_WITHIN);
                }
            }
            if Instant::now() >= give_up_at {
                return Err(self.nobody(limit > Duration::ZERO));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_LOOK);
        }
    }

    fn nobody(&self, waited: bool) -> anyhow::Error {
        let socket = self.socket.display();
        let words = match &self.starter {
            Some(starter) => format!("no host comes up on {socket}; {}", starter.last_words()),
            None if waited => format!("the host on {socket} is gone and has not come back; start it with: wharf serve"),
            None => format!("no host is running on {socket}; start one with: wharf serve"),
        };
        Failure::new(Exit::NoHost, words).into()
    }
}

/// A connection to the socket, if someone listens there.
pub(crate) async fn open_socket(path: &Path) -> Result<UnixStream, NoLink> {
    match UnixStream::connect(path).await {
        Ok(stream) => Ok(stream),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => Err(NoLink::NoHost),
        Err(error) => {
            let what = format!("connecting to {}", path.display());
            Err(NoLink::Refused(anyhow::Error::from(error).context(what)))
        }
    }
}

/// The process at the other end.
pub(crate) fn peer(stream: &UnixStream) -> Option<u32> {
    stream.peer_cred().ok().and_then(|peer| peer.pid()).and_then(|pid| u32::try_from(pid).ok())
}

/// As it may stand in one segment or value of a URL.
pub(crate) fn percent_encoded(name: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    let encode = |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(encode).collect()
}

/// What the host is told of our environment: where programs are, the locale, and what the agent's adapter names.
pub(crate) fn environment(wanted: &[String]) -> BTreeMap<String, String> {
    let vars =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    vars.filter(|(name, _)| wharf_host::is_always_passed(name) || wanted.contains(name)).collect()
}
