//! An agent without a session: it answers what a client asks before it has one, such as a login (rule 3.2).

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Host;
use crate::agent::introduction::{Greeted, StartFailure, greet};

/// An agent that answered `initialize` and waits for its session; ended if dropped.
#[derive(Debug)]
pub struct Spare {
    pub(crate) greeted: Greeted,
}

impl Spare {
    /// Sends a client's request; the answer comes with the id that went to the agent.
    pub async fn ask(&mut self, frame: &Bytes) -> Result<Bytes, StartFailure> {
        self.greeted.ask(frame).await
    }
}

impl Host {
    /// Starts and greets an agent of the adapter.
    pub async fn spare(
        &self,
        adapter: &str,
        capabilities: &str,
        env: &BTreeMap<String, String>,
    ) -> Result<Spare, StartFailure> {
        let cwd = std::env::current_dir().unwrap_or_else(|_| "/".into());
        let agent = self.inner.agent(adapter, None, &BTreeMap::new())?;
        let env = self.inner.config.adapters().environment(&agent, env);
        agent.program(&env)?;
        let launch = self.inner.launch(&agent, &cwd, &env);
        Ok(Spare { greeted: greet(&launch, capabilities).await? })
    }
}
