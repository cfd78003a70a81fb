//! Agent tokens: they tell to which session a process belongs. Each process tree that the host
//! starts gets a token in its environment; the host also recognises the tree by its root (rule
//! 10.1).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use wharf_core::SessionId;

use super::process_table;
use crate::ids::random_text;

/// The environment variable with the session's id, for the agent and all that it starts.
pub const SESSION_VARIABLE: &str = "WHARF_SESSION";
/// The environment variable with the token of this very process tree.
pub const TOKEN_VARIABLE: &str = "WHARF_TOKEN";

/// The beginning of every agent token, by which people and the redaction of output recognise one.
const TOKEN_PREFIX: &str = "wharf_agent_";
/// 52 characters of five bits: 260 random bits.
const TOKEN_RANDOM_CHARS: usize = 52;

/// All live agent tokens. The tokens themselves are nowhere but in the processes' environment: only
/// their hashes are kept here, in memory.
#[derive(Debug, Default)]
pub(crate) struct AgentTokens {
    live: Mutex<HashMap<blake3::Hash, TokenHolder>>,
    /// Changes whenever a token ends.
    revoked: watch::Sender<()>,
}

#[derive(Debug)]
struct TokenHolder {
    session: SessionId,
    /// The keeper's pid; 0 before it has one.
    root: u32,
}

/// A recognised token: its bearer belongs to the agent of a session for as long as that agent's
/// process lives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AgentToken {
    session: SessionId,
    digest: blake3::Hash,
}

impl AgentToken {
    pub fn session(&self) -> &SessionId {
        &self.session
    }
}

/// Issues tokens for the processes that are started for one session.
#[derive(Clone, Debug)]
pub(crate) struct TokenIssuer {
    pub(crate) tokens: Arc<AgentTokens>,
    pub(crate) session: SessionId,
}

/// Keeps a token live. Dropping it ends the token.
#[derive(Debug)]
pub(crate) struct TokenGuard {
    tokens: Arc<AgentTokens>,
    digest: blake3::Hash,
}

impl TokenIssuer {
    /// Makes a token. Returns its guard, and its text for the environment of the process.
    pub(crate) fn issue_token(&self) -> (TokenGuard, String) {
        let token = format!("{TOKEN_PREFIX}{}", random_text(TOKEN_RANDOM_CHARS));
        let digest = blake3::hash(token.as_bytes());
        self.tokens
            .lock_live()
            .insert(digest, TokenHolder { session: self.session.clone(), root: 0 });
        (TokenGuard { tokens: Arc::clone(&self.tokens), digest }, token)
    }
}

impl AgentTokens {
    /// Makes the token good again that the host before this one gave to a running process.
    pub(crate) fn restore_token(
        self: &Arc<Self>,
        digest: blake3::Hash,
        session: SessionId,
        root: u32,
    ) -> TokenGuard {
        self.lock_live().insert(digest, TokenHolder { session, root });
        TokenGuard { tokens: Arc::clone(self), digest }
    }
}

impl TokenGuard {
    /// Returns the hash of the token, by which the next host knows it.
    pub(crate) fn digest(&self) -> blake3::Hash {
        self.digest
    }

    /// Notes the root of the token's process tree, once the keeper runs.
    pub(crate) fn set_root(&self, keeper: u32) {
        if let Some(tree) = self.tokens.lock_live().get_mut(&self.digest) {
            tree.root = keeper;
        }
    }
}

impl Drop for TokenGuard {
    fn drop(&mut self) {
        self.tokens.lock_live().remove(&self.digest);
        self.tokens.revoked.send_replace(());
    }
}

impl AgentTokens {
    /// Returns the live token that hashes like `token`. The lookup is by hash, so its duration
    /// reveals nothing that helps to guess a token.
    pub(crate) fn find_by_token(&self, token: &str) -> Option<AgentToken> {
        let digest = blake3::hash(token.as_bytes());
        self.lock_live()
            .get(&digest)
            .map(|tree| AgentToken { session: tree.session.clone(), digest })
    }

    /// Returns the token of the innermost process tree that holds this process.
    pub(crate) fn find_by_process(&self, pid: u32) -> Option<AgentToken> {
        let above = process_table::process_and_ancestors(pid);
        let live = self.lock_live();
        above.iter().find_map(|pid| {
            let (digest, tree) = live.iter().find(|(_, tree)| tree.root == *pid)?;
            Some(AgentToken { session: tree.session.clone(), digest: *digest })
        })
    }

    /// Tells whether the token's process still lives.
    pub(crate) fn is_live(&self, token: &AgentToken) -> bool {
        self.lock_live().contains_key(&token.digest)
    }

    /// Waits until the token's process has ended.
    pub(crate) async fn wait_for_end(&self, token: &AgentToken) {
        let mut revoked = self.revoked.subscribe();
        while self.is_live(token) {
            if revoked.changed().await.is_err() {
                return;
            }
        }
    }

    fn lock_live(&self) -> MutexGuard<'_, HashMap<blake3::Hash, TokenHolder>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_issuer() -> TokenIssuer {
        TokenIssuer { tokens: Arc::default(), session: SessionId::new("sess_1") }
    }

    #[test]
    fn a_token_is_good_while_its_process_lives_and_is_kept_nowhere() {
        let issuer = new_issuer();
        let (guard, token) = issuer.issue_token();
        let known = issuer.tokens.find_by_token(&token).unwrap();
        assert_eq!(known.session().as_str(), "sess_1");
        assert!(
            !format!("{:?} {known:?} {guard:?}", issuer.tokens)
                .contains(&token[TOKEN_PREFIX.len()..])
        );
        drop(guard);
        assert_eq!(issuer.tokens.find_by_token(&token), None);
        assert!(!issuer.tokens.is_live(&known));
    }

    #[tokio::test]
    async fn waiting_for_a_token_ends_with_its_own_process_only() {
        let issuer = new_issuer();
        let ((one, token), (other, _)) = (issuer.issue_token(), issuer.issue_token());
        let known = issuer.tokens.find_by_token(&token).unwrap();
        let gone = issuer.tokens.wait_for_end(&known);
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
        let issuer = new_issuer();
        let ((_one, first), (_two, second)) = (issuer.issue_token(), issuer.issue_token());
        assert_ne!(first, second);
        assert_ne!(issuer.tokens.find_by_token(&first), issuer.tokens.find_by_token(&second));
    }

    #[test]
    fn process_has_the_token_of_the_tree_that_it_is_in() {
        let issuer = new_issuer();
        let (guard, _) = issuer.issue_token();
        let own = std::process::id();
        assert_eq!(issuer.tokens.find_by_process(own), None);
        let ancestry = process_table::process_and_ancestors(own);
        guard.set_root(ancestry[1]);
        assert_eq!(issuer.tokens.find_by_process(own).unwrap().session().as_str(), "sess_1");
        // The tests' runner may be the first process of its namespace: then there is none above it.
        assert!(
            ancestry[2..]
                .iter()
                .all(|above| issuer.tokens.find_by_process(*above).is_none())
        );
    }
}
