//! The peer of a connection, and the local socket, which is only for the user who runs the host.

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tokio::net::{UnixListener, UnixSocket, UnixStream};
use wharf_host::{AgentToken, Host};

use crate::listen::LISTEN_BACKLOG;

/// The source of a connection. It is read when the connection is accepted: later the process or its
/// parent may be gone, and another process may have its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SocketPeer {
    /// TCP, from this address.
    Network(IpAddr),
    /// Our own user over the socket.
    Local,
    /// Over the socket, from the process tree of an agent (rule 10.1).
    Agent(AgentToken),
    /// Over the socket, from a process that the host has started without a session, or that is
    /// gone.
    Stray { pid: u32 },
    /// Over the socket, from a process that the system does not name.
    Unnamed,
    /// Another user over the socket.
    Stranger,
}

impl SocketPeer {
    pub(crate) fn from_stream(stream: &UnixStream, host: &Host) -> Self {
        match stream.peer_cred() {
            Ok(cred) if cred.uid() == rustix::process::geteuid().as_raw() => cred
                .pid()
                .and_then(|pid| u32::try_from(pid).ok())
                .map_or(Self::Unnamed, |pid| Self::from_own_process(pid, host)),
            Ok(_) | Err(_) => Self::Stranger,
        }
    }

    fn from_own_process(pid: u32, host: &Host) -> Self {
        match host.find_agent_token_by_process(pid) {
            Some(badge) => Self::Agent(badge),
            None if host.has_started(pid) => Self::Stray { pid },
            None => Self::Local,
        }
    }

    /// Returns true for processes that the host has started.
    pub(crate) fn is_agent(&self) -> bool {
        match self {
            Self::Agent(_) | Self::Stray { .. } => true,
            Self::Network(_) | Self::Local | Self::Unnamed | Self::Stranger => false,
        }
    }
}

/// Creates the socket with mode 0600. The lease says that no other host runs here, so a socket that
/// exists is left from a host that has ended.
pub(crate) fn bind_private_socket(path: &Path) -> std::io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    // The directory is 0700: no other user reaches the socket before its own mode is set.
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    let listener = socket.listen(LISTEN_BACKLOG)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}
