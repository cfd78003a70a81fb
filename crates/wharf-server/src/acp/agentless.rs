//! What is asked before there is a session: `initialize`, logins, and anything else without a session (rule 3.2).

use std::path::PathBuf;
use std::sync::PoisonError;

use bytes::Bytes;
use wharf_host::core::Role;
use wharf_host::{Forward, Introduction, StartFailure, frame, new_client_id};

use super::answers;
use super::client::ClientInfo;
use super::connection::Connection;
use super::errors::{RpcError, from_start, observer, unreadable_answer};
use super::inbound::Outcome;
use crate::auth::Scope;

/// The newest logins that are kept for later agents: more than an agent has ways to log in.
const LOGINS: usize = 8;
/// Bytes of one of them.
const LOGIN: usize = 1 << 20;

impl Connection {
    pub(super) async fn initialize(&self, frame: &Bytes, id: &Bytes) -> Outcome {
        let info = ClientInfo::of(frame)?;
        let _ = self.introduced.set(info);
        let introduction = match self.role() {
            Role::Controller => self.introduce().await?,
            // Observers start nothing, not even for this (rule 4.8).
            Role::Observer => self.app.host.introduced(&self.agent).unwrap_or_else(Introduction::of_nobody),
        };
        let (amux, terminal_auth) = (self.bound.is_some(), self.info().terminal_auth);
        let answer = answers::initialize(&introduction.frame, id, amux, terminal_auth);
        Ok(Some(answer.map_err(unreadable_answer)?))
    }

    /// What the agent says of itself; an agent that had to be started to say it waits for its session.
    async fn introduce(&self) -> Result<Introduction, RpcError> {
        let mut spare = self.spare.lock().await;
        let asked = self.app.host.introduce(&self.agent, &self.told(), self.place().as_deref(), &self.env()).await;
        let (introduction, fresh) = asked.map_err(|failure| from_start(&failure))?;
        if fresh.is_some() {
            *spare = fresh;
        }
        Ok(introduction)
    }

    /// Logs in; this connection's later agents are logged in the same way.
    pub(super) async fn authenticate(&self, frame: &Bytes, id: &Bytes) -> Outcome {
        if frame.len() > LOGIN {
            return Err(RpcError::params(format!("a login may have {LOGIN} bytes")));
        }
        let outcome = self.ask_agent(frame, id).await;
        if let Ok(Some(answer)) = &outcome
            && frame::scan(answer).is_ok_and(|envelope| envelope.kind == frame::FrameKind::Result)
        {
            let mut logins = self.logins();
            if logins.len() >= LOGINS {
                logins.remove(0);
            }
            logins.push(frame.clone());
        }
        outcome
    }

    /// Logs out: every agent of the adapter is told.
    pub(super) async fn logout(&self, frame: &Bytes, id: &Bytes) -> Outcome {
        if self.role() == Role::Observer {
            return Err(observer(""));
        }
        // It takes the agent's account from every session of the machine.
        if self.identity.scope != Scope::Host {
            return Err(RpcError::host_only("logout"));
        }
        self.logins().clear();
        for handle in self.app.host.running(&self.agent) {
            // Asked in nobody's name: the client's own request is answered by the agent without a session.
            let (client, request) = (new_client_id(), Some(id.clone()));
            let _ = handle.tell_agent(Forward { client, frame: frame.clone(), request }).await;
        }
        self.ask_agent(frame, id).await
    }

    /// A request without a session goes to the connection's own agent, which is started for it if need be.
    pub(super) async fn ask_agent(&self, frame: &Bytes, id: &Bytes) -> Outcome {
        if self.role() == Role::Observer {
            return Err(observer(""));
        }
        let mut spare = self.spare.lock().await;
        if spare.is_none() {
            let told = self.told();
            let started = self.app.host.spare(&self.agent, &told, self.place().as_deref(), &self.env()).await;
            *spare = Some(started.map_err(|failure| from_start(&failure))?);
        }
        let Some(agent) = spare.as_mut() else { return Ok(None) };
        let answer = match agent.ask(frame).await {
            Ok(answer) | Err(StartFailure { answer: Some(answer), .. }) => answer,
            Err(failure) => {
                *spare = None;
                return Err(from_start(&failure));
            }
        };
        Ok(frame::scan(&answer).ok().map(|envelope| frame::with_id(&answer, &envelope, id)))
    }

    /// Where an agent without a session is started: where the client last wanted a session, or says that it works.
    fn place(&self) -> Option<PathBuf> {
        let last = self.last_cwd.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (workspaces, ground) = (self.app.host.workspaces(), self.identity.ground());
        // Where it could not have a session it has no agent either (rule 8.6).
        let place = last.or_else(|| self.info().cwd).filter(|place| workspaces.allows(&ground, place));
        // Who has one workspace is there if nowhere else; without it, the host's own directory would be the place.
        place.or_else(|| ground.only().and_then(|_| workspaces.place(&ground, None, None).ok()).map(|place| place.cwd))
    }

    /// What this client's agents may be told of their client.
    pub(super) fn told(&self) -> String {
        self.info().for_agent()
    }
}
