//! The local socket: only for the user who runs the host.

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tokio::net::{UnixListener, UnixSocket, UnixStream};

use wharf_host::Host;

use crate::listen::BACKLOG;

/// Where a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// TCP: anyone who can reach this address, from there.
    Network(IpAddr),
    /// Our own user over the socket.
    Local { pid: Option<u32> },
    /// Someone else over the socket.
    Stranger,
}

impl Peer {
    pub(crate) fn of(stream: &UnixStream) -> Self {
        match stream.peer_cred() {
            Ok(cred) if cred.uid() == rustix::process::geteuid().as_raw() => {
                Self::Local { pid: cred.pid().and_then(|pid| u32::try_from(pid).ok()) }
            }
            Ok(_) | Err(_) => Self::Stranger,
        }
    }
}

impl Peer {
    /// Is it below this program? Then it is an agent's. Costs a walk over its ancestors.
    pub(crate) fn is_agent(self) -> bool {
        match self {
            Self::Local { pid: Some(pid) } => Host::has_started(pid),
            Self::Network(_) | Self::Local { pid: None } | Self::Stranger => false,
        }
    }
}

/// Makes the socket with mode 0600. The lease says that no other host lives here, so a socket that is there is a
/// dead one's.
pub(crate) fn bind_private(path: &Path) -> std::io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    // Its directory is 0700: nobody else reaches it before its own mode is set.
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    let listener = socket.listen(BACKLOG)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}
