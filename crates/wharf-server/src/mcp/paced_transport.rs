//! A transport that stops reading from a client while the client does not take its answers.

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::watch;

use crate::unfinished_message::UnfinishedMessage;

/// With this many unsent messages to the client, nothing more is read from it.
const MAX_UNSENT_MESSAGES: usize = 64;

#[derive(Debug)]
pub(super) struct PacedTransport<T> {
    inner: T,
    unsent: Arc<watch::Sender<usize>>,
    /// The part of the next message that has arrived.
    unfinished: Arc<UnfinishedMessage>,
}

/// Counts one message as unsent until it is dropped.
struct UnsentMessage(Arc<watch::Sender<usize>>);

impl<T> PacedTransport<T> {
    pub(super) fn new(inner: T, unfinished: Arc<UnfinishedMessage>) -> Self {
        Self { inner, unsent: Arc::new(watch::Sender::new(0)), unfinished }
    }
}

impl Drop for UnsentMessage {
    fn drop(&mut self) {
        self.0.send_modify(|unsent| *unsent -= 1);
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for PacedTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.unsent.send_modify(|unsent| *unsent += 1);
        let unsent = UnsentMessage(Arc::clone(&self.unsent));
        let sending = self.inner.send(item);
        async move {
            let sent = sending.await;
            drop(unsent);
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let mut unsent = self.unsent.subscribe();
        unsent.wait_for(|unsent| *unsent < MAX_UNSENT_MESSAGES).await.ok()?;
        let message = self.inner.receive().await;
        drop(self.unfinished.finish());
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use rmcp::model::{EmptyResult, JsonRpcMessage, NumberOrString, ServerResult};

    use super::*;

    /// A transport that never finishes sending and always has something to receive: the end.
    struct Stuck;

    impl Transport<RoleServer> for Stuck {
        type Error = std::io::Error;

        fn send(
            &mut self,
            _: TxJsonRpcMessage<RoleServer>,
        ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
            std::future::pending()
        }

        async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
            None
        }

        async fn close(&mut self) -> Result<(), Self::Error> {
            Ok(())
        }
    }

    #[test]
    fn a_client_that_takes_no_answers_is_not_read() {
        let buffers = wharf_host::ByteBudget::new(&wharf_config::Limits::default());
        let mut paced = PacedTransport::new(Stuck, UnfinishedMessage::new(&buffers));
        let answer = || {
            JsonRpcMessage::response(
                ServerResult::EmptyResult(EmptyResult {}),
                NumberOrString::Number(1),
            )
        };
        let mut under_way = Vec::new();
        for _ in 0..MAX_UNSENT_MESSAGES {
            assert!(paced.receive().now_or_never().is_some(), "it is read while there is room");
            under_way.push(paced.send(answer()));
        }
        assert!(paced.receive().now_or_never().is_none(), "it was read");
        under_way.pop();
        assert!(paced.receive().now_or_never().is_some(), "it is not read again");
    }
}
