//! The transport of a client: a sink for whole messages and a stream of received ones.

use anyhow::Result;
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, SplitSink};
use futures_util::{FutureExt, SinkExt, StreamExt, future};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// The sending half of a transport.
pub trait FrameSink: Send {
    fn send(&mut self, text: String) -> BoxFuture<'_, Result<()>>;
    /// Ends the connection from this side.
    fn close(&mut self) -> BoxFuture<'_, Result<()>>;
}

/// The receiving half of a transport; an `Err` is the last item and says how the connection ended.
pub type FrameStream = BoxStream<'static, Result<String, String>>;

/// Splits a WebSocket into both halves of a transport.
pub(super) fn split_socket<S>(socket: WebSocketStream<S>) -> (Box<dyn FrameSink>, FrameStream)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sink, stream) = socket.split();
    let frames = stream.filter_map(|message| {
        future::ready(
            message.map_or_else(|error| Some(Err(format!("lost: {error}"))), message_text),
        )
    });
    (Box::new(SocketSink(sink)), frames.boxed())
}

fn message_text(message: Message) -> Option<Result<String, String>> {
    match message {
        Message::Text(text) => Some(Ok(text.as_str().to_owned())),
        Message::Binary(bytes) => Some(Ok(String::from_utf8_lossy(&bytes).into_owned())),
        Message::Close(None) => Some(Err("closed".to_owned())),
        Message::Close(Some(frame)) => {
            Some(Err(format!("closed {} {}", u16::from(frame.code), frame.reason.as_str())))
        }
        Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => None,
    }
}

struct SocketSink<S>(SplitSink<WebSocketStream<S>, Message>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send> FrameSink for SocketSink<S> {
    fn send(&mut self, text: String) -> BoxFuture<'_, Result<()>> {
        async move { Ok(self.0.send(Message::text(text)).await?) }.boxed()
    }

    fn close(&mut self) -> BoxFuture<'_, Result<()>> {
        async move { Ok(self.0.close().await?) }.boxed()
    }
}
