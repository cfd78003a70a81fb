//! The permit of a connection, and the tokens that it is counted for.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use wharf_host::CountPermit;

use crate::auth::Identity;
use crate::fault::Fault;
use crate::limits::{ServerLimits, TokenPermit};

/// The local end of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LocalEndpoint {
    pub(crate) tls: bool,
    /// The local address; `None` for the socket.
    pub(crate) address: Option<IpAddr>,
}

/// A connection's permit under the limits. A WebSocket keeps it, since it outlives its HTTP
/// exchange.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionPermit(Arc<ConnectionState>);

#[derive(Debug)]
struct ConnectionState {
    _permit: CountPermit,
    /// One for each token that was shown on it: several if a proxy sends the requests of several
    /// clients.
    tokens: Mutex<Vec<TokenPermit>>,
    known: watch::Sender<bool>,
}

impl ConnectionPermit {
    pub(super) fn new(permit: CountPermit) -> Self {
        Self(Arc::new(ConnectionState {
            _permit: permit,
            tokens: Mutex::default(),
            known: watch::Sender::new(false),
        }))
    }

    /// Counts the connection for the caller's token, from its first request on.
    pub(crate) fn count_for(
        &self,
        limits: &ServerLimits,
        identity: &Identity,
    ) -> Result<(), Fault> {
        let mut tokens = self.0.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if !tokens.iter().any(|permit| *permit.key() == identity.token) {
            tokens.push(limits.count_connection(identity)?);
            self.0.known.send_replace(true);
        }
        Ok(())
    }

    /// Completes when a caller on this connection has an identity.
    pub(super) async fn identified(&self) {
        let _ = self.0.known.subscribe().wait_for(|known| *known).await;
    }
}

#[cfg(test)]
mod tests {
    use wharf_config::Limits;
    use wharf_host::CountLimit;

    use super::*;
    use crate::auth::{Access, Scope};

    fn caller(token: &str) -> Identity {
        Identity {
            token: Some(token.into()),
            access: Access::Observer,
            scope: Scope::Host,
        }
    }

    #[tokio::test]
    async fn connection_counts_once_for_each_token_that_is_shown_on_it() {
        let limits = ServerLimits::new(&Limits { connections_per_token: 1, ..Limits::default() });
        let place = ConnectionPermit::new(CountLimit::new(1).try_acquire().unwrap());
        for token in ["tok_1", "tok_1", "tok_2", "tok_1"] {
            place.count_for(&limits, &caller(token)).unwrap();
        }
        place.identified().await;
        assert_eq!(limits.open_connections(), 2);
        assert!(
            limits.count_connection(&caller("tok_1")).is_err()
                && limits.count_connection(&caller("tok_2")).is_err()
        );
        drop(place);
        assert_eq!(limits.open_connections(), 0);
    }
}
