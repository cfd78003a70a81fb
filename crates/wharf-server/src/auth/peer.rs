//! The local socket: only for the user who runs the host.

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tokio::net::{UnixListener, UnixSocket, UnixStream};
use wharf_host::{AgentToken, Host};

use crate::listen::BACKLOG;

/// Where a connection comes from. Told when it comes: later the process may be gone and its number another's, or its
/// parent may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// TCP: anyone who can reach this address, from there.
    Network(IpAddr),
    /// Our own user over the socket.
    Local,
    /// Over the socket, from the process tree of an agent (rule 10.1).
    Agent(AgentToken),
    /// Over the socket, from a process that the host has started for nobody, or that is gone.
    Stray { pid: u32 },
    /// Over the socket, from a process that the system does not name.
    Unnamed,
    /// Someone else over the socket.
    Stranger,
}

impl Peer {
    pub(crate) fn of(stream: &UnixStream, host: &Host) -> Self {
        match stream.peer_cred() {
            Ok(cred) if cred.uid() == rustix::process::geteuid().as_raw() => {
                cred.pid().and_then(|pid| u32::try_from(pid).ok()).map_or(Self::Unnamed, |pid| Self::ours(pid, host))
            }
            Ok(_) | Err(_) => Self::Stranger,
        }
    }

    fn ours(pid: u32, host: &Host) -> Self {
        match host.find_agent_token_by_process(pid) {
            Some(badge) => Self::Agent(badge),
            None if Host::has_started(pid) => Self::Stray { pid },
            None => Self::Local,
        }
    }

    /// Is it below this program?
    pub(crate) fn is_agent(&self) -> bool {
        match self {
            Self::Agent(_) | Self::Stray { .. } => true,
            Self::Network(_) | Self::Local | Self::Unnamed | Self::Stranger => false,
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
