//! Who holds how many places: in all, and by token, so that no token can take everyone else's.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::auth::Identity;
use crate::fault::Fault;
use wharf_api::ErrorCode;

/// The way that a request came.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Door {
    pub(crate) tls: bool,
    /// The address of ours that it came to; `None` for the socket.
    pub(crate) address: Option<IpAddr>,
}

/// A token's id; `None` stands for our own user over the socket.
type Token = Option<Arc<str>>;

/// Places by token.
#[derive(Debug)]
pub(crate) struct Shares {
    /// What is counted, for people.
    what: &'static str,
    limit: usize,
    held: Mutex<HashMap<Token, usize>>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Share {
    of: Arc<Shares>,
    token: Token,
}

impl Shares {
    pub(crate) fn new(what: &'static str, limit: usize) -> Arc<Self> {
        Arc::new(Self { what, limit, held: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Token, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that are held.
    pub(crate) fn total(&self) -> usize {
        self.lock().values().sum()
    }

    /// One more for this caller.
    pub(crate) fn take(self: &Arc<Self>, identity: &Identity) -> Result<Share, Fault> {
        let mut held = self.lock();
        let count = held.entry(identity.token.clone()).or_default();
        if *count >= self.limit {
            let (what, limit) = (self.what, self.limit);
            let detail = format!("this token has {limit} {what} open (limits.connections_per_token); close some");
            return Err(Fault::new(ErrorCode::TOO_MANY_CONNECTIONS, detail));
        }
        *count += 1;
        Ok(Share { of: Arc::clone(self), token: identity.token.clone() })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.of.lock();
        if let Entry::Occupied(mut count) = held.entry(self.token.take()) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// A connection's place under the limits. One that becomes a WebSocket keeps it: it outlives its HTTP exchange.
#[derive(Clone, Debug)]
pub(crate) struct Place(Arc<Held>);

#[derive(Debug)]
struct Held {
    _permit: OwnedSemaphorePermit,
    /// Of those whose tokens were shown on it: one, unless a proxy sends several clients' requests.
    shares: Mutex<Vec<Share>>,
    known: watch::Sender<bool>,
}

impl Place {
    pub(super) fn new(permit: OwnedSemaphorePermit) -> Self {
        Self(Arc::new(Held { _permit: permit, shares: Mutex::default(), known: watch::Sender::new(false) }))
    }

    /// Counts the connection as this caller's too, from its first request on.
    pub(crate) fn claim(&self, connections: &Arc<Shares>, identity: &Identity) -> Result<(), Fault> {
        let mut shares = self.0.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if !shares.iter().any(|share| share.token == identity.token) {
            shares.push(connections.take(identity)?);
            self.0.known.send_replace(true);
        }
        Ok(())
    }

    /// Done when someone has said who they are.
    pub(super) async fn claimed(&self) {
        let _ = self.0.known.subscribe().wait_for(|known| *known).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Access, Scope};

    fn caller(token: &str) -> Identity {
        Identity { token: Some(token.into()), access: Access::Observer, scope: Scope::Host }
    }

    #[test]
    fn each_token_has_its_own_share_and_gets_it_back() {
        let shares = Shares::new("streams", 2);
        let (one, two) = (caller("tok_1"), caller("tok_2"));
        let first = shares.take(&one).unwrap();
        let _second = shares.take(&one).unwrap();
        let refused = shares.take(&one).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::TOO_MANY_CONNECTIONS);
        let other = shares.take(&two).unwrap();
        drop(first);
        assert!(shares.take(&one).is_ok());
        drop(other);
        assert_eq!(shares.lock().len(), 1, "a token with nothing open costs nothing");
    }

    #[tokio::test]
    async fn a_connection_counts_once_for_each_token_that_is_shown_on_it() {
        let permit = Arc::new(tokio::sync::Semaphore::new(1)).try_acquire_owned().unwrap();
        let (shares, place) = (Shares::new("connections", 1), Place::new(permit));
        for token in ["tok_1", "tok_1", "tok_2", "tok_1"] {
            place.claim(&shares, &caller(token)).unwrap();
        }
        place.claimed().await;
        assert!(shares.take(&caller("tok_1")).is_err() && shares.take(&caller("tok_2")).is_err());
        drop(place);
        assert!(shares.lock().is_empty());
    }
}
