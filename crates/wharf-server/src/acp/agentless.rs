//! What is asked before there is a session: `initialize`, logins, and anything else without a session (rule 3.2).

use std::path::PathBuf;
use std::sync::PoisonError;

use bytes::Bytes;
use wharf_host::core::{Role, Status};
use wharf_host::{Forward, InitializeResponse, SessionHandle, StartFailure, frame, new_client_id};

use super::answers;
use super::client::ClientInfo;
use super::connection::{Attached, Connection};
use super::errors::{RpcError, from_start, unreadable_answer};
use super::inbound::Outcome;

/// Bytes of one of them.
const LOGIN: usize = 1 << 20;

impl Connection {
    pub(super) async fn initialize(&self, frame: &Bytes, id: &Bytes) -> Outcome {
        let info = ClientInfo::of(frame)?;
        let _ = self.introduced.set(info);
        let info = self.info();
        let known = || self.app.host.introduced(&self.agent);
        let introduction = match self.role() {
            // Observers start nothing, not even for this (rule 4.8).
            Role::Observer => known().unwrap_or_else(InitializeResponse::without_agent),
            Role::Controller if info.returns => known().unwrap_or_else(InitializeResponse::without_agent),
            Role::Controller if info.joins => match known() {
                Some(known) => known,
                None => self.introduce().await?,
            },
            Role::Controller => self.introduce().await?,
        };
        let (amux, terminal_auth) = (self.bound.is_some(), info.terminal_auth);
        let answer = answers::initialize(&introduction.frame, id, amux, terminal_auth);
        Ok(Some(answer.map_err(unreadable_answer)?))
    }

    /// What the agent says of itself; an agent that had to be started to say it waits for its session.
    async fn introduce(&self) -> Result<InitializeResponse, RpcError> {
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
            self.ledger.add_login(frame.clone());
        }
        outcome
    }

    /// Logs out: every agent of the adapter is told.
    pub(super) async fn logout(&self, frame: &Bytes, id: &Bytes) -> Outcome {
        let caller = self.caller();
        caller.may_change()?;
        // It takes the agent's account from every session of the machine.
        caller.may_see_host()?;
        self.ledger.clear_logins();
        // The one that answers the client's own request is not told twice.
        let own = if self.spare.lock().await.is_none() { self.own_session() } else { None };
        let others = self.app.host.running(&self.agent).into_iter();
        for handle in others.filter(|handle| own.as_ref().is_none_or(|own| own.id() != handle.id())) {
            // Asked in no client's name: the client's own request is answered by the connection's own agent.
            let (client, request) = (new_client_id(), Some(id.clone()));
            let _ = handle.tell_agent(Forward { client, frame: frame.clone(), request }).await;
        }
        self.ask_agent(frame, id).await
    }

    /// A request without a session goes to the agent process that the connection has: the one that waits for its session,
    /// else that of a session. If there is none, one is started (rule 12.15).
    pub(super) async fn ask_agent(&self, frame: &Bytes, id: &Bytes) -> Outcome {
        self.caller().may_change()?;
        let mut spare = self.spare.lock().await;
        if spare.is_none()
            && let Some(handle) = self.own_session()
        {
            drop(spare);
            return self.pass_on(&handle, frame, id).await;
        }
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

    /// Returns the newest session that this client controls and whose agent is one of the connection's adapter.
    fn own_session(&self) -> Option<SessionHandle> {
        let fits = |attached: &Attached| {
            let known = attached.handle.descriptor();
            attached.role == Role::Controller && known.status == Status::Running && known.adapter_slug == *self.agent
        };
        let own = self.all_attached().into_iter().filter(fits).map(|attached| attached.handle);
        // Ids sort by age.
        own.max_by(|a, b| a.id().as_str().cmp(b.id().as_str()))
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

    /// Returns the capabilities that this client's agents may be told.
    pub(super) fn told(&self) -> String {
        self.info().for_agent()
    }
}
