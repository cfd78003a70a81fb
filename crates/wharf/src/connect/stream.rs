//! A connection to a host: its socket, TCP, or TLS over TCP.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

#[derive(Debug)]
pub(crate) enum HostStream {
    Socket(UnixStream),
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl HostStream {
    /// Returns the pid of the process at the other end, which only a socket tells.
    pub(crate) fn peer_pid(&self) -> Option<u32> {
        match self {
            Self::Socket(stream) => super::peer_pid(stream),
            Self::Tcp(_) | Self::Tls(_) => None,
        }
    }
}

/// Calls a method of the stream that is inside.
macro_rules! inner {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream.get_mut() {
            HostStream::Socket(stream) => {
                let $inner = Pin::new(stream);
                $call
            }
            HostStream::Tcp(stream) => {
                let $inner = Pin::new(stream);
                $call
            }
            HostStream::Tls(stream) => {
                let $inner = Pin::new(stream.as_mut());
                $call
            }
        }
    };
}

impl AsyncRead for HostStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        inner!(self, stream => stream.poll_read(cx, into))
    }
}

impl AsyncWrite for HostStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        inner!(self, stream => stream.poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner!(self, stream => stream.poll_shutdown(cx))
    }
}
