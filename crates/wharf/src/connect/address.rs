//! Where a host is: at the socket of a state directory, or at a URL.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::remote::RemoteHost;
use super::stream::HostStream;
use super::{ConnectError, open_socket};

#[derive(Clone, Debug)]
pub(crate) enum HostAddress {
    Socket(PathBuf),
    Remote(Arc<RemoteHost>),
}

impl HostAddress {
    pub(crate) async fn open_stream(&self) -> Result<HostStream, ConnectError> {
        match self {
            Self::Socket(path) => open_socket(path).await.map(HostStream::Socket),
            Self::Remote(host) => host.open_stream().await,
        }
    }

    /// Returns the host on another machine.
    pub(crate) fn remote(&self) -> Option<&RemoteHost> {
        match self {
            Self::Socket(_) => None,
            Self::Remote(host) => Some(host),
        }
    }

    pub(crate) fn socket(&self) -> Option<&Path> {
        match self {
            Self::Socket(path) => Some(path),
            Self::Remote(_) => None,
        }
    }

    /// Returns the value of the `Host` header.
    pub(crate) fn authority(&self) -> String {
        self.remote()
            .map_or_else(|| "localhost".to_owned(), |host| host.options.url.authority())
    }

    /// Returns the value of the `Authorization` header. The socket needs none.
    pub(crate) fn authorization(&self) -> Option<String> {
        self.remote()?
            .options
            .token
            .as_ref()
            .map(|token| format!("Bearer {}", token.text))
    }

    /// Returns the path of a route for the request line.
    pub(crate) fn full_path(&self, route: &str) -> String {
        self.remote()
            .map_or_else(|| route.to_owned(), |host| format!("{}{route}", host.options.url.prefix))
    }

    /// Returns the URL of a WebSocket route.
    pub(crate) fn websocket_url(&self, route: &str) -> String {
        let scheme =
            if self.remote().is_some_and(|host| host.options.url.tls) { "wss" } else { "ws" };
        format!("{scheme}://{}{}", self.authority(), self.full_path(route))
    }
}

impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => path.display().fmt(f),
            Self::Remote(host) => host.options.url.fmt(f),
        }
    }
}
