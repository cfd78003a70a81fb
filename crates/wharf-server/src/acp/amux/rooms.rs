//! The peers that are connected to a session's name: each peer id once, and one start of the
//! session at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};
use wharf_host::core::SessionId;

use crate::acp::outbound::Out;
use crate::auth::Scope;

/// How long a peer id that is in use is waited for: a client that comes back may be faster than the
/// news that it left.
const PEER_LEAVE_WAIT: Duration = Duration::from_millis(500);

/// Holds a room for each name that has connections. Rooms do not record sessions: a session has its
/// name in its log.
#[derive(Debug, Default)]
pub(crate) struct Rooms(Mutex<HashMap<Arc<str>, Weak<Room>>>);

/// One name, for as long as a connection uses it.
#[derive(Debug)]
pub(super) struct Room {
    rooms: Arc<Rooms>,
    pub(super) name: Arc<str>,
    peers: Mutex<Vec<Sitter>>,
    /// Where the frames of each peer's connection go.
    outs: Mutex<Vec<(Sitter, mpsc::WeakSender<Out>)>>,
    left: Notify,
    /// Held while a connection looks for the session and starts it if there is none.
    pub(super) starting: tokio::sync::Mutex<()>,
}

/// A peer id that is in use for as long as this is.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) room: Arc<Room>,
    peer: Sitter,
}

/// Identifies a peer by its user's scope and its peer id. A name that is used in two scopes may
/// stand for two sessions, and a peer of one session must not learn who is in the other.
pub(super) type Sitter = (Scope, Arc<str>);

impl Rooms {
    /// `None` if that peer id is in use there, and stays so.
    pub(super) async fn sit(self: &Arc<Self>, name: &Arc<str>, peer: Sitter) -> Option<Seat> {
        let room = self.room(name);
        let seated = async {
            loop {
                // Asked for before looking, so that one who leaves in between is not missed.
                let mut left = std::pin::pin!(room.left.notified());
                left.as_mut().enable();
                if let Some(seat) = room.take(&peer) {
                    return seat;
                }
                left.await;
            }
        };
        tokio::time::timeout(PEER_LEAVE_WAIT, seated).await.ok()
    }

    fn room(self: &Arc<Self>, name: &Arc<str>) -> Arc<Room> {
        let mut rooms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(room) = rooms.get(name).and_then(Weak::upgrade) {
            return room;
        }
        let room = Arc::new(Room {
            rooms: Arc::clone(self),
            name: Arc::clone(name),
            peers: Mutex::default(),
            outs: Mutex::default(),
            left: Notify::new(),
            starting: tokio::sync::Mutex::default(),
        });
        rooms.insert(Arc::clone(name), Arc::downgrade(&room));
        room
    }
}

impl Room {
    fn take(self: &Arc<Self>, peer: &Sitter) -> Option<Seat> {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if peers.contains(peer) {
            return None;
        }
        peers.push(peer.clone());
        Some(Seat { room: Arc::clone(self), peer: peer.clone() })
    }

    /// Sends a frame to every other peer of the same scope. A connection that is full misses the
    /// frame, which its client does not depend on.
    pub(super) fn tell_others(&self, (scope, id): &Sitter, session: &SessionId, frame: &Bytes) {
        for ((_, _), out) in self
            .outs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .filter(|((other_scope, other), _)| other_scope == scope && other != id)
        {
            if let Some(out) = out.upgrade() {
                let _ = out.try_send(Out::Answer {
                    session: Some(session.clone()),
                    frame: frame.clone().into(),
                });
            }
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut rooms = self.rooms.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A new room with this name may have been opened since the last peer left this one.
        if rooms.get(&self.name).is_some_and(|room| room.strong_count() == 0) {
            rooms.remove(&self.name);
        }
    }
}

impl Seat {
    /// Adds the peer's connection to those that get the frames for the whole room.
    pub(super) fn listen(&self, out: mpsc::WeakSender<Out>) {
        let mut outs = self.room.outs.lock().unwrap_or_else(PoisonError::into_inner);
        outs.push((self.peer.clone(), out));
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.room
            .outs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|(peer, _)| *peer != self.peer);
        self.room
            .peers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|peer| *peer != self.peer);
        self.room.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_peer_id_is_taken_until_its_seat_is_given_up() {
        let rooms = Arc::new(Rooms::default());
        let (work, play, ann): (Arc<str>, Arc<str>, Arc<str>) =
            ("work".into(), "play".into(), "ann".into());
        let ann = || (Scope::Host, Arc::clone(&ann));
        let seat = rooms.sit(&work, ann()).await;
        assert!(seat.is_some());
        assert!(rooms.sit(&work, ann()).await.is_none());
        assert!(rooms.sit(&play, ann()).await.is_some(), "another name is another room");
        let elsewhere = (Scope::Workspace("w".into()), ann().1);
        assert!(rooms.sit(&work, elsewhere).await.is_some(), "and another scope another circle");
        let (again, ()) = tokio::join!(rooms.sit(&work, ann()), async { drop(seat) });
        assert!(again.is_some(), "one who comes back at once is waited for");
        drop(again);
        assert!(rooms.0.lock().unwrap().is_empty(), "nothing is kept of an empty room");
    }
}
