//! Which session a process of ours belongs to: a badge for each tree that is started, known by a token in its
//! environment and by the root of the tree (rule 10.1).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use wharf_core::SessionId;

use super::sweep;
use crate::ids::random_text;

/// The session's id, for the agent and all that it starts.
pub const SESSION: &str = "WHARF_SESSION";
/// The token of this very process tree.
pub const TOKEN: &str = "WHARF_TOKEN";

/// How an agent's token begins, so that people and redaction know one when they see it.
const PREFIX: &str = "wharf_agent_";
/// 52 characters of five bits: 260 random bits.
const LENGTH: usize = 52;

/// Every badge that is worn. The tokens themselves are nowhere but in the processes' environment: their hashes are here,
/// and only in memory.
#[derive(Debug, Default)]
pub(crate) struct Badges {
    worn: Mutex<HashMap<blake3::Hash, Tree>>,
    /// Told whenever one was taken off.
    taken_off: watch::Sender<()>,
}

#[derive(Debug)]
struct Tree {
    session: SessionId,
    /// The shim's pid; 0 before it has one.
    root: u32,
}

/// Says that its bearer is of the agent of a session, for as long as that agent's process lives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Badge {
    session: SessionId,
    digest: blake3::Hash,
}

impl Badge {
    pub fn session(&self) -> &SessionId {
        &self.session
    }
}

/// For whom badges are made: goes with whatever is started for a session.
#[derive(Clone, Debug)]
pub(crate) struct TokenIssuer {
    pub(crate) badges: Arc<Badges>,
    pub(crate) session: SessionId,
}

/// A badge as the process has it. Dropping it ends the badge.
#[derive(Debug)]
pub(crate) struct TokenGuard {
    badges: Arc<Badges>,
    digest: blake3::Hash,
}

impl TokenIssuer {
    /// A new badge, and the token for the environment of its process.
    pub(crate) fn issue(&self) -> (TokenGuard, String) {
        let token = format!("{PREFIX}{}", random_text(LENGTH));
        let digest = blake3::hash(token.as_bytes());
        self.badges.worn().insert(digest, Tree { session: self.session.clone(), root: 0 });
        (TokenGuard { badges: Arc::clone(&self.badges), digest }, token)
    }
}

impl TokenGuard {
    /// Now its process is there.
    pub(crate) fn rooted_at(&self, shim: u32) {
        if let Some(tree) = self.badges.worn().get_mut(&self.digest) {
            tree.root = shim;
        }
    }
}

impl Drop for TokenGuard {
    fn drop(&mut self) {
        self.badges.worn().remove(&self.digest);
        self.badges.taken_off.send_replace(());
    }
}

impl Badges {
    /// Whose token is this? Looked up by its hash, about which the time that it takes can tell nothing that helps to
    /// find a token.
    pub(crate) fn of_token(&self, token: &str) -> Option<Badge> {
        let digest = blake3::hash(token.as_bytes());
        self.worn().get(&digest).map(|tree| Badge { session: tree.session.clone(), digest })
    }

    /// In whose tree is this process? In the innermost, if there are several.
    pub(crate) fn of_process(&self, pid: u32) -> Option<Badge> {
        let above = sweep::ancestry(pid);
        let worn = self.worn();
        above.iter().find_map(|pid| {
            let (digest, tree) = worn.iter().find(|(_, tree)| tree.root == *pid)?;
            Some(Badge { session: tree.session.clone(), digest: *digest })
        })
    }

    /// Does its process still live?
    pub(crate) fn is_worn(&self, badge: &Badge) -> bool {
        self.worn().contains_key(&badge.digest)
    }

    /// Done when its process does not live any more.
    pub(crate) async fn gone(&self, badge: &Badge) {
        let mut taken_off = self.taken_off.subscribe();
        while self.is_worn(badge) {
            if taken_off.changed().await.is_err() {
                return;
            }
        }
    }

    fn worn(&self) -> MutexGuard<'_, HashMap<blake3::Hash, Tree>> {
        self.worn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wearer() -> TokenIssuer {
        TokenIssuer { badges: Arc::default(), session: SessionId::new("sess_1") }
    }

    #[test]
    fn a_token_is_good_while_its_process_lives_and_is_kept_nowhere() {
        let wearer = wearer();
        let (worn, token) = wearer.issue();
        let badge = wearer.badges.of_token(&token).unwrap();
        assert_eq!(badge.session().as_str(), "sess_1");
        assert!(!format!("{:?} {badge:?} {worn:?}", wearer.badges).contains(&token[PREFIX.len()..]));
        drop(worn);
        assert_eq!(wearer.badges.of_token(&token), None);
        assert!(!wearer.badges.is_worn(&badge));
    }

    #[tokio::test]
    async fn who_waits_for_a_badge_hears_of_its_own_end() {
        let wearer = wearer();
        let ((one, token), (other, _)) = (wearer.issue(), wearer.issue());
        let badge = wearer.badges.of_token(&token).unwrap();
        let gone = wearer.badges.gone(&badge);
        tokio::pin!(gone);
        drop(other);
        let early = tokio::select! {
            biased;
            () = &mut gone => true,
            () = std::future::ready(()) => false,
        };
        assert!(!early, "it took another's end for its own");
        drop(one);
        gone.await;
    }

    #[test]
    fn every_start_has_a_token_of_its_own() {
        let wearer = wearer();
        let ((_one, first), (_two, second)) = (wearer.issue(), wearer.issue());
        assert_ne!(first, second);
        assert_ne!(wearer.badges.of_token(&first), wearer.badges.of_token(&second));
    }

    #[test]
    fn a_process_wears_the_badge_of_the_tree_that_it_is_in() {
        let wearer = wearer();
        let (worn, _) = wearer.issue();
        let own = std::process::id();
        assert_eq!(wearer.badges.of_process(own), None);
        let ancestry = sweep::ancestry(own);
        worn.rooted_at(ancestry[1]);
        assert_eq!(wearer.badges.of_process(own).unwrap().session().as_str(), "sess_1");
        // The tests' runner may be the first process of its namespace: then there is none above it.
        assert!(ancestry[2..].iter().all(|above| wearer.badges.of_process(*above).is_none()));
    }
}
