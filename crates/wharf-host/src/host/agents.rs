//! The agents' processes: which are the host's own, to which session each belongs, and how they
//! reach the host.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use wharf_core::{SessionId, StartFault};

use super::Host;
use super::initialize_cache::InitializeCache;
use crate::agent::agent_log::AgentLogs;
use crate::agent::agent_token::AgentToken;
use crate::agent::initialize::StartFailure;
use crate::agent::process_records::ProcessRecords;
use crate::agent::{AgentTokens, TokenIssuer, process_table};
use crate::ids::random_text;

/// For an agent's tools: where the host answers over TCP, and where its socket is.
const URL_VARIABLE: &str = "WHARF_URL";
const STATE_DIR: &str = "WHARF_STATE_DIR";

/// Holds the agents' processes, their tokens, and the facts that the host knows of their programs.
#[derive(Debug)]
pub(crate) struct AgentProcesses {
    records: ProcessRecords,
    agent_tokens: Arc<AgentTokens>,
    /// Where the host is reached; empty until that is known.
    url: watch::Sender<Arc<str>>,
    /// Random, made once per state directory: the tags of its agents begin with it.
    state_id: String,
    initialize_cache: Arc<InitializeCache>,
    /// Whether the last start of each adapter's agent found a login; `wharf login` opens a session
    /// to find out.
    logins: Mutex<BTreeMap<Arc<str>, bool>>,
    logs: AgentLogs,
}

impl AgentProcesses {
    pub(super) fn new(
        records: ProcessRecords,
        state_id: String,
        initialize_cache: Arc<InitializeCache>,
        logs: AgentLogs,
    ) -> Self {
        let url = watch::Sender::new("".into());
        let agent_tokens = Arc::default();
        let logins = Mutex::default();
        Self {
            records,
            agent_tokens,
            url,
            state_id,
            initialize_cache,
            logins,
            logs,
        }
    }

    /// Returns the logs of agents, by session.
    pub(super) fn logs(&self) -> &AgentLogs {
        &self.logs
    }

    pub(crate) fn tokens(&self) -> &Arc<AgentTokens> {
        &self.agent_tokens
    }

    pub(crate) fn records(&self) -> &ProcessRecords {
        &self.records
    }

    pub(crate) fn initialize_cache(&self) -> &Arc<InitializeCache> {
        &self.initialize_cache
    }

    /// Notes what a start says about the login of the adapter's agent: a session was opened, or a
    /// login was wanted.
    pub(crate) fn note_login<T>(&self, adapter: &Arc<str>, start: &Result<T, StartFailure>) {
        let is_logged_in = match start {
            Ok(_) => true,
            Err(StartFailure { cause: StartFault::LoginNeeded, .. }) => false,
            Err(_) => return,
        };
        self.logins
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(Arc::clone(adapter), is_logged_in);
    }

    /// Returns whether the last start of the adapter's agent by this process found a login.
    pub(super) fn known_login(&self, adapter: &str) -> Option<bool> {
        self.logins.lock().unwrap_or_else(PoisonError::into_inner).get(adapter).copied()
    }

    /// Returns a new tag for an agent's process tree.
    pub(super) fn new_tag(&self) -> String {
        format!("{}.{}", self.state_id, random_text(12))
    }

    /// Returns what gives the agent of a session its token.
    pub(super) fn wearer(&self, session: &SessionId) -> TokenIssuer {
        TokenIssuer {
            tokens: Arc::clone(&self.agent_tokens),
            session: session.clone(),
        }
    }

    /// Returns the variables by which an agent's tools find the host.
    pub(super) fn ways_here(&self, state_dir: &Path) -> Vec<(String, String)> {
        let url = Arc::clone(&self.url.borrow());
        let url =
            Some((URL_VARIABLE.to_owned(), url.to_string())).filter(|(_, url)| !url.is_empty());
        let state = state_dir.to_str().map(|dir| (STATE_DIR.to_owned(), dir.to_owned()));
        url.into_iter().chain(state).collect()
    }
}

impl Host {
    /// Returns true if `pid` is a descendant of this program or of a keeper. Then it is an agent's,
    /// with or without a session, since the host starts nothing else. A process that is gone counts
    /// as an agent's: it could call through a child that ends at once.
    pub fn has_started(&self, pid: u32) -> bool {
        let is_kept = || {
            let keepers = self.inner.agents.records().running_keepers();
            process_table::process_and_ancestors(pid)
                .iter()
                .any(|above| keepers.iter().any(|keeper| keeper.pid == *above))
        };
        process_table::is_gone(pid) || process_table::is_below(pid, std::process::id()) || is_kept()
    }

    /// The badge of the agent's process tree that holds `pid`, if any (rule 10.1).
    pub fn find_agent_token_by_process(&self, pid: u32) -> Option<AgentToken> {
        self.inner.agents.agent_tokens.find_by_process(pid)
    }

    /// The badge of the agent that was given this token, if its process lives.
    pub fn find_agent_token(&self, token: &str) -> Option<AgentToken> {
        self.inner.agents.agent_tokens.find_by_token(token)
    }

    /// Is it still good? It is while the process lives that it was given to.
    pub fn is_agent_token_live(&self, badge: &AgentToken) -> bool {
        self.inner.agents.agent_tokens.is_live(badge)
    }

    /// Done when it is not good any more.
    pub async fn wait_for_agent_token_end(&self, badge: &AgentToken) {
        self.inner.agents.agent_tokens.wait_for_end(badge).await;
    }

    /// Says where this host is reached. Sessions that come back by themselves wait for it, if
    /// [`Config::serves`] is set.
    ///
    /// [`Config::serves`]: wharf_config::Config::serves
    pub fn announce(&self, url: &str) {
        self.inner.agents.url.send_replace(url.into());
    }

    /// Waits until the address of the host is known. Returns at once if no server will announce it.
    pub(super) async fn announced(&self) {
        if self.inner.config.serves {
            let _ = self.inner.agents.url.subscribe().wait_for(|url| !url.is_empty()).await;
        }
    }
}
