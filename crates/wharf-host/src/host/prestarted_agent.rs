//! An agent without a session: it answers what a client asks before it has one, such as a login
//! (rule 3.2).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use wharf_config::Launchable;
use wharf_core::SessionId;

use super::sandbox_profile::make_profile;
use super::start_limits::StartPriority;
use super::{Host, Inner};
use crate::agent::Launch;
use crate::agent::initialize::{InitializedAgent, StartFailure, launch_and_initialize};
use crate::ids::new_session_id;
use crate::limits::CountPermit;
use crate::sandbox::{SandboxError, SandboxProfile, SessionRoot};
use crate::session::advertised_tools::advertise_tools;

/// An agent that answered `initialize` and waits for its session; ended if dropped.
#[derive(Debug)]
pub struct PrestartedAgent {
    pub(crate) greeted: InitializedAgent,
    /// The id of the session that it will have: its environment says so already. Until then there
    /// is none of that id.
    pub(super) session: SessionId,
    /// Where it was started.
    cwd: PathBuf,
    /// Its sandbox.
    pub(super) sandbox: Option<SandboxProfile>,
    /// It has done something for its client, which another agent would not know of.
    asked: bool,
    /// Its permit among the agents without a session: there are as many as for sessions.
    _permit: CountPermit,
}

impl PrestartedAgent {
    /// Sends a client's request; the answer comes with the id that went to the agent.
    pub async fn ask(&mut self, frame: &Bytes) -> Result<Bytes, StartFailure> {
        self.greeted.restart_deadline();
        let answer = self.greeted.forward_request(frame).await?;
        self.asked = true;
        Ok(answer)
    }

    /// Returns true if it is as good as an agent that is started in `cwd`. Agents read settings
    /// where they are started, so an agent that was started elsewhere is not as good, unless its
    /// client is logged in there.
    pub fn can_serve(&self, cwd: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().ok();
        self.asked || self.cwd == cwd || real(&self.cwd).is_some_and(|own| real(cwd) == Some(own))
    }
}

impl Host {
    /// Starts and greets an agent of the adapter where its session will probably be; if that is not
    /// known, in the working directory of the host.
    pub async fn spare(
        &self,
        adapter: &str,
        capabilities: &str,
        cwd: Option<&Path>,
        env: &BTreeMap<String, String>,
    ) -> Result<PrestartedAgent, StartFailure> {
        let known = cwd.filter(|cwd| cwd.is_absolute() && cwd.is_dir()).map(Path::to_owned);
        let cwd = known
            .clone()
            .or_else(|| std::env::current_dir().ok())
            .unwrap_or_else(|| "/".into());
        let agent = self.inner.agent(adapter, None, &BTreeMap::new())?;
        let env = self.inner.config.adapters().passed_environment(&agent, env);
        agent.find_program(&env)?;
        let permit = self.inner.start_limits.take_spare().ok_or_else(|| {
            let limit = self.inner.config.limits.sessions;
            StartFailure::new(format!(
                "{limit} agents wait for their first session (limits.sessions); try again later"
            ))
        })?;
        let session = new_session_id();
        let sandbox = self.inner.spare_profile(&agent, known.as_deref())?;
        let launch = Launch {
            sandbox: sandbox.clone(),
            ..self.inner.launch(&agent, Some(&session), &cwd, &env)
        };
        let _start = self.inner.start_limits.acquire_start(StartPriority::Client).await;
        let capabilities = advertise_tools(self.inner.config.serve_tools, capabilities, None);
        let cache = self.inner.agents.initialize_cache();
        let key = cache.key(&agent, &env, &capabilities, known.as_deref());
        let greeted = launch_and_initialize(&launch, &capabilities).await?;
        if let Some(key) = key {
            cache.store(key, &greeted.initialize_response).await;
        }
        Ok(PrestartedAgent {
            greeted,
            session,
            cwd,
            sandbox,
            asked: false,
            _permit: permit,
        })
    }
}

impl Inner {
    /// Returns the sandbox of a prestarted agent: that of a session in `cwd`, so that a session
    /// there can use the agent. If the caller named no `cwd`, or if the sandbox cannot open it, the
    /// agent gets no session's directories.
    fn spare_profile(
        &self,
        agent: &Launchable,
        cwd: Option<&Path>,
    ) -> Result<Option<SandboxProfile>, SandboxError> {
        let root = cwd.map(|cwd| SessionRoot { given: cwd.to_owned(), was: None });
        match make_profile(&self.config, agent, root.into_iter().collect()) {
            Err(SandboxError::Overlap { .. }) if cwd.is_some() => {
                make_profile(&self.config, agent, Vec::new())
            }
            profile => profile,
        }
    }
}
