//! Who calls, and what is recorded of that with what the call does (rule 7.5).

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::StatusCode;
use wharf_host::core::{ClientId, Sender};
use wharf_host::new_client_id;

use crate::auth::{Access, Identity, Scope};
use crate::problem::Problem;

/// A name is for people to read.
const NAME: usize = 200;

/// An identity with the name that its program goes by.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) identity: Identity,
    name: Option<Arc<str>>,
}

impl Caller {
    pub(crate) fn new(identity: Identity, name: Option<&str>) -> Self {
        let name = name.map(|name| name.chars().filter(|c| !c.is_control()).take(NAME).collect::<String>());
        Self { identity, name: name.filter(|name| !name.is_empty()).map(Into::into) }
    }

    /// What is used of the environment that the caller sends: no `PATH`, unless it may name any directory, since with
    /// it a program of the caller's own choice could be run in an agent's name.
    pub(crate) fn env(&self, mut env: BTreeMap<String, String>) -> BTreeMap<String, String> {
        env.retain(|name, _| self.identity.is_admin() || name != "PATH");
        env
    }

    /// Refuses those who may only look.
    pub(crate) fn may_change(&self) -> Result<(), Problem> {
        match self.identity.access {
            Access::Controller | Access::Admin => Ok(()),
            Access::Observer => Err(Problem::new(
                StatusCode::FORBIDDEN,
                "observer",
                "this token only observes; use one that was made with `--role controller`",
            )),
        }
    }

    /// Refuses those who may not change the host itself.
    pub(crate) fn may_administrate(&self) -> Result<(), Problem> {
        if self.identity.is_admin() {
            return Ok(());
        }
        let detail = "only an admin may do this; use the host's own token or one that was made with `--role admin`";
        Err(Problem::new(StatusCode::FORBIDDEN, "admin_only", detail))
    }

    /// Refuses those who are not concerned with the host as a whole.
    pub(crate) fn sees_the_host(&self) -> Result<(), Problem> {
        if self.identity.scope == Scope::Host {
            return Ok(());
        }
        let detail = "this token covers a part of the host, and this is about all of it; use one without a scope";
        Err(Problem::new(StatusCode::FORBIDDEN, "host_only", detail))
    }

    /// The same party at every call with the same token: these callers have no connection that would tell them apart.
    pub(crate) fn sender(&self) -> Sender {
        let client = format!("api_{}", self.identity.token.as_deref().unwrap_or("local"));
        Sender { client: ClientId::new(client), ..self.stranger() }
    }

    /// A party that has sent nothing before.
    pub(super) fn stranger(&self) -> Sender {
        let (name, token) = (self.name.clone(), self.identity.token.clone());
        Sender { client: new_client_id(), name, version: None, token, parent: None, peer: None }
    }
}
