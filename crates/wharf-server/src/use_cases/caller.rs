//! The caller of a use case: its rights, and how it is recorded (rule 7.5).

use std::collections::BTreeMap;
use std::sync::Arc;

use wharf_api::ErrorCode;
use wharf_host::core::{ChosenId, ClientId, Role, Sender, SessionId};

use super::faults::unknown_session;
use crate::App;
use crate::auth::{Access, Identity, Scope};
use crate::fault::Fault;

/// Bounds a client's name or version, which is recorded with every prompt.
const MAX_NAME_CHARS: usize = 200;

/// Returns a client's name or version in the form that is recorded and shown: without control
/// characters, and cut off if it is too long. Returns `None` if no characters are left.
pub(crate) fn shown_name(given: &str) -> Option<Arc<str>> {
    let name: String = given.chars().filter(|c| !c.is_control()).take(MAX_NAME_CHARS).collect();
    (!name.is_empty()).then(|| name.into())
}

/// The caller of a use case: an identity, the role that it acts in, and how it is recorded.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) identity: Identity,
    role: Role,
    is_connected: bool,
    sender: Sender,
}

/// Returns the client id of a caller without a connection. It is the same at every call with the
/// same token.
pub(crate) fn client_id_without_connection(identity: &Identity) -> ClientId {
    ClientId::new(format!("api_{}", identity.token.as_deref().unwrap_or("local")))
}

impl Caller {
    /// Creates a caller without a connection. All calls with the same token are recorded as the
    /// same client.
    pub(crate) fn new(identity: Identity, name: Option<&str>) -> Self {
        let client = client_id_without_connection(&identity);
        let name = name.and_then(shown_name);
        let token = identity.token.clone();
        let parent = identity.agent_session().cloned();
        let sender = Sender {
            client,
            chosen: None,
            name,
            version: None,
            token,
            parent,
            peer: None,
        };
        Self { role: identity.role(), identity, is_connected: false, sender }
    }

    /// A client on an ACP connection. It may have asked for less than its identity allows, for all
    /// sessions or for one.
    pub(crate) const fn for_connection(identity: Identity, role: Role, sender: Sender) -> Self {
        Self { identity, role, is_connected: true, sender }
    }

    /// Sets the id that the client chose for itself. With it, the client is recognised on other
    /// surfaces.
    pub(crate) fn with_chosen_id(mut self, chosen: Option<ChosenId>) -> Self {
        self.sender.chosen = chosen;
        self
    }

    /// Removes `PATH` from the environment unless the caller is an admin: with its own `PATH` a
    /// caller could run a program of its choice instead of the agent.
    pub(crate) fn allowed_env(
        &self,
        mut env: BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        env.retain(|name, _| self.identity.is_admin() || name != "PATH");
        env
    }

    /// Refuses observers.
    pub(crate) fn may_change(&self) -> Result<(), Fault> {
        let detail = match self.role {
            Role::Controller => return Ok(()),
            Role::Observer if self.identity.agent_session().is_some() => {
                "agents have read-only access to their own session"
            }
            Role::Observer if self.identity.access == Access::Observer => {
                "this token only observes; use one that was made with `--role controller`"
            }
            Role::Observer => {
                "this client is connected or attached as an observer; connect or attach it as a controller"
            }
        };
        Err(Fault::new(ErrorCode::OBSERVER, detail))
    }

    /// Refuses a client that is attached to this session as an observer. The client is recognised
    /// by its token and the id that it chose (`Wharf-Client-Id`).
    pub(crate) async fn may_change_as_attached(&self, app: &App, id: &str) -> Result<(), Fault> {
        if !app.host.is_observer(&SessionId::new(id), self.sender()).await {
            return Ok(());
        }
        let detail = "this client is attached to the session as an observer; detach it, or attach it as a controller";
        Err(Fault::new(ErrorCode::OBSERVER, detail))
    }

    /// Refuses a caller that may not work in this session. An agent may in sessions that it led to,
    /// if it may delegate and calls by REST or MCP; by ACP it only looks, and in its own session it
    /// never may.
    pub(crate) fn may_work_in(&self, app: &App, id: &str) -> Result<(), Fault> {
        if self.is_connected {
            return self.may_change().map_err(|fault| fault.with_session(id));
        }
        let Some(agent) = self.identity.agent_session() else { return self.may_change() };
        let session = app
            .visible_to(&self.identity)
            .descriptor(&SessionId::new(id))
            .ok_or_else(|| unknown_session(id))?;
        let own = app.host.descriptor(agent);
        let delegates =
            own.is_some_and(|own| app.host.config().delegation.lets_start(&own.adapter_slug));
        if delegates && session.descends_from(agent) { Ok(()) } else { self.may_change() }
    }

    /// Refuses callers that may not answer asks of this session. An agent may answer for sessions
    /// that descend from its own only if `delegation.answer` is set: otherwise it could grant
    /// permissions that its user would refuse.
    pub(crate) fn may_answer_in(&self, app: &App, id: &str) -> Result<(), Fault> {
        self.may_work_in(app, id)?;
        if self.identity.agent_session().is_none() || app.host.config().delegation.answer {
            return Ok(());
        }
        let detail = "only a user may answer what an agent asks; the operator can let agents answer with delegation.answer";
        Err(Fault::new(ErrorCode::DELEGATION_DENIED, detail))
    }

    /// Refuses callers that may not change the host itself.
    pub(crate) fn may_administrate(&self) -> Result<(), Fault> {
        if self.identity.is_admin() {
            return Ok(());
        }
        let detail = "only an admin may do this; use the host's own token or one that was made with `--role admin`";
        Err(Fault::new(ErrorCode::ADMIN_ONLY, detail))
    }

    /// Refuses callers whose scope is not the whole host.
    pub(crate) fn may_see_host(&self) -> Result<(), Fault> {
        if self.identity.scope == Scope::Host {
            return Ok(());
        }
        let detail = "this token covers only a part of the host; use a token without a scope";
        Err(Fault::new(ErrorCode::HOST_ONLY, detail))
    }

    /// Returns the caller as it is recorded in the log.
    pub(crate) fn sender(&self) -> Sender {
        self.sender.clone()
    }
}
