//! Clients: the sender that is stored with a fact, and the identity that decides which prompts are
//! its own on every connection.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{ClientId, Role, SessionId};

/// The longest id that a client may give itself. It is stored with every prompt and shown to all
/// clients.
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
        let fits = !text.is_empty()
            && text.len() <= MAX_CHOSEN_ID_BYTES
            && !text.chars().any(char::is_control);
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

/// The client that did something. It is part of the fact and stored with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// The connection.
    pub client: ClientId,
    /// The id that the client gave itself: by this and the token it is recognised on another
    /// connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<ChosenId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Arc<str>>,
    /// The id of its token (never the token).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// Its name among amux clients (rule 9.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Peer>,
}

/// An amux client's own id, and the role that it chose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    pub id: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Arc<str>>,
}

/// A client as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub sender: Sender,
    pub role: Role,
}

/// A client as the owner of prompts and answers. Two connections with equal identities are one
/// client.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientIdentity {
    token: Option<Arc<str>>,
    /// The session of an agent that is a client: an agent is never its user, whatever id it gives
    /// itself.
    parent: Option<SessionId>,
    id: Arc<str>,
}

impl Sender {
    /// Returns the id that others see: the client's own id, also as an amux peer, else the host's.
    pub fn shown_id(&self) -> &str {
        let peer = self.peer.as_ref().map(|peer| &*peer.id);
        self.chosen
            .as_ref()
            .map(ChosenId::as_str)
            .or(peer)
            .unwrap_or_else(|| self.client.as_str())
    }

    /// Returns true if the client gave itself an id, so that it is the same client on its next
    /// connection.
    pub fn is_known_again(&self) -> bool {
        self.chosen.is_some() || self.peer.is_some()
    }

    /// Returns the identity by which the client is recognised on another connection with the same
    /// token.
    pub fn identity(&self) -> ClientIdentity {
        ClientIdentity {
            token: self.token.clone(),
            parent: self.parent.clone(),
            id: self.shown_id().into(),
        }
    }

    /// Returns true if both are the same client, perhaps on different connections.
    pub fn is_same_client(&self, other: &Self) -> bool {
        self.token == other.token
            && self.parent == other.parent
            && self.shown_id() == other.shown_id()
    }
}
