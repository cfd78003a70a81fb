//! The agent of a connection that has no session yet: it answers `initialize`, logins and other
//! requests without a session, and becomes the agent of the first session that it can serve (rule
//! 3.2).

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use wharf_host::{Host, InitializeResponse, PrestartedAgent, SessionHandle, StartFailure};

use super::client_profile::ClientProfile;

#[derive(Debug)]
pub(super) struct UnboundAgent {
    host: Host,
    adapter: Arc<str>,
    /// The agent that waits for its session. Held while it is asked.
    waiting: tokio::sync::Mutex<Option<PrestartedAgent>>,
    /// The directory in which the client last wanted a session.
    last_cwd: Mutex<Option<PathBuf>>,
}

/// The answer to a request without a session.
#[derive(Debug)]
pub(super) enum UnboundAnswer {
    /// The agent of this session is to be asked instead.
    Session(SessionHandle),
    Frame(Bytes),
}

impl UnboundAgent {
    pub(super) fn new(host: Host, adapter: Arc<str>) -> Self {
        Self {
            host,
            adapter,
            waiting: tokio::sync::Mutex::default(),
            last_cwd: Mutex::default(),
        }
    }

    /// Returns the slug of the adapter that the connection means.
    pub(super) fn adapter(&self) -> &Arc<str> {
        &self.adapter
    }

    /// Returns what an agent of the adapter has said of itself to this or another client.
    pub(super) fn known_response(&self) -> Option<InitializeResponse> {
        self.host.introduced(&self.adapter)
    }

    /// Asks the agent for its description of itself. An agent that had to be started for that waits
    /// for its session.
    pub(super) async fn introduce(
        &self,
        client: &ClientProfile,
    ) -> Result<InitializeResponse, StartFailure> {
        let mut waiting = self.waiting.lock().await;
        let told = client.info().for_agent();
        let place = self.place(client);
        let (response, fresh) = self
            .host
            .introduce(&self.adapter, &told, place.as_deref(), &client.env())
            .await?;
        if fresh.is_some() {
            *waiting = fresh;
        }
        Ok(response)
    }

    /// Asks the agent that waits. If there is none, the session that `own_session` returns has the
    /// agent to ask; if there is no such session, an agent is started (rule 12.15).
    pub(super) async fn ask(
        &self,
        client: &ClientProfile,
        frame: &Bytes,
        own_session: impl FnOnce() -> Option<SessionHandle> + Send,
    ) -> Result<UnboundAnswer, StartFailure> {
        let mut waiting = self.waiting.lock().await;
        let agent = match waiting.as_mut() {
            Some(agent) => agent,
            None => {
                if let Some(handle) = own_session() {
                    return Ok(UnboundAnswer::Session(handle));
                }
                let told = client.info().for_agent();
                let place = self.place(client);
                waiting.insert(
                    self.host.spare(&self.adapter, &told, place.as_deref(), &client.env()).await?,
                )
            }
        };
        match agent.ask(frame).await {
            Ok(answer) | Err(StartFailure { answer: Some(answer), .. }) => {
                Ok(UnboundAnswer::Frame(answer))
            }
            Err(failure) => {
                *waiting = None;
                Err(failure)
            }
        }
    }

    /// Returns true if an agent waits for its session.
    pub(super) async fn is_waiting(&self) -> bool {
        self.waiting.lock().await.is_some()
    }

    /// Notes where the client wants a session.
    pub(super) fn note_cwd(&self, cwd: &Path) {
        self.last_cwd
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace(cwd.to_owned());
    }

    /// Takes the agent that waits; `None` if it cannot serve a session in this directory, in which
    /// case it ends.
    pub(super) async fn take_for(&self, cwd: &Path) -> Option<PrestartedAgent> {
        let waiting = self.waiting.lock().await.take();
        waiting.filter(|agent| agent.can_serve(cwd))
    }

    /// Ends the agent that waits.
    pub(super) async fn discard(&self) {
        self.waiting.lock().await.take();
    }

    /// Returns where an agent without a session is started: where the client last wanted a session,
    /// or says that it works.
    fn place(&self, client: &ClientProfile) -> Option<PathBuf> {
        let last = self.last_cwd.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let workspaces = self.host.workspaces();
        let scope = client.identity().directory_scope();
        // Where the client could not have a session it has no agent either (rule 8.6).
        let place = last
            .or_else(|| client.info().cwd)
            .filter(|place| workspaces.allows_path(&scope, place));
        // A client with one workspace is there if nowhere else; otherwise the host's own directory
        // would be the place.
        place.or_else(|| {
            scope
                .only_workspace()
                .and_then(|_| workspaces.resolve_in_scope(&scope, None, None).ok())
                .map(|place| place.cwd)
        })
    }
}
