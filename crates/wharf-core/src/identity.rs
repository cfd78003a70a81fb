//! The identity of a client: which prompts are its own, whichever connection it comes by.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Sender, SessionId};

/// The longest id that a client may give itself. It is kept with every prompt and shown to everyone.
pub const MAX_CHOSEN_ID_BYTES: usize = 256;

/// The id that a client gives itself. It stays the same over reconnects and restarts of the host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChosenId(Arc<str>);

/// An id that a client cannot give itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidChosenId;

impl ChosenId {
    /// Returns the id, unless it is empty, too long or contains control characters.
    pub fn parse(text: &str) -> Result<Self, InvalidChosenId> {
        let fits = !text.is_empty() && text.len() <= MAX_CHOSEN_ID_BYTES && !text.chars().any(char::is_control);
        fits.then(|| Self(text.into())).ok_or(InvalidChosenId)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InvalidChosenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a client id has 1 to {MAX_CHOSEN_ID_BYTES} bytes without control characters")
    }
}

impl std::error::Error for InvalidChosenId {}

/// A client as the owner of prompts and answers. Two connections with equal identities are one client.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientIdentity {
    token: Option<Arc<str>>,
    /// The session whose agent it is: an agent is never its user, whatever it calls itself.
    parent: Option<SessionId>,
    id: Arc<str>,
}

impl Sender {
    /// The id that others are told: the one that the client gave itself, also as an amux peer, else the host's.
    pub fn shown_id(&self) -> &str {
        let peer = self.peer.as_ref().map(|peer| &*peer.id);
        self.chosen.as_ref().map(ChosenId::as_str).or(peer).unwrap_or_else(|| self.client.as_str())
    }

    /// Returns true if the client gave itself an id, so that it is the same client on its next connection.
    pub fn is_known_again(&self) -> bool {
        self.chosen.is_some() || self.peer.is_some()
    }

    /// Returns the identity by which the client is known again on another connection with the same token.
    pub fn identity(&self) -> ClientIdentity {
        ClientIdentity { token: self.token.clone(), parent: self.parent.clone(), id: self.shown_id().into() }
    }

    /// Returns true if both are the same client, perhaps by different connections.
    pub fn is_same_client(&self, other: &Self) -> bool {
        self.token == other.token && self.parent == other.parent && self.shown_id() == other.shown_id()
    }
}
