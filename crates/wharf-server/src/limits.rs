//! Limits over all clients of this server, and by token, so that no token takes the share of
//! others.
//!
//! Bytes are counted elsewhere: by `body_limit`, `large_response` and `unfinished_message`, in the
//! host's [`ByteBudget`](wharf_host::ByteBudget).

use std::sync::Arc;

use axum::http::StatusCode;
use wharf_api::ErrorCode;
use wharf_config::Limits;
use wharf_host::{CountLimit, CountPermit, KeyedLimit, KeyedPermit, LimitReached};

use crate::auth::Identity;
use crate::fault::Fault;

/// Callers that look for the newest lines of a log at once; each may read a good part of it.
const MAX_LOG_SCANS: usize = 4;

/// A token's id; `None` stands for our own user over the socket.
pub(crate) type TokenKey = Option<Arc<str>>;

/// A permit that is counted for one token.
pub(crate) type TokenPermit = KeyedPermit<TokenKey>;

#[derive(Clone, Debug)]
pub(crate) struct ServerLimits {
    /// Sockets of callers that have said who they are. How many there are in all is limited where
    /// they are accepted.
    connections: KeyedLimit<TokenKey>,
    /// Connections of ACP over HTTP, which no socket holds.
    http_connections: KeyedLimit<TokenKey>,
    /// Event streams of the REST surface, and calls of MCP that wait.
    streams: KeyedLimit<TokenKey>,
    log_scans: CountLimit,
}

impl ServerLimits {
    pub(crate) fn new(limits: &Limits) -> Self {
        let by_token = |total| KeyedLimit::new(limits.connections_per_token, total);
        Self {
            connections: by_token(usize::MAX),
            http_connections: by_token(limits.connections),
            streams: by_token(limits.connections),
            log_scans: CountLimit::new(MAX_LOG_SCANS),
        }
    }

    /// Counts a socket as this caller's.
    pub(crate) fn count_connection(&self, identity: &Identity) -> Result<TokenPermit, Fault> {
        let limit = self.connections.max_per_key();
        self.connections
            .try_acquire(identity.token.clone())
            .map_err(|_| token_limit_reached("connections", limit))
    }

    /// Takes a permit for a new connection of ACP over HTTP.
    pub(crate) fn open_http_connection(&self, identity: &Identity) -> Result<TokenPermit, Fault> {
        let connections = &self.http_connections;
        connections
            .try_acquire(identity.token.clone())
            .map_err(|reached| match reached {
                LimitReached::OfKey => {
                    token_limit_reached("connections", connections.max_per_key())
                }
                LimitReached::OfAll => {
                    let detail = format!(
                        "{} connections are open already (limits.connections)",
                        connections.max_total()
                    );
                    Fault::new(ErrorCode::TOO_MANY_CONNECTIONS, detail)
                        .with_status(StatusCode::SERVICE_UNAVAILABLE)
                }
            })
    }

    /// Takes a permit for an event stream or a wait.
    pub(crate) fn open_stream(&self, identity: &Identity) -> Result<TokenPermit, Fault> {
        self.streams.try_acquire(identity.token.clone()).map_err(|reached| match reached {
            LimitReached::OfKey => token_limit_reached("event streams and waits", self.streams.max_per_key()),
            LimitReached::OfAll => {
                let detail = "too many event streams and waits are open (limits.connections); close some";
                Fault::new(ErrorCode::TOO_MANY_STREAMS, detail)
            }
        })
    }

    /// Waits until the caller may look for the newest lines of a log.
    pub(crate) async fn acquire_log_scan(&self) -> CountPermit {
        self.log_scans.acquire().await
    }

    pub(crate) fn open_connections(&self) -> usize {
        self.connections.in_use()
    }

    pub(crate) fn open_streams(&self) -> usize {
        self.streams.in_use()
    }
}

fn token_limit_reached(what: &str, limit: usize) -> Fault {
    let detail =
        format!("this token has {limit} {what} open (limits.connections_per_token); close some");
    Fault::new(ErrorCode::TOO_MANY_CONNECTIONS, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Access, Scope};

    fn caller(token: &str) -> Identity {
        Identity {
            token: Some(token.into()),
            access: Access::Observer,
            scope: Scope::Host,
        }
    }

    #[test]
    fn each_token_has_its_own_limit_and_all_tokens_have_another() {
        let limits = ServerLimits::new(&Limits {
            connections_per_token: 2,
            connections: 3,
            ..Limits::default()
        });
        let one = caller("tok_1");
        let two = caller("tok_2");
        let _first = limits.open_stream(&one).unwrap();
        let second = limits.open_stream(&one).unwrap();
        assert_eq!(limits.open_stream(&one).unwrap_err().code(), ErrorCode::TOO_MANY_CONNECTIONS);
        let _other = limits.open_stream(&two).unwrap();
        assert_eq!(limits.open_stream(&two).unwrap_err().code(), ErrorCode::TOO_MANY_STREAMS);
        assert!(limits.open_http_connection(&two).is_ok(), "connections are counted by themselves");
        drop(second);
        assert!(limits.open_stream(&two).is_ok());
    }
}
