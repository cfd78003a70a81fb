//! Finding the host by its socket: the one that runs, or one that is started.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::net::UnixStream;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::start::Starter;
use crate::output;

/// How often an absent host is looked for: soon at first, then at a pace that costs nothing.
const FIRST_LOOK: Duration = Duration::from_millis(5);
const LAST_LOOK: Duration = Duration::from_millis(250);
/// A host that was started answers within a second; a large state directory takes longer to read.
const STARTS_WITHIN: Duration = Duration::from_secs(30);
/// After a host has ended without being up: another bridge's may be on its way.
const ANOTHER_COMES_WITHIN: Duration = Duration::from_secs(3);
/// A host that is gone is usually being restarted by whoever runs it, who shall have time for it.
const RESTARTS_WITHIN: Duration = Duration::from_secs(3);
/// Then nobody is coming.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);

/// A connection to the host, and the host's process.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) socket: WebSocketStream<UnixStream>,
    pub(super) host: Option<u32>,
    /// The variables that the agent is to have of ours.
    pub(super) wanted: Vec<String>,
}

/// How to get to the host.
#[derive(Debug)]
pub(crate) struct Dial {
    socket: PathBuf,
    address: String,
    /// `None` if only a host that runs will do.
    starter: Option<Starter>,
}

/// Why there is no connection.
enum NoLink {
    NoHost,
    Refused(anyhow::Error),
}

impl Dial {
    /// To the host of this state directory, and there to this agent.
    pub(crate) fn new(state_dir: PathBuf, agent: Option<&str>, config: Option<PathBuf>, may_start: bool) -> Self {
        let query = agent.map(|agent| format!("?agent={}", percent_encoded(agent))).unwrap_or_default();
        Self {
            socket: state_dir.join("wharf.sock"),
            address: format!("ws://localhost/acp{query}"),
            starter: may_start.then(|| Starter::new(state_dir, config)),
        }
    }

    /// The first connection: a host that is not there is started at once.
    pub(super) async fn first(&mut self) -> anyhow::Result<Link> {
        if self.starter.is_none() {
            return match self.connect().await {
                Ok(link) => Ok(link),
                Err(NoLink::Refused(error)) => Err(error),
                Err(NoLink::NoHost) => {
                    bail!("no host is running on {}; start one with: wharf serve", self.socket.display())
                }
            };
        }
        self.reach(Duration::ZERO, STARTS_WITHIN).await
    }

    /// A connection after one that was lost.
    pub(super) async fn again(&mut self) -> anyhow::Result<Link> {
        self.reach(RESTARTS_WITHIN, GIVE_UP_AFTER).await
    }

    async fn reach(&mut self, start_after: Duration, limit: Duration) -> anyhow::Result<Link> {
        let since = Instant::now();
        let mut started = false;
        let mut give_up_at = since + limit;
        let mut pause = FIRST_LOOK;
        loop {
            match self.connect().await {
                Ok(link) => return Ok(link),
                Err(NoLink::Refused(error)) => return Err(error),
                Err(NoLink::NoHost) => {}
            }
            if let Some(starter) = &mut self.starter {
                if !started && since.elapsed() >= start_after {
                    let pid = starter.start()?;
                    output::note(&format!("wharf acp: no host was running; started one (pid {pid})"));
                    started = true;
                    pause = FIRST_LOOK;
                } else if started && starter.ended().is_some() {
                    // Perhaps because another one was first.
                    give_up_at = give_up_at.min(Instant::now() + ANOTHER_COMES_WITHIN);
                }
            }
            if Instant::now() >= give_up_at {
                return Err(self.nobody());
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_LOOK);
        }
    }

    fn nobody(&self) -> anyhow::Error {
        let socket = self.socket.display();
        match &self.starter {
            Some(starter) => anyhow::anyhow!("no host comes up on {socket}; {}", starter.last_words()),
            None => anyhow::anyhow!("the host on {socket} is gone and has not come back; start it with: wharf serve"),
        }
    }

    async fn connect(&self) -> Result<Link, NoLink> {
        let stream = match UnixStream::connect(&self.socket).await {
            Ok(stream) => stream,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                return Err(NoLink::NoHost);
            }
            Err(error) => {
                let what = format!("connecting to {}", self.socket.display());
                return Err(NoLink::Refused(anyhow::Error::from(error).context(what)));
            }
        };
        let host = stream.peer_cred().ok().and_then(|peer| peer.pid()).and_then(|pid| u32::try_from(pid).ok());
        let request = self.address.as_str().into_client_request().context("naming the agent");
        let request = request.map_err(NoLink::Refused)?;
        // What the host sends is for the client to bear, whatever its size.
        let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        match client_async_with_config(request, stream, Some(config)).await {
            Ok((socket, response)) => {
                let wanted = response.headers().get("wharf-environment").and_then(|names| names.to_str().ok());
                let wanted = wanted.map(|names| names.split(',').map(ToOwned::to_owned).collect()).unwrap_or_default();
                Ok(Link { socket, host, wanted })
            }
            Err(Error::Http(response)) if response.status().is_client_error() => {
                let text = String::from_utf8_lossy(response.body().as_deref().unwrap_or_default()).into_owned();
                let (status, text) = (response.status(), text.trim().to_owned());
                Err(NoLink::Refused(anyhow::anyhow!("the host refuses the connection: {status} {text}")))
            }
            // It went away while it was spoken to, or is full: another try will tell.
            Err(_) => Err(NoLink::NoHost),
        }
    }
}

fn percent_encoded(name: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    let encode = |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(encode).collect()
}
