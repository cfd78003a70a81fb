//! An agent without a session: it answers what a client asks before it has one, such as a login (rule 3.2).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use wharf_core::SessionId;

use super::Host;
use super::starts::Need;
use crate::agent::introduction::{Greeted, StartFailure, greet};
use crate::ids::new_session_id;

/// An agent that answered `initialize` and waits for its session; ended if dropped.
#[derive(Debug)]
pub struct Spare {
    pub(crate) greeted: Greeted,
    /// The id of the session that it will have: its environment says so already. Until then there is none of that id.
    pub(super) session: SessionId,
    /// Where it was started.
    cwd: PathBuf,
    /// It has done something for its client, which another agent would not know of.
    asked: bool,
    /// Its place among the agents without a session: as many as may have one.
    _place: OwnedSemaphorePermit,
}

impl Spare {
    /// Sends a client's request; the answer comes with the id that went to the agent.
    pub async fn ask(&mut self, frame: &Bytes) -> Result<Bytes, StartFailure> {
        self.greeted.grant_time();
        let answer = self.greeted.ask(frame).await?;
        self.asked = true;
        Ok(answer)
    }

    /// Is it as good as one that is started in `cwd`? Agents read settings where they are started, so one that was
    /// started elsewhere is not, unless its client is logged in there.
    pub fn suits(&self, cwd: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().ok();
        self.asked || self.cwd == cwd || real(&self.cwd).is_some_and(|own| real(cwd) == Some(own))
    }
}

impl Host {
    /// Starts and greets an agent of the adapter where its session will probably be; if nobody knows, where the host is.
    pub async fn spare(
        &self,
        adapter: &str,
        capabilities: &str,
        cwd: Option<&Path>,
        env: &BTreeMap<String, String>,
    ) -> Result<Spare, StartFailure> {
        let known = cwd.filter(|cwd| cwd.is_absolute() && cwd.is_dir()).map(Path::to_owned);
        let cwd = known.or_else(|| std::env::current_dir().ok()).unwrap_or_else(|| "/".into());
        let agent = self.inner.agent(adapter, None, &BTreeMap::new())?;
        let env = self.inner.config.adapters().environment(&agent, env);
        agent.program(&env)?;
        let place = Arc::clone(&self.inner.spare_places).try_acquire_owned().map_err(|_| {
            let limit = self.inner.config.limits.sessions;
            StartFailure::new(format!("{limit} agents wait for their first session (limits.sessions); try again later"))
        })?;
        let session = new_session_id();
        let launch = self.inner.launch(&agent, Some(&session), &cwd, &env);
        let _start = self.inner.starts.enter(Need::Client).await;
        Ok(Spare { greeted: greet(&launch, capabilities).await?, session, cwd, asked: false, _place: place })
    }
}
